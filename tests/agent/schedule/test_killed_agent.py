"""An agent killed at any moment and started again doubles no hour and loses none it can know."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gputailor_agent.rollup import decode_state
from gputailor_agent.store import Store
from tests.agent.schedule.fakes import T0

pytestmark = pytest.mark.system

ROOT = Path(__file__).resolve().parents[3]
LIVING = T0 + 5

AGENT = """
import sys
from gputailor_agent.schedule import ServiceSettings
from gputailor_agent.store import Store
from tests.agent.rollup.exporter_model import Exporter, Job
from tests.agent.schedule.fakes import T0, service_of
path, begin, until = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
jobs = [Job(lambda t: (t % 4) / 4, T0 + 5), Job(lambda _: 1.0, T0 + 5, T0 + 4000, "short", "u2")]
with Store.open(path) as store:
    exporter = Exporter(jobs, T0)
    hourly = ServiceSettings(cluster="c1", recommend_seconds=3600)
    service = service_of(store, exporter, begin, settings=hourly)
    for now in range(begin, until + 1, 60):
        service.tick_scrape(now)
        service.run_due(now)
        print(now, flush=True)
    service.flush(until)
"""


def start(path, begin, until):
    return subprocess.Popen(
        [sys.executable, "-c", AGENT, str(path), str(begin), str(until)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def last_seen(path) -> int:
    with Store.open(path) as store:
        body = store.checkpoint("c1/rollup")
    return T0 if body is None else int(max(one.at for one in decode_state(body).series))


def test_a_killed_agent_doubles_no_hour_and_loses_none_it_can_know(tmp_path):
    path, chance, begin = tmp_path / "g.db", random.Random(7), T0
    last = T0 + 4 * 3600
    for _ in range(3):
        agent = start(path, begin, last)
        agent.stdout.readline()
        time.sleep(chance.uniform(0.0, 0.3))
        agent.send_signal(signal.SIGKILL)
        agent.communicate()
        begin = min(last, last_seen(path) + 60 * chance.randint(1, 40))
    agent = start(path, begin, last)
    agent.communicate(timeout=90)
    assert agent.returncode == 0
    with Store.open(path) as store:
        rows = list(store.usage("c1", T0, last))
    living = {row.key.hour: row for row in rows if row.key.pod == "train-0"}
    assert [living[hour].allocated_seconds for hour in sorted(living)] == [3595, *[3600] * 3]
    total = sum(row.signals["kernel"].active_seconds for row in living.values())
    assert total == sum((second % 4) / 4 for second in range(LIVING, last))
    short = sum(row.allocated_seconds for row in rows if row.key.pod == "short")
    assert short <= 3995
