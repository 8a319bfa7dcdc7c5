"""How long each query of each dashboard takes at 1,000 GPUs over a week, on both real servers.

What the history holds, and what it leaves out, stands in ``tests/dashboards/large_history``. Each
query is asked as Grafana does (a thousand points a line, $__rate_interval of eleven minutes), three
times; the best counts. GPUTAILOR_BENCH_NODES and GPUTAILOR_BENCH_DAYS make it smaller.
"""

import os
import statistics
import sys
import time

import pytest

from gputailor_dashboards.generating import BUILDERS
from tests.dashboards import large_history
from tests.dashboards.asking import targets

pytestmark = [pytest.mark.bench, pytest.mark.timeout(3600)]

NODES = int(os.environ.get("GPUTAILOR_BENCH_NODES", "125"))
DAYS = float(os.environ.get("GPUTAILOR_BENCH_DAYS", "7"))
TARGET_SECONDS = 0.5


def say(text):
    """Shown by ``make bench``."""
    sys.stdout.write(f"{text}\n")


def timed(shown, target):
    begun = time.perf_counter()
    large_history.asked(shown, target)
    return time.perf_counter() - begun


@pytest.mark.parametrize("over", [large_history.over_prometheus, large_history.over_victoria])
def test_every_query_of_our_dashboards(tmp_path, over):
    names = [name for name, one in BUILDERS.items() if one.dialect.key == "gputailor"]
    begun = time.perf_counter()
    for shown in large_history.served(tmp_path, nodes=NODES, days=DAYS, over=over):
        say(f"history made in {time.perf_counter() - begun:.0f} s")
        found = {str(one): min(timed(shown, one) for _ in range(3)) for one in targets(*names)}
        gpus = NODES * large_history.PER_NODE
        middle = statistics.median(found.values())
        slow = {name: round(one, 2) for name, one in found.items() if one > TARGET_SECONDS}
        say(
            f"{over.__name__}: {gpus} GPUs, {DAYS:g} days, {len(found)} queries: median {middle * 1000:.0f} ms"
        )
        for name, one in sorted(found.items(), key=lambda item: -item[1])[:12]:
            say(f"  {one * 1000:6.0f} ms  {name}")
        assert not slow, slow
