"""Pages over a real socket, and an agent process that stops when told."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack

import httpx
import pytest
from prometheus_client import CollectorRegistry

from gputailor_agent.cli.errors import CommandError, UsageError
from gputailor_agent.cli.hosting import check_address, leaving, serving, stopping
from gputailor_agent.cli.reloading import hearing
from gputailor_agent.cli.serve import build_service, serve
from gputailor_agent.cli.settings import AgentSettings
from gputailor_agent.rules.base import RuleSettings
from gputailor_agent.sources.scrape import ScrapeSource
from gputailor_agent.store import Store
from tests.agent.reports.plans import sample_plan


class State:
    registry = CollectorRegistry()

    def latest_plan(self):
        return sample_plan()

    rules = RuleSettings()

    def not_ready(self):
        return ""

    def last_round(self):
        return None

    def reports(self):
        return []

    def report(self, _period):
        return None


def test_pages_are_served_on_a_free_port_and_gone_afterwards():
    with serving(State(), "127.0.0.1:0") as url:
        assert "USD 2,500/month" in httpx.get(url, trust_env=False).text
    with pytest.raises(httpx.ConnectError):
        httpx.get(url, trust_env=False)


def test_an_address_in_use_is_told_with_what_to_do():
    with serving(State(), "127.0.0.1:0") as url:
        address = url.removeprefix("http://")
        with pytest.raises(CommandError, match="choose another address"), serving(State(), address):
            pytest.fail("two servers on one address")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_block_and_handlers_are_put_back(number):
    before = signal.getsignal(number)
    reached = []
    with stopping() as asked:
        os.kill(os.getpid(), number)
        asked.wait(5)
        reached.append("after")
    assert reached == []
    assert asked.is_set()
    assert signal.getsignal(number) is before


def test_thresholds_and_times_reach_the_agent():
    settings = AgentSettings(
        targets=("a:1",), thresholds={"idle": {"warn_minutes": 7.0}}, recommend_seconds=60
    )
    with Store.open() as store, ScrapeSource(settings.targets, "default") as source:
        told = build_service(settings, store, source).settings
    assert told.assessment.rules.thresholds == {"idle": {"warn_minutes": 7.0}}
    assert told.recommend_seconds == 60


def test_nothing_breaks_into_the_cleaning_up():
    done = []
    with stopping() as asked, ExitStack() as stack:
        stack.callback(lambda: done.append(os.kill(os.getpid(), signal.SIGTERM)))
        with leaving(asked):
            pass
    assert done == [None]


def test_signals_that_come_in_the_middle_of_looking_for_them_never_hang():
    heard = 0
    with hearing() as hup:
        done = threading.Event()

        def insist():
            while not done.is_set():
                os.kill(os.getpid(), signal.SIGHUP)

        sender = threading.Thread(target=insist)
        sender.start()
        try:
            end = time.monotonic() + 0.3
            while time.monotonic() < end:
                heard += hup.wait(0.01)
                hup.clear()
        finally:
            done.set()
            sender.join()
    assert heard > 10


def test_a_start_that_fails_leaves_neither_a_lease_nor_pages(tmp_path, monkeypatch):
    def fail(*_):
        raise RuntimeError("no more threads")

    monkeypatch.setattr("gputailor_agent.schedule.service.build_scheduler", fail)
    path = str(tmp_path / "agent.db")
    with pytest.raises(RuntimeError, match="no more threads"):
        serve(
            target=["127.0.0.1:9"], cluster="c1", store=path, listen="127.0.0.1:0", kubernetes=False
        )
    with Store.open(path) as store:
        assert store.holder("c1").until == 0  # given back: the next one begins at once
    assert "pages" not in [thread.name for thread in threading.enumerate()]


def test_serve_runs_and_ends_cleanly_on_sigterm(tmp_path):
    command = [sys.executable, "-m", "gputailor_agent.cli.entry", "serve"]
    options = ["--target", "127.0.0.1:1", "--listen", "127.0.0.1:0", "--store", "agent.db"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GPUTAILOR_")}
    process = subprocess.Popen(
        command + options, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=environment
    )
    try:
        url = None
        while url is None:
            line = process.stderr.readline()
            assert line, "the agent ended before it listened"
            found = re.search(r"gputailor: (http://\S+)", line)
            url = found and found[1]
        assert httpx.get(f"{url}/healthz", trust_env=False).status_code == 200
        deadline = time.monotonic() + 20
        while httpx.get(f"{url}/readyz", trust_env=False).status_code != 200:
            assert time.monotonic() < deadline, "no first plan"
            time.sleep(0.1)
        assert "Not judged yet" in httpx.get(url, trust_env=False).text
    finally:
        process.terminate()
        _, rest = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "gputailor: stopped" in rest
    assert "Traceback" not in rest
    assert (tmp_path / "agent.db").exists()


@pytest.mark.parametrize("listen", ["80", "127.0.0.1", "127.0.0.1:99999"])
def test_an_address_that_is_none_is_told_before_any_work(listen):
    with pytest.raises(UsageError, match="--listen: expected HOST:PORT"):
        check_address(listen)


def test_an_address_in_use_is_told_before_any_work():
    with (
        serving(State(), "127.0.0.1:0") as url,
        pytest.raises(CommandError, match="cannot listen on"),
    ):
        check_address(url.removeprefix("http://"))
