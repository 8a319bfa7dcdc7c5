"""Rows of no pod go to the container that held the whole node, and to nobody in any doubt."""

import msgspec
import pytest

from gputailor_agent.model.packed import HourUse, UsagePart, pack_detail
from gputailor_agent.model.usage import HOUR_SECONDS
from gputailor_agent.profiles import build_profiles
from gputailor_agent.profiles.attributing import attributed
from tests.agent import factories as make

START = make.NOW - make.DAY
GPUS = ("GPU-0", "GPU-1")
DEVICES = [make.device(gpu) for gpu in GPUS]


def nobodys(hour=START, gpu="GPU-0"):
    one = make.row(hour, gpu=gpu, kernel=0.4)
    key = msgspec.structs.replace(one.key, namespace="", pod="", pod_uid="", container="")
    return msgspec.structs.replace(one, key=key, dialect="nvidia_gpu_exporter")


def world(*pods, gpus=2):
    return make.inventory(pods, [make.node(gpus=gpus)])


def found(*pods, gpus=2, rows=None):
    rows = [nobodys(gpu=gpu) for gpu in GPUS] if rows is None else rows
    return list(attributed(rows, DEVICES, world(*pods, gpus=gpus)))


def test_a_container_that_held_every_gpu_of_the_node_all_hour_gets_the_rows():
    rows = found(make.pod("train-0", gpus=2))
    assert {(row.key.pod, row.key.container, row.key.gpu_uuid) for row in rows} == {
        ("train-0", "main", gpu) for gpu in GPUS
    }
    assert all(row.signals["kernel"].mean == 0.4 for row in rows)


@pytest.mark.parametrize(
    "pods",
    [
        [],
        [make.pod("a", gpus=1)],
        [make.pod("a", gpus=1), make.pod("b", gpus=1)],
        [make.pod("a", gpus=2, start=START + 600)],
        [make.pod("a", gpus=2, finished=START + 1800)],
        [make.pod("a", gpus=2), make.pod("b", gpus=1)],
        [make.pod("a", gpus=2, node="node-b")],
        [make.pod("a", gpus=2, start=None)],
    ],
    ids=["nobody", "half", "two", "began", "ended", "too many", "elsewhere", "no times"],
)
def test_in_any_doubt_a_row_is_nobodys(pods):
    assert found(*pods) == []


def test_two_pods_one_after_the_other_each_get_their_whole_hours():
    first = make.pod("first", gpus=2, finished=START + HOUR_SECONDS)
    then = make.pod("then", gpus=2, start=START + HOUR_SECONDS)
    rows = found(first, then, rows=[nobodys(START), nobodys(START + HOUR_SECONDS)])
    assert [row.key.pod for row in rows] == ["first", "then"]


def test_rows_of_pods_stay_as_they_are():
    own = make.row(START, pod="other")
    assert found(rows=[own]) == [own]


def placed(day):
    """A whole day as a store hands it out."""
    rows = [nobodys(day + at * HOUR_SECONDS) for at in range(24)]
    detail = pack_detail(rows[0])
    hours = [HourUse(at, 3600.0, 0, 3600.0, 1440.0) for at in range(24)]
    part = UsagePart(
        hour=day, dialect="nvitop", allocated_seconds=86_400.0, share_seconds=86_400.0,
        largest_share=1.0, memory_peak_bytes=None, energy_joules=None, last_active=None,
        spread_seconds=0.0, samples=1, detail=detail, hours=hours,
    )  # fmt: skip
    return ("", "", "", "", "GPU-0"), part


def test_a_day_goes_to_the_container_that_held_the_node_all_day():
    ((place, part),) = found(make.pod("a", gpus=2), rows=[placed(START)])
    assert place == ("team-a", "a", "uid-a", "main", "GPU-0")
    assert part == placed(START)[1]
    late = make.pod("a", gpus=2, start=START + 6 * HOUR_SECONDS)
    assert found(late, rows=[placed(START)]) == []


def test_a_profile_is_made_of_an_exporter_that_names_no_pods():
    pod = make.pod("train-0", gpus=2)
    rows = [nobodys(hour, gpu) for hour in range(START, make.NOW, HOUR_SECONDS) for gpu in GPUS]
    work = make.workload()
    (profile,) = build_profiles(
        rows, DEVICES, world(pod), make.resolution(work, {"run-1": [pod]}),
        make.Window(start=START, end=make.NOW),
    )  # fmt: skip
    assert profile.workload.id == work.id
    assert profile.coverage("kernel") == 1.0
    assert profile.use("kernel").mean == pytest.approx(0.4)
    assert profile.dialects == ("nvidia_gpu_exporter",)
