"""How long one device has been at zero, hour by hour, and what speaks against it."""

import dataclasses

import msgspec
import pytest

from gputailor_agent.model.inventory import TaskClass
from gputailor_agent.model.profile import Window
from gputailor_agent.model.usage import SignalUse
from gputailor_agent.rules import idle
from gputailor_agent.rules.base import Limits, RuleSettings
from gputailor_agent.rules.idle_standing import Standing, idle_evidence, standing_of
from gputailor_agent.rules.idleness import Doubt, idleness
from tests.agent.factories import DAY, HOUR, NOW, context, device, pod, profile, row, workload

WINDOW = Window(start=NOW - 14 * DAY, end=NOW)
LIMITS = Limits(idle.RULE, RuleSettings({}))


def hours(*told, until=NOW, **options):
    """Rows of the last hours up to ``until``: (observed share, active share) each; None: no row."""
    begin = until - len(told) * HOUR
    return [
        row(begin + place * HOUR, observed=seen * HOUR, kernel=active, **options)
        for place, (seen, active) in enumerate(one or (None, None) for one in told)
        if seen is not None
    ]


IDLE, BUSY, HALF = (1.0, 0.0), (1.0, 0.5), (0.5, 0.0)


def measured(usage, start=NOW - 6 * HOUR, *, window=WINDOW, known=True, last=None, limits=None,
             **told):  # fmt: skip
    """The one device of these rows; ``known``: the inventory knows its pod's times."""
    member = pod(start=start if known else None)
    made, world = profile(usage, [member], window=window, **told)
    use = made.gpus[0]
    if last is not None:
        use = msgspec.structs.replace(use, last_active=float(last))
    own = Limits(idle.RULE, RuleSettings({"idle": limits or {}}))
    return idleness(use, window, context(world), own)


# --- since when ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "options", "since", "from_start"),
    [
        ((IDLE,) * 6, {}, NOW - 6 * HOUR, True),
        ((BUSY, *(IDLE,) * 5), {}, NOW - 5 * HOUR, False),
        ((IDLE, BUSY, IDLE), {"start": NOW - 3 * HOUR}, NOW - HOUR, False),
        ((*(IDLE,) * 5, BUSY), {}, NOW, False),
        ((BUSY, *(IDLE,) * 5), {"last": NOW - 5.5 * HOUR}, NOW - 5.5 * HOUR, False),
        # activity in a later hour than the last active one counts up to that hour's end
        ((BUSY, BUSY, *(IDLE,) * 4), {"last": NOW - 5.5 * HOUR}, NOW - 4 * HOUR, False),
        ((BUSY, *(IDLE,) * 5), {"last": NOW - 5 * HOUR}, NOW - 5 * HOUR, False),
        # in the hour of its start
        ((IDLE,) * 6, {"start": NOW - 5.5 * HOUR}, NOW - 5.5 * HOUR, True),
        ((IDLE,) * 6, {"last": NOW - 7 * HOUR}, NOW - 6 * HOUR, True),
    ],
)
def test_a_device_is_idle_since_it_worked_last_or_since_its_pod_got_it(
    told, options, since, from_start
):
    found = measured(hours(*told), **options)
    assert (found.since, found.from_start) == (since, from_start)
    assert found.seconds == NOW - since


def test_what_began_before_the_window_is_not_idle_from_its_start():
    window = Window(start=NOW - 3.0 * HOUR, end=NOW)
    found = measured(hours(IDLE, IDLE, IDLE), NOW - 9 * HOUR, window=window)
    assert (found.since, found.from_start) == (NOW - 3 * HOUR, False)
    known = measured(hours(IDLE, IDLE, IDLE), NOW - 9 * HOUR, window=window, last=NOW - 4 * HOUR)
    assert (known.since, known.from_start) == (NOW - 4 * HOUR, False)
    first = measured(hours(IDLE, IDLE, IDLE), NOW - 3 * HOUR, window=window)
    assert (first.since, first.from_start) == (NOW - 3 * HOUR, True)


def test_a_pod_whose_times_nobody_knows_got_it_as_late_as_the_rows_allow():
    found = measured(hours(IDLE, IDLE), known=False)
    assert (found.since, found.from_start) == (NOW - 2 * HOUR, True)
    part = [row(NOW - 2 * HOUR, seconds=600.0), row(NOW - HOUR)]
    assert measured(part, known=False).since == NOW - HOUR - 600
    window = Window(start=NOW - 2.0 * HOUR, end=NOW)
    assert measured(hours(IDLE, IDLE), known=False, window=window).since == NOW - 2 * HOUR


