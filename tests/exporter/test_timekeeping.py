"""Times of past events on a wall clock that somebody sets."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputailor_exporter.sampling.timekeeping import Clock, SteadyWall, since_boot


class Wound:
    """A clock since boot and a wall clock that a test moves."""

    def __init__(self):
        self.boot, self.wall = 1000.0, 1.7e9
        self.clock = Clock(lambda: self.boot, lambda: self.wall)
        self.steady = SteadyWall(self.clock)

    def passes(self, seconds):
        self.boot += seconds
        self.wall += seconds

    def shown(self, event):
        return event + self.steady.shift()


@given(
    st.lists(
        st.tuples(st.floats(0.0, 1e4), st.floats(-1e5, 1e5).filter(lambda x: abs(x) >= 1.1)),
        max_size=8,
    )
)
def test_an_age_is_right_however_often_the_clock_is_set(turns):
    wound = Wound()
    event, age = wound.steady.now(), 0.0
    for seconds, step in turns:
        wound.passes(seconds)
        age += seconds
        wound.wall += step
        assert wound.wall - wound.shown(event) == pytest.approx(age, abs=1.2)


def test_a_time_shown_twice_is_the_same_though_the_clock_is_slewed():
    wound = Wound()
    event = wound.steady.now()
    first = wound.shown(event)
    for _ in range(9):
        wound.passes(60.0)
        wound.wall += 0.1
        assert wound.shown(event) == first
    wound.wall += 0.2  # more than a second in all: it is put right by one step
    assert wound.shown(event) == pytest.approx(first + 1.1)


def test_a_time_read_from_a_set_clock_is_put_on_the_steady_scale():
    wound = Wound()
    before = wound.steady.now()
    wound.wall += 3600.0
    assert wound.steady.steady(wound.wall) == pytest.approx(before)


def test_the_clock_since_boot_goes_on():
    before = since_boot()
    time.sleep(0.01)
    assert 0.0 < since_boot() - before < 5.0
