"""Splitting, shards, edges of windows, beginnings, and whose rows are whose."""

import msgspec
import pytest

from gputailor_agent.inventory.identity import split_stem
from gputailor_agent.model.inventory import (
    Outcome,
    PodAssignment,
    Resolution,
    Run,
)
from gputailor_agent.model.profile import Window
from gputailor_agent.profiles import build_profiles
from gputailor_agent.profiles.attributing import Attribution
from gputailor_agent.profiles.edges import moved, snapped
from gputailor_agent.profiles.runs import Member
from gputailor_agent.profiles.sharding import _Joined, shards
from gputailor_agent.profiles.splitting import _nearest, _power_of_two, parts_of
from gputailor_agent.profiles.surroundings import Beginning, Surroundings, beginning, whole_hours
from gputailor_agent.profiles.tally import DeviceTally
from tests.agent.factories import (
    CLUSTER,
    DAY,
    GIB,
    HOUR,
    NOW,
    device,
    inventory,
    node,
    pod,
    resolution,
    row,
    rows,
    workload,
)

WINDOW = Window(start=NOW - 2 * DAY, end=NOW)


@pytest.mark.parametrize(
    ("peaks", "parts"),
    [
        ({"a": 10, "b": 19}, [["a", "b"]]),
        ({"a": 10, "b": 20}, [["a"], ["b"]]),
        ({"a": 10, "b": 14, "c": 21}, [["a", "b"], ["c"]]),
    ],
)
def test_peaks_that_differ_twofold_stand_apart(peaks, parts):
    assert [list(part) for part in split_stem(peaks)] == parts


@pytest.mark.parametrize(
    ("peak", "place"), [(0.0, 2), (1.0, 0), (11.0, 0), (15.0, 1), (79.0, 1), (81.0, 2), (900.0, 2)]
)
def test_a_run_goes_where_the_ratio_of_peaks_is_nearest(peak, place):
    assert _nearest(peak, [[5.0, 10.0], [20.0, 40.0], [160.0]]) == place


@pytest.mark.parametrize(
    ("gib", "power"), [(0.25, 1), (1, 1), (1.01, 2), (2, 2), (24, 32), (32, 32), (33, 64)]
)
def test_a_part_is_named_by_the_power_of_two_that_holds_its_peak(gib, power):
    assert _power_of_two(gib * GIB) == power


def members_of(*peaks):
    made = []
    for place, peak in enumerate(peaks):
        tally = DeviceTally()
        tally.add_row(row(NOW - HOUR, memory_gib=peak))
        key = msgspec.structs.replace(row(NOW - HOUR).key, pod=f"p{place}")
        made.append(Member(key=key, run_id=f"r{place}", pod=None, asked=1, tallies={"G": tally}))
    return made


def known(*starts, outcome=Outcome.SUCCEEDED):
    return {
        f"r{place}": Run(id=f"r{place}", workload_id="w", pods=(), started=start, finished=None,
                         outcome=outcome)
        for place, start in enumerate(starts)
    }  # fmt: skip


@pytest.mark.parametrize(
    ("work", "ends"),
    [
        (workload(), ["", "#peak-32g"]),
        (workload(kind="Workflow"), ["", "#peak-32g"]),
        (workload(kind="CronJob"), [""]),
        (msgspec.structs.replace(workload(), id="team-a/workload/train/main"), [""]),
        (msgspec.structs.replace(workload(), id="team-a/worker/train/main"), ["", "#peak-32g"]),
        (msgspec.structs.replace(workload(), id="team-a/x/workload/main"), ["", "#peak-32g"]),
    ],
)
def test_only_what_a_stem_joined_is_split(work, ends):
    found = parts_of(work, members_of(8, 24), known(1.0, 2.0))
    assert [end for end, _ in found] == ends
    assert sum(len(part) for _, part in found) == 2


def test_the_part_of_the_oldest_run_keeps_the_plain_name():
    assert [end for end, _ in parts_of(workload(), members_of(8, 24), known(2.0, 1.0))] == [
        "#peak-8g", ""
    ]  # fmt: skip
    alike = parts_of(workload(), members_of(8, 24), known(1.0, 1.0))
    assert [end for end, _ in alike] == ["", "#peak-32g"]
    assert [end for end, _ in parts_of(workload(), members_of(8, None), known(1.0, 2.0))] == [""]
    failed = known(1.0, 2.0, outcome=Outcome.FAILED)
    assert [end for end, _ in parts_of(workload(), members_of(8, 24), failed)] == [""]


