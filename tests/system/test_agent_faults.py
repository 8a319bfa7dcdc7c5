"""The agent as a process beside what goes wrong around it; exporters are simulated ones."""

import re
import socket
import sqlite3
import time
from contextlib import closing

import httpx
import pytest

from gputailor_agent.store import Store
from tests.system.conftest import Process

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]


@pytest.fixture
def exporter(start):
    """A function that starts an exporter of one T4 shared by several pods."""

    def begin() -> Process:
        process = start(
            "gputailor_exporter",
            *("--backend", "simulated", "--scenario", "demo", "--node", "t4-0"),
            *("--listen", "127.0.0.1:0"),
        )
        process.page = f"{process.url()}/metrics"
        until(lambda: allocated(process))
        return process

    return begin


@pytest.fixture
def agent(start, tmp_path):
    """A function that starts the agent on exporters' pages; returns once it has scraped."""

    def begin(*targets: str) -> Process:
        process = start(
            "gputailor_agent.cli.entry",
            *("serve", "--cluster", "test", "--store", str(tmp_path / "agent.db")),
            *("--listen", "127.0.0.1:0", "--scrape-seconds", "1"),
            *(part for target in targets for part in ("--target", target)),
        )
        address = process.url()
        until(lambda: httpx.get(f"{address}/readyz").status_code == 200)
        return process

    return begin


def until(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not true within {seconds} s"
        time.sleep(0.1)


def allocated(exporter: Process) -> dict[str, float]:
    """Allocated seconds by pod, as the exporter counted them."""
    name = r'^gputailor_container_gpu_allocated_seconds_total\{.*?pod="([^"]+)".*\} (\S+)$'
    found = re.findall(name, httpx.get(exporter.page).text, re.MULTILINE)
    return {pod: float(value) for pod, value in found}


def stored(tmp_path) -> dict[str, float]:
    """Allocated seconds by pod in the store."""
    seconds: dict[str, float] = {}
    with Store.open(tmp_path / "agent.db") as store:
        for row in store.usage("test", 0, time.time() + 7200):
            seconds[row.key.pod] = seconds.get(row.key.pod, 0.0) + row.allocated_seconds
    return seconds


class Looks:
    """Our own looks at an exporter's counters around an agent's life."""

    def __init__(self, exporter: Process) -> None:
        self.exporter = exporter
        self.before = allocated(exporter)

    def agent_is_there(self) -> None:
        self.begun = allocated(self.exporter)

    def last_scrape_comes(self) -> None:
        self.last = allocated(self.exporter)
        time.sleep(3)

    def agree_with(self, kept: dict[str, float]) -> None:
        """No second is lost after the agent was there, none counted twice."""
        after = allocated(self.exporter)
        assert set(kept) == set(after)
        for pod, seconds in kept.items():
            assert self.last[pod] - self.begun[pod] <= seconds <= after[pod] - self.before[pod]


def test_a_store_locked_by_another_process_costs_no_second(exporter, agent, tmp_path):
    node = exporter()
    looks = Looks(node)
    process = agent(node.page)
    looks.agent_is_there()
    with closing(sqlite3.connect(tmp_path / "agent.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        time.sleep(8)
        other.execute("ROLLBACK")
    looks.last_scrape_comes()
    assert process.stop() == 0
    looks.agree_with(stored(tmp_path))


def test_told_to_stop_while_a_target_hangs_it_stops_and_keeps_what_it_has(
    exporter, agent, tmp_path
):
    node = exporter()
    with closing(socket.create_server(("127.0.0.1", 0))) as hanging:
        process = agent(f"127.0.0.1:{hanging.getsockname()[1]}", node.page)
        time.sleep(12)
        began = time.monotonic()
        assert process.stop() == 0
        assert time.monotonic() - began < 15  # one scrape's patience and what is to be written
    kept = stored(tmp_path)
    assert set(kept) == set(allocated(node))
    assert all(seconds >= 5 for seconds in kept.values())
    assert process.output.count("no whole answer within 5 s") == 1
    assert all(seconds >= 5 for seconds in kept.values())
    assert process.output.count("no whole answer within 5 s") == 1


def test_two_exporters_of_a_node_count_once_and_one_of_them_may_die(exporter, agent, tmp_path):
    old, new = exporter(), exporter()
    looks = Looks(new)
    process = agent(old.page, new.page)
    looks.agent_is_there()
    time.sleep(5)
    old.kill()
    looks.last_scrape_comes()
    assert process.stop() == 0
    kept = stored(tmp_path)
    for pod, after in allocated(new).items():
        assert 5 <= kept[pod] <= after - looks.before[pod]
