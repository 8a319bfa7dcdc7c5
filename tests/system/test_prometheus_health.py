"""A card's faults as dcgm-exporter tells them, and CPU as kubelet does, in real servers.

Rows and rules say the same of each of them.
"""

import pytest

from gputailor_agent.model import cpu_levels
from gputailor_agent.model.containers import CONTAINER_ITSELF
from gputailor_agent.model.judgement import SilenceKind
from gputailor_agent.model.profile import Window
from gputailor_agent.rollup.history import read_window
from gputailor_agent.rules.health import RULE
from gputailor_agent.sources.prometheus import PrometheusSource
from tests.agent.factories import context, pod, profile
from tests.agent.rules.advice_parts import check_words, key
from tests.system.prometheus_history import SCRAPE
from tests.system.test_prometheus_dialects import prometheus
from tests.system.test_prometheus_victoria import in_milliseconds, victoria
from tests.testbed.servers import eventually

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]

HOUR = 3600
NOW = 1_768_046_400
HOURS = 4
START = NOW - HOURS * HOUR
FELL = NOW - 2 * HOUR + 1000  # the card of ``lost-0`` falls off the bus
HOT = (NOW - 3 * HOUR, NOW - HOUR)  # the card of ``hot-0`` is held down, two seconds in five
PARTS = {"lost-0": "GPU-1", "hot-0": "GPU-2", "well-0": "GPU-3", "stock-0": "GPU-4"}


def values(name, at):
    """What the card of a pod tells at one time; each of them something else of its health."""
    yield "GPU_UTIL", "", 90
    if name == "lost-0":  # a newer release: the code stands in labels, too
        code = 79 if at >= FELL else 0
        yield "XID_ERRORS", f',err_code="{code}",err_msg="x"', code
        yield "CLOCKS_EVENT_REASONS", "", 4 * (at // SCRAPE % 2)
    elif name == "hot-0":
        throttled = 0.4 * (min(max(at, HOT[0]), HOT[1]) - HOT[0])
        yield "XID_ERRORS", "", 31
        yield "THERMAL_VIOLATION", "", round((5000 + throttled) * 1e9)
    elif name == "well-0":
        yield "ECC_DBE_VOL_TOTAL", "", 7
        yield "THERMAL_VIOLATION", "", 5_000_000_000
    else:
        yield "XID_ERRORS", "", 0


def lines():
    for at in range(START - 600, NOW + 1, SCRAPE):
        for name, card in PARTS.items():
            own = (
                f'job="dcgm",instance="a:9400",UUID="{card}",gpu="{card[-1]}",Hostname="node-a",'
                f'namespace="team-a",pod="{name}",container="main"'
            )
            for metric, more, value in values(name, at):
                yield f"DCGM_FI_DEV_{metric}{{{own}{more}}} {value} {at}\n"
            of = f'job="kubelet",namespace="team-a",pod="{name}",container="main",id="/{name}"'
            yield f'container_cpu_usage_seconds_total{{{of},cpu="total"}} {cpu_seconds(at)} {at}\n'


def cpu_seconds(at):
    """Two CPUs, and in the first ten minutes of each hour six."""
    hours, rest = divmod(at - START, HOUR)
    return 50_000 + 2 * (at - START) + 4 * (hours * 600 + min(rest, 600))


def victoria_metrics(tmp_path_factory, told):
    server, url = victoria(tmp_path_factory.mktemp("victoria"), in_milliseconds(told))
    eventually(lambda: read(url).rows, "the history can be searched")
    return url, server


def read(url):
    with PrometheusSource(url, "test") as source:
        return read_window(source, START, NOW)


@pytest.fixture(scope="module", params=[prometheus(0), prometheus(1), victoria_metrics],
                ids=["prometheus_3", "prometheus_2", "victoria_metrics"])  # fmt: skip
def history(request, tmp_path_factory):
    url, server = request.param(tmp_path_factory, lines())
    try:
        yield read(url)
    finally:
        server.stop()


def built(history, name):
    """The profile of one pod, the world around it, and its rows."""
    usage = [row for row in history.rows if row.key.pod == name]
    made, world = profile(
        usage, [pod(name, start=START)], devices=history.devices,
        window=Window(start=float(START), end=float(NOW)),
    )  # fmt: skip
    return made, world, usage


def said(history, name):
    """The rule's answer on one pod, and its rows' conditions by hour."""
    made, world, usage = built(history, name)
    answer = RULE.evaluate(made, context(world))
    check_words(answer)
    of_device = [row for row in usage if row.key.gpu_uuid != CONTAINER_ITSELF]
    return answer, {(row.key.hour - START) // HOUR: row.conditions for row in of_device}


def test_a_card_that_fell_off_the_bus_is_told_in_the_hour_it_fell(history):
    answer, hours = said(history, "lost-0")
    assert key(answer) == "health.hardware"
    assert answer.change.command == "kubectl cordon node-a"
    assert [told.get("xid/79") for _, told in sorted(hours.items())] == [None, None, 1.0, None]
    assert all("untold/throttled" not in told for told in hours.values())


def test_heat_is_told_in_the_seconds_that_it_took(history):
    answer, hours = said(history, "hot-0")
    assert key(answer) == "health.throttled"
    assert answer.message.params["share"] == pytest.approx(0.2, abs=0.002)
    throttled = [told["throttled/thermal"] for _, told in sorted(hours.items())]
    assert throttled == pytest.approx([0, 0.4 * HOUR, 0.4 * HOUR, 0], abs=0.4 * SCRAPE)
    assert not any(name.startswith("xid/") for told in hours.values() for name in told)


def test_old_errors_and_old_heat_of_a_card_are_not_its_holders(history):
    answer, hours = said(history, "well-0")
    assert (answer.kind, key(answer)) == (SilenceKind.FINE, "health.fine")
    assert all(told == {"throttled/thermal": 0.0} for told in hours.values())


def test_a_stock_exporter_leaves_throttling_unknown(history):
    answer, hours = said(history, "stock-0")
    assert (answer.kind, answer.missing_signals) == (SilenceKind.UNKNOWN, ("throttled_seconds",))
    assert all(told == {"untold/throttled": HOUR} for told in hours.values())


def test_cpu_use_is_known_by_level_hour_by_hour(history):
    made, _, usage = built(history, "well-0")
    itself = [row for row in usage if row.key.gpu_uuid == CONTAINER_ITSELF]
    assert len(itself) == HOURS
    for row in itself:
        told = {name: s for name, s in row.amounts.items() if name.startswith(cpu_levels.PREFIX)}
        assert told == {cpu_levels.level(2.0): 3000.0, cpu_levels.level(6.0): 600.0}
    assert made.host.cpus_p95.seconds == HOURS * HOUR
    assert made.host.cpus_p95.low < 6.0 <= made.host.cpus_p95.high
    assert made.host.cpus_peak == pytest.approx(2 + 4 / 6, rel=0.01)