def test_pods_that_share_a_workload_are_led_by_the_first_of_them():
    made = _Joined()
    names = [("n", letter) for letter in "abcdef"]
    for one, other in ((5, 4), (1, 2), (4, 2), (3, 3)):
        made.join(names[one], names[other])
    made.add(names[0])
    assert [made.leader(name) for name in names] == [
        names[0], names[1], names[1], names[3], names[1], names[1]
    ]  # fmt: skip
    assert made.names() == names


def cut(pods, works, size, used=(), **options):
    told = [
        PodAssignment(cluster=CLUSTER, namespace="team-a", pod=name, pod_uid="u", container="main",
                      workload_id=f"team-a/{work}/main", run_id="r")
        for name, work in works
    ]  # fmt: skip
    ids = sorted({one.workload_id for one in told})
    made = Resolution(
        assignments=tuple(told),
        workloads=tuple(msgspec.structs.replace(workload(), id=one) for one in ids),
    )
    return [
        [name for _, name in shard.names]
        for shard in shards(inventory(pods), made, used, size, **options)
    ]


def test_shards_hold_whole_workloads_of_at_least_so_many_pods():
    pods = [pod(name) for name in "abcde"]
    works = [("a", "Job/x"), ("c", "Job/x"), ("b", "Job/y")]
    assert cut(pods, works, 1) == [["a", "c"], ["b"], ["d"], ["e"]]
    assert cut(pods, works, 2) == [["a", "c"], ["b", "d"], ["e"]]
    assert cut(pods, works, 9) == [["a", "c", "b", "d", "e"]]
    assert cut(pods, works, 1, strangers=False) == [["a", "c"], ["b"]]
    assert cut([], [], 1) == []


def test_pods_of_which_only_use_is_known_are_there_and_nobody_s_rows_are_not():
    assert cut([], [], 1, used=[("team-a", "z"), ("", "")]) == [["z"]]


def test_a_pod_that_would_get_a_pod_workload_s_name_is_in_its_shard():
    pods = [pod("web"), pod("web-7f")]
    assert cut(pods, [("web-7f", "Pod/web")], 1) == [["web", "web-7f"]]
    assert cut(pods, [("web-7f", "Job/web")], 1) == [["web"], ["web-7f"]]


@pytest.mark.parametrize(
    ("start", "end", "read"),
    [
        (NOW - 8 * DAY, NOW, (NOW - 8 * DAY, NOW)),
        (NOW - 8 * DAY - 1, NOW, (NOW - 9 * DAY, NOW)),
        (NOW - 20 * DAY + 5, NOW - 9 * DAY + 5, (NOW - 20 * DAY, NOW - 8 * DAY)),
        (NOW - 20 * DAY, NOW - 9 * DAY, (NOW - 20 * DAY, NOW - 9 * DAY)),
        (NOW - 20 * DAY, NOW - 8 * DAY + 5, (NOW - 20 * DAY, NOW - 8 * DAY + 5)),
    ],
)
def test_old_edges_move_out_to_midnight(start, end, read):
    asked = Window(start=float(start), end=float(end))
    found = snapped(asked, float(NOW))
    assert (found.start, found.end) == read
    assert bool(moved(asked, found)) is (read != (start, end))


def test_moved_edges_are_named():
    asked = Window(start=NOW - 20 * DAY + 60.0, end=NOW - 9 * DAY + 60.0)
    (said,) = moved(asked, snapped(asked, float(NOW)))
    assert said == (
        "the window begins 2023-10-26 00:00 UTC instead of 2023-10-26 00:01 UTC and ends "
        "2023-11-07 00:00 UTC instead of 2023-11-06 00:01 UTC: days older than 8 days are read whole"
    )


def around(measured=None):
    return Surroundings.of(inventory(), [], WINDOW, measured_since=measured)


@pytest.mark.parametrize(
    ("start", "whole"),
    [(NOW - HOUR, NOW - HOUR), (NOW - HOUR + 1, NOW - HOUR), (NOW - 1, NOW - HOUR)],
)
def test_a_window_begins_at_a_whole_hour(start, whole):
    assert whole_hours(Window(start=float(start), end=float(NOW))).start == whole


@pytest.mark.parametrize(
    ("first", "allocated", "measured", "looked"),
    [
        (NOW - 5 * HOUR, float(HOUR), None, NOW - 5 * HOUR),
        (NOW - 5 * HOUR, 600.0, None, NOW - 4 * HOUR - 600),
        (NOW - 5 * HOUR, 9.0 * HOUR, None, NOW - 5 * HOUR),
        (NOW - 5 * HOUR, 600.0, NOW - 4.5 * HOUR, NOW - 4.5 * HOUR),
        (NOW - 5 * HOUR, 600.0, NOW - 5 * HOUR, NOW - 5 * HOUR),
        (NOW - 5 * HOUR, 600.0, NOW - 4 * HOUR, NOW - 4 * HOUR - 600),  # it began after that row
        (NOW - 5 * HOUR, 600.0, NOW - 6 * HOUR, NOW - 4 * HOUR - 600),
        (NOW - 5 * HOUR, 600.0, NOW - 4 * HOUR - 300, NOW - 4 * HOUR - 600),
        (NOW, 600.0, None, NOW - 2 * DAY),
        (NOW - HOUR / 2, 600.0, None, NOW - 600),  # the hour that the window cuts
    ],
)
def test_time_before_anybody_looked_is_left_out(first, allocated, measured, looked):
    found = around(measured).looked(Beginning(float(first), allocated))
    assert (found.start, found.end) == (looked, NOW)
    assert around(measured).looked(None) == WINDOW