# --- how well it was observed -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "options", "coverage"),
    [
        ((IDLE,) * 6, {}, 1.0),
        ((IDLE, IDLE, HALF, IDLE, IDLE, IDLE), {}, 5.5 / 6),
        ((IDLE, IDLE, None, IDLE, IDLE, IDLE), {}, 5 / 6),
        # of an hour that it held in part, the part before it could have been the observed one
        (((0.5, 0.0), *(IDLE,) * 5), {"start": NOW - 5.5 * HOUR}, 1.0),
        (((0.25, 0.0), *(IDLE,) * 5), {"start": NOW - 5.5 * HOUR}, 5.25 / 5.5),
        ((BUSY, *(IDLE,) * 5), {"last": NOW - 5.5 * HOUR}, 1.0),
        (((0.75, 0.5), *(IDLE,) * 5), {"last": NOW - 5.5 * HOUR}, 5.25 / 5.5),
        (((0.25, 0.5), *(IDLE,) * 5), {"last": NOW - 5.5 * HOUR}, 5 / 5.5),
        ((*(IDLE,) * 5, BUSY), {}, 0.0),  # no idle time at all
    ],
)
def test_the_least_of_the_idle_time_that_was_observed(told, options, coverage):
    found = measured(hours(*told), limits={"coverage": 0.0}, **options)
    assert found.coverage == pytest.approx(coverage)
    assert not found.cut


def test_an_hour_that_was_told_twice_over_counts_once():
    twice = [*hours(IDLE, IDLE), *hours(IDLE, IDLE)]
    found = measured(twice, NOW - 3 * HOUR, limits={"coverage": 0.0})
    assert found.coverage == pytest.approx(2 / 3)


def test_the_window_s_last_hour_may_be_a_part():
    end = NOW - HOUR / 2
    window = Window(start=NOW - 14 * DAY, end=end)
    part = [row(NOW - 2 * HOUR), row(NOW - HOUR, seconds=HOUR / 2, observed=HOUR / 2)]
    found = measured(part, NOW - 2 * HOUR, window=window)
    assert (found.coverage, found.seconds) == (1.0, 1.5 * HOUR)


@pytest.mark.parametrize(
    ("told", "since", "cut", "coverage"),
    [
        ((IDLE, None, *(IDLE,) * 4), NOW - 4 * HOUR, True, 1.0),
        ((IDLE, HALF, *(IDLE,) * 4), NOW - 4 * HOUR, True, 1.0),
        ((None, *(IDLE,) * 5), NOW - 5 * HOUR, True, 1.0),
        ((*(IDLE,) * 5, None), NOW - 6 * HOUR, False, 5 / 6),  # the gap reaches up to now
        ((None,) * 5 + (HALF,), NOW - 6 * HOUR, False, 0.5 / 6),
    ],
)
def test_after_a_gap_idleness_begins_anew(told, since, cut, coverage):
    found = measured(hours(*told))
    assert (found.since, found.cut) == (since, cut)
    assert found.coverage == pytest.approx(coverage)
    assert found.from_start is (not cut)
    assert (found.doubt is None) is cut


def test_the_longest_part_that_is_covered_well_enough_counts():
    """30.5 of 31 hours are more than 0.98; an hour that lacks 2 % of itself is just enough."""
    found = measured(hours(None, HALF, *(IDLE,) * 30), NOW - 32 * HOUR)
    assert (found.since, found.cut) == (NOW - 31 * HOUR, True)
    assert found.coverage == pytest.approx(30.5 / 31)
    few = measured(hours(None, (0.98, 0.0)), NOW - 2 * HOUR)
    assert (few.since, few.cut, few.doubt) == (NOW - HOUR, True, None)
    less = measured(hours(None, (0.979, 0.0)), NOW - 2 * HOUR)
    assert (less.cut, less.doubt) == (False, Doubt.COVERAGE)


# --- what speaks against it ---------------------------------------------------------------------


def power(watts, *told, **options):
    return measured(hours(*told, watts=watts), NOW - len(told) * HOUR, **options)


@pytest.mark.parametrize(
    ("watts", "told", "doubt"),
    [
        (140.0, (IDLE, IDLE), None),  # 0.35 of an A100's 400 W
        (140.5, (IDLE, IDLE), Doubt.POWER),
        (None, (IDLE, IDLE), None),
        (270.0, (BUSY, IDLE), None),  # (540 - 400) of the idle hour
        (270.5, (BUSY, IDLE), Doubt.POWER),
    ],
)
def test_watts_above_those_of_an_idle_card_contradict_zeros(watts, told, doubt):
    assert power(watts, *told).doubt == doubt


