"""Who held devices and for how long, and what they did together, with exact figures."""

import msgspec
import pytest

from gputailor_agent.model.inventory import (
    ContainerSpec,
    GpuRequest,
)
from gputailor_agent.model.profile import Window
from gputailor_agent.profiles import busy_signal
from gputailor_agent.profiles.holding import (
    Holdings,
    allocations,
    asked_gpus,
    held_seconds,
    holds_at,
    is_pending,
)
from gputailor_agent.profiles.tally import DeviceTally, merge_rows, merge_uses
from tests.agent.factories import (
    DAY,
    GIB,
    HOUR,
    NOW,
    inventory,
    node,
    pod,
    profile,
    row,
    rows,
    use,
)

WINDOW = Window(start=NOW - 2 * DAY, end=NOW)
GPU = "nvidia.com/gpu"


def request(count=1.0, kind="gpu", mig="", resource=GPU):
    return GpuRequest(resource=resource, count=count, kind=kind, vendor="nvidia", mig_profile=mig)


def container(*requests, name="main"):
    return ContainerSpec(name=name, gpus=requests)


@pytest.mark.parametrize(
    ("told", "on", "gpus"),
    [
        (container(request(3)), None, 3.0),
        (container(request(2), request(1, "mig")), None, 3.0),
        (container(request(0.5, "fractional")), None, 0.5),
        (container(request(4, "shared")), None, 1.0),
        (container(request(4000, "other")), None, 1.0),
        (container(request(2), request(4000, "other")), None, 2.0),
        (container(), None, 0.0),
        (container(request(3)), node(), 3.0),
        (container(request(3)), node(sharing_replicas=2), 1.0),
        (container(), node(sharing_replicas=2), 0.0),
    ],
)
def test_devices_that_a_container_asks_for(told, on, gpus):
    assert asked_gpus(told, on) == gpus


@pytest.mark.parametrize(
    ("start", "finished", "at", "held"),
    [(0, None, 0, True), (0, None, -1, False), (0, 10, 9, True), (0, 10, 10, False)],
)
def test_a_pod_holds_from_its_start_until_its_end(start, finished, at, held):
    end = None if finished is None else NOW + finished
    assert holds_at(pod(start=NOW + start, finished=end), NOW + at) is held


def test_a_pod_without_times_holds_while_it_runs():
    assert holds_at(pod(start=None), NOW)
    assert not holds_at(pod(start=None, node=None, phase="Pending"), NOW)


@pytest.mark.parametrize(
    ("fields", "waits"),
    [
        ({"node": None, "phase": "Pending"}, True),
        ({"phase": "Pending"}, False),
        ({"node": None, "phase": "Running"}, False),
        ({"node": None, "phase": "Pending", "template": True}, False),
    ],
)
def test_a_pod_waits_for_a_node(fields, waits):
    assert is_pending(pod(**fields)) is waits


@pytest.mark.parametrize(
    ("start", "finished", "known", "seconds"),
    [
        (NOW - HOUR, None, NOW, HOUR),
        (NOW - HOUR, None, NOW - 60, HOUR - 60),
        (NOW - HOUR, None, NOW + 60, HOUR),
        (NOW - HOUR, NOW - 60, NOW - 600, HOUR - 60),  # its end is known, whenever that was seen
        (NOW - 9 * DAY, None, NOW, 2 * DAY),
        (NOW + 60, None, NOW + HOUR, 0.0),
        (NOW - 9 * DAY, NOW - 8 * DAY, NOW, 0.0),
        (None, None, NOW, None),
    ],
)
def test_seconds_of_the_window_in_which_a_pod_held_its_devices(start, finished, known, seconds):
    assert held_seconds(pod(start=start, finished=finished), WINDOW, known) == seconds


def tallied(**seconds):
    made = {}
    for uuid, held in seconds.items():
        made[uuid] = DeviceTally()
        made[uuid].add_row(row(NOW - HOUR, gpu=uuid, seconds=held))
    return made


@pytest.mark.parametrize(
    ("seen", "held", "asked", "told"),
    [
        ({"a": 100.0, "b": 50.0}, None, 2, {"a": 100.0, "b": 50.0}),
        ({"a": 100.0, "b": 50.0}, 120.0, 2, {"a": 120.0, "b": 120.0}),
        ({"a": 100.0, "b": 50.0}, 120.0, 3, {"a": 120.0, "b": 120.0}),
        ({"a": 100.0, "b": 50.0}, 120.0, 1, {"a": 80.0, "b": 40.0}),
        ({"a": 100.0, "b": 50.0, "c": 0.0}, 120.0, 2, {"a": 160.0, "b": 80.0, "c": 0.0}),
        ({"a": 100.0, "b": 50.0}, 120.0, 0, {"a": 120.0, "b": 120.0}),
        ({"a": 0.0, "b": 0.0}, 120.0, 1, {"a": 120.0, "b": 120.0}),
        ({"a": 0.25, "b": 0.25}, 120.0, 1, {"a": 60.0, "b": 60.0}),
    ],
)
def test_devices_that_were_swapped_share_the_time(seen, held, asked, told):
    assert allocations(tallied(**seen), held, asked) == told


