"""No figure of a profile changes unseen: each world's profiles are those on record."""

import dataclasses
from collections import defaultdict

import pytest

from gputailor_agent.model.packed import hour_of, place_of
from gputailor_agent.model.sums import sum_of_hours
from gputailor_agent.profiles.attributing import Attribution, attributed, pod_of
from gputailor_agent.profiles.building import profiles_among
from gputailor_agent.profiles.sharding import shards
from gputailor_agent.profiles.surroundings import Surroundings, beginning
from tests.agent.factories import DAY, NOW
from tests.agent.profiles.recorded import FOLDER, read, told
from tests.agent.profiles.worlds import WINDOW, WORLDS

AGAIN = "meant so? python -m tests.agent.profiles.recorded, and read the difference"


@pytest.mark.parametrize("world", WORLDS)
def test_profiles_are_those_on_record(world):
    assert told(world) == read(world), AGAIN


def in_days(usage):
    """The same use as a store keeps it later: a sum for each whole day that the window holds."""
    days = defaultdict(list)
    for one in usage:
        if one.key.hour // DAY * DAY >= WINDOW.start and one.key.pod:
            days[place_of(one.key), one.key.hour // DAY].append(hour_of(one))
        else:
            yield one
    for (place, _), hours in days.items():
        yield place, sum_of_hours({one.hour: one for one in hours}.values())


@pytest.mark.parametrize("world", [name for name in WORLDS if name != "days_of_a_week"])
def test_summed_up_by_day_the_same_is_told(world):
    made = WORLDS[world]()
    usage = [one for one in made.usage if one.key.hour < NOW]
    assert made.profiles(in_days(usage)) == made.profiles(usage)


def judged_apart(made, size):
    """Profiles of a world that is cut into shards."""
    around = Surroundings.of(
        made.inventory, made.known, made.window, measured_since=made.measured_since
    )
    rows = list(attributed(made.usage, made.known, made.inventory))
    began = beginning(
        lambda start, end: [one for one in made.usage if start <= one.key.hour < end],
        Attribution(made.known, made.inventory),
        made.window,
    )
    around = dataclasses.replace(around, began=began)
    for shard in shards(made.inventory, made.resolution, {pod_of(one) for one in rows}, size):
        names = set(shard.names)
        yield from profiles_among(
            [one for one in rows if pod_of(one) in names], around, shard.pods, shard.resolution
        )


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("size", [1, 3])
def test_judged_apart_the_same_is_told(world, size):
    made = WORLDS[world]()
    apart = sorted(judged_apart(made, size), key=lambda one: one.workload.id)
    assert apart == made.profiles()


@pytest.mark.parametrize("world", WORLDS)
def test_the_order_of_rows_changes_nothing(world):
    made = WORLDS[world]()
    assert made.profiles(made.usage[::-1]) == made.profiles()


def test_every_record_is_of_a_world():
    assert {file.stem for file in FOLDER.iterdir()} == set(WORLDS)
