"""Two agents on one store, as processes; and a running agent that reads its settings anew."""

import os
import signal
import sqlite3
import time
from contextlib import closing

import httpx
import pytest

from gputailor_agent.store import Store

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]


def until(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not true within {seconds} s"
        time.sleep(0.1)


@pytest.fixture
def agent(start, tmp_path):
    """A function that starts an agent on the one store, with a short lease."""

    def begin(*more: str):
        return start(
            "gputailor_agent.cli.entry",
            *("serve", "--cluster", "test", "--store", str(tmp_path / "agent.db")),
            *("--target", "127.0.0.1:9", "--listen", "127.0.0.1:0", "--scrape-seconds", "1", *more),
            env={**os.environ, "GPUTAILOR_LEASE_SECONDS": "4"},
        )

    return begin


def ready(process) -> str:
    url = process.url(60)
    until(lambda: httpx.get(f"{url}/readyz").status_code == 200)
    return url


def stop_between_writes(process, path):
    """SIGSTOP, but not with the file locked: then nobody could write, which is another case."""
    while True:
        process.popen.send_signal(signal.SIGSTOP)
        try:
            with closing(sqlite3.connect(path, timeout=0.5, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            process.popen.send_signal(signal.SIGCONT)
            time.sleep(0.2)
        else:
            return


def test_a_second_agent_on_the_store_refuses_and_the_first_goes_on(agent):
    first = agent()
    url = ready(first)
    second = agent()
    assert second.popen.wait(60) == 1
    assert "another agent works on this store for cluster test: process" in second.output
    assert "Traceback" not in second.output
    assert httpx.get(f"{url}/readyz").status_code == 200
    assert first.stop() == 0


def test_an_agent_that_was_stopped_and_goes_on_after_another_took_over_writes_nothing(
    agent, tmp_path
):
    first = agent()
    ready(first)
    stop_between_writes(first, tmp_path / "agent.db")
    second = agent()
    ready(second)

    def written():
        with Store.open(tmp_path / "agent.db") as store:
            return store.latest_plan("test").made_at, store.checkpoint("test/rollup")

    # stopped, so that whatever changes now, the first wrote it
    stop_between_writes(second, tmp_path / "agent.db")
    before = written()
    first.popen.send_signal(signal.SIGCONT)
    assert first.popen.wait(60) == 1
    assert "another agent has taken over this store" in first.output
    assert written() == before
    second.popen.send_signal(signal.SIGCONT)
    assert second.stop() == 0, second.output  # told to stop in the moment it goes on
    assert "another agent has taken over" not in second.output
    assert "Traceback" not in second.output


def test_settings_are_read_anew_on_sighup_and_wrong_ones_change_nothing(agent, tmp_path):
    config = tmp_path / "agent.yaml"
    config.write_text("recommend_seconds: 600\n", "utf-8")
    process = agent("--config", str(config))
    url = ready(process)
    config.write_text("recommend_seconds: 30\nwindow_days: 7\nlease_seconds: 9\n", "utf-8")
    process.popen.send_signal(signal.SIGHUP)
    until(lambda: "changed: recommend_seconds, window_days" in process.output)
    config.write_text("recomend_seconds: 30\n", "utf-8")
    process.popen.send_signal(signal.SIGHUP)
    until(lambda: "settings stay as they were" in process.output)
    assert "did you mean recommend_seconds" in process.output
    for wrong, told in (
        ('report_cron: "61 7 * * 1"\n', "is no cron expression"),
        ("window_days: 7\nprometheus_url: http://127.0.0.1:9\n", "both targets and prometheus_url"),
    ):
        config.write_text(wrong, "utf-8")
        process.popen.send_signal(signal.SIGHUP)
        until(lambda told=told: told in process.output)
    page = httpx.get(f"{url}/metrics").text
    assert "gputailor_agent_settings_reload_successful 0.0" in page
    tasks = httpx.get(f"{url}/api/v1/tasks").json()["tasks"]
    assert {"scrape", "rollup", "recommend", "report", "heartbeat"} <= {one["job"] for one in tasks}
    assert httpx.get(f"{url}/api/v1/ledger").json()["rules"] == []
    assert process.stop() == 0
