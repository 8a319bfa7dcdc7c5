"""Time by samples: so many, so far apart, in steps of five minutes."""

import pytest

from gputailor_agent.rollup.steps import placed_seconds


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
