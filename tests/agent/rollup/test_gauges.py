import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputailor_agent.model.usage import GaugeSample
from gputailor_agent.rollup import Holder, rows_from_samples

T0 = 1_800_000_000 // 3600 * 3600
POD = Holder(namespace="logs", pod="resnet")


def samples_of(values, every=1.0, gpu="0", **more):
    return [
        GaugeSample(at=T0 + place * every, gpu=gpu, kernel=value, **more)
        for place, value in enumerate(values)
    ]


def rows(samples, **options):
    return rows_from_samples(samples, cluster="c1", pod=POD, **options)[0]


def test_a_job_one_second_on_one_second_off_reads_one_half():
    [row] = rows(samples_of([0.0, 1.0] * 300))
    assert row.signals["kernel"].mean == 0.5
    assert row.signals["kernel"].histogram.zero_seconds == 300
    assert row.signals["kernel"].maximum == 1.0
    assert row.allocated_seconds == 600


def test_a_hole_in_the_log_is_allocated_but_not_observed():
    samples = [*samples_of([0.5] * 60)]
    samples += [GaugeSample(at=T0 + 1000 + second, gpu="0", kernel=0.5) for second in range(60)]
    [row] = rows(samples)
    assert row.allocated_seconds == 1060
    assert row.signals["kernel"].observed_seconds == 59 + 5 + 60


def test_a_longer_period_stands_up_to_three_times_as_long():
    samples = samples_of([0.5] * 20, every=30.0)
    samples.append(GaugeSample(at=T0 + 19 * 30 + 500, gpu="0", kernel=0.5))
    [row] = rows(samples)
    assert row.signals["kernel"].observed_seconds == 19 * 30 + 90 + 30


def test_samples_with_one_coarse_stamp_share_its_second():
    samples = [
        GaugeSample(at=T0 + place // 4, gpu="0", kernel=1.0 if place % 4 else 0.0)
        for place in range(400)
    ]
    [row] = rows(samples)
    assert row.signals["kernel"].mean == 0.75
    assert row.signals["kernel"].observed_seconds == 100


def test_a_single_sample_is_a_reading_without_observed_time():
    [row] = rows([GaugeSample(at=T0, gpu="0", kernel=0.4, memory_used_bytes=5)])
    assert row.signals["kernel"].observed_seconds == 0
    assert row.signals["kernel"].mean is None
    assert (row.samples, row.memory_peak_bytes) == (1, 5)


def test_what_the_log_lacks_is_unknown():
    [row] = rows(samples_of([0.5] * 10))
    assert set(row.signals) == {"kernel"}
    assert row.energy_joules is None
    assert row.memory_peak_bytes is None


def test_memory_is_the_highest_sample_and_says_so():
    samples = [
        GaugeSample(at=T0 + second, gpu="0", kernel=0.5, memory_used_bytes=second * 100)
        for second in range(10)
    ]
    [row] = rows(samples)
    assert (row.memory_peak_bytes, row.memory_peak_kind) == (900, "sampled")


def test_energy_is_the_trapezoid_of_power():
    samples = [
        GaugeSample(at=T0 + second, gpu="0", power_watts=100.0 + 10 * second)
        for second in range(11)
    ]
    [row] = rows(samples)
    assert row.energy_joules == 1500 + 200  # the last sample stands for one second


def test_a_value_falls_into_its_bucket_of_a_twentieth():
    [row] = rows(samples_of([0.5, 0.51, 0.55, 0.0]))
    seconds = row.signals["kernel"].histogram.seconds
    assert (seconds[10], seconds[11], seconds[0]) == (1, 2, 1)


def test_a_log_over_an_hours_end_gives_a_row_each():
    samples = [GaugeSample(at=T0 + 3590 + second, gpu="0", kernel=1.0) for second in range(20)]
    early, late = rows(samples)
    assert (early.allocated_seconds, late.allocated_seconds) == (10, 10)


def test_several_gpus_are_rows_of_their_own_and_never_meet_those_of_another_log():
    found, devices = rows_from_samples(
        [*samples_of([1.0] * 5, model="T4"), *samples_of([0.0] * 5, gpu="GPU-9")],
        cluster="c1",
        pod=POD,
    )
    assert {row.key.gpu_uuid for row in found} == {"resnet:0", "GPU-9"}
    assert {(device.gpu_uuid, device.index, device.model) for device in devices} == {
        ("resnet:0", "0", "T4"),
        ("GPU-9", "GPU-9", ""),
    }


def test_last_active_is_the_last_sample_with_work():
    [row] = rows(samples_of([0.0, 0.7, 0.0, 0.0]))
    assert row.last_active == T0 + 1


def test_the_warm_up_is_the_first_ten_minutes():
    [row] = rows(samples_of([0.0] * 300 + [1.0] * 900))
    assert row.warmup["kernel"].observed_seconds == 600
    assert row.warmup["kernel"].active_seconds == 300


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 5000), st.one_of(st.none(), st.floats(0, 1))), max_size=60),
    st.randoms(),
)
def test_any_log_conserves_its_time_in_any_order(points, random):
    samples = [GaugeSample(at=T0 + at, gpu="0", kernel=value) for at, value in points]
    shuffled = sorted({sample.at: sample for sample in samples}.values(), key=lambda s: s.at)
    again = list(shuffled)
    random.shuffle(again)
    found = rows(shuffled)
    assert found == rows(again)
    for row in found:
        for use in row.signals.values():
            assert 0 <= use.active_seconds <= use.observed_seconds
            assert use.observed_seconds <= row.allocated_seconds + 0.01
            assert use.histogram.total_seconds == pytest.approx(use.observed_seconds, abs=0.02)
    assert sum(row.samples for row in found) == len(shuffled)
