"""Rows out of five-minute means: what they say, and what they leave unsaid."""

import msgspec
import pytest

from gputailor_agent.dialects.base import Holder
from gputailor_agent.dialects.dcgm import GAUGES
from gputailor_agent.model.usage import Device
from gputailor_agent.profiles.tally import merge_rows
from gputailor_agent.rollup.means import MeansRollup
from gputailor_agent.sources.prometheus import GaugeCount, GaugeHour, GaugeSeries

HOUR = 3600
BEGIN = 1_768_046_400
STEPS = 12
FULL = 10  # samples in a step of 300 s at 30 s
BY_NAME = {gauge.names[0].removeprefix("DCGM_FI_"): gauge for gauge in GAUGES.gauges}
CARD = Device(cluster="test", gpu_uuid="GPU-0", node="node-a", vendor="nvidia", model="NVIDIA L4")


def holder(pod="train-0", container="main"):
    return Holder("team", pod, "", container, "GPU-0")


def series(name, values, who=None, device=CARD):
    values = values if isinstance(values, list) else [values] * STEPS
    return GaugeSeries(
        holder=who, device=device, gauge=BY_NAME[name], values=tuple(map(_value, values))
    )


def _value(value):
    return None if value is None else float(value)


def counts(samples=FULL, who=None, group="device", interval=30.0):
    told = samples if isinstance(samples, list) else [samples] * STEPS
    return GaugeCount(
        holder=who, device=CARD, group=group, samples=tuple(told), interval_seconds=interval
    )


def hour(*parts, begin=BEGIN, totals=None, steps=STEPS):
    return GaugeHour(
        dialect="dcgm",
        begin=begin,
        end=begin + steps * 300,
        series=tuple(part for part in parts if isinstance(part, GaugeSeries)),
        counts=tuple(part for part in parts if isinstance(part, GaugeCount)),
        memory_totals=totals or {},
    )


def under(rank, part):
    """The same under a former name of the metric."""
    return msgspec.structs.replace(part, rank=rank)


def roll(*parts, **options):
    rollup = MeansRollup("test")
    rows, devices = rollup.add(hour(*parts, **options))
    return rows, devices, rollup.problems


def one_row(*parts, **options):
    (row,), _, _ = roll(*parts, **options)
    return row


def test_a_whole_hour_of_one_pod():
    me = holder()
    row = one_row(
        series("DEV_GPU_UTIL", 40, me),
        series("DEV_FB_USED", [100] * 6 + [900] + [100] * 5, me),
        series("DEV_POWER_USAGE", 70, me),
        counts(who=me),
        totals={"GPU-0": 24 * 1024**3},
    )
    assert (row.key.pod, row.key.hour, row.dialect) == ("train-0", BEGIN, "dcgm")
    assert row.allocated_seconds == HOUR
    use = row.signals["kernel"]
    assert (use.observed_seconds, use.active_seconds) == (HOUR, pytest.approx(0.4 * HOUR, abs=0.02))
    assert row.memory_peak_bytes == 900 * 1024**2
    assert row.memory_peak_kind == "sampled"
    assert row.memory_total_bytes == 24 * 1024**3
    assert row.energy_joules == pytest.approx(70 * HOUR)
    assert row.samples == 120
    assert row.last_active == BEGIN + HOUR


def test_time_without_samples_is_neither_held_nor_observed():
    me = holder()
    row = one_row(
        series("DEV_GPU_UTIL", [50] * 4 + [None] * 4 + [50] * 4, me),
        counts([10] * 4 + [0] * 4 + [5] + [10] * 3, me),
    )
    assert row.allocated_seconds == 300 * 7 + 150
    assert row.signals["kernel"].observed_seconds == 300 * 7 + 150


def test_an_idle_hour_is_a_measured_zero():
    me = holder()
    row = one_row(series("DEV_GPU_UTIL", 0, me), counts(who=me))
    assert row.signals["kernel"].mean == 0.0
    assert row.signals["kernel"].histogram.zero_seconds == HOUR
    assert row.last_active is None


def test_a_poisoned_mean_is_unknown_and_counted():
    me = holder()
    rows, _, problems = roll(series("DEV_GPU_UTIL", [9e17] * 2 + [50] * 10, me), counts(who=me))
    assert rows[0].signals["kernel"].observed_seconds == 3000
    assert rows[0].allocated_seconds == HOUR
    assert problems["DCGM_FI_DEV_GPU_UTIL: value that cannot be true"] == 2


