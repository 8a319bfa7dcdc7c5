"""Excess CPU and memory: requests that keep GPUs of the node from others, and nobody needs."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputailor_agent.model.cpu_levels import CpuLevel
from gputailor_agent.model.inventory import TaskClass
from gputailor_agent.model.judgement import Confidence, Finding, Severity, SilenceKind
from gputailor_agent.reports.wording import say
from gputailor_agent.rules.excess_cpu_memory import RULE
from tests.agent.factories import DAY, GIB, HOUR, NOW, node, pod, rows, workload
from tests.agent.rules.advice_parts import host, judged, key, number

HOURS = 6
NODE = {"cpus": 96.0, "memory_bytes": 768 * GIB}  # 12 CPUs and 96 GiB for each of 8 GPUs


def asking(name="train-0", *, cpus=48.0, memory_gib=64, gpus=1, start=None, **fields):
    one = pod(name, gpus=gpus, start=NOW - HOURS * HOUR if start is None else start, **fields)
    container = msgspec.structs.replace(
        one.containers[0], cpu_request=cpus,
        memory_request_bytes=None if memory_gib is None else memory_gib * GIB,
    )  # fmt: skip
    return msgspec.structs.replace(one, containers=(container,))


def used(cpus=4.0, memory_gib=20, *, observed=HOURS * HOUR, **told):
    return host(
        cpus_peak=cpus, memory_peak_bytes=None if memory_gib is None else memory_gib * GIB,
        observed_seconds=observed, **told,
    )  # fmt: skip


def answer_of(pods=None, with_host=None, *, work=None, beside=(), size=NODE, **options):
    pods = [asking()] if pods is None else pods
    usage = [
        one
        for member in pods
        for one in rows(
            NOW - HOURS * HOUR, NOW, pod=member.name, gpu=f"G-{member.name}", kernel=0.9
        )
    ]
    return judged(
        RULE, usage, [*pods, *beside], work, with_host=used() if with_host is None else with_host,
        nodes=[node(**size)], runs={"run-1": pods}, **options,
    )  # fmt: skip


def test_cpus_for_four_gpus_beside_one_strand_three():
    answer = answer_of()
    assert isinstance(answer, Finding)
    assert key(answer) == "excess_cpu_memory.strands"
    assert number(answer, "GPUs stranded per pod").value == pytest.approx(3.0)
    assert number(answer, "GPUs freed per pod").value == pytest.approx(3.0)
    assert (answer.severity, answer.confidence) == (Severity.LOW, Confidence.MEDIUM)
    assert answer.saving.money_per_month is None
    assert answer.saving.gpu_hours_per_month is None


def test_the_patch_asks_for_the_pod_s_share_and_leaves_the_rest():
    answer = answer_of()
    assert isinstance(answer, Finding)
    assert "cpu: '12'" in answer.change.patch  # 4 x 1.5 would do; less than 12 frees nothing
    assert "memory" not in answer.change.patch
    assert "limits" not in answer.change.patch
    assert answer.change.undo


def test_memory_is_judged_likewise_with_its_own_headroom():
    answer = answer_of([asking(cpus=8.0, memory_gib=400)], used(memory_gib=100))
    assert isinstance(answer, Finding)
    assert "memory: 115Gi" in answer.change.patch  # 100 x 1.15, more than its share of 96
    assert "cpu" not in answer.change.patch
    assert number(answer, "memory request of the need").value == pytest.approx(400 / 115)


def test_free_gpus_that_cannot_be_used_now_make_it_worse_and_those_who_wait_more_so():
    others = [asking(f"other-{i}", cpus=24.0) for i in range(2)]
    blocked = answer_of(beside=others)
    assert isinstance(blocked, Finding)
    assert key(blocked) == "excess_cpu_memory.blocks"
    assert blocked.message.params["free"] == pytest.approx(5.0)
    assert blocked.severity == Severity.MEDIUM
    waiting = pod("wants", phase="Pending", node=None, start=None)
    assert answer_of(beside=[*others, waiting]).severity == Severity.HIGH


@pytest.mark.parametrize(("cpus", "fires"), [(18.0, True), (17.9, False)])
def test_half_a_gpu_s_share_is_the_least_that_is_told(cpus, fires):
    answer = answer_of([asking(cpus=cpus)], used(cpus=2.0))
    assert isinstance(answer, Finding) is fires
    if not fires:
        assert (answer.kind, key(answer)) == (SilenceKind.FINE, "excess_cpu_memory.within")


@pytest.mark.parametrize(("cpus", "fires"), [(16.0, True), (16.1, False)])
def test_twice_the_need_is_the_least_excess(cpus, fires):
    answer = answer_of(with_host=used(cpus=cpus))  # 16 x 1.5 = 24, half of 48
    assert isinstance(answer, Finding) is fires
    if not fires:
        assert key(answer) == "excess_cpu_memory.needed"


def p95(high, seconds=HOURS * HOUR):
    return CpuLevel(q=0.95, low=high / 2**0.25, high=high, seconds=float(seconds))


@pytest.mark.parametrize(("cpus", "fires"), [(20.86, True), (20.88, False)])
def test_of_cpu_the_95th_percentile_counts_and_not_the_hour_that_used_most(cpus, fires):
    """20.87 x 1.15 = 24, half of what is asked for; the busiest hour alone would say 45."""
    answer = answer_of(with_host=used(cpus=30.0, cpus_p95=p95(cpus)))
    assert isinstance(answer, Finding) is fires
    if fires:
        assert "cpu: '24'" in answer.change.patch
        assert "a twentieth of the time it used more CPU" in say(answer.risks[0])
        assert "five minutes" in answer.evidence[-1].formula
    else:
        assert key(answer) == "excess_cpu_memory.needed"


def test_the_percentile_is_shown_with_how_exact_it_is():
    answer = answer_of(with_host=used(cpus_p95=p95(4.0, seconds=0.95 * HOURS * HOUR)))
    told = number(answer, "CPUs used, 95th percentile")
    assert told.value == 4.0
    for words in ("five-minute means", "above 3.36", "19% apart", "95% of the time observed"):
        assert words in told.formula
    assert "95th percentile" in number(answer, "CPU request of the need").formula


@pytest.mark.parametrize(("seconds", "rule"), [(0.9, "95th percentile"), (0.89, "used most")])
def test_a_percentile_of_a_part_of_the_time_leaves_the_word_to_the_hours(seconds, rule):
    told = p95(0.5, seconds=seconds * HOURS * HOUR)
    answer = answer_of(with_host=used(cpus=4.0, cpus_p95=told))
    assert rule in number(answer, "CPU request of the need").formula
    factor = 48 / (0.5 * 1.15) if rule == "95th percentile" else 48 / (4.0 * 1.5)
    assert number(answer, "CPU request of the need").value == pytest.approx(factor)


def test_the_headroom_above_the_percentile_is_a_setting():
    told = used(cpus=30.0, cpus_p95=p95(16.0))
    assert isinstance(answer_of(with_host=told), Finding)
    more = answer_of(with_host=told, thresholds={"cpu_p95_headroom": 1.6})
    assert key(more) == "excess_cpu_memory.needed"


def test_cpu_that_was_throttled_is_not_taken_away():
    assert isinstance(answer_of(with_host=used(throttled_ratio=0.049)), Finding)
    assert key(answer_of(with_host=used(throttled_ratio=0.05))) == "excess_cpu_memory.needed"


def test_memory_is_not_taken_from_what_was_killed_for_it():
    pods = [asking(cpus=8.0, memory_gib=400)]
    assert isinstance(answer_of(pods, used(memory_gib=100, oom_kills=0)), Finding)
    assert key(answer_of(pods, used(memory_gib=100, oom_kills=1))) == "excess_cpu_memory.needed"


def test_a_whole_node_for_a_pod_with_all_its_gpus_blocks_nobody():
    whole = [asking(cpus=96.0, memory_gib=768, gpus=8)]
    usage = [o for i in range(8) for o in rows(NOW - HOURS * HOUR, NOW, gpu=f"G{i}", kernel=0.9)]
    answer = judged(RULE, usage, whole, with_host=used(), nodes=[node(**NODE)])
    assert key(answer) == "excess_cpu_memory.within"


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"cpus": None, "memory_gib": None}, "excess_cpu_memory.no_use"),
        ({"observed": 0.89 * HOURS * HOUR}, "excess_cpu_memory.partly"),
    ],
)
def test_without_what_was_used_nothing_is_said(told, said):
    answer = answer_of(with_host=used(**told))
    assert (answer.kind, key(answer)) == (SilenceKind.UNKNOWN, said)
    assert answer.missing_signals


def test_without_cadvisor_at_all_it_says_who_would_tell():
    usage, pods = rows(NOW - HOURS * HOUR, NOW, kernel=0.9), [asking()]
    answer = judged(RULE, usage, pods, nodes=[node(**NODE)])
    assert answer.kind == SilenceKind.UNKNOWN
    assert "cAdvisor" in say(answer.message)


def test_a_node_of_unknown_size_is_unknown():
    answer = answer_of(size={})
    assert (answer.kind, key(answer)) == (SilenceKind.UNKNOWN, "excess_cpu_memory.no_node")


def test_a_pod_that_asks_for_nothing_blocks_nothing():
    answer = answer_of([asking(cpus=None, memory_gib=None)])
    assert (answer.kind, key(answer)) == (
        SilenceKind.NOT_APPLICABLE, "excess_cpu_memory.no_requests",
    )  # fmt: skip


def test_below_the_gates_nothing_is_said():
    service = workload("web", "Deployment", TaskClass.INFERENCE)
    assert answer_of(work=service).kind == SilenceKind.WATCHING
    short = judged(
        RULE, rows(NOW - HOUR, NOW, seconds=50, kernel=0.9), [asking(start=NOW - 50)],
        with_host=used(observed=50.0), nodes=[node(**NODE)],
    )  # fmt: skip
    assert short.kind == SilenceKind.WATCHING


def test_of_a_person_s_work_it_is_less_sure():
    start = NOW - 14 * DAY
    answer = judged(
        RULE, rows(start, NOW, kernel=0.9), [asking(start=start)],
        workload("lab", "Notebook", TaskClass.NOTEBOOK),
        with_host=used(observed=float(14 * DAY)), nodes=[node(**NODE)],
    )  # fmt: skip
    assert isinstance(answer, Finding)
    assert answer.confidence == Confidence.LOW


@given(asked=st.floats(1.0, 96.0), need=st.floats(0.1, 60.0), more=st.floats(1.0, 4.0))
def test_more_use_never_makes_a_smaller_request(asked, need, more):
    def wanted(cpus):
        found = answer_of([asking(cpus=asked)], used(cpus=cpus))
        return found.change.params["cpus"] if isinstance(found, Finding) else asked

    low, high = wanted(need), wanted(need * more)
    assert high >= low
    assert low >= min(asked, need * 1.5)


def test_a_node_that_offers_no_gpu_any_more_has_no_share_for_one():
    answer = answer_of(size={**NODE, "gpus": 0})
    assert (answer.kind, key(answer)) == (SilenceKind.UNKNOWN, "excess_cpu_memory.no_node")
