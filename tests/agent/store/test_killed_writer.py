"""A writer killed at any moment leaves rows and checkpoint that belong together."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from gputailor_agent.rollup import CounterRollup, decode_state
from gputailor_agent.store import Store
from tests.agent.rollup.exporter_model import Exporter, Job

ROOT = Path(__file__).resolve().parents[3]
T0 = 1_800_000_000 // 3600 * 3600
STEP, PAGES = 60, 120

WRITER = """
import sys
from gputailor_agent.rollup import CounterRollup, decode_state, encode_state
from gputailor_agent.store import Store
from tests.agent.rollup.exporter_model import Exporter, Job
T0, STEP, PAGES, path = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
with Store.open(path) as store:
    body = store.checkpoint("rollup")
    rollup = CounterRollup("c1", state=decode_state(body) if body else None)
    exporter = Exporter([Job(lambda t: (t % 10) / 10, T0 + 30)], T0)
    for place in range(PAGES):
        exporter.advance(T0 + place * STEP)
        rollup.add(exporter.page())
        with store.transaction() as tx:
            tx.put_usage(rollup.take_rows())
            tx.put_checkpoint("rollup", encode_state(rollup.state()))
        print(place, flush=True)
"""


def start(path):
    command = [sys.executable, "-c", WRITER, str(T0), str(STEP), str(PAGES), str(path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment)


def test_a_writer_killed_at_any_point_doubles_nothing_and_loses_nothing(tmp_path):
    path, chance = tmp_path / "g.db", random.Random(3)
    for _ in range(2):
        writer = start(path)
        writer.stdout.readline()  # it is in its loop
        time.sleep(chance.uniform(0.0, 0.25))
        writer.send_signal(signal.SIGKILL)
        writer.communicate()
        consistent(path)
    writer = start(path)
    out, _ = writer.communicate(timeout=60)
    assert writer.returncode == 0, out
    assert consistent(path) == T0 + (PAGES - 1) * STEP
    rows = {row.key.hour: row for row in Store.open(path).usage("c1", T0, T0 + 86400)}
    assert json.dumps({hour - T0: row.allocated_seconds for hour, row in sorted(rows.items())}) == (
        '{"0": 3570.0, "3600": 3540.0}'
    )


def consistent(path) -> float:
    """Check that the rows are exactly those of the checkpoint's last page; returns its time."""
    with Store.open(path) as store:
        at = decode_state(store.checkpoint("rollup")).series
        if not at:
            return 0.0
        [series] = at
        exporter = Exporter([Job(lambda t: (t % 10) / 10, T0 + 30)], T0)
        rollup = CounterRollup("c1")
        for second in range(T0, int(series.at) + 1, STEP):
            exporter.advance(second)
            rollup.add(exporter.page())
        wanted = {row.key: row for row in rollup.take_rows()}
        assert {row.key: row for row in store.usage("c1", T0, T0 + 86400)} == wanted
        return series.at
