"""Shapes have exact integrals: any cut of an interval gives the same total."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputailor_exporter.scenarios.shapes import (
    DAY,
    HOUR,
    Burst,
    Constant,
    Hours,
    Noisy,
    OnOff,
    Ramp,
    Warmup,
    diurnal,
    unit_hash,
)

ORIGIN = 1_764_500_000.0
MONDAY = 1_764_547_200.0  # 2025-12-01 00:00 UTC
level = st.floats(0, 1)
seconds = st.floats(1, 100_000)

simple = st.one_of(
    st.builds(Constant, level),
    st.builds(OnOff, seconds, level, level, level),
    st.builds(Ramp, seconds, level, level),
    st.builds(diurnal, level, level, level, st.floats(0, 24)),
    st.tuples(seconds, level, level, level, st.integers(0, 99)).map(
        lambda t: Burst(t[0], t[0] * t[1], t[2], t[3], t[4])
    ),
)
shapes = st.one_of(
    simple,
    st.builds(Warmup, seconds, level, simple),
    st.builds(Noisy, simple, level, st.floats(600, 9000), st.integers(0, 99)),
    st.tuples(
        st.frozensets(st.integers(0, 6)), st.floats(0, 12), st.floats(12, 24), simple, simple
    ).map(lambda t: Hours(*t)),
)
span = st.floats(0.5, 3 * DAY)


@given(shapes, st.floats(0, 20 * DAY), span, span)
def test_two_neighbouring_intervals_add_up_to_their_union(shape, begin, first, second):
    start = ORIGIN + begin
    middle, end = start + first, start + first + second
    parts = shape.integral(start, middle, ORIGIN) + shape.integral(middle, end, ORIGIN)
    assert shape.integral(start, end, ORIGIN) == pytest.approx(parts, rel=1e-6, abs=1e-3)


@given(shapes, st.floats(0, 20 * DAY), span)
def test_an_integral_lies_between_nothing_and_everything(shape, begin, length):
    start = ORIGIN + begin
    value = shape.integral(start, start + length, ORIGIN)
    assert -1e-9 <= value <= length * (1 + 1e-6) + 1e-3


@given(st.floats(2, 5000), st.floats(0.01, 0.99), st.integers(0, 5000))
def test_while_it_is_off_an_on_off_shape_is_exactly_zero(period, duty, index):
    shape = OnOff(period, duty)
    off_from, off_to = (index + duty) * period, (index + 1) * period
    quarter = (off_to - off_from) / 4
    begin, end = ORIGIN + off_from + quarter, ORIGIN + off_to - quarter
    assert shape.integral(begin, end, ORIGIN) == 0.0


def test_one_second_on_and_one_off_is_half():
    assert OnOff(2, 0.5).integral(ORIGIN + 3, ORIGIN + 63, ORIGIN) == 30.0


def test_a_ramp_is_steady_after_its_end():
    assert Ramp(100, 0, 1).integral(ORIGIN, ORIGIN + 100, ORIGIN) == pytest.approx(50)
    assert Ramp(100, 0, 1).integral(ORIGIN + 100, ORIGIN + 160, ORIGIN) == pytest.approx(60)


def test_the_daily_wave_has_its_top_at_the_given_hour_and_a_lower_one_at_the_weekend():
    wave = diurnal(0.8, 0.2, 0.4, 14)

    def around(at):
        return wave.integral(at - 1, at + 1, ORIGIN) / 2

    assert around(MONDAY + 14 * HOUR) == pytest.approx(0.8, abs=1e-3)
    assert around(MONDAY + 26 * HOUR) == pytest.approx(0.2, abs=1e-3)
    assert around(MONDAY + 5 * DAY + 14 * HOUR) == pytest.approx(0.4, abs=1e-3)


def test_office_hours_are_those_of_the_given_days_in_utc():
    shape = Hours(frozenset({0}), 9, 17, Constant(1), Constant(0))
    assert shape.integral(MONDAY, MONDAY + 7 * DAY, ORIGIN) == 8 * HOUR
    assert shape.integral(MONDAY + 9 * HOUR, MONDAY + 10 * HOUR, ORIGIN) == HOUR
    assert shape.integral(MONDAY + DAY, MONDAY + 2 * DAY, ORIGIN) == 0.0


def test_every_burst_lies_whole_within_its_interval():
    shape = Burst(600, 60, seed=5)
    for index in range(50):
        start = ORIGIN + index * 600
        assert shape.integral(start, start + 600, ORIGIN) == pytest.approx(60)


def test_noise_is_the_same_each_time_and_only_takes_off():
    noise = Noisy(Constant(1), 0.4, 60, seed=9)
    values = [noise.integral(60.0 * n, 60.0 * n + 60, 0) / 60 for n in range(300)]
    assert values == [noise.integral(60.0 * n, 60.0 * n + 60, 0) / 60 for n in range(300)]
    assert min(values) >= 0.6
    assert max(values) <= 1.0
    assert math.fsum(values) / 300 == pytest.approx(0.8, abs=0.03)


def test_the_hash_spreads_evenly_over_seeds_and_places():
    values = [unit_hash(seed, index) for seed in range(20) for index in range(50)]
    assert len(set(values)) == 1000
    assert sum(value < 0.25 for value in values) == pytest.approx(250, abs=50)
