"""A cluster of many workloads as rules see it: profiles of fourteen days, each with its pods.

Some workloads are built for real, out of hourly rows and an inventory, and then given many names,
pods and nodes: rules have as much to look at as they would, without hours of making it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from gputailor_agent.catalog import load_catalogue
from gputailor_agent.inventory.identity import resolve
from gputailor_agent.model import cpu_levels
from gputailor_agent.model.containers import CONTAINER_ITSELF, Amount, Peak
from gputailor_agent.model.inventory import (
    ContainerSpec,
    GpuRequest,
    Inventory,
    Node,
    Owner,
    OwnerReference,
    Pod,
)
from gputailor_agent.model.profile import Profile, Window
from gputailor_agent.model.usage import Device, UsageRow
from gputailor_agent.profiles import build_profiles
from gputailor_agent.rules import Context
from tests.benchmarks import usage_history as history

HOUR, DAY, GIB = 3600, 86_400, 2**30
END: Final = 1_799_971_200 // DAY * DAY
WINDOW: Final = Window(start=float(END - 14 * DAY), end=float(END))
GPUS_PER_NODE: Final = 8
#: Levels of use that each kind of workload comes in (see ``usage_history.level``).
VARIANTS: Final = 5
_NIGHT: Final = (0, 1, 2, 3, 4, 5, 6, 19, 20, 21, 22, 23)
_A100: Final = ("NVIDIA-A100-SXM4-80GB", 80)
_T4: Final = ("Tesla-T4", 16)


@dataclass(frozen=True)
class Kind:
    """Workloads that are alike: ``share`` of all of them; ``gpus`` of each of a run's ``pods``.

    ``runs``: one after another through the window, the last goes on. ``rests``: idle at night.
    ``unused``: GPUs of each pod that never work.
    """

    name: str
    owner: str
    share: float
    pods: int = 1
    gpus: int = 1
    runs: int = 1
    unused: int = 0
    rests: bool = False
    card: tuple[str, int] = _A100
    image: str = "pytorch/pytorch:2.5.1-cuda12.4-cudnn9-runtime"
    command: tuple[str, ...] = ("python", "train.py", "--batch-size=64")

    @property
    def size(self) -> int:
        """GPUs that it holds at a time."""
        return self.pods * self.gpus


#: What an exporter tells beside ``usage_history``, of cards that are well.
_TOLD: Final = {"link_saturated": 0.0, "throttled/hw_slowdown": 0.0, "throttled/sw_power_cap": 60.0}
_SERVER: Final = ("python", "-m", "vllm.entrypoints.openai.api_server", "--dtype=bfloat16")
#: 60 % hold one GPU, 25 % four, 15 % eight; an assumption, with more large ones than most clusters.
KINDS: Final = (
    Kind("long", "Job", 0.15),
    Kind("daily", "Job", 0.15, runs=14),
    Kind("note", "Notebook", 0.10, rests=True, image="jupyter/pytorch-notebook", command=()),
    Kind("model", "Deployment", 0.12, image="vllm/vllm-openai:v0.6.4", command=_SERVER),
    Kind("small", "Deployment", 0.08, rests=True, card=_T4,
         image="nvcr.io/nvidia/tritonserver:24.10-py3", command=("tritonserver",)),
    Kind("four", "Job", 0.10, gpus=4),
    Kind("fours", "Job", 0.05, gpus=4, runs=4, unused=1),
    Kind("scaled", "Deployment", 0.10, pods=4, rests=True, image="vllm/vllm-openai:v0.6.4",
         command=_SERVER),
    Kind("eight", "Job", 0.08, gpus=8, command=("torchrun", "--nproc-per-node=8", "train.py")),
    Kind("ranks", "PyTorchJob", 0.04, pods=2, gpus=4),
    Kind("wide", "Deployment", 0.03, pods=8, image="vllm/vllm-openai:v0.6.4", command=_SERVER),
)  # fmt: skip


@dataclass(frozen=True)
class Pattern:
    """A workload that was built, and the pods it was built of."""

    kind: Kind
    profile: Profile
    pods: tuple[Pod, ...]


@dataclass(frozen=True)
class Cluster:
    """Profiles of a cluster's workloads, and what rules know beside them."""

    profiles: list[Profile]
    context: Context
    sizes: Counter[int]  # workloads by the GPUs that they hold


