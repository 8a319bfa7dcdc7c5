"""Rises of counters: exact where the ends tell all, never too large where they do not."""

from hypothesis import given
from hypothesis import strategies as st

from gputailor_agent.sources.prometheus.rises import Hour, Rise, SeriesKey

BEGIN, END = 7200.0, 10_800.0
KEY = SeriesKey("pod", "c_total", (), ())


def hour(before, after, started=None):
    return Hour(BEGIN, END, before, after, lambda _: started)


def test_two_ends_tell_a_steady_counter():
    found = hour({KEY: 5.0}, {KEY: 12.0})
    assert found.doubtful() == set()
    assert found.rises({}, set()) == {KEY: Rise(7.0, 3600.0)}


def test_a_process_that_began_inside_the_hour_counts_from_zero():
    found = hour({}, {KEY: 12.0}, started=BEGIN + 600)
    assert found.doubtful() == set()
    assert found.rises({}, set()) == {KEY: Rise(12.0, 3000.0)}


def test_a_new_series_of_a_target_that_was_there_counts_from_zero():
    other = KEY._replace(name="d_total")
    found = hour({other: 1.0}, {other: 1.0, KEY: 3.0})
    assert found.rises({}, found.doubtful())[KEY].amount == 3.0
    assert hour({}, {KEY: 3.0}).doubtful({"pod"}) == set()


def test_a_fall_an_end_and_a_stranger_are_read_whole():
    assert hour({KEY: 5.0}, {KEY: 4.0}).doubtful() == {"pod"}
    assert hour({KEY: 5.0}, {}).doubtful() == {"pod"}
    assert hour({}, {KEY: 5.0}).doubtful() == {"pod"}
    assert hour({KEY: 5.0}, {KEY: 9.0}, started=BEGIN + 1).doubtful() == {"pod"}


def test_a_stranger_counts_from_its_first_sample():
    samples = {KEY: [[(BEGIN + 60, 100.0), (BEGIN + 120, 104.0)]]}
    found = hour({}, {KEY: 104.0}).rises(samples, {"pod"})
    assert found == {KEY: Rise(4.0, END - BEGIN - 60)}


def test_of_two_copies_the_fuller_one_counts():
    full = [(BEGIN + 60 * n, float(n)) for n in range(1, 11)]
    found = hour({KEY: 0.0}, {}).rises({KEY: [full[:3], full]}, {"pod"})
    assert found[KEY].amount == 10.0


@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=40),
    st.sets(st.integers(1, 39), max_size=3),
    st.integers(0, 1000),
)
def test_what_was_counted_is_found_whatever_restarts_there_were(steps, resets, at_begin):
    """True rise = what every process counted; a restart loses nothing that was scraped."""
    value, true, samples = float(at_begin), 0.0, []
    for place, step in enumerate(steps):
        if place in resets:
            value = 0.0
        value += step
        true += step
        samples.append((BEGIN + 60 * (place + 1), value))
    found = hour({KEY: float(at_begin)}, {KEY: value})
    read = found.rises({KEY: [samples]}, {"pod"})[KEY].amount
    assert read <= true
    if not resets & set(range(len(steps))):
        assert read == true
        assert found.rises({}, set())[KEY].amount == true
