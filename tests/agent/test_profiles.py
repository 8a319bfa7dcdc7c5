"""Profiles: exact sums, the inventory's clock, and history that is never dropped."""

import time

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputailor_agent.model.inventory import Outcome, Resolution
from gputailor_agent.model.profile import Window
from gputailor_agent.model.usage import (
    HISTOGRAM_EDGES,
    Histogram,
    SignalUse,
    UsageKey,
    UsageRow,
    Warmup,
    quantise,
)
from gputailor_agent.profiles import asked_gpus, build_profiles, merge_rows
from tests.agent.factories import (
    CLUSTER,
    DAY,
    GIB,
    HOUR,
    NOW,
    device,
    inventory,
    node,
    pod,
    profile,
    resolution,
    row,
    rows,
    workload,
)

WINDOW = Window(start=NOW - 14 * DAY, end=NOW)

amounts = st.floats(min_value=0, max_value=3600, allow_nan=False).map(quantise)
link_amounts = st.integers(0, 2**42).map(lambda kib: kib * 1024.0)  # up to 1.2 TB a second


@st.composite
def signal_uses(draw):
    observed = draw(amounts)
    buckets = draw(
        st.none()
        | st.lists(amounts, min_size=3, max_size=3).map(
            lambda few: Histogram(
                seconds=(*few, *[0.0] * (len(HISTOGRAM_EDGES) - 3)), resolution=0.25
            )
        )
    )
    return SignalUse(
        observed_seconds=observed,
        active_seconds=quantise(observed * draw(st.floats(0, 1))),
        maximum=draw(st.none() | st.floats(0, 1)),
        histogram=buckets,
    )


@st.composite
def usage_rows(draw, pods=("a", "b"), gpus=("G0", "G1"), hours=range(-3, 3)):
    name = draw(st.sampled_from(pods))
    return UsageRow(
        key=UsageKey(
            cluster=CLUSTER,
            namespace="team-a",
            pod=name,
            pod_uid=draw(st.sampled_from(["", f"uid-{name}"])),
            container="main",
            gpu_uuid=draw(st.sampled_from(gpus)),
            hour=NOW + draw(st.sampled_from(hours)) * HOUR,
        ),
        dialect=draw(st.sampled_from(["gputailor", "dcgm"])),
        allocated_seconds=draw(amounts),
        share=draw(st.sampled_from([1.0, 0.25, 1 / 3])),
        signals=draw(st.dictionaries(st.sampled_from(["kernel", "sm", "dram"]), signal_uses())),
        warmup={"kernel": Warmup(observed_seconds=draw(amounts), active_seconds=0.0)},
        conditions=draw(st.dictionaries(st.sampled_from(["amp_candidate"]), amounts)),
        link_bytes=draw(st.dictionaries(st.sampled_from(["pcie/rx", "nvlink/tx"]), link_amounts)),
        memory_peak_bytes=draw(st.none() | st.integers(0, 80 * GIB)),
        memory_peak_kind=draw(st.sampled_from(["peak", "sampled", "mean"])),
        memory_total_bytes=draw(st.none() | st.just(80 * GIB)),
        energy_joules=draw(st.none() | amounts),
        last_active=draw(st.none() | amounts),
        samples=draw(st.integers(0, 3600)),
        cpu_used_seconds=draw(st.none() | amounts),
        restarts=draw(st.none() | st.integers(0, 3)),
        oom_kills=draw(st.none() | st.just(0)),
    )


def build(usage, pods=(), at=NOW, window=None):
    world = inventory(pods, (node(),), at=at)
    span = window or Window(start=NOW - 2 * HOUR, end=NOW + HOUR)
    return build_profiles(usage, [device("G0"), device("G1")], world, Resolution(), span)


def same_holder(parts):
    key = msgspec.structs.replace(parts[0].key, pod_uid="")
    return [
        msgspec.structs.replace(part, key=msgspec.structs.replace(key, hour=part.key.hour))
        for part in parts
    ]


