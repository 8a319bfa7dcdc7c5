"""Worlds whose whole profiles are on record: each joins what cases of its kind have at once.

The numbers are drawn (with a seed) so that no two figures are alike: whatever is added, compared or
left out shows. What is right of each part stands in the tests beside this; see ``recorded``.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from gputailor_agent.model.containers import CONTAINER_ITSELF, Amount, Peak
from gputailor_agent.model.inventory import (
    ContainerSpec,
    GpuRequest,
    Inventory,
    Outcome,
    Resolution,
    TaskClass,
)
from gputailor_agent.model.packed import PlacedPart
from gputailor_agent.model.profile import Profile, Window
from gputailor_agent.model.usage import (
    Device,
    UsageRow,
)
from gputailor_agent.profiles import build_profiles
from tests.agent.factories import (
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
    workload,
)
from tests.agent.profiles.drawing import Drawn

#: It begins within an hour and within a day, and ends within one.
WINDOW: Final = Window(start=NOW - 3 * DAY - 1234.5, end=NOW + 5 * HOUR)


@dataclass
class World:
    """What profiles are built from."""

    usage: list[UsageRow]
    inventory: Inventory
    resolution: Resolution = field(default_factory=Resolution)
    devices: list[Device] | None = None  # None: an A100 for each device with rows
    window: Window = WINDOW
    measured_since: float | None = None

    @property
    def known(self) -> list[Device]:
        """The devices that are told of."""
        if self.devices is not None:
            return self.devices
        return [device(uuid) for uuid in sorted({one.key.gpu_uuid for one in self.usage})]

    def profiles(self, usage: Iterable[UsageRow | PlacedPart] | None = None) -> list[Profile]:
        """Build them, of ``usage`` where it is given."""
        return build_profiles(
            self.usage if usage is None else usage,
            self.known,
            self.inventory,
            self.resolution,
            self.window,
            measured_since=self.measured_since,
        )


def runs_of_a_job() -> World:
    """Four known runs: one retried, one killed for memory, one with a device that was swapped."""
    drawn = Drawn("runs of a job")
    first = pod("train-0", gpus=2, start=NOW - 3 * DAY, finished=NOW - 2.5 * DAY)
    again = [
        pod("train-1", gpus=2, start=NOW - 2.4 * DAY, finished=NOW - 2.2 * DAY, phase="Failed"),
        pod("train-1b", gpus=2, start=NOW - 2.2 * DAY, finished=NOW - 1.9 * DAY),
    ]
    killed = pod("train-2", gpus=4, start=NOW - 1.5 * DAY, finished=NOW - 1.2 * DAY, oom=True)
    last = pod("train-3", gpus=2, start=NOW - 8 * HOUR)
    usage = [
        *drawn.rows(NOW - 3 * DAY, NOW - 2.5 * DAY, pod="train-0", gpu="GPU-0"),
        *drawn.rows(NOW - 3 * DAY, NOW - 2.8 * DAY, pod="train-0", gpu="GPU-1"),
        *drawn.rows(NOW - 2.8 * DAY, NOW - 2.5 * DAY, pod="train-0", gpu="GPU-2"),
        *drawn.rows(NOW - 2.4 * DAY, NOW - 2.2 * DAY, pod="train-1", gpu="GPU-0"),
        *drawn.rows(NOW - 2.2 * DAY, NOW - 1.9 * DAY, pod="train-1b", gpu="GPU-0"),
        *drawn.rows(NOW - 1.5 * DAY, NOW - 1.2 * DAY, pod="train-2", gpu="GPU-3"),
        *drawn.rows(NOW - 8 * HOUR, NOW + HOUR, pod="train-3", gpu="GPU-1"),
    ]
    pods = [first, *again, killed, last]
    mapping = resolution(
        workload(),
        {"run-0": [first], "run-1": again, "run-2": [killed], "run-3": [last]},
        {"run-2": Outcome.FAILED},
    )
    return World(usage, inventory(pods, [node()]), mapping)


def pods_that_nothing_resolves() -> World:
    """Runs are told by their pods alone: some failed, some without times, one name given twice."""
    drawn = Drawn("nothing resolves")
    start = NOW - 2 * DAY
    twice = pod("twice", start=start, finished=start + 9 * HOUR)
    pods = [
        pod("failed", start=start, finished=start + 5000, phase="Failed"),
        pod("done", start=start + 777, finished=start + 9999),
        pod("timeless", start=None, node="node-a"),
        pod("lost", start=start + 5 * HOUR, phase="Unknown", finished=start + 6 * HOUR),
        pod("never-measured", start=start + 3 * HOUR, gpus=2),
        pod("waits", start=NOW - HOUR, node=None, phase="Pending"),
        twice,
        msgspec.structs.replace(twice, uid="uid-second", created=start + DAY, scheduled=start + DAY,
               started=start + DAY, finished=None, phase="Running"),
    ]  # fmt: skip
    usage = [
        *drawn.rows(start, start + 5000, pod="failed", skip=0),
        *drawn.rows(start + 777, start + 9999, pod="done", gpu="GPU-1", skip=0),
        *drawn.rows(start, NOW, pod="timeless", gpu="GPU-2"),
        *drawn.rows(start + 5 * HOUR, start + 6 * HOUR, pod="lost", gpu="GPU-3", skip=0),
        *drawn.rows(start, start + 9 * HOUR, pod="twice", uid="", gpu="GPU-4"),
        *drawn.rows(start + DAY, NOW, pod="twice", uid="uid-second", gpu="GPU-4"),
        *drawn.rows(NOW - HOUR, NOW + 4 * HOUR, pod="not-in-the-inventory", gpu="GPU-5", skip=0),
    ]
    return World(usage, inventory(pods, [node()]))


def replicas_of_a_service() -> World:
    """Live, ended and waiting pods of one Deployment, of different sizes, and a template."""
    drawn = Drawn("replicas of a service")
    work = workload("web", "Deployment", TaskClass.INFERENCE)
    old = pod("web-old", start=NOW - 3 * DAY, finished=NOW - DAY)
    live = [
        pod("web-a", start=NOW - 2 * DAY),
        pod("web-b", start=NOW - DAY, gpus=2),
        pod("web-c", start=NOW - DAY + 999, gpus=2),
    ]
    asking = [
        pod("web-d", start=NOW - 60, node=None, phase="Pending", gpus=2),
        pod("web-template", start=None, node=None, template=True, gpus=2),
    ]
    usage = [
        *drawn.rows(NOW - 3 * DAY, NOW - DAY, pod="web-old"),
        *drawn.rows(NOW - 2 * DAY, NOW + 5 * HOUR, pod="web-a", gpu="GPU-1"),
        *drawn.rows(NOW - DAY, NOW + 5 * HOUR, pod="web-b", gpu="GPU-2"),
        *drawn.rows(NOW - DAY, NOW + 2 * HOUR, pod="web-b", gpu="GPU-3"),
    ]
    pods = [old, *live, *asking]
    mapping = resolution(work, {"rev-1": [old], "rev-2": [*live, *asking]})
    return World(usage, inventory(pods, [node()], at=NOW + 4.5 * HOUR), mapping)


def parts_of_devices() -> World:
    """Slices, turns on a shared node, a fraction, and devices that only Kubernetes knows."""
    drawn = Drawn("parts of devices")
    start = NOW - DAY
    nodes = [
        node("node-a"),
        node("node-shared", sharing_replicas=4, gpu_memory_bytes=24 * GIB, model="L4"),
        node("node-mig", gpu_memory_bytes=80 * GIB),
    ]
    pods = [
        pod("slice", start=start, node="node-mig", resource="nvidia.com/mig-1g.10gb", kind="mig",
            mig_profile="1g.10gb"),
        pod("slice-unseen", start=start, node="node-mig", resource="nvidia.com/mig-3g.40gb",
            kind="mig", mig_profile="3g.40gb", gpus=2),
        pod("turns", start=start, node="node-shared", gpus=2),
        pod("turns-unseen", start=start + 500, node="node-shared", gpus=3),
        pod("fraction", start=start, kind="fractional", gpus=0.5),
        pod("memory", start=start, kind="memory", gpus=8),
        pod("elsewhere", start=start, node="node-unknown"),
    ]  # fmt: skip
    usage = [
        *drawn.rows(start, NOW, pod="slice", gpu="MIG-1"),
        *drawn.rows(start, NOW, pod="turns", gpu="GPU-7"),
        *drawn.rows(start, NOW, pod="fraction", gpu="GPU-0"),
        *drawn.rows(start, NOW, pod="memory", gpu="GPU-1"),
        *drawn.rows(start, NOW, pod="elsewhere", gpu="GPU-9"),
    ]
    devices = [
        device("MIG-1", "", "node-mig", mig="1g.10gb"),
        device("GPU-0"),
        msgspec.structs.replace(device("GPU-0", "H100"), last_seen=5.0),
        device("GPU-1", "", ""),
    ]
    return World(usage, inventory(pods, nodes), devices=devices)


def containers_themselves() -> World:
    """Two containers of a pod, with what is told of them beside their devices."""
    drawn = Drawn("containers themselves")
    asked = GpuRequest(resource="nvidia.com/gpu", count=1, kind="gpu", vendor="nvidia")
    both = msgspec.structs.replace(
        pod("pair", start=NOW - DAY),
        containers=(
            ContainerSpec(name="main", gpus=(asked,), cpu_request=4.0),
            ContainerSpec(name="side", gpus=(asked,)),
        ),
    )
    usage = [
        *drawn.rows(NOW - DAY, NOW, pod="pair", gpu="GPU-0"),
        *drawn.rows(NOW - DAY, NOW, pod="pair", gpu="GPU-1", container="side"),
    ]
    for number, container in enumerate(("main", "side", "main")):
        for one in drawn.rows(NOW - DAY, NOW, pod="pair", gpu=CONTAINER_ITSELF,
                              container=container, skip=0.3):  # fmt: skip
            usage.append(  # noqa: PERF401 - as the others read
                msgspec.structs.replace(
                    one,
                    key=msgspec.structs.replace(one.key, hour=one.key.hour - number * 12 * HOUR),
                    dialect="cadvisor",
                    signals={},
                    restarts=number,
                    oom_kills=number % 2,
                    amounts={name: drawn.number(1, 3600) for name in Amount},
                    peaks={name: drawn.number(1, 2**30) for name in Peak},
                )
            )
    return World(usage, inventory([both], [node()]))


def measuring_that_began_late() -> World:
    """Nobody looked before the middle of an hour; three devices have different parts of it."""
    drawn = Drawn("began late")
    began = NOW - DAY + 1500.0
    pods = [pod(f"p{n}", start=NOW - 2 * DAY + n * 1000) for n in range(3)]
    usage = [
        *drawn.rows(began + 300, NOW, pod="p0", gpu="GPU-0", skip=0),
        *drawn.rows(began, NOW, pod="p1", gpu="GPU-1", skip=0),
        *drawn.rows(NOW - DAY + 2 * HOUR, NOW, pod="p2", gpu="GPU-2", skip=0),
    ]
    return World(usage, inventory(pods, [node()]))


def measuring_that_is_known_to_have_begun() -> World:
    """The same, and somebody knows when."""
    return dataclasses.replace(measuring_that_began_late(), measured_since=NOW - DAY + 1200.0)


def runs_joined_by_a_stem() -> World:
    """Completed runs with peaks far apart, one that failed, one without a peak."""
    drawn = Drawn("joined by a stem")
    peaks: Mapping[str, float | None] = {
        "a": 9.5,
        "b": 11.0,
        "c": 40.0,
        "d": 33.5,
        "e": 3.0,
        "f": None,
    }
    pods, usage = {}, []
    for place, (name, peak) in enumerate(peaks.items()):
        start = NOW - 2 * DAY + place * 5 * HOUR
        pods[name] = pod(f"tune-{name}", start=start, finished=start + 4 * HOUR)
        for one in drawn.rows(start, start + 4 * HOUR, pod=f"tune-{name}", gpu=f"GPU-{place % 2}",
                              skip=0):  # fmt: skip
            bytes_ = None if peak is None else int(peak * GIB)
            usage.append(msgspec.structs.replace(one, memory_peak_bytes=bytes_))
    runs = {name: [one] for name, one in pods.items()}
    mapping = resolution(workload("tune"), runs, {"e": Outcome.FAILED})
    return World(usage, inventory(pods.values(), [node()]), mapping)


def ranks_of_a_run() -> World:
    """Two pods of four devices; one device is busier than all others, one is swapped."""
    start = NOW - 20 * HOUR
    pods = [pod(f"rank-{n}", gpus=4, start=start + n) for n in range(2)]
    usage = [
        row(hour, pod=f"rank-{rank}", gpu=f"GPU-{rank}{place}", kernel=0.6,
            sm=0.9 if (rank, place) == (1, 2) else 0.5 + 0.01 * place + 0.02 * rank)
        for hour in range(int(start), NOW, HOUR)
        for rank in range(2)
        for place in range(4)
    ]  # fmt: skip
    mapping = resolution(workload("ranks", "PyTorchJob"), {"run-1": pods})
    return World(usage, inventory(pods, [node()]), mapping)


def days_of_a_week() -> World:
    """Eleven days of one device, with hours, days and nights left out, by the week."""
    drawn = Drawn("days of a week")
    start = NOW - 11 * DAY
    one = pod("weekly", start=start)
    usage = [
        *drawn.rows(start, NOW - 6 * DAY, pod="weekly", skip=0),
        *drawn.rows(NOW - 5 * DAY, NOW - 3.1 * DAY, pod="weekly", skip=0.02),
        *drawn.rows(NOW - 2 * DAY, NOW + 3 * HOUR, pod="weekly", skip=0.4),
        *drawn.rows(NOW - 2 * DAY, NOW, pod="weekly", gpu="GPU-1", skip=0.5),
    ]
    window = Window(start=start + 1800, end=float(NOW + 2 * HOUR))
    mapping = resolution(workload("weekly"), {"run-1": [one]})
    return World(usage, inventory([one], [node()]), mapping, window=window)


def a_series_of_runs() -> World:
    """Runs of growing length and on more GPUs, as trends and scaling are read from."""
    drawn = Drawn("a series of runs")
    pods, usage, start = {}, [], NOW - 3.0 * DAY
    for place, (gpus, hours) in enumerate(
        [(1, 4.0), (1, 4.5), (2, 2.6), (1, 5.1), (4, 1.7), (1, 5.2)]
    ):
        end = start + hours * HOUR
        pods[f"run-{place}"] = [pod(f"s-{place}", gpus=gpus, start=start, finished=end)]
        for number in range(gpus):
            usage += drawn.rows(start, end, pod=f"s-{place}", gpu=f"GPU-{number}", skip=0)
        start = end + 600
    mapping = resolution(workload("series"), pods)
    told = inventory([one for several in pods.values() for one in several], [node()])
    return World(usage, told, mapping)


def devices_whose_holder_nobody_names() -> World:
    """Rows without a pod: one pod holds a whole node, two share one, one came within an hour."""
    drawn = Drawn("nobody names")
    start = NOW - DAY
    nodes = [node(f"node-{name}", gpus=2) for name in ("whole", "two", "part", "late")]
    pods = [
        pod("has-all", node="node-whole", gpus=2, start=start, finished=NOW - 5 * HOUR),
        pod("has-all-later", node="node-whole", gpus=2, start=NOW - 5 * HOUR + 100),
        pod("one", node="node-two", start=start),
        pod("other", node="node-two", start=start),
        pod("has-half", node="node-part", start=start),
        pod("comes", node="node-late", gpus=2, start=start + 4 * HOUR + 170),
        pod("template", node="node-part", gpus=2, template=True),
    ]
    nobody = {"pod": "", "uid": "", "namespace": "", "container": ""}
    devices, usage = [], []
    for name in ("whole", "two", "part", "late"):
        for number in range(2):
            devices.append(device(f"{name}-{number}", node=f"node-{name}"))
            usage += drawn.rows(start, NOW, gpu=f"{name}-{number}", **nobody)
    return World(usage, inventory(pods, nodes), devices=devices)


WORLDS: Final[Mapping[str, Callable[[], World]]] = {
    made.__name__: made
    for made in (
        runs_of_a_job,
        pods_that_nothing_resolves,
        replicas_of_a_service,
        parts_of_devices,
        containers_themselves,
        measuring_that_began_late,
        measuring_that_is_known_to_have_begun,
        runs_joined_by_a_stem,
        ranks_of_a_run,
        days_of_a_week,
        a_series_of_runs,
        devices_whose_holder_nobody_names,
    )
}