def test_of_pods_of_one_name_the_uid_tells_and_without_one_the_latest_counts():
    old = msgspec.structs.replace(pod("p", start=NOW - DAY), uid="a")
    new = msgspec.structs.replace(pod("p", start=NOW - HOUR), uid="b")
    plain = msgspec.structs.replace(pod("p", template=True, start=None), uid="t")
    found = Holdings(inventory([new, old, plain]))
    assert found.find("team-a", "p", "a") is old
    assert found.find("team-a", "p", "b") is new
    assert found.find("team-a", "p", "") is new
    assert found.find("team-a", "p", "gone") is plain
    assert found.find("team-b", "p", "a") is None
    alone = Holdings(inventory([old]))
    assert alone.find("team-a", "p", "a") is old
    assert alone.find("team-a", "p", "") is old
    assert alone.find("team-a", "p", "b") is None
    twins = [msgspec.structs.replace(old, uid=uid) for uid in ("x", "z", "y")]
    assert Holdings(inventory(twins)).find("team-a", "p", "") is twins[1]
    assert Holdings(inventory([plain])).find("team-a", "p", "other") is plain


@pytest.mark.parametrize(
    ("there", "last", "held"),
    [
        ([], NOW - 2 * HOUR + 1, True),
        ([], NOW - 2 * HOUR, False),
        ([pod("other")], NOW, False),
        ([pod("other", template=True, start=None)], NOW, True),
    ],
)
def test_a_pod_that_nobody_knows_is_there_while_its_rows_reach_into_the_last_two_hours(
    there, last, held
):
    assert Holdings(inventory(there)).pod_holds_now(None, WINDOW, last) is held


def test_live_devices_are_told_for_each_window_anew():
    start = NOW - 4 * HOUR
    made, world = profile(rows(start, NOW - 2 * HOUR), [pod(start=start, finished=NOW - 2 * HOUR)])
    held = Holdings(world)
    early = Window(start=start, end=NOW - 3.0 * HOUR)
    assert held.live_uses(made.gpus, WINDOW) == ()
    assert held.live_uses(made.gpus, early) == made.gpus
    assert held.live_uses(made.gpus, early) is held.live_uses(made.gpus, early)
    assert held.live_uses(list(made.gpus), WINDOW) == ()


@pytest.mark.parametrize(
    ("seen", "name"),
    [
        ({"kernel": 1.0, "sm": 9.0}, "kernel"),
        ({"kernel": 0.0, "sm": 0.5}, "sm"),
        ({"graphics": 0.5}, "graphics"),
        ({"graphics": 0.5, "sm": 0.5}, "sm"),
        ({"kernel": 0.0}, "kernel"),
        ({"dram": 5.0}, "kernel"),
    ],
)
def test_the_signal_that_tells_whether_a_device_worked(seen, name):
    assert busy_signal({one: use(0.5, seconds) for one, seconds in seen.items()}) == name


def test_hours_of_one_device_told_twice_add_up_and_stand_in_order():
    made = DeviceTally()
    for hour, level in ((NOW - HOUR, 0.5), (NOW - 3 * HOUR, 0.25), (NOW - HOUR, 0.25)):
        made.add_row(row(hour, kernel=level, seconds=HOUR / 2))
    assert made.hours() == (
        (NOW - 3 * HOUR, HOUR / 2, HOUR / 8), (NOW - HOUR, float(HOUR), 3 * HOUR / 8)
    )  # fmt: skip
    assert (made.first_hour, made.last_hour) == (NOW - 3 * HOUR, NOW - HOUR)


def test_an_hour_in_which_the_signal_could_not_be_read_is_there_without_seconds():
    made = DeviceTally()
    made.add_row(row(NOW - 2 * HOUR, kernel=0.5))
    made.add_row(row(NOW - HOUR, signals={"sm": use(0.5)}))
    assert made.hours() == ((NOW - 2 * HOUR, float(HOUR), HOUR / 2), (NOW - HOUR, 0.0, 0.0))


def test_devices_add_up_with_their_highest_and_latest():
    start = NOW - HOUR
    usage = [row(start, gpu="A", kernel=0.5, memory_gib=4, last_active=NOW - 60.0, watts=None),
             row(start, gpu="B", kernel=0.25, memory_gib=9, last_active=NOW - 5.0, watts=100.0)]  # fmt: skip
    made, _ = profile(usage, [pod(gpus=2, start=start)])
    both = merge_uses(made.gpus)
    kernel = both.signal("kernel")
    assert kernel is not None
    assert (kernel.observed_seconds, kernel.active_seconds) == (2.0 * HOUR, 0.75 * HOUR)
    assert kernel.maximum == 0.5
    assert both.signal("sm") is None
    assert both.memory_peak_bytes == 9 * GIB
    assert both.last_active == NOW - 5.0
    assert merge_uses(made.gpus[::-1]).last_active == NOW - 5.0
    assert both.energy_joules == 100.0 * HOUR
    assert merge_uses(made.gpus[::-1]).energy_joules == 100.0 * HOUR
    assert (both.allocated_seconds, both.samples) == (2.0 * HOUR, 2 * HOUR)


def test_a_merged_row_bears_the_earliest_hour():
    merged = merge_rows([row(NOW - HOUR, kernel=0.5), row(NOW - 3 * HOUR, kernel=0.25)])
    assert merged.key.hour == NOW - 3 * HOUR
    assert merged.allocated_seconds == 2 * HOUR
    with pytest.raises(ValueError, match="exactly one container and device"):
        merge_rows([])
