"""Use over the week, from run to run and from rank to rank; what is known of devices."""

import msgspec
import numpy as np
import pytest

from gputailor_agent.model.inventory import (
    GpuRequest,
    Outcome,
)
from gputailor_agent.model.profile import RunUse, Window
from gputailor_agent.profiles.courses import hour_of_week, scaling, stragglers, trend, week_shape
from gputailor_agent.profiles.describing import (
    container_spec,
    device_of_node,
    full_days,
    gpus_per_pod,
    latest_devices,
)
from gputailor_agent.profiles.outlining import outline
from tests.agent.factories import (
    DAY,
    GIB,
    HOUR,
    NOW,
    device,
    node,
    pod,
    profile,
    row,
    rows,
    workload,
)


def test_the_week_s_hours_are_counted_by_the_weeks_that_held_them():
    monday = NOW - 2 * DAY
    usage = [row(monday - 7 * DAY, kernel=0.5), row(monday, kernel=0.25, observed=HOUR / 2)]
    window = Window(start=monday - 7 * DAY, end=monday + HOUR)
    made, _ = profile(usage, [pod(start=monday - 7 * DAY)], window=window)
    shape = week_shape(made)
    assert shape.mean[0] == pytest.approx((HOUR / 2 + HOUR / 8) / (1.5 * HOUR))
    assert (shape.gpus[0], shape.weeks[0], shape.busiest) == (0.75, 2, 0)
    assert np.isnan(shape.mean[1:]).all()
    assert (shape.gpus[1], shape.weeks[1]) == (0.0, 0)
    nothing, _ = profile([row(monday, signals={})], [pod(start=monday)], window=window)
    assert week_shape(nothing).busiest is None


@pytest.mark.parametrize(("hours", "place"), [(0, 48), (1, 49), (119, 167), (120, 0), (-48, 0)])
def test_hours_of_the_week_from_a_wednesday_on(hours, place):
    assert hour_of_week(NOW + hours * HOUR) == place


def run(place, seconds=100.0, gpus=1.0, outcome=Outcome.SUCCEEDED, **fields):
    start = NOW + place * DAY
    values = {"memory_peak_bytes": None, "mean_sm": None, "mean_kernel": None, "oom": False,
              "pods": 1, "started": start, "finished": start + seconds,
              "gpu_seconds": seconds * gpus, **fields}  # fmt: skip
    return RunUse(id=f"r{place}", outcome=outcome, gpus=gpus, **values)


def test_a_trend_is_the_middle_slope_as_a_share_of_where_it_began():
    found = trend([run(0, 100.0), run(1, 110.0), run(2, 120.0)])
    assert found is not None
    assert (found.runs, found.seconds, found.gpu_seconds) == (3, pytest.approx(0.1),
                                                             pytest.approx(0.1))  # fmt: skip
    assert (found.memory_peak, found.mean_sm) == (None, None)
    assert trend([run(0), run(1)]) is None
    assert trend([run(0), run(1), run(2, outcome=Outcome.FAILED)]) is None
    assert trend([run(0), run(1), run(2, started=None)]) is None
    assert trend([]) is None


def test_a_trend_is_of_the_most_common_size_the_larger_of_equal_ones():
    mixed = [run(0, 10.0), run(1, 20.0), run(2, 30.0),
             run(3, 10.0, 2.0), run(4, 10.0, 2.0), run(5, 10.0, 2.0)]  # fmt: skip
    found = trend(mixed)
    assert found is not None
    assert found.seconds == 0.0
    assert trend(mixed[:5]).seconds == pytest.approx(1.0)


def test_what_not_all_runs_tell_is_a_trend_of_those_that_do_from_three_on():
    told = [run(place, memory_peak_bytes=peak) for place, peak in enumerate((100, None, 120, 130))]
    found = trend(told)
    assert found is not None
    assert found.memory_peak == pytest.approx(0.1)  # 10 a run, places kept
    assert trend(told[:3]).memory_peak is None
    assert trend([run(place, mean_sm=0.0) for place in range(3)]).mean_sm is None


def test_scaling_is_told_by_medians_of_sizes():
    found = scaling([run(0, 100.0), run(1, 300.0), run(2, 200.0), run(3, 100.0, 4.0)])
    assert found is not None
    assert found.seconds == ((1.0, 200.0), (4.0, 100.0))
    assert found.exponent == pytest.approx(0.5)
    assert found.efficiency == pytest.approx(0.5)
    odd = [run(4, 0.0, 2.0), run(5, 50.0, 0.0), run(6, 50.0, 2.0, Outcome.FAILED),
           run(7, 50.0, 2.0, finished=None)]  # fmt: skip
    for one in odd:
        assert scaling([run(0, 100.0), one]) is None
    assert scaling([run(0, 100.0), run(1, 0.5, 2.0)]) is not None


def ranks(*levels, **more):
    start = NOW - HOUR
    usage = [row(start, gpu=f"G{place}", kernel=1.0,
                 **({} if level is None else {"sm": level}), **more)
             for place, level in enumerate(levels)]  # fmt: skip
    made, _ = profile(usage, [pod(gpus=len(levels), start=start)])
    return stragglers(made)


@pytest.mark.parametrize(
    ("levels", "found"),
    [
        ((0.5, 0.5, 0.5, 0.66), ["G3"]),
        ((0.0, 0.0, 0.0, 0.15), []),  # 0.15 apart is what chance may do
        ((0.0, 0.0, 0.0, 0.16), ["G3"]),
        ((0.5, 0.5, 0.5, 0.34), ["G3"]),
        ((0.5, 0.5, 0.66), []),  # three are too few
        ((0.5, 0.6, 0.4, 0.9), []),  # within three deviations: 3 x 1.4826 x 0.1 = 0.44
        ((0.5, 0.6, 0.4, 0.95), ["G3"]),
    ],
)
def test_a_rank_that_works_unlike_the_others(levels, found):
    assert [one.gpu_uuid for one in ranks(*levels)] == found


