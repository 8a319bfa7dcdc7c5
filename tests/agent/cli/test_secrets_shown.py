"""What an address of a target holds is shown nowhere: not in logs, metrics, pages or outcomes."""

import logging

import pytest
from prometheus_client import generate_latest

from gputailor_agent.cli.checks import exporter_reachable, store_readable
from gputailor_agent.cli.logs import JsonLines, Lines
from gputailor_agent.cli.terminal import tell
from gputailor_agent.schedule.telemetry import Telemetry
from gputailor_agent.sources.scrape import ScrapeSource
from gputailor_agent.store import Store, StoreError
from tests.testbed.servers import free_ports

SECRET = "hunter2"


@pytest.fixture
def targets():
    """Targets where nobody listens, with credentials at every place that can have them."""
    first, second = free_ports(2)
    return (
        f"http://127.0.0.1:{first}/metrics?token={SECRET}",
        f"http://me:{SECRET}@127.0.0.1:{second}/metrics",
        f"dns+http://{SECRET}@nowhere.invalid:9/metrics?key={SECRET}",
        f"dns+http://me:{SECRET}@localhost:{second}/metrics?key={SECRET}",  # its addresses, too
    )


def test_a_target_that_does_not_answer_is_told_without_its_secrets(targets, caplog):
    caplog.set_level(logging.DEBUG)
    telemetry = Telemetry()
    telemetry.expect(["scrape"])
    with ScrapeSource(targets, "c1", 1.0) as source:
        result = source.scrape(0.0)
    assert len(result.failures) >= 4
    telemetry.scraped((), result.failures)
    page = generate_latest(telemetry.registry).decode()
    assert 'target="http://127.0.0.1:' in page
    assert "token=***" in page
    assert SECRET not in page + caplog.text


def test_targets_that_differ_only_in_what_is_masked_stay_apart():
    (port,) = free_ports(1)
    base = f"http://127.0.0.1:{port}/metrics"
    with ScrapeSource([f"{base}?id=1", f"{base}?id=2", base], "c1", 1.0) as source:
        names = [one.target for one in source.scrape(0.0).failures]
        assert names == [f"{base}?id=***", f"{base}?id=*** #2", base]
        assert [one.target for one in source.scrape(1.0).failures] == names


def test_a_jobs_failure_is_told_without_the_secrets_of_an_address():
    telemetry = Telemetry()
    telemetry.expect(["rollup"])
    with telemetry.run("rollup", 0.0):
        raise ValueError(f"GET http://h/m?token={SECRET} failed")
    (task,) = telemetry.tasks.all()
    assert task.reason == "ValueError: GET http://h/m?token=*** failed"
    assert SECRET not in "".join(telemetry.troubles.told())


@pytest.mark.parametrize("shape", [Lines("%(message)s"), JsonLines()])
def test_no_line_of_the_log_shows_a_secret_whoever_wrote_it(shape):
    error = ValueError(f"http://me:{SECRET}@h: refused")
    record = logging.LogRecord(
        "a library", logging.ERROR, "x.py", 1, "%s failed", (f"http://h?k={SECRET}",),
        (ValueError, error, None),
    )  # fmt: skip
    line = shape.format(record)
    assert "http://h?k=*** failed" in line
    assert "ValueError" in line
    assert SECRET not in line


def test_what_is_told_on_standard_error_shows_no_secret(capsys):
    tell(f"error: cannot read http://me:{SECRET}@h/m?token={SECRET}; is it up?")
    assert capsys.readouterr().err == "error: cannot read http://h/m?token=***; is it up?\n"


def test_doctor_shows_neither_an_exporters_nor_a_databases_secret(targets):
    for target in (*targets, f"ftp://me:{SECRET}@h"):
        assert SECRET not in repr(exporter_reachable(target))
    (port,) = free_ports(1)
    told = repr(store_readable(f"postgresql://me:{SECRET}@127.0.0.1:{port}/g"))
    assert SECRET not in told
    assert "127.0.0.1" in told


@pytest.mark.parametrize(
    "where",
    [
        f"postgresql+psycopg://me:{SECRET}@h:port/g",
        f"mysql://me:{SECRET}@h/g",
        f"postgresql+nodriver://me:{SECRET}@h/g",
    ],
)
def test_a_stores_address_that_cannot_be_used_is_told_without_its_password(where):
    with pytest.raises(StoreError) as told:
        Store.open(where)
    assert SECRET not in str(told.value)
