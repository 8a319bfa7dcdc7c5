"""Share: a slice of the card, or a place beside others, by one-second values."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputailor_agent.model.inventory import TaskClass
from gputailor_agent.model.judgement import (
    Confidence,
    Finding,
    Severity,
    Silence,
    SilenceKind,
)
from gputailor_agent.model.usage import HISTOGRAM_EDGES
from gputailor_agent.reports.wording import say
from gputailor_agent.rules import mig_slice
from gputailor_agent.rules.interference import overlap, sharing_outlook
from gputailor_agent.rules.share import RULE
from tests.agent.factories import (
    DAY,
    HOUR,
    NOW,
    FakeCatalogue,
    context,
    device,
    histogram,
    node,
    pod,
    profile,
    rows,
    use,
    workload,
)
from tests.agent.rules.advice_parts import check_words, judged, key, number, without

DAYS = 14


def signals(*, kernel=0.2, width=0.1, dram=0.1, bursts=0.0, burst=1.0):
    """An hour: kernels run for a part of it, each second alike but for a share of bursts."""
    running = kernel * HOUR
    quiet = HOUR - running

    def spread(level):
        return histogram({0.0: quiet, level: running * (1 - bursts)}).merge(
            histogram({burst: running * bursts})
        )

    wide = histogram({width: running * (1 - bursts)}).merge(histogram({burst: running * bursts}))
    mean = kernel * (width * (1 - bursts) + burst * bursts)
    return {
        "kernel": msgspec.structs.replace(use(kernel), histogram=histogram({0.0: quiet, 1.0: running})),
        "sm": use(mean),
        "dram": msgspec.structs.replace(use(kernel * dram), histogram=spread(dram)),
        "width": msgspec.structs.replace(use(mean, running), histogram=wide),
    }  # fmt: skip


def small(names=("train-0",), *, memory_gib=5, days=DAYS, **shape):
    start = NOW - days * DAY
    usage = [
        one
        for name in names
        for one in rows(
            start, NOW, pod=name, gpu=f"GPU-{name}", signals=signals(**shape), memory_gib=memory_gib
        )
    ]
    return usage, [pod(name, start=start) for name in names]


def test_a_small_job_would_do_on_a_slice_of_its_card():
    """width 0.1 x 108 SMs = 10.8 <= 0.8 x 14; DRAM 0.1 <= 0.8 / 8; 5.75 GiB fit 9.5."""
    answer = judged(RULE, *small())
    assert isinstance(answer, Finding)
    assert key(answer) == "share.slice"
    assert answer.message.params["slice"] == "1g.10gb"
    assert "nvidia.com/mig-1g.10gb: 1" in answer.change.patch
    assert "nvidia.com/mig.config=all-1g.10gb" in answer.change.code
    assert number(answer, "SMs needed").value == pytest.approx(10.8)
    assert answer.confidence == Confidence.MEDIUM


def test_the_rest_of_the_card_counts_in_gpu_hours_and_not_in_money():
    answer = judged(RULE, *small())
    assert isinstance(answer, Finding)
    assert answer.slowdown is not None
    high = 0.8 + 0.2 * 8  # G = 0.2; bandwidth falls to an eighth, SMs to 14 of 108
    assert answer.slowdown.high == pytest.approx(high)
    freed = 730 * (1 - high / 7)
    assert answer.saving.gpu_hours_per_month == pytest.approx(freed)
    assert answer.saving.money_per_month is None
    assert answer.saving.why is not None
    assert answer.saving.why.key == "share.rest"


@pytest.mark.parametrize(
    ("shape", "slice_"),
    [
        ({"width": 0.1, "dram": 0.1}, "1g.10gb"),
        ({"width": 0.15, "dram": 0.1}, "3g.40gb"),  # 0.15 > 0.8 x 14 / 108
        ({"width": 0.1, "dram": 0.15}, "3g.40gb"),  # 0.15 > 0.8 / 8
        ({"memory_gib": 9}, "3g.40gb"),  # 10.35 GiB > 9.5
    ],
)
def test_just_above_what_a_slice_holds_it_takes_the_next(shape, slice_):
    answer = judged(RULE, *small(**shape))
    assert isinstance(answer, Finding)
    assert answer.message.params["slice"] == slice_


def test_what_no_slice_holds_and_no_second_pod_shares_is_left_alone():
    answer = judged(RULE, *small(width=0.5))
    assert (answer.kind, key(answer)) == (SilenceKind.FINE, "share.too_large")
    assert {"share.not_sms"} == {other.key for other in answer.not_chosen}


def test_bursts_in_more_than_two_percent_of_the_running_seconds_count():
    rare = judged(RULE, *small(bursts=0.015))
    often = judged(RULE, *small(bursts=0.03))
    assert isinstance(rare, Finding)
    assert isinstance(often, Silence)


def test_case_20_zeros_are_time_in_which_nothing_ran_not_small_work():
    """Kernels run 1 % of the time and then fill the card: p98 over all time would be 0."""
    answer = judged(RULE, *small(kernel=0.01, width=1.0, dram=0.9))
    assert isinstance(answer, Silence)
    assert number(answer, "p98 of width").value == 1.0


def test_after_an_oom_kill_the_need_is_a_quarter_more():
    usage, pods = small(memory_gib=8)
    assert judged(RULE, usage, pods).message.params["slice"] == "1g.10gb"
    dead = pod("dead", start=NOW - 2 * DAY, finished=NOW - DAY, oom=True, phase="Failed")
    usage += rows(NOW - 2 * DAY, NOW - DAY, pod="dead", signals=signals(), memory_gib=8)
    answer = judged(RULE, usage, [*pods, dead], runs={"ok": pods, "dead": [dead]})
    assert answer.message.params["slice"] == "3g.40gb"


def test_slices_that_are_here_already_are_mig_slice_s_to_offer():
    sliced = node(
        "node-m", labels={"nvidia.com/mig.strategy": "mixed", "nvidia.com/mig-1g.10gb.count": "7"},
        capacity={"nvidia.com/mig-1g.10gb": 7.0}, gpu_count=1,
    )  # fmt: skip
    made, world = profile(*small(), nodes=[node(), sliced])
    here = RULE.evaluate(made, context(world))
    check_words(here)
    assert (here.kind, key(here)) == (SilenceKind.FINE, "share.see_mig_slice")
    other = mig_slice.RULE.evaluate(made, context(world))
    assert isinstance(other, Finding)
    assert other.message.params["candidate"] == "A100 1g.10gb"


@pytest.mark.parametrize("lost", ["sm", "dram", "width", "kernel"])
def test_without_one_second_values_nothing_is_said(lost):
    made, world = profile(*small())
    answer = RULE.evaluate(without(made, lost), context(world))
    check_words(answer)
    assert isinstance(answer, Silence)
    assert answer.kind == SilenceKind.UNKNOWN
    assert lost in answer.missing_signals


def test_seconds_that_a_histogram_lacks_count_as_full():
    usage, pods = small()
    told = signals()
    told["width"] = msgspec.structs.replace(use(0.1, 600), histogram=histogram({0.1: 600}))
    usage = [msgspec.structs.replace(row, signals=told) for row in usage]
    answer = judged(RULE, usage, pods)
    assert number(answer, "p98 of width").value == 1.0


def test_case_24_memory_taken_in_advance_is_not_memory_needed():
    work = workload(framework="jax", preallocates=True, preallocates_evidence="XLA")
    answer = judged(RULE, *small(), work)
    assert (answer.kind, key(answer)) == (SilenceKind.UNKNOWN, "share.preallocates")


def test_case_22_the_peak_of_the_start_counts():
    usage, pods = small()
    usage[0] = msgspec.structs.replace(usage[0], memory_peak_bytes=30 * 2**30)
    assert judged(RULE, usage, pods).message.params["slice"] == "3g.40gb"


def test_averages_do_not_tell_the_peak():
    usage, pods = small()
    usage = [msgspec.structs.replace(row, memory_peak_kind="mean") for row in usage]
    assert key(judged(RULE, usage, pods)) == "share.no_memory"


def test_a_workload_of_many_gpus_a_slice_or_a_share_is_not_about_this():
    usage, pods = small()
    start = NOW - DAYS * DAY
    several = judged(RULE, usage, [pod(gpus=2, start=start)])
    assert isinstance(several, Silence)
    shared = [msgspec.structs.replace(row, share=0.5) for row in usage]
    assert key(judged(RULE, shared, pods)) == "share.shared"
    sliced = judged(RULE, usage, pods, devices=[device("GPU-train-0", mig="3g.40gb")])
    assert key(sliced) == "share.shared"


def without_mig():
    catalogue = FakeCatalogue()
    catalogue.devices = tuple(msgspec.structs.replace(card, mig=()) for card in catalogue.devices)
    return catalogue


def replicas(count, **shape):
    names = tuple(f"web-{i}" for i in range(count))
    return *small(names, **shape), workload("web", "Deployment", TaskClass.INFERENCE)


def test_replicas_on_a_card_without_slices_may_try_mps():
    usage, pods, work = replicas(4)
    answer = judged(RULE, usage, pods, work, catalogue=without_mig())
    assert isinstance(answer, Finding)
    assert key(answer) == "share.mps"
    assert answer.message.params["tenants"] == 4
    assert "nvidia.com/gpu.sharing-strategy: mps" in answer.change.patch
    assert "replicas: 4" in answer.change.code
    assert answer.confidence == Confidence.LOW
    assert answer.saving.gpu_hours_per_month is None


@pytest.mark.parametrize(
    ("shape", "tenants"), [({"dram": 0.25}, 2), ({"width": 0.4}, 2), ({"memory_gib": 30}, 2)]
)
def test_how_many_share_is_limited_by_dram_width_and_memory(shape, tenants):
    usage, pods, work = replicas(4, **shape)
    answer = judged(RULE, usage, pods, work, catalogue=without_mig())
    assert isinstance(answer, Finding)
    assert answer.message.params["tenants"] == tenants


@pytest.mark.parametrize("shape", [{"dram": 0.3}, {"width": 0.45}, {"memory_gib": 40}])
def test_two_that_do_not_fit_do_not_share(shape):
    usage, pods, work = replicas(4, **shape)
    assert key(judged(RULE, usage, pods, work, catalogue=without_mig())) == "share.too_large"


def test_a_single_pod_on_a_card_without_slices_has_nobody_to_share_with():
    assert key(judged(RULE, *small(), catalogue=without_mig())) == "share.alone"


def kernel_time(*busy, memory_gib=10, thresholds=None):
    """Pods of a service of which only the time with a kernel is known."""
    start = NOW - DAYS * DAY
    names = [f"web-{place}" for place in range(len(busy))]
    usage = [
        one
        for name, part in zip(names, busy, strict=True)
        for one in rows(
            start, NOW, pod=name, gpu=f"GPU-{name}", signals={"kernel": use(part)},
            memory_gib=memory_gib,
        )
    ]  # fmt: skip
    pods = [pod(name, start=start) for name in names]
    web = workload("web", "Deployment", TaskClass.INFERENCE)
    return judged(RULE, usage, pods, web, thresholds=thresholds)


def test_two_pods_of_which_only_kernel_time_is_known_are_worth_a_trial_and_never_safe():
    answer = kernel_time(0.1, 0.2, 0.05)
    assert isinstance(answer, Finding)
    assert key(answer) == "share.pair"
    assert answer.confidence == Confidence.LOW
    assert answer.severity == Severity.LOW
    assert answer.saving.gpu_hours_per_month is None
    assert answer.saving.money_per_month is None
    assert answer.change.params["tenants"] == 2
    assert "safe" not in say(answer.message)


def test_what_to_expect_of_the_two_busiest_is_told_by_recorded_pairs_with_their_source():
    answer = kernel_time(0.1, 0.2, 0.05)
    told = sharing_outlook((0.1, 0.2)).expected
    (risk,) = [one for one in answer.risks if one.key == "share.risk_pairs"]
    assert risk.params == {
        "risk": told.risk, "median": told.slowdown_median, "most": told.slowdown_most,
    }  # fmt: skip
    assert number(answer, "slowdown of recorded pairs, 95 of 100").value == told.slowdown_most
    assert "Lucid" in number(answer, "recorded pairs with one 10 % slower or more").formula
    assert answer.slowdown.high >= told.slowdown_most


def test_pairs_that_slowed_down_too_often_are_not_tried():
    """Overlap of two at 0.38 is 0.1444, of two at 0.39 0.1521, where 6 of 10 pairs slowed down."""
    assert isinstance(kernel_time(0.38, 0.38), Finding)
    busier = kernel_time(0.39, 0.39)
    assert (busier.kind, key(busier)) == (SilenceKind.UNKNOWN, "share.unknown")


def tolerating(slowdown, *busy):
    """The same, judged by who tolerates a larger slowdown."""
    return kernel_time(*busy, thresholds={"tolerated_slowdown": slowdown})


def test_who_tolerates_what_recorded_pairs_seldom_exceeded_is_advised_and_told_the_bound():
    bound = sharing_outlook((0.2, 0.2)).bound
    answer = tolerating(bound.slowdown, 0.2, 0.2)
    assert isinstance(answer, Finding)
    assert (key(answer), answer.confidence) == ("share.pair_within", Confidence.MEDIUM)
    assert answer.slowdown.high == bound.slowdown
    assert answer.message.params["bound"] == bound.slowdown
    told = number(answer, "slowdown that pairs exceed too seldom to count")
    assert told.value == bound.slowdown
    assert f"{bound.exceeded} of {bound.pairs}" in told.formula
    # two pods for one card: of both cards' hours half of the bound is still taken
    trial = tolerating(bound.slowdown - 0.01, 0.2, 0.2)
    assert (key(trial), trial.saving.gpu_hours_per_month) == ("share.pair", None)
    assert answer.saving.gpu_hours_per_month == pytest.approx(2 * 730 * (1 - bound.slowdown / 2))
    assert answer.saving.money_per_month is None


def test_by_kernel_time_alone_a_single_pod_or_too_much_memory_stays_unknown():
    for answer in (kernel_time(0.1), kernel_time(0.1, 0.1, memory_gib=35)):
        assert (answer.kind, key(answer)) == (SilenceKind.UNKNOWN, "share.unknown")
        assert set(answer.missing_signals) >= {"sm", "dram"}


def notebook(kernel, memory_gib=10):
    usage, pods = small(kernel=kernel, memory_gib=memory_gib)
    return judged(RULE, usage, pods, workload("nb", "Notebook", TaskClass.NOTEBOOK))


def test_notebooks_take_turns():
    answer = notebook(0.25)
    assert isinstance(answer, Finding)
    assert key(answer) == "share.turns"
    assert answer.message.params["tenants"] == 4
    assert "nvidia.com/gpu.sharing-strategy: time-slicing" in answer.change.patch
    assert {"share.risk_memory", "share.risk_pairs"} <= {risk.key for risk in answer.risks}
    assert number(answer, "overlap of 4").value == pytest.approx(overlap((0.25,) * 4))


@pytest.mark.parametrize(("kernel", "gib"), [(0.26, 10), (0.1, 40)])
def test_a_busy_or_large_notebook_keeps_its_card(kernel, gib):
    answer = notebook(kernel, gib)
    assert (answer.kind, key(answer)) == (SilenceKind.FINE, "share.busy_notebook")


def test_case_28_a_service_is_watched_for_a_whole_week():
    usage, pods = small(days=5)
    work = workload("web", "Deployment", TaskClass.INFERENCE)
    assert key(judged(RULE, usage, pods, work)) == "gate.service_days"


edges = st.sampled_from([0.05, 0.1, 0.25, 0.5, 1.0])
assert {0.05, 0.1, 0.25, 0.5, 1.0} <= set(HISTOGRAM_EDGES)


def verdict(shape, lost=""):
    made, world = profile(*small(days=2, **shape))
    return RULE.evaluate(without(made, lost) if lost else made, context(world))


@given(
    shape=st.fixed_dictionaries(
        {"width": edges, "dram": edges, "memory_gib": st.sampled_from([1, 9, 30, 70])}
    ),
    more=st.sampled_from(["width", "dram", "memory_gib"]),
    lost=st.sampled_from(["kernel", "sm", "dram", "width"]),
)
@settings(max_examples=40, deadline=None)
def test_more_use_or_less_knowledge_never_makes_a_finding(shape, more, lost):
    now = verdict(shape)
    if isinstance(now, Silence):
        used = {**shape, more: 80 if more == "memory_gib" else 1.0}
        assert isinstance(verdict(used), Silence)
        assert isinstance(verdict(shape, lost), Silence)
    assert isinstance(verdict(shape, lost), Silence)