def test_a_straggler_s_figures():
    (slow,) = ranks(0.5, 0.5, 0.5, 0.75)
    assert (slow.signal, slow.mean, slow.others, slow.slow) == ("sm", 0.75, 0.5, True)
    (waits,) = ranks(0.5, 0.5, 0.5, 0.25)
    assert not waits.slow


def test_where_one_rank_tells_no_sm_all_are_compared_by_kernels():
    assert ranks(0.5, 0.5, 0.5, None) == ()  # equal by kernels


def test_a_device_is_as_it_was_seen_last():
    old = msgspec.structs.replace(device(model="A100"), last_seen=1.0)
    new = msgspec.structs.replace(device(model="H100"), last_seen=2.0)
    for told in ([old, new], [new, old]):
        assert latest_devices(told) == {"GPU-0": new}
    twins = [msgspec.structs.replace(old, model=model) for model in ("A", "B")]
    assert latest_devices(twins) == latest_devices(twins[::-1])


def test_kubernetes_tells_of_a_device_what_it_can():
    one = node(gpu_memory_bytes=80 * GIB)
    assert device_of_node(one, "G", "").memory_total_bytes == 80 * GIB
    assert device_of_node(one, "G", "1g.10gb").memory_total_bytes is None
    assert container_spec(pod(), "main") == pod().containers[0]
    assert container_spec(pod(), "side") is None
    assert container_spec(None, "main") is None


def test_devices_of_the_most_common_pod_the_larger_of_equal_ones():
    def of(*counts):
        start = NOW - HOUR
        pods = [pod(f"p{place}", gpus=count, start=start) for place, count in enumerate(counts)]
        return profile([], pods)[0].gpus_per_pod

    assert of(2, 2, 8) == 2
    assert of(2, 8) == 8
    asking = [pod(gpus=4), pod(gpus=4), pod(gpus=1)]
    assert gpus_per_pod(workload(), asking, []) == 4
    assert gpus_per_pod(workload(), [], []) == 1
    three = GpuRequest(resource="nvidia.com/gpu", count=3, kind="gpu", vendor="nvidia")
    assert gpus_per_pod(workload(gpu_requests=(three,)), [], []) == 3


@pytest.mark.parametrize(
    ("seen", "window", "days"),
    [
        ([(NOW - DAY, 24, HOUR)], Window(start=NOW - DAY, end=NOW), 1),
        ([(NOW - DAY, 24, HOUR)], Window(start=NOW - DAY + 1, end=NOW), 0),
        ([(NOW - DAY, 24, HOUR)], Window(start=NOW - DAY - 1, end=NOW + 1), 1),
        ([(NOW - DAY, 24, HOUR)], Window(start=NOW - DAY, end=NOW - 1), 0),
        ([(NOW - DAY, 24, 0.9 * HOUR)], Window(start=NOW - DAY, end=NOW), 1),
        ([(NOW - DAY, 24, 0.9 * HOUR - 1)], Window(start=NOW - DAY, end=NOW), 0),
        ([(NOW - 3 * DAY, 72, HOUR)], Window(start=NOW - 3 * DAY + 60, end=NOW), 2),
        # two devices, each for half of the day: some device was observed all day
        ([(NOW - DAY, 12, HOUR), (NOW - DAY / 2, 12, HOUR)], Window(start=NOW - DAY, end=NOW), 1),
        ([(NOW - DAY, 12, HOUR), (NOW - DAY, 12, HOUR)], Window(start=NOW - DAY, end=NOW), 0),
        ([(NOW - DAY, 24, 0.5), (NOW - DAY, 24, HOUR)], Window(start=NOW - DAY, end=NOW), 1),
        ([(NOW - DAY, 24, HOUR), (NOW - DAY, 24, 0.5)], Window(start=NOW - DAY, end=NOW), 1),
        ([], Window(start=NOW - DAY, end=NOW), 0),
    ],
)
def test_full_days_are_whole_and_observed_for_nine_tenths(seen, window, days):
    made, _ = profile(rows(NOW - HOUR, NOW), [pod()])
    uses = [
        msgspec.structs.replace(made.gpus[0], hours=tuple(
            (int(first) + place * HOUR, float(each), 0.0) for place in range(count)))
        for first, count, each in seen
    ]  # fmt: skip
    assert full_days(uses, window) == days


def test_an_outline_keeps_one_device_of_each_run_and_model_the_last_used():
    made, _ = profile(rows(NOW - HOUR, NOW), [pod()])
    one = made.gpus[0]
    told = [
        msgspec.structs.replace(one, gpu_uuid=uuid, run_id=run_id, last_hour=last,
                                device=None if model is None else device(uuid, model))
        for uuid, run_id, model, last in (
            ("a", "r1", "A100", 5), ("b", "r1", "A100", 9), ("c", "r1", "A100", 9),
            ("d", "r2", "A100", 1), ("e", "r1", "L4", 0), ("f", "r1", None, 3),
        )
    ]  # fmt: skip
    kept = outline(msgspec.structs.replace(made, gpus=tuple(told)))
    assert [use.gpu_uuid for use in kept.gpus] == ["b", "d", "e", "f"]
    assert all(not use.signals and not use.hours for use in kept.gpus)
    assert kept.signals == {}
