"""Every query of every dashboard and rule answers on VictoriaMetrics too, with the same numbers.

It is filled with the same three hours as Prometheus; what Prometheus's recording rules wrote is
copied, since one server cannot evaluate rules without vmalert. ``tests/dashboards/test_queries``
asks Prometheus 3. And days of a small cluster are asked in no more time than a person waits.
"""

import math
import re
import shutil
import subprocess
import time
from collections.abc import Iterator

import pytest

from gputailor_dashboards import publishing
from gputailor_dashboards.generating import BUILDERS, generate
from gputailor_dashboards.rules import Alert, Recording
from tests.dashboards import history, large_history
from tests.dashboards.asking import Shown, faults, marks, targets
from tests.dashboards.served import WRITERS, rule_file, served
from tests.system.test_prometheus_victoria import in_milliseconds, victoria
from tests.testbed.servers import eventually

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

EXPORTERS = tuple(WRITERS)
#: Of a query over days of a small cluster; 1,000 GPUs are a measurement, not a test.
PATIENCE_SECONDS = 2.0


def rules(exporter: str) -> list[Recording | Alert]:
    groups = publishing.rule_groups()[rule_file(exporter).removesuffix(".yaml")]
    return [rule for group in groups for rule in group.rules]


def copied(shown: Shown, exporter: str) -> Iterator[str]:
    """What the recording rules wrote, as lines with times in seconds."""
    for rule in rules(exporter):
        if not isinstance(rule, Recording):
            continue
        written = f"{rule.record}[{shown.end - shown.start}s]"
        for series in shown.get("query", query=written, time=shown.end):
            labels = ",".join(
                f'{key}="{value}"' for key, value in series["metric"].items() if key != "__name__"
            )
            for at, value in series["values"]:
                yield f"{rule.record}{{{labels}}} {value} {at}"


class Pair:
    """The same history in Prometheus 3 and in VictoriaMetrics."""

    def __init__(self, prometheus: Shown, victoria_url: str) -> None:
        self.prometheus = prometheus
        self.victoria = Shown(victoria_url, prometheus.start, prometheus.end)

    def searchable(self) -> bool:
        return bool(self.victoria.instant("up"))


@pytest.fixture(scope="module", params=EXPORTERS)
def pair(request, tmp_path_factory):
    exporter = request.param
    folder = tmp_path_factory.mktemp(exporter)
    for shown in served(folder, exporter):
        lines = history.lines_of(sorted(folder.glob("*.om")))
        lines += copied(shown, exporter)
        store = tmp_path_factory.mktemp(f"victoria-{exporter}")
        server, url = victoria(store, in_milliseconds(lines))
        both = Pair(shown, url)
        eventually(both.searchable, "the history can be searched")
        yield exporter, both
        server.stop()


def dashboards(exporter: str) -> list[str]:
    return [name for name, one in BUILDERS.items() if one.dialect.key == exporter]


def test_every_query_of_every_dashboard_answers_on_victoriametrics(pair):
    exporter, both = pair
    found = {
        str(one): faults(one, both.victoria.numbers(one)) for one in targets(*dashboards(exporter))
    }
    assert len(found) > 30
    assert {name: fault for name, fault in found.items() if fault} == {}


def test_every_mark_on_the_time_axis_answers_on_victoriametrics(pair):
    exporter, both = pair
    for name in dashboards(exporter):
        for title, expr in marks(name).items():
            assert both.victoria.over_time(both.victoria.filled(expr)), (name, title)


def test_every_variable_offers_the_same_on_both(pair):
    exporter, both = pair
    for name in dashboards(exporter):
        assert both.victoria.resolved(name, {}) == both.prometheus.resolved(name, {})


def samples(shown: Shown, expr: str) -> dict[tuple[tuple[str, str], ...], float]:
    return {
        tuple(sorted((k, v) for k, v in one["metric"].items() if k != "__name__")): float(
            one["value"][1]
        )
        for one in shown.instant(expr, shown.end - 310)
    }


def test_every_rule_gives_the_same_on_both(pair):
    """Recording rules have values; alerts are evaluated without an error, whatever they say."""
    exporter, both = pair
    for rule in rules(exporter):
        ours, theirs = (samples(shown, rule.expr) for shown in (both.prometheus, both.victoria))
        name = rule.record if isinstance(rule, Recording) else rule.name
        assert ours.keys() == theirs.keys(), name
        if isinstance(rule, Recording):
            assert ours, name
            # VictoriaMetrics does not extrapolate a rate to the window's edges.
            for key, value in ours.items():
                assert math.isclose(theirs[key], value, rel_tol=0.15, abs_tol=0.1), (name, key)


def test_a_number_that_is_not_known_is_no_number_on_both(pair):
    """The exporter of node-a was down for ten minutes: nobody draws a line through them."""
    exporter, both = pair
    nodes = {"gputailor": {"node-b"}}.get(exporter)  # the others' histories have no gap
    prefix = "gputailor" if exporter == "gputailor" else f"gputailor_{exporter}"
    expr = f'{prefix}:node_activity:ratio_rate5m{{signal="kernel"}}'
    late = history.NOW - 2 * 3600 + 10 * 60 - 20  # past what either looks back
    for shown in (both.prometheus, both.victoria):
        found = {one["metric"]["node"] for one in shown.instant(expr, late)}
        assert found == (nodes or {one["metric"]["node"] for one in shown.instant(expr)})


def test_queries_over_days_of_a_small_cluster_are_quick(tmp_path):
    """16 GPUs on two nodes, three days: each query of ours, best of two."""
    for shown in large_history.served(tmp_path, nodes=2, days=3, history_of_raw_hours=3):
        slow = {}
        for one in targets(*dashboards("gputailor")):
            seconds = min(timed(shown, one) for _ in range(2))
            if seconds > PATIENCE_SECONDS:
                slow[str(one)] = round(seconds, 2)
        assert slow == {}


def timed(shown: Shown, target) -> float:
    begun = time.perf_counter()
    numbers = large_history.asked(shown, target)
    assert numbers or not re.search(r"gputailor:", target.query["expr"]), target
    return time.perf_counter() - begun


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_vmalert_takes_the_rule_files(exporter, tmp_path):
    tool = shutil.which("vmalert")
    if tool is None:
        pytest.skip("no vmalert: apt-get install victoria-metrics")
    generate(tmp_path)
    path = tmp_path / "rules" / rule_file(exporter)
    done = subprocess.run(
        [tool, f"-rule={path}", "-dryRun"], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
