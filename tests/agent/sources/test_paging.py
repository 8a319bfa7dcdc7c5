"""Whose histograms are due as of an hour's begin, because nobody can tell them later."""

import pytest

from gputailor_agent.dialects import Field, Holder, Place
from gputailor_agent.sources.prometheus.history import Life
from gputailor_agent.sources.prometheus.paging import dated, pages_of, unread
from gputailor_agent.sources.prometheus.placing import Placed, Reading, Target

BEGIN = 1_768_046_400
OURS, MOVED = Target("job", "10.0.0.1:9400"), Target("job", "10.0.0.2:9400")
HELD = Holder("team", "p", "u", "main", "GPU-0")


def reading(*holders, target=OURS, started=BEGIN - 86_400.0):
    found = Reading()
    found.put(Placed(target, "", Place(Field.PROCESS_STARTED)), started)
    for holder in holders:
        place = Place(Field.ALLOCATED_SECONDS, holder=holder)
        found.put(Placed(target, "node-a", place), 60.0)
    return found


def life(*, resets=(), target=OURS):
    return Life(target, "node-a", HELD, BEGIN + 15.0, BEGIN + 45.0, resets)


LEFT = {(OURS, HELD): "node-a"}


def test_who_goes_on_is_read_later():
    assert unread(LEFT, reading(HELD), [], BEGIN) == ([], [])


def test_a_container_without_another_sample_is_read_as_of_the_begin():
    ended, whole = unread(LEFT, reading(), [], BEGIN)
    assert [(one.holder, one.last) for one in ended] == [(HELD, BEGIN)]
    assert whole == []


def test_a_container_whose_end_was_seen_is_read_there():
    assert unread(LEFT, reading(), [life()], BEGIN) == ([], [])


@pytest.mark.parametrize(
    "now",
    [
        reading(HELD, started=BEGIN + 40.0),  # began anew before the next sample
        reading(started=BEGIN - 5.0),  # ... by a clock that is a little behind, the container gone
        reading(HELD, target=MOVED),  # under another address
        Reading(),  # the whole node went
    ],
)
def test_a_target_that_does_not_go_on_is_read_whole(now):
    assert unread(LEFT, now, [], BEGIN) == ([], [(OURS, BEGIN)])


def test_a_process_whose_last_sample_lies_inside_the_hour_is_read_there():
    now = reading(HELD, started=BEGIN + 40.0)
    assert unread(LEFT, now, [life(resets=(BEGIN + 15.0,))], BEGIN) == ([], [])


def test_a_page_as_of_the_begin_comes_after_that_of_the_hour_before():
    (page,) = pages_of({float(BEGIN): reading(HELD)}, ())
    assert BEGIN < dated(page, 20.0, BEGIN, BEGIN + 3600).at < BEGIN + 1
