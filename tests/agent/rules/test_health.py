"""Health: what the driver reported, and what heat and power did to the clocks."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputailor_agent.model.inventory import TaskClass
from gputailor_agent.model.judgement import Confidence, Finding, Severity, SilenceKind
from gputailor_agent.reports.wording import say
from gputailor_agent.rules.health import RULE
from tests.agent.factories import HOUR, NOW, pod, row, rows, workload
from tests.agent.rules.advice_parts import judged, key, number, seconds_told

COOL = {
    "throttled/hw_slowdown": 0.0, "throttled/hw_thermal_slowdown": 0.0,
    "throttled/sw_thermal_slowdown": 0.0, "throttled/hw_power_brake_slowdown": 0.0,
    "throttled/sw_power_cap": 0.0,
}  # fmt: skip


def gpus(*told, hours=6, **levels):
    """One pod; each mapping of ``told`` is a GPU: shares of time, and Xid counts of the first hour."""
    start = NOW - int(hours * HOUR)
    usage = []
    for place, conditions in enumerate(told):
        shares = {name: part for name, part in conditions.items() if not name.startswith("xid/")}
        counts = {name: n for name, n in conditions.items() if name.startswith("xid/")}
        own = seconds_told(rows(start, NOW, gpu=f"G{place}", **{"kernel": 0.9, **levels}), shares)
        own[0] = msgspec.structs.replace(own[0], conditions={**own[0].conditions, **counts})
        usage += own
    return usage, [pod(gpus=len(told), start=start)]


#: NVIDIA, "XID errors": what is not an application's fault and wants the node looked at.
HARDWARE = (48, 62, 64, 74, 79, 92, 94, 95, 119, 120, 140)
BESIDE = sorted({code + step for code in HARDWARE for step in (-1, 1)} - set(HARDWARE))


@pytest.mark.parametrize("code", HARDWARE)
def test_an_error_of_the_hardware_is_a_finding_about_the_node(code):
    answer = judged(RULE, *gpus(COOL, {**COOL, f"xid/{code}": 1.0}))
    assert isinstance(answer, Finding)
    assert (answer.severity, answer.confidence) == (Severity.HIGH, Confidence.HIGH)
    assert key(answer) == "health.hardware"
    assert answer.message.params["gpus"] == 1
    assert answer.change.command == "kubectl cordon node-a"
    assert answer.change.undo == "kubectl uncordon node-a"
    assert answer.saving.money_per_month is None
    assert f"Xid {code}" in say(answer.message)


@pytest.mark.parametrize("code", [13, 31, 43, 45, *BESIDE])
def test_an_error_of_the_program_is_shown_and_decides_nothing(code):
    answer = judged(RULE, *gpus({**COOL, f"xid/{code}": 5.0}))
    assert (answer.kind, key(answer)) == (SilenceKind.FINE, "health.fine")
    assert number(answer, f"Xid {code}").value == 5.0


def test_an_error_counted_over_two_hours_is_one_error():
    usage, pods = gpus({**COOL, "xid/79": 0.4})
    usage[1] = msgspec.structs.replace(usage[1], conditions={**usage[1].conditions, "xid/79": 0.6})
    assert key(judged(RULE, usage, pods)) == "health.hardware"
    half, pods = gpus({**COOL, "xid/79": 0.4})
    assert key(judged(RULE, half, pods)) == "health.fine"


@pytest.mark.parametrize(
    "reason",
    ["hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown"],
)
def test_clocks_held_down_by_heat_or_power_waste_gpu_time(reason):
    answer = judged(RULE, *gpus(COOL, {**COOL, f"throttled/{reason}": 0.3}))
    assert isinstance(answer, Finding)
    assert key(answer) == "health.throttled"
    assert (answer.severity, answer.confidence) == (Severity.MEDIUM, Confidence.MEDIUM)
    assert number(answer, "GPU-hours with clocks held down").value == pytest.approx(6 * 0.3, 1e-3)
    assert answer.slowdown is not None
    assert answer.slowdown.low == pytest.approx(0.7, 1e-3)
    assert answer.saving.gpu_hours_per_month is None
    assert answer.saving.why is not None


@pytest.mark.parametrize(("share", "fires"), [(0.051, True), (0.049, False)])
def test_the_throttled_share_is_exact(share, fires):
    answer = judged(RULE, *gpus({**COOL, "throttled/hw_slowdown": share}))
    assert isinstance(answer, Finding) is fires


def test_a_power_cap_is_ordinary():
    answer = judged(RULE, *gpus({**COOL, "throttled/sw_power_cap": 0.9}))
    assert key(answer) == "health.fine"


def test_reasons_beside_each_other_are_not_added_up():
    both = {**COOL, "throttled/hw_slowdown": 0.04, "throttled/hw_thermal_slowdown": 0.04}
    assert key(judged(RULE, *gpus(both))) == "health.fine"


@pytest.mark.parametrize(("seconds", "said"), [(3600, "health.throttled"), (3599, "health.short")])
def test_a_gpu_held_for_less_than_an_hour_is_not_judged_by_its_clocks(seconds, said):
    (one,) = seconds_told([row(NOW - HOUR, seconds=seconds, kernel=0.9)],
                          {**COOL, "throttled/hw_slowdown": 0.5})  # fmt: skip
    answer = judged(RULE, [one], [pod(start=NOW - seconds)])
    assert key(answer) == said


def test_but_its_errors_count_from_the_first_second():
    (one,) = seconds_told([row(NOW - HOUR, seconds=60, kernel=0.9)], COOL)
    broken = msgspec.structs.replace(one, conditions={**one.conditions, "xid/79": 1.0})
    assert key(judged(RULE, [broken], [pod(start=NOW - 60)])) == "health.hardware"


def test_without_an_exporter_that_tells_nothing_is_said():
    answer = judged(RULE, *gpus({}))
    assert (answer.kind, key(answer)) == (SilenceKind.UNKNOWN, "health.unknown")
    assert answer.missing_signals == ("throttled_seconds", "xid_errors")
    assert "GPU Tailor exporter" in say(answer.message)


def test_what_is_told_of_some_gpus_only_is_not_called_fine():
    answer = judged(RULE, *gpus(COOL, {}))
    assert answer.kind == SilenceKind.UNKNOWN
    assert number(answer, "time of which throttling was told").value == pytest.approx(0.5)


def test_a_gap_of_one_gpu_hides_no_error_of_another():
    assert isinstance(judged(RULE, *gpus({}, {**COOL, "xid/95": 1.0})), Finding)


def test_a_service_is_judged_at_once_by_coverage_alone():
    answer = judged(
        RULE, *gpus({**COOL, "xid/79": 1.0}),
        workload("web", "Deployment", TaskClass.INFERENCE),
    )  # fmt: skip
    assert isinstance(answer, Finding)


@given(shares=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=4))
def test_more_throttling_never_makes_a_finding_go_away(shares):
    def found(values):
        told = [{**COOL, "throttled/hw_slowdown": part} for part in values]
        return isinstance(judged(RULE, *gpus(*told, hours=2)), Finding)

    assert found([min(1.0, part + 0.1) for part in shares]) >= found(shares)


def test_an_error_that_is_counted_and_never_happened_is_not_shown():
    answer = judged(RULE, *gpus({**COOL, "xid/79": 0.0}))
    assert key(answer) == "health.fine"
    assert not [one.name for one in answer.evidence if one.name.startswith("Xid")]
