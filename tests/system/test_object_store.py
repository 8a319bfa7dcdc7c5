"""Reports in a real server of objects that checks signatures, put there by the real agent."""

import json
import os
import time

import httpx
import pytest

from gputailor_agent.reports.delivery import objects
from gputailor_agent.reports.delivery.content import kept_content
from gputailor_agent.reports.delivery.mail import SendError
from gputailor_agent.reports.delivery.settings import ObjectStore
from gputailor_agent.store import Outbox, Store
from tests.agent.reports.plans import sample_plan
from tests.testbed.servers import HOST, Server, eventually, need, start_on_free_ports

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

ACCESS, SECRET = "AKIAREPORTS", "s3cret/of+reports"
NAMES = {"report.html", "report.md", "report.json", "report.csv"}
DAY = 86400.0


@pytest.fixture
def gateway(tmp_path):
    """A versitygw over a folder with the bucket ``reports``; its URL and that bucket's folder."""
    binary = need("versitygw")["versitygw"]
    (tmp_path / "buckets" / "reports").mkdir(parents=True)
    (tmp_path / "beside").mkdir()

    def begin(ports):
        server = Server(
            "versitygw",
            [
                *(binary, "--port", f"{HOST}:{ports[0]}", "--access", ACCESS, "--secret", SECRET),
                *("--health", "/health", "--quiet"),
                *("posix", "--sidecar", tmp_path / "beside", tmp_path / "buckets"),
            ],
            tmp_path / "versitygw.log",
        )
        url = f"http://{HOST}:{ports[0]}"
        server.wait_ready(lambda: httpx.get(f"{url}/health", trust_env=False).is_success)
        return server, url

    server, url = start_on_free_ports(1, begin)
    yield url, tmp_path / "buckets" / "reports"
    server.stop()


def keys(tmp_path, secret=SECRET):
    path = tmp_path / "keys"
    path.write_text(f"[default]\naws_access_key_id={ACCESS}\naws_secret_access_key={secret}\n")
    return path


def test_the_agents_report_lies_there_in_every_format_however_often_it_is_killed(
    start, tmp_path, gateway
):
    url, bucket = gateway
    database = tmp_path / "agent.db"
    with Store.open(database) as store, store.transaction() as tx:
        tx.mark_period("test/start", "first", at=time.time() - 8 * DAY)

    def states():
        with Store.open(database) as store, store.transaction() as tx:
            return {one.channel: one.state for one in Outbox(tx).letters("test")}

    def begin():
        environment = {
            "GPUTAILOR_OBJECTS_URL": "s3://reports/gpu",
            "GPUTAILOR_OBJECTS_ENDPOINT": url,
            "GPUTAILOR_OBJECTS_CREDENTIALS_FILE": str(keys(tmp_path)),
            "GPUTAILOR_REPORT_FOLDER": str(tmp_path / "kept"),
        }
        return start(
            "gputailor_agent.cli.entry",
            *("serve", "--cluster", "test", "--target", "127.0.0.1:9", "--listen", "127.0.0.1:0"),
            *("--store", f"sqlite:///{database}", "--scrape-seconds", "30"),
            env=os.environ | environment,
        )

    process = begin()
    eventually(lambda: len(states()) == 2, "two letters", 90)
    process.kill()
    process = begin()
    eventually(lambda: set(states().values()) == {"sent"}, "both are sent", 90)
    process.kill()
    assert SECRET not in process.output
    (period,) = (bucket / "gpu" / "test").iterdir()
    assert {one.name for one in period.iterdir()} == NAMES
    for name in NAMES:
        there = (period / name).read_bytes()
        assert there == (tmp_path / "kept" / "test" / period.name / name).read_bytes()
    assert json.loads((period / "report.json").read_bytes())["plan"]["cluster"] == "test"


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"secret": "wrong"}, "the keys may not write there"),
        ({"bucket": "nobodys"}, "there is no such bucket"),
    ],
)
def test_a_real_server_refuses_wrong_keys_and_buckets_in_words(tmp_path, gateway, more, told):
    url, _bucket = gateway
    place = ObjectStore(
        bucket=more.get("bucket", "reports"),
        endpoint=url,
        credentials_file=keys(tmp_path, more.get("secret", SECRET)),
        timeout_seconds=5.0,
    )
    with pytest.raises(SendError, match=told) as refused:
        objects.opened(place)(kept_content(sample_plan(), "2027-01-04T07:00"))
    assert ACCESS not in str(refused.value)
    assert SECRET not in str(refused.value)