def first_use(told, window=WINDOW):
    asked = []

    def read(start, end):
        asked.append((start, end))
        return [one for one in told if start <= one.key.hour < end]

    return beginning(read, Attribution([], inventory()), window), len(asked)


def test_the_first_use_is_found_by_reading_no_more_days_than_that_takes():
    late = [row(NOW - 3 * HOUR, seconds=60.0), row(NOW - 3 * HOUR, gpu="B", seconds=90.0),
            row(NOW - 3 * HOUR, gpu="C", seconds=30.0), row(NOW - 2 * HOUR)]  # fmt: skip
    assert first_use(late) == (Beginning(NOW - 3.0 * HOUR, 90.0), 2)
    assert first_use([row(WINDOW.start), *late]) == (Beginning(WINDOW.start, float(HOUR)), 1)
    assert first_use([row(WINDOW.start, seconds=60.0)]) == (Beginning(WINDOW.start, 60.0), 1)
    assert first_use([]) == (None, 2)
    midday = Window(start=NOW - 1.5 * DAY, end=float(NOW))
    assert first_use([], midday) == (None, 2)


def test_no_more_rows_are_read_once_a_whole_first_hour_is_seen():
    read = []

    def told(_start, _end):
        for place in range(5):
            read.append(place)
            yield row(WINDOW.start, gpu=f"G{place}", seconds=HOUR if place == 1 else 60.0)

    found = beginning(told, Attribution([], inventory()), WINDOW)
    assert found == Beginning(WINDOW.start, float(HOUR))
    assert read == [0, 1]


@pytest.mark.parametrize(
    ("looked", "measured", "hours"), [(6, 0, 10), (0, 6, 10), (6, 5, 5), (6, 6, 4)]
)
def test_a_pod_is_known_to_hold_its_device_until_the_inventory_or_its_last_row(
    looked, measured, hours
):
    """``looked`` and ``measured``: so many hours ago the last time."""
    start = NOW - 10 * HOUR
    member = pod(start=start)
    world = inventory([member], [node()], at=NOW - looked * HOUR)
    usage = rows(start, NOW - measured * HOUR, kernel=0.5)
    mapping = resolution(workload(), {"run-1": [member]})
    (made,) = build_profiles(usage, [device()], world, mapping, WINDOW)
    assert made.allocated_seconds == hours * HOUR


def owner(member, *, gpus=2, hour=NOW - 2 * HOUR, at=NOW, devices=None):
    known = devices or [device("A"), device("B")]
    nobody = row(hour, gpu="A", kernel=0.5)
    key = msgspec.structs.replace(nobody.key, namespace="", pod="", pod_uid="", container="")
    world = inventory([member], [node(gpus=gpus, gpu_count=gpus or None)], at=at)
    found = list(Attribution(known, world).attributed([msgspec.structs.replace(nobody, key=key)]))
    return found[0].key.pod if found else ""


@pytest.mark.parametrize(
    ("fields", "options", "whose"),
    [
        ({"gpus": 2}, {}, "train-0"),
        ({"gpus": 1}, {}, ""),
        ({"gpus": 2, "start": NOW - 2 * HOUR + 180}, {}, "train-0"),  # 0.95 of the hour
        ({"gpus": 2, "start": NOW - 2 * HOUR + 181}, {}, ""),
        ({"gpus": 2, "template": True}, {}, ""),
        ({"gpus": 2}, {"gpus": 0}, "train-0"),  # as many as were seen
        ({"gpus": 1}, {"gpus": 0}, ""),
        ({"gpus": 1}, {"gpus": 0, "devices": [device("A"), msgspec.structs.replace(
            device("M", mig="1g.10gb"), parent_uuid="A")]}, "train-0"),
        ({"gpus": 2, "start": NOW - HOUR}, {"hour": NOW - HOUR, "at": NOW - HOUR + 60}, "train-0"),
    ],
)  # fmt: skip
def test_a_node_s_devices_were_whose_who_held_all_of_them(fields, options, whose):
    assert owner(pod(**fields), **options) == whose
