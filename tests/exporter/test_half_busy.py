"""A job that works one second and rests one second reads one half, however it is scraped."""

import random

import pytest

from gputailor_exporter import metrics as m
from gputailor_exporter.metrics import Signal
from tests.exporter.machines import GPU, WALL, accounts, histogram, holds, one, reading

LENGTH_SECONDS = 600


def busy_until(at, phase):
    """Return the seconds worked from 0 to ``at`` by a job that begins to work at ``-phase``."""
    whole, rest = divmod(at + phase, 2.0)
    return whole + min(rest, 1.0)


def device_mean(start, end, phase):
    return (busy_until(end, phase) - busy_until(start, phase)) / (end - start)


def scraped_mean(scrape_seconds, phase, *, jitter, covers):
    """Sample for ten minutes, scrape on the way, and return rise(active)/rise(observed)."""
    noise = random.Random(f"{scrape_seconds}-{phase}")
    made = accounts(allocations=[holds("job")])
    last, scraped, next_scrape = 0.0, [], 0.0
    for beat in range(1, LENGTH_SECONDS + 1):
        at = beat + (noise.uniform(-0.3, 0.3) if jitter else 0.0)
        value = device_mean(last, at, phase)
        span = at - last if covers else None
        made.advance(GPU, reading(at, {Signal.KERNEL: value}, covers=span), None, WALL)
        last = at
        if at >= next_scrape:
            next_scrape += scrape_seconds
            snapshot = made.snapshot(WALL + at)
            pair = (m.CONTAINER_ACTIVE_SECONDS, m.CONTAINER_OBSERVED_SECONDS)
            scraped.append(tuple(one(snapshot, family, signal="kernel") for family in pair))
    (first_active, first_observed), (last_active, last_observed) = scraped[0], scraped[-1]
    return (last_active - first_active) / (last_observed - first_observed)


@pytest.mark.parametrize("scrape_seconds", [5, 15, 30, 60])
@pytest.mark.parametrize("phase", [0.0, 0.25, 0.5, 1.0, 1.7])
@pytest.mark.parametrize("covers", [False, True], ids=["held", "stated-span"])
def test_one_second_on_one_second_off_reads_one_half(scrape_seconds, phase, covers):
    mean = scraped_mean(scrape_seconds, phase, jitter=False, covers=covers)
    assert mean == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("scrape_seconds", [5, 15, 30, 60])
@pytest.mark.parametrize("phase", [0.0, 0.5])
def test_it_reads_one_half_on_a_beat_that_wavers_too(scrape_seconds, phase):
    mean = scraped_mean(scrape_seconds, phase, jitter=True, covers=False)
    assert mean == pytest.approx(0.5, abs=0.02)


def test_the_seconds_themselves_stay_visible_in_the_histogram():
    made = accounts(allocations=[holds("job")])
    for at in range(121):
        made.advance(GPU, reading(float(at), {Signal.KERNEL: float(at % 2)}), None, WALL)
    found = histogram(made.snapshot(WALL), m.CONTAINER_ACTIVITY, signal="kernel")
    assert found[0] == 60.0
    assert found[7] == 120.0