def patterns() -> list[Pattern]:
    """Build every kind with each level of use."""
    hours = {
        hour: list(history.hour_rows(VARIANTS * history.GPUS_PER_WORKLOAD, hour))
        for hour in range(int(WINDOW.start), END, HOUR)
    }
    return [_pattern(kind, variant, hours) for kind in KINDS for variant in range(VARIANTS)]


def _pattern(kind: Kind, variant: int, hours: dict[int, list[UsageRow]]) -> Pattern:
    pods = [one for run in range(kind.runs) for one in _pods(kind, variant, run)]
    rows = [row for one in pods for row in _rows(kind, variant, one, hours)]
    inventory = Inventory(cluster=history.CLUSTER, at=WINDOW.end, pods=tuple(pods),
                          nodes=(_node("node-0", kind.card),),
                          owners=tuple(_above(kind, pods)))  # fmt: skip
    devices = [
        Device(cluster=history.CLUSTER, gpu_uuid=uuid, node="node-0", vendor="nvidia",
               model=kind.card[0].replace("-", " "), memory_total_bytes=kind.card[1] * GIB)
        for uuid in sorted({row.key.gpu_uuid for row in rows} - {CONTAINER_ITSELF})
    ]  # fmt: skip
    (built,) = build_profiles(rows, devices, inventory, resolve(inventory), WINDOW)
    return Pattern(kind, built, tuple(pods))


def _pods(kind: Kind, variant: int, run: int) -> Iterator[Pod]:
    """Pods of one run; the last run has not ended."""
    length = int(WINDOW.seconds) // kind.runs // HOUR * HOUR
    start = WINDOW.start + run * length
    ended = start + length if run + 1 < kind.runs else None
    suffix = f"-{run}" if kind.runs > 1 else ""
    own = "ReplicaSet" if kind.owner == "Deployment" else kind.owner
    owner = OwnerReference(api_version="v1", kind=own, name=f"{kind.name}{suffix}",
                           uid=f"{kind.name}{run}")  # fmt: skip
    asked = GpuRequest(resource="nvidia.com/gpu", count=float(kind.gpus), vendor="nvidia")
    spec = ContainerSpec(
        name="main", image=kind.image, command=kind.command, gpus=(asked,),
        cpu_request=8.0 * kind.gpus, cpu_limit=8.0 * kind.gpus,
        memory_request_bytes=64 * GIB * kind.gpus, memory_limit_bytes=64 * GIB * kind.gpus,
        env={"OUTPUT_DIR": "/checkpoints"} if kind.owner == "Job" else {},
    )  # fmt: skip
    for place in range(kind.pods):
        name = f"{kind.name}{suffix}-{variant}-{place}"
        yield Pod(
            cluster=history.CLUSTER, namespace=f"team-{variant}", name=name, uid=f"uid-{name}",
            node="node-0", phase="Running" if ended is None else "Succeeded", owners=(owner,),
            labels={"app": kind.name, "pod-template-hash": "6f9c"}, containers=(spec,),
            created=start, scheduled=start, started=start, finished=ended,
            deadline_seconds=7.0 * DAY if kind.runs > 1 else None,
        )  # fmt: skip