def test_the_watts_of_the_idle_part_and_their_limit_are_told():
    found = power(250.0, BUSY, IDLE)
    assert (found.watts, found.watts_limit) == (pytest.approx(100.0), pytest.approx(140.0))
    assert found.signal == "kernel"


@pytest.mark.parametrize(
    ("bytes_sent", "told", "rate", "doubt"),
    [
        ({"pcie/rx": 3.6e9, "pcie/tx": 3.6e9}, (IDLE, IDLE), 1e6, None),
        ({"pcie/rx": 7.3e9}, (IDLE, IDLE), 7.3e9 / 7200, Doubt.LINK),
        ({}, (IDLE, IDLE), None, None),
        ({"pcie/rx": 9e12}, (BUSY, IDLE), None, None),  # it may have been while it worked
    ],
)
def test_bytes_over_links_contradict_zeros(bytes_sent, told, rate, doubt):
    usage = hours(*told)
    usage[0] = msgspec.structs.replace(usage[0], link_bytes=bytes_sent)
    found = measured(usage, NOW - 2 * HOUR)
    # the store keeps sums on a grid, so a rate is told to a millionth
    assert found.link_bytes_per_second == (None if rate is None else pytest.approx(rate))
    assert found.doubt == doubt


def signals(usage, **told):
    """The first row with these signals: (observed, active) seconds each."""
    more = {
        name: SignalUse(observed_seconds=seen, active_seconds=busy)
        for name, (seen, busy) in told.items()
    }
    return [msgspec.structs.replace(usage[0], signals={**usage[0].signals, **more}), *usage[1:]]


TWO = 2.0 * HOUR


@pytest.mark.parametrize(
    ("told", "last", "doubt", "video"),
    [
        ({}, None, None, True),
        ({"encoder": (HOUR, 60.0)}, None, Doubt.VIDEO_TIME, True),
        ({"decoder": (HOUR, 60.0)}, NOW - TWO, None, True),
        ({"sm": (HOUR, 60.0)}, None, Doubt.CONTRADICTION, True),
        ({"tensor": (HOUR, 60.0)}, None, Doubt.CONTRADICTION, True),
        ({"graphics": (HOUR, 60.0)}, None, Doubt.CONTRADICTION, True),
        ({"dram": (HOUR, 60.0)}, None, None, True),
    ],
)
def test_other_counters_may_contradict_zeros(told, last, doubt, video):
    found = measured(signals(hours(IDLE, IDLE), **told), NOW - 2 * HOUR, last=last)
    assert (found.doubt, found.video_known) == (doubt, video)


@pytest.mark.parametrize(
    ("seen", "doubt", "known"),
    [
        (0.0, None, False),
        (0.5, Doubt.VIDEO_STOPPED, True),
        (0.98, None, True),
        (0.979, Doubt.VIDEO_STOPPED, True),
        (1.0, None, True),
    ],
)
def test_an_encoder_that_could_be_read_for_a_part_only_is_a_doubt(seen, doubt, known):
    usage = [
        msgspec.structs.replace(one, signals={
            **{name: part for name, part in one.signals.items() if name != "encoder"},
            **({"encoder": SignalUse(observed_seconds=seen * HOUR, active_seconds=0.0)}
               if seen else {}),
        })
        for one in hours(IDLE, IDLE)
    ]  # fmt: skip
    found = measured(usage, NOW - 2 * HOUR)
    assert (found.doubt, found.video_known) == (doubt, known)


def test_a_device_that_was_never_measured_is_not_idle():
    blind = [msgspec.structs.replace(one, signals={}) for one in hours(IDLE, IDLE)]
    assert measured(blind, NOW - 2 * HOUR).doubt == Doubt.NEVER_MEASURED


def test_after_work_other_counters_are_no_contradiction():
    worked = signals(hours(BUSY, IDLE), sm=(HOUR, 60.0))
    assert measured(worked, NOW - 2 * HOUR).doubt is None


# --- all devices of a workload ------------------------------------------------------------------

PLAIN = measured(hours(IDLE, IDLE), NOW - 2 * HOUR)


def one(seconds=7200.0, **fields):
    return dataclasses.replace(PLAIN, seconds=seconds, since=NOW - seconds, **fields)


def together(*devices, warn=3600.0, act=7200.0):
    return Standing(devices, warn, act)


