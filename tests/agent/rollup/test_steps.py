"""Time by samples: so many, so far apart, in steps of five minutes."""

import math

import pytest

from gputailor_agent.dialects.dcgm import GAUGES
from gputailor_agent.dialects.gauges import Measure
from gputailor_agent.dialects.hami import GAUGES as HAMI
from gputailor_agent.model.usage import Device
from gputailor_agent.rollup.steps import Held, by_device, placed_seconds
from gputailor_agent.sources.prometheus import GaugeCount, GaugeHour, GaugeSeries

NAN, INF = math.nan, math.inf
CARD = Device(cluster="test", gpu_uuid="GPU-0")


def counted(interval, phase=0.5, seconds=3600):
    """Samples per step of a scrape every ``interval`` seconds, the first at ``phase`` of one."""
    times = [interval * (phase + place) for place in range(int(seconds / interval) + 1)]
    samples = [0] * (seconds // 300)
    for time in times:
        if time < seconds:
            samples[int(time // 300)] += 1
    return samples


@pytest.mark.parametrize("interval", [10, 15, 30, 45, 60, 70, 75, 90, 100, 110, 120, 130])
def test_a_whole_hour_is_whole_at_any_interval(interval):
    seconds = sum(placed_seconds(counted(interval), interval))
    assert 3600 - interval <= seconds <= 3600


def test_every_second_minute_costs_no_coverage():
    assert sum(placed_seconds(counted(120), 120)) == 3600


def test_a_step_without_a_sample_gets_no_time():
    assert placed_seconds([3, 0, 3, 2], 120) == [300, 0, 300, 300]


def test_samples_counted_twice_do_not_fill_the_time_of_others():
    assert placed_seconds([20, 2, 2], 60) == [300, 180, 120]


def held(*told):
    """Seconds of each step by what several scrapers counted, in any order the same."""
    found = []
    for order in (told, told[::-1]):
        one = Held()
        for samples, interval in order:
            one.take(
                GaugeCount(
                    holder=None,
                    device=CARD,
                    group=GAUGES.gauges[0].group,
                    samples=tuple(samples),
                    interval_seconds=interval,
                )
            )
        found.append([one.held_seconds(step) for step in range(len(samples))])
    assert found[0] == found[1]
    return found[0]


def test_two_scrape_jobs_of_the_same_exporter_count_time_once():
    assert held(([10, 10, 0], 30.0), ([10, 10, 0], 30.0)) == [300, 300, 0]
    assert held(([0, 4, 0], 30.0), ([0, 4, 0], 30.0)) == [0, 120, 0]


def test_scrape_jobs_of_different_intervals_each_stand_for_their_own_time():
    assert held(([20, 0, 10, 20], 15.0), ([5, 5, 2, 5], 60.0)) == [300, 300, 150, 300]
    assert held(([20, 0, 0], 15.0), ([5, 5, 5], 60.0)) == [300, 300, 300]


BY_MEASURE = {gauge.measure: gauge for gauge in (*HAMI.gauges, *GAUGES.gauges)}


def value_of(measure, *copies, part=""):
    """The value of each step by what several scrapers say, in any order the same."""
    found = []
    for order in (list(enumerate(copies)), list(enumerate(copies))[::-1]):
        series = [
            GaugeSeries(
                holder=None, device=CARD, gauge=BY_MEASURE[measure], values=tuple(values),
                part=f"{part}{place}" if part else "", labels=b"%d" % place,
            )
            for place, values in order
        ]  # fmt: skip
        hour = GaugeHour(dialect="x", begin=0, end=900, series=tuple(series))
        devices, _ = by_device(hour)
        found.append(devices["GPU-0"][None].values[BY_MEASURE[measure]])
    assert found[0] == found[1]
    return found[0]


def test_of_copies_of_a_mean_the_fullest_counts_and_not_the_greatest():
    fuller, other = (0.4, 0.5, 0.6), (0.9, None, 0.1)
    assert value_of(Measure.ACTIVITY, fuller, other) == [0.4, 0.5, 0.6]
    assert value_of(Measure.POWER, fuller, other) == [0.4, 0.5, 0.6]
    assert value_of(Measure.ACTIVITY, fuller, (0.9, 0.9, 0.1)) == [0.4, 0.5, 0.6]


def test_what_one_copy_lacks_the_other_fills():
    assert value_of(Measure.ACTIVITY, (0.4, None, 0.6), (None, 0.2, None)) == [0.4, 0.2, 0.6]
    assert value_of(Measure.ACTIVITY, (0.4, NAN, 0.6), (0.1, 0.2, INF)) == [0.4, 0.2, 0.6]


def test_of_copies_of_memory_each_may_have_seen_the_highest():
    assert value_of(Measure.MEMORY_USED, (1.0, 5.0, NAN), (2.0, 3.0, 1.0)) == [2.0, 5.0, 1.0]


def test_of_copies_the_latest_kernel_counts():
    assert value_of(Measure.IDLE, (10.0, 5.0, None), (2.0, 30.0, 1.0)) == [2.0, 5.0, 1.0]


def test_of_parts_of_a_device_the_busiest_counts():
    parts = ((0.4, 0.5, None), (0.9, 0.1, 0.2))
    assert value_of(Measure.ACTIVITY, *parts, part="vcn") == [0.9, 0.5, 0.2]


def test_an_exporter_that_came_back_under_another_address_loses_no_time():
    assert held(([10, 4, 0], 30.0), ([0, 6, 10], 30.0)) == [300, 300, 300]
    assert held(([10, 4, 0], 30.0), ([0, 3, 10], 30.0)) == [300, 210, 300]
    assert held(([4, 0, 0], 30.0), ([6, 10, 10], 30.0)) == [300, 300, 300]
    assert held(([10, 10, 4], 30.0), ([0, 0, 6], 30.0)) == [300, 300, 300]


def test_a_scrape_job_that_was_taken_away_at_an_hours_edge_adds_no_time():
    assert held(([4, 0, 0], 30.0), ([8, 10, 10], 30.0)) == [240, 300, 300]
    assert held(([4, 0, 0], 30.0), ([4, 0, 0], 30.0)) == [120, 0, 0]
    assert held(([4], 30.0), ([4], 30.0)) == [120]