def _above(kind: Kind, pods: Iterable[Pod]) -> Iterator[Owner]:
    """The ReplicaSets of a Deployment."""
    references = {one.uid: one for pod in pods for one in pod.owners if one.kind == "ReplicaSet"}
    for uid, one in references.items():
        deployment = OwnerReference(
            api_version="apps/v1", kind="Deployment", name=kind.name, uid=f"deployment-{uid}"
        )
        yield Owner(cluster=history.CLUSTER, api_version="apps/v1", kind=one.kind,
                    namespace="team-0", name=one.name, uid=uid, owners=(deployment,))  # fmt: skip


def _rows(
    kind: Kind, variant: int, pod: Pod, hours: dict[int, list[UsageRow]]
) -> Iterator[UsageRow]:
    """Rows of the pod's devices, and its container's own, day by day."""
    first = variant * history.GPUS_PER_WORKLOAD
    start, end = int(pod.started or 0), int(pod.finished or END)
    for hour in range(start, end, HOUR):
        rests = kind.rests and hour // HOUR % 24 in _NIGHT
        for gpu in range(kind.gpus):
            place = gpu % history.GPUS_PER_WORKLOAD
            idle = rests or gpu >= kind.gpus - kind.unused
            row = hours[hour][place if idle else first + place]  # the first five are idle
            works = row.signals["kernel"].active_seconds > 0
            yield msgspec.structs.replace(
                row,
                conditions={**row.conditions, **_TOLD},
                link_bytes=row.link_bytes if works else {"pcie/rx": 4096.0, "pcie/tx": 4096.0},
                key=_key(row, pod, f"GPU-{pod.name}-{gpu}"),
                memory_total_bytes=kind.card[1] * GIB,
                memory_peak_bytes=min(row.memory_peak_bytes or 0, kind.card[1] * GIB * 9 // 10),
            )
    for day in range(start, end, DAY):
        yield _itself(kind, hours[day][0], pod)


def _key(row: UsageRow, pod: Pod, uuid: str):
    return msgspec.structs.replace(
        row.key, namespace=pod.namespace, pod=pod.name, pod_uid=pod.uid, gpu_uuid=uuid
    )


def _itself(kind: Kind, row: UsageRow, pod: Pod) -> UsageRow:
    """A day of the container itself: CPUs, memory, and an engine's requests where it serves."""
    amounts = {
        Amount.HOST_OBSERVED: float(DAY), Amount.CPU_USED_OF_LIMIT: 2.0 * DAY * kind.gpus,
        Amount.CPU_PERIODS: 10.0 * DAY, Amount.CPU_THROTTLED_PERIODS: 0.2 * DAY,
        Amount.PRESSURE_OBSERVED: float(DAY), "host/pressure/io/some": 0.02 * DAY,
        cpu_levels.level(2.0 * kind.gpus): 0.9 * DAY, cpu_levels.level(3.0 * kind.gpus): 0.1 * DAY,
    }  # fmt: skip
    peaks = {Peak.MEMORY: 24.0 * GIB * kind.gpus, Peak.CPUS: 3.0 * kind.gpus}
    serves = kind.owner == "Deployment"
    if serves:
        amounts |= {
            Amount.ENGINE_OBSERVED: float(DAY), Amount.REQUESTS: 9000.0,
            Amount.LATENCY: 9000.0, Amount.LATENCY_REQUESTS: 9000.0,
            Amount.CACHE: 0.2 * DAY, f"{Amount.CACHE}/observed_seconds": float(DAY),
        }  # fmt: skip
        peaks |= {Peak.CACHE: 0.6, Peak.LAST_REQUEST: row.key.hour + 20.0 * HOUR}
    return UsageRow(
        key=_key(row, pod, CONTAINER_ITSELF),
        dialect="cadvisor+vllm" if serves else "cadvisor",
        allocated_seconds=0.0,
        amounts=amounts,
        peaks=peaks,
        cpu_used_seconds=2.0 * DAY * kind.gpus,
        cpu_limit_seconds=8.0 * DAY * kind.gpus,
    )


def _node(name: str, card: tuple[str, int]) -> Node:
    gpus = {"nvidia.com/gpu": float(GPUS_PER_NODE)}
    return Node(
        cluster=history.CLUSTER, name=name, capacity=gpus, allocatable=gpus, ready=True,
        gpu_product=card[0], gpu_memory_bytes=card[1] * GIB, gpu_count=GPUS_PER_NODE,
        driver_version="550.54.15", cuda_version="12.4", cpus=96.0, memory_bytes=1024 * GIB,
        pool=card[0].lower(),
    )  # fmt: skip


def cluster(workloads: int, made: list[Pattern]) -> Cluster:
    """So many workloads by the shares of their kinds, each with pods, devices and a node of its own.

    Larger and smaller ones come in turn, so that any first part of them has the same shares.
    """
    profiles, pods, owners, nodes = [], [], [], [_sliced()]
    sizes, held = Counter[int](), Counter[tuple[str, int]]()
    given = {kind.name: 0.0 for kind in KINDS}
    by_kind = {kind.name: [one for one in made if one.kind is kind] for kind in KINDS}
    for number in range(workloads):
        kind = max(KINDS, key=lambda one: one.share * (number + 1) - given[one.name])
        pattern = by_kind[kind.name][int(given[kind.name]) % VARIANTS]
        given[kind.name] += 1
        sizes[kind.size] += 1
        node = f"{kind.card[0].lower()}-{held[kind.card] // GPUS_PER_NODE}"
        if held[kind.card] % GPUS_PER_NODE + kind.size > GPUS_PER_NODE:
            held[kind.card] += -held[kind.card] % GPUS_PER_NODE
            node = f"{kind.card[0].lower()}-{held[kind.card] // GPUS_PER_NODE}"
        held[kind.card] += kind.size
        profiles.append(_named(pattern.profile, number, node))
        moved = [_moved(pod, number, node) for pod in pattern.pods]
        pods += moved
        owners += _above(kind, moved)
    for card, count in held.items():
        names = (f"{card[0].lower()}-{place}" for place in range(-(-count // GPUS_PER_NODE)))
        nodes += [_node(name, card) for name in names]
    inventory = Inventory(cluster=history.CLUSTER, at=WINDOW.end, pods=tuple(pods),
                          nodes=tuple(nodes), owners=tuple(owners))  # fmt: skip
    context = Context(now=WINDOW.end, catalogue=load_catalogue(), inventory=inventory,
                      measured_since=WINDOW.start)  # fmt: skip
    return Cluster(profiles, context, sizes)


def _sliced() -> Node:
    """A node that is cut into MIG slices: they are candidates, and nobody holds them."""
    slices = {"nvidia.com/mig-1g.10gb": 28.0, "nvidia.com/mig-3g.40gb": 8.0}
    node = _node("sliced-0", ("NVIDIA-A100-SXM4-80GB", 80))
    return msgspec.structs.replace(node, capacity=slices, allocatable=slices)


def _moved(pod: Pod, number: int, node: str) -> Pod:
    owners = tuple(
        msgspec.structs.replace(one, uid=f"{one.uid}-{number}", name=f"{one.name}-{number}")
        for one in pod.owners
    )
    return msgspec.structs.replace(
        pod, name=f"{pod.name}-{number}", uid=f"{pod.uid}-{number}", node=node, owners=owners
    )


def _named(profile: Profile, number: int, node: str) -> Profile:
    """The same use by another workload, its pods and its devices."""
    work = profile.workload
    uses = tuple(
        msgspec.structs.replace(
            use, pod=f"{use.pod}-{number}", pod_uid=f"{use.pod_uid}-{number}",
            gpu_uuid=f"{use.gpu_uuid}-{number}",
            device=msgspec.structs.replace(use.device, node=node),
        )
        for use in profile.gpus
    )  # fmt: skip
    named = msgspec.structs.replace(work, id=f"{work.id}-{number}", name=f"{work.name}-{number}")
    return msgspec.structs.replace(profile, workload=named, gpus=uses)