@given(st.lists(usage_rows(), min_size=1, max_size=8), st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_the_order_of_rows_does_not_change_the_profiles(usage, random):
    shuffled = list(usage)
    random.shuffle(shuffled)
    assert build(usage) == build(shuffled)


@given(st.lists(usage_rows(), min_size=2, max_size=6), st.data())
@settings(max_examples=50, deadline=None)
def test_merging_rows_in_any_grouping_gives_the_same_row_bit_for_bit(usage, data):
    parts = same_holder(usage)
    order = data.draw(st.permutations(parts))
    cut = data.draw(st.integers(1, len(parts) - 1))
    grouped = merge_rows([merge_rows(order[:cut]), merge_rows(order[cut:])])
    assert grouped == merge_rows(parts)


@given(st.lists(usage_rows(hours=range(-2, 1)), min_size=2, max_size=6), st.data())
@settings(max_examples=40, deadline=None)
def test_a_profile_of_merged_rows_conserves_every_total(usage, data):
    parts = same_holder(usage)
    cut = data.draw(st.integers(1, len(parts) - 1))
    merged = [merge_rows(parts[:cut]), merge_rows(parts[cut:])]
    (whole,), (less,) = build(parts), build(merged)
    assert (whole.signals, whole.warmup, whole.conditions) == (
        less.signals,
        less.warmup,
        less.conditions,
    )
    assert [use.link_bytes for use in whole.gpus] == [use.link_bytes for use in less.gpus]
    assert whole.energy_joules == less.energy_joules
    assert whole.memory_peak_bytes == less.memory_peak_bytes
    assert whole.use("kernel").observed_seconds == sum(
        part.signals["kernel"].observed_seconds for part in parts if "kernel" in part.signals
    )


@given(st.lists(usage_rows(), max_size=6), usage_rows(hours=range(-2, 1)))
@settings(max_examples=40, deadline=None)
def test_adding_a_row_never_lowers_a_peak(usage, extra):
    def peaks(parts):
        return {p.workload.id: p.memory_peak_bytes or 0 for p in build(parts)}

    before, after = peaks(usage), peaks([*usage, extra])
    assert all(after[name] >= peak for name, peak in before.items())


@given(
    st.lists(usage_rows(hours=range(-2, 1)), max_size=5),
    st.lists(usage_rows(hours=[-9, -3, 1, 5]), max_size=5),
)
@settings(max_examples=40, deadline=None)
def test_rows_outside_the_window_change_nothing_case_29(usage, outside):
    assert build(usage) == build([*usage, *outside])


def test_different_devices_cannot_be_merged():
    with pytest.raises(ValueError, match="one container and device"):
        merge_rows([row(NOW, gpu="G0"), row(NOW, gpu="G1")])


def test_a_pod_that_no_lookup_knows_becomes_a_workload_of_its_own_case_27():
    (made,) = build(rows(NOW - 2 * HOUR, NOW, pod="lost", kernel=0.5))
    assert (made.workload.kind, made.workload.name) == ("Pod", "lost")
    assert made.use("kernel").mean == 0.5
    assert made.allocated_clock == "source"
    assert made.allocated_seconds == 2 * HOUR


def test_a_statefulsets_next_pod_of_the_same_name_joins_its_workload():
    work, member = workload("web", "StatefulSet"), pod("web-0")
    old = rows(NOW - 2 * HOUR, NOW - HOUR, pod="web-0", uid="uid-before", kernel=1.0)
    new = rows(NOW - HOUR, NOW, pod="web-0", kernel=0.0)
    built = build_profiles(
        [*old, *new], [], inventory([member]), resolution(work, {"r": [member]}), WINDOW
    )
    assert [one.workload.id for one in built] == [work.id]
    assert built[0].use("kernel").mean == 0.5


def test_a_row_without_a_pod_uid_belongs_to_the_pod_of_that_name():
    made, _ = profile(rows(NOW - 2 * HOUR, NOW, uid=""), [pod(start=NOW - 2 * HOUR)])
    assert {one.pod_uid for one in made.gpus} == {"uid-train-0"}


def test_allocated_time_is_the_inventorys_so_a_dead_exporter_shows_as_missing_coverage():
    usage = rows(NOW - 10 * HOUR, NOW - 5 * HOUR, kernel=1.0)
    made, _ = profile(usage, [pod(start=NOW - 10 * HOUR)])
    assert made.allocated_clock == "inventory"
    assert made.allocated_seconds == 10 * HOUR
    assert made.coverage("kernel") == 0.5


def test_time_before_anybody_looked_is_not_missing_coverage():
    usage = [row(NOW - 5 * HOUR, seconds=600, kernel=1.0), *rows(NOW - 4 * HOUR, NOW, kernel=1.0)]
    made, _ = profile(usage, [pod(start=NOW - 3 * DAY)])
    assert made.allocated_seconds == 4 * HOUR + 600
    assert made.coverage("kernel") == 1.0


def test_a_gap_in_the_first_hour_is_missing_where_the_start_of_measuring_is_known():
    usage = [row(NOW - HOUR, seconds=600, kernel=1.0)]
    made, _ = profile(usage, [pod(start=NOW - DAY)], measured_since=NOW - 1800)
    assert made.allocated_seconds == 1800
    assert made.coverage("kernel") == pytest.approx(1 / 3)


def test_measuring_that_began_after_the_first_row_makes_no_coverage_above_one():
    usage = [row(NOW - HOUR, seconds=3000, kernel=1.0)]
    made, _ = profile(usage, [pod(start=NOW - DAY)], measured_since=NOW - 60)
    assert made.allocated_seconds == 3000
    assert made.coverage("kernel") == 1.0


def test_a_node_whose_exporter_came_later_than_others_has_missing_coverage():
    usage = [*rows(NOW - 9 * HOUR, NOW, pod="a", gpu="A"), *rows(NOW - 3 * HOUR, NOW, pod="b")]
    made, _ = profile(usage, [pod("a", start=NOW - DAY), pod("b", start=NOW - DAY)])
    assert made.coverage("kernel") == pytest.approx(12 / 18)


def test_a_device_asked_for_and_never_measured_is_missing_coverage_not_zero():
    usage = rows(NOW - 4 * HOUR, NOW, gpu="GPU-0", kernel=1.0)
    made, _ = profile(usage, [pod(gpus=2, start=NOW - 4 * HOUR)])
    assert [(one.gpu_uuid, one.allocated_seconds) for one in made.gpus] == [
        ("GPU-0", 4 * HOUR),
        ("", 4 * HOUR),
    ]
    assert made.coverage("kernel") == 0.5
    assert made.use("kernel").mean == 1.0


def test_a_pod_without_any_row_is_missing_as_a_whole():
    made, _ = profile([], [pod(gpus=2, start=NOW - DAY)])
    assert made.allocated_seconds == 2 * DAY
    assert made.coverage("kernel") == 0.0
    assert made.use("kernel").mean is None


def test_a_completed_pod_holds_nothing_although_its_request_stays_case_33():
    done = pod("done", start=NOW - 3 * HOUR, finished=NOW - HOUR)
    made, _ = profile(rows(NOW - 3 * HOUR, NOW - HOUR, pod="done"), [done])
    assert made.pods_now == 0
    assert made.allocated_seconds == 2 * HOUR
    assert made.allocated_since is None


def test_a_bound_pending_pod_holds_and_an_unbound_one_only_waits():
    bound = pod("bound", phase="Pending", start=NOW - HOUR)
    waiting = pod("waiting", phase="Pending", node=None)
    made, _ = profile([], [bound, waiting])
    assert (made.pods_now, made.pending_pods) == (1, 1)
    assert made.allocated_seconds == HOUR


def test_a_template_is_not_a_pod_that_ran():
    made, _ = profile([], [pod("web", node=None, phase="Unknown", template=True, gpus=4)])
    assert (made.allocated_seconds, made.pods_now, made.pending_pods) == (0.0, 0, 0)
    assert made.gpus_per_pod == 4


def test_case_30_a_run_of_forty_seconds_is_a_run():
    short = pod("short", start=NOW - 40, finished=NOW)
    made, _ = profile([row(NOW - HOUR, pod="short", seconds=40, kernel=1.0)], [short])
    (run,) = made.runs
    assert (run.gpu_seconds, run.outcome, run.mean_kernel) == (40.0, Outcome.SUCCEEDED, 1.0)


def test_pods_of_a_run_that_follow_each_other_do_not_add_their_gpus():
    first = pod("try-1", gpus=8, start=NOW - 4 * HOUR, finished=NOW - 3 * HOUR, phase="Failed")
    second = pod("try-2", gpus=8, start=NOW - 3 * HOUR)
    made, _ = profile([], [first, second])
    assert made.runs[0].gpus == 8
    assert made.runs[0].pods == 2


def test_full_days_are_whole_utc_days_that_were_observed():
    start = NOW - 3 * DAY - 12 * HOUR
    usage = rows(start, NOW)
    made, _ = profile(usage, [pod(start=start)])
    assert made.full_days == 3
    holed = [one for one in usage if not NOW - DAY <= one.key.hour < NOW - 20 * HOUR]
    made, _ = profile(holed, [pod(start=start)])
    assert made.full_days == 2


def test_the_hours_of_a_mig_slice_come_from_sm_where_kernel_cannot_be_read():
    usage = [
        row(NOW - HOUR, signals={"sm": SignalUse(observed_seconds=3600.0, active_seconds=9.0)})
    ]
    made, _ = profile(usage, [pod()])
    assert made.gpus[0].hours == ((NOW - HOUR, 3600.0, 9.0),)


def test_a_weaker_way_to_find_the_peak_marks_the_whole_peak():
    sampled = msgspec.structs.replace(row(NOW - HOUR, memory_gib=2), memory_peak_kind="sampled")
    made, _ = profile([row(NOW - 2 * HOUR, memory_gib=9), sampled], [pod()])
    assert (made.memory_peak_bytes, made.memory_peak_kind) == (9 * GIB, "sampled")


def test_memory_copy_activity_never_becomes_a_memory_size_case_21():
    usage = [row(NOW - HOUR, memory_gib=None, memcopy=0.9)]
    made, _ = profile(usage, [pod()])
    assert made.memory_peak_bytes is None
    assert made.use("memcopy").mean == pytest.approx(0.9)


def test_eight_busy_gpus_are_busy_all_the_time_not_an_eighth_of_it_case_19():
    usage = [one for i in range(8) for one in rows(NOW - HOUR, NOW, gpu=f"G{i}", kernel=1.0)]
    made, _ = profile(usage, [pod(gpus=8, start=NOW - HOUR)])
    assert made.use("kernel").mean == 1.0
    assert made.coverage("kernel") == 1.0


def test_time_at_zero_counts_in_quantiles_case_20():
    idle = rows(NOW - 20 * HOUR, NOW - HOUR, kernel=0.0)
    made, _ = profile([*idle, row(NOW - HOUR, kernel=1.0)], [pod()])
    histogram = made.use("kernel").histogram
    assert histogram is not None
    assert histogram.quantile(0.5).high == 0.0
    assert histogram.zero_seconds == 19 * HOUR


def test_several_turns_on_shared_devices_may_be_on_one():
    shared = pod(gpus=2, kind="shared", resource="nvidia.com/gpu.shared")
    assert asked_gpus(shared.containers[0]) == 1


def test_on_a_node_with_replicas_a_whole_gpu_is_a_turn_on_a_shared_one():
    shared = node(gpus=1, capacity={"nvidia.com/gpu": 4.0}, sharing_replicas=4)
    measured, _ = profile(rows(NOW - DAY, NOW), [pod(gpus=2, start=NOW - DAY)], nodes=[shared])
    assert measured.coverage("kernel") == 1.0
    unmeasured, _ = profile([], [pod(gpus=2, start=NOW - DAY)], nodes=[shared])
    assert [one.share for one in unmeasured.gpus] == [0.5]


def test_two_thousand_pods_take_seconds_not_minutes():
    """A guard against a quadratic step; the figure for 10,000 is in the benchmarks."""
    pods = [pod(f"p{i}", start=NOW - 6 * HOUR) for i in range(2_000)]
    usage = [
        one
        for i in range(2_000)
        for one in rows(NOW - 3 * HOUR, NOW, pod=f"p{i}", gpu=f"G{i}", kernel=0.5, sm=0.4)
    ]
    world = inventory(pods, [node()])
    began = time.process_time()
    built = build_profiles(usage, [], world, Resolution(), WINDOW)
    assert len(built) == 2_000
    assert time.process_time() - began < 5