def test_profiling_counters_stuck_at_zero_while_kernels_run_are_unknown():
    me = holder()
    parts = [
        series("DEV_GPU_UTIL", 90, me),
        series("PROF_SM_ACTIVE", [0.5] * 6 + [0] * 6, me),
        series("PROF_GR_ENGINE_ACTIVE", [0.8] * 6 + [0] * 6, me),
        series("PROF_PIPE_TENSOR_ACTIVE", [0.1] * 6 + [0] * 6, me),
        counts(who=me),
        counts(who=me, group="profiling"),
    ]
    (row,), _, problems = roll(*parts)
    assert row.signals["kernel"].observed_seconds == HOUR
    for name, mean in (("sm", 0.5), ("graphics", 0.8), ("tensor", 0.1)):
        assert row.signals[name].observed_seconds == HOUR / 2
        assert row.signals[name].mean == pytest.approx(mean, abs=0.001)
    assert problems["profiling counters at zero while kernels ran"] == 6


def test_an_idle_card_has_profiling_counters_at_zero_and_they_are_believed():
    me = holder()
    row = one_row(
        series("DEV_GPU_UTIL", 0, me),
        series("PROF_SM_ACTIVE", 0, me),
        counts(who=me),
        counts(who=me, group="profiling"),
    )
    assert row.signals["sm"].histogram.zero_seconds == HOUR


def test_a_tensor_pipe_at_zero_alone_is_no_contradiction():
    me = holder()
    row = one_row(
        series("DEV_GPU_UTIL", 90, me),
        series("PROF_SM_ACTIVE", 0.6, me),
        series("PROF_PIPE_TENSOR_ACTIVE", 0, me),
        counts(who=me),
    )
    assert row.signals["tensor"].mean == 0.0


def test_two_pods_on_one_card_share_its_cost_and_none_has_its_value():
    a, b = holder("a"), holder("b")
    rows, _, problems = roll(
        *(series("DEV_GPU_UTIL", 80, who) for who in (a, b)),
        *(series("DEV_FB_USED", 5000, who) for who in (a, b)),
        *(series("DEV_POWER_USAGE", 60, who) for who in (a, b)),
        *(counts(who=who) for who in (a, b)),
    )
    assert {row.key.pod for row in rows} == {"a", "b"}
    for row in rows:
        assert (row.allocated_seconds, row.share) == (HOUR, 0.5)
        assert (row.signals, row.energy_joules, row.memory_peak_bytes) == ({}, None, None)
        assert row.last_active is None
    assert any("not attributable" in problem for problem in problems)


def test_two_containers_of_one_pod_share_as_two_pods_do():
    a, b = holder(container="a"), holder(container="b")
    rows, _, _ = roll(
        *(series("DEV_GPU_UTIL", 80, who) for who in (a, b)),
        *(counts(who=who) for who in (a, b)),
    )
    assert [row.signals for row in rows] == [{}, {}]


def test_a_pod_has_its_values_again_when_the_other_is_gone():
    a, b = holder("a"), holder("b")
    rows, _, _ = roll(
        series("DEV_GPU_UTIL", 80, a),
        series("DEV_GPU_UTIL", [80] * 5 + [None] * 7, b),
        counts(who=a),
        counts([10] * 5 + [0] * 7, b),
    )
    mine = next(row for row in rows if row.key.pod == "a")
    assert mine.signals["kernel"].observed_seconds == 7 * 300
    assert mine.share == pytest.approx((5 * 0.5 + 7) / 12)


def test_one_pod_after_another_in_one_step_keep_their_own_values():
    a, b = holder("a"), holder("b")
    rows, _, problems = roll(
        series("DEV_GPU_UTIL", [80] * 6 + [None] * 6, a),
        series("DEV_GPU_UTIL", [None] * 5 + [20] * 7, b),
        counts([10] * 5 + [4] + [0] * 6, a),
        counts([0] * 5 + [6] + [10] * 6, b),
    )
    means = {row.key.pod: row.signals["kernel"].mean for row in rows}
    assert means == {"a": pytest.approx(0.8, abs=0.001), "b": pytest.approx(0.2, abs=0.001)}
    assert problems == {}


def test_the_same_pod_told_twice_counts_once():
    me = holder()
    row = one_row(
        series("DEV_GPU_UTIL", 40, me),
        series("DEV_GPU_UTIL", 40, me),  # a replica slot of MPS, or a second scraper
        counts(who=me),
        counts(who=me),
    )
    assert row.allocated_seconds == HOUR
    assert row.signals["kernel"].observed_seconds == HOUR


def test_a_card_of_which_no_holder_is_named_has_a_row_without_a_pod():
    (row,), (device,), _ = roll(series("DEV_GPU_UTIL", 0), counts(), totals={"GPU-0": 7})
    assert (row.key.namespace, row.key.pod, row.key.container) == ("", "", "")
    assert row.signals["kernel"].mean == 0
    assert (device.gpu_uuid, device.memory_total_bytes) == ("GPU-0", 7)
    assert device.last_seen == BEGIN + HOUR


def test_memory_that_is_not_told_whole_is_unknown():
    me = holder()
    assert one_row(series("DEV_FB_USED", 5, me), counts(who=me)).memory_total_bytes is None