def test_the_least_idle_device_decides():
    told = together(one(9000.0), one(5000.0), one(7000.0))
    assert (told.seconds, told.since) == (5000.0, NOW - 5000.0)
    assert not told.acts
    assert together(one(7200.0)).acts
    assert not together(one(7199.0)).acts
    assert not together(one(), one(from_start=False)).from_start
    assert together(one(), one()).from_start
    assert not together(one(), one(video_known=False)).video_known
    for lost in ({"watts": None}, {"watts_limit": None}):
        assert not together(one(), one(**lost)).power_known
    assert together(one(watts=1.0, watts_limit=2.0)).power_known


@pytest.mark.parametrize(
    ("fields", "active"),
    [
        ({"seconds": 3599.0, "from_start": False}, True),
        ({"seconds": 3600.0, "from_start": False}, False),
        ({"seconds": 10.0, "from_start": True}, False),
        ({"seconds": 10.0, "from_start": False, "cut": True}, False),
        ({"seconds": 10.0, "from_start": False, "doubt": Doubt.POWER}, True),
        ({"seconds": 10.0, "from_start": False, "doubt": Doubt.NEVER_MEASURED}, False),
        ({"seconds": 10.0, "from_start": False, "doubt": Doubt.VIDEO_TIME}, False),
    ],
)
def test_a_device_that_worked_lately_is_active(fields, active):
    assert bool(together(one(**fields)).active) is active


@pytest.mark.parametrize(("seconds", "active"), [(3599.0, True), (3600.0, False), (5000.0, False)])
def test_in_doubt_only_work_within_the_last_hour_is_certain(seconds, active):
    told = together(one(seconds, from_start=False, doubt=Doubt.COVERAGE), warn=9000.0)
    assert bool(told.active) is active


@pytest.mark.parametrize(
    ("fields", "doubt"),
    [
        ({"cut": True, "seconds": 3599.0}, Doubt.COVERAGE),
        ({"cut": True, "seconds": 3600.0}, None),
        ({"cut": False, "seconds": 10.0}, None),
        ({"cut": True, "seconds": 10.0, "doubt": Doubt.LINK}, Doubt.LINK),
    ],
)
def test_a_gap_that_is_too_near_is_a_doubt(fields, doubt):
    told = together(one(**fields))
    assert told.doubt(told.devices[0]) == doubt
    assert len(told.doubted) == (doubt is not None)


@pytest.mark.parametrize(
    ("task", "from_start", "limits", "warn", "act"),
    [
        (TaskClass.TRAINING, True, {"start_warn_minutes": 5, "start_act_minutes": 7}, 300, 420),
        (TaskClass.TRAINING, False, {"warn_minutes": 6, "act_minutes": 8}, 360, 480),
        (TaskClass.NOTEBOOK, False, {"notebook_minutes": 3, "act_minutes": 8}, 180, 480),
        (TaskClass.NOTEBOOK, True, {"notebook_minutes": 9, "start_act_minutes": 8}, 540, 540),
    ],
)
def test_the_times_are_those_of_its_kind(task, from_start, limits, warn, act):
    made, _ = profile(hours(IDLE, IDLE), [pod()], workload(task=task))
    own = Limits(idle.RULE, RuleSettings({"idle": limits}))
    told = standing_of(made, (one(from_start=from_start), one(from_start=True)), own)
    assert (told.warn_seconds, told.act_seconds) == (warn, act)


def test_of_several_devices_the_one_that_speaks_most_against_it_is_told():
    made, _ = profile(hours(IDLE, IDLE), [pod()])
    told = together(
        one(watts=60.0, watts_limit=140.0, coverage=1.0, link_bytes_per_second=5.0),
        one(watts=44.0, watts_limit=45.0, coverage=0.99, link_bytes_per_second=9.0),
        one(watts=None, watts_limit=45.0, link_bytes_per_second=None),
    )
    numbers = {item.name: item for item in idle_evidence(made, told, LIMITS)}
    hottest = numbers["least mean power while idle"]
    assert (hottest.value, hottest.threshold) == (44.0, 45.0)
    assert numbers["coverage of the idle time"].value == 0.99
    assert numbers["link traffic while idle"].value == 9.0
    assert numbers["GPUs now"].value == 3
    without = together(one(watts=None, link_bytes_per_second=None))
    numbers = {item.name: item for item in idle_evidence(made, without, LIMITS)}
    assert numbers["least mean power while idle"].value is None
    assert "link traffic while idle" not in numbers


def test_counters_that_could_not_be_read_are_not_told_as_zero():
    usage = [
        msgspec.structs.replace(one, signals={"sm": one.signals["kernel"]}) for one in hours(IDLE)
    ]
    made, _ = profile(usage, [pod(start=NOW - HOUR)], devices=[device()])
    numbers = {item.name: item for item in idle_evidence(made, together(one()), LIMITS)}
    assert numbers["kernel active"].value is None