def test_warm_up_is_the_first_ten_minutes_of_a_pod_seen_to_begin():
    me = holder()
    row = one_row(
        series("DEV_GPU_UTIL", [None] * 3 + [0] * 2 + [100] * 7, me),
        counts([0] * 3 + [10] * 9, me),
        counts([10] * 3 + [0] * 9),
    )
    assert row.warmup["kernel"].observed_seconds == 600
    assert row.warmup["kernel"].active_seconds == 0


def test_warm_up_goes_on_into_the_next_hour():
    me, rollup = holder(), MeansRollup("test")
    late = [None] * 11 + [10]
    rollup.add(
        hour(
            series("DEV_GPU_UTIL", late, me),
            counts([0] * 11 + [10], me),
            counts([10] * 11 + [0]),
        )
    )
    rows, _ = rollup.add(hour(series("DEV_GPU_UTIL", 50, me), counts(who=me), begin=BEGIN + HOUR))
    assert rows[0].warmup["kernel"].observed_seconds == 300


def test_a_pod_that_was_there_before_anybody_looked_has_no_warm_up():
    me = holder()
    assert one_row(series("DEV_GPU_UTIL", 50, me), counts(who=me)).warmup == {}


def test_profiling_time_is_its_own():
    me = holder()
    row = one_row(
        series("DEV_GPU_UTIL", 50, me),
        series("PROF_SM_ACTIVE", [0.5] * 6 + [None] * 6, me),
        counts(who=me),
        counts([10] * 5 + [4] + [0] * 6, me, group="profiling"),
    )
    assert row.signals["kernel"].observed_seconds == HOUR
    assert row.signals["sm"].observed_seconds == 5 * 300 + 120


def test_an_hour_that_still_runs_has_fewer_steps():
    me = holder()
    row = one_row(series("DEV_GPU_UTIL", [50] * 4, me), counts([10] * 4, me), steps=4)
    assert row.allocated_seconds == 4 * 300


def test_rows_add_up_exactly_in_any_order():
    me, rollup, rows = holder(), MeansRollup("test"), []
    for place in range(6):
        parts = series("DEV_GPU_UTIL", [(7 * place + 3 * s) % 100 + 0.37 for s in range(12)], me)
        found, _ = rollup.add(
            hour(parts, counts(who=me, interval=29.7), begin=BEGIN + place * HOUR)
        )
        rows += found
    assert msgspec.json.encode(merge_rows(rows)) == msgspec.json.encode(merge_rows(rows[::-1]))


def test_a_mig_instance_with_memory_alone_is_held_all_the_same():
    me = Holder("team", "p", "", "main", "MIG-GPU-0/3")
    device = Device(cluster="test", gpu_uuid="MIG-GPU-0/3", parent_uuid="GPU-0")
    row = one_row(
        series("DEV_FB_USED", 64, me, device),
        GaugeCount(
            holder=me, device=device, group="memory", samples=(10,) * 12, interval_seconds=30.0
        ),
    )
    assert row.allocated_seconds == HOUR
    assert row.signals == {}
    assert row.memory_peak_bytes == 64 * 1024**2


# ---- a metric that an update renamed -----------------------------------------------------------


def test_a_metric_that_was_renamed_inside_the_hour_is_one_over_all_of_it():
    former, present = [0.2] * 5 + [None] * 7, [None] * 5 + [0.6] * 7
    row = one_row(
        under(2, series("PROF_SM_ACTIVE", former)), series("PROF_SM_ACTIVE", present),
        under(2, counts([FULL] * 5 + [0] * 7)), counts([0] * 5 + [FULL] * 7),
    )  # fmt: skip
    assert row.signals["sm"].observed_seconds == 3600
    assert row.signals["sm"].mean == pytest.approx((5 * 0.2 + 7 * 0.6) / 12, abs=1e-3)


def test_the_step_in_which_it_was_renamed_has_the_samples_of_both_names():
    row = one_row(
        under(1, series("PROF_SM_ACTIVE", [0.2] * 6 + [None] * 6)),
        series("PROF_SM_ACTIVE", [None] * 5 + [0.6] * 7),
        under(1, counts([FULL] * 5 + [4] + [0] * 6)), counts([0] * 5 + [6] + [FULL] * 6),
    )  # fmt: skip
    assert row.signals["sm"].observed_seconds == 3600


def test_under_two_names_at_a_time_the_present_one_is_believed_and_time_counts_once():
    row = one_row(
        under(2, series("PROF_SM_ACTIVE", 0.9)), series("PROF_SM_ACTIVE", 0.6),
        under(2, counts()), counts(),
    )  # fmt: skip
    assert row.signals["sm"].observed_seconds == 3600
    assert row.signals["sm"].mean == pytest.approx(0.6, abs=1e-3)
