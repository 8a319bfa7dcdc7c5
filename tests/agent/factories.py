"""Small worlds for tests: rows, devices, pods, nodes, a catalogue of five cards."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from gputailor_agent.catalog import DeviceSpec, MigProfile, Price
from gputailor_agent.catalog.prices import labelled_price
from gputailor_agent.model.inventory import (
    ContainerSpec,
    GpuRequest,
    Inventory,
    Node,
    Outcome,
    OwnerReference,
    Pod,
    PodAssignment,
    Resolution,
    Run,
    TaskClass,
    Workload,
)
from gputailor_agent.model.profile import Profile, Window
from gputailor_agent.model.usage import (
    HISTOGRAM_EDGES,
    Device,
    Histogram,
    SignalUse,
    UsageKey,
    UsageRow,
    quantise,
)
from gputailor_agent.profiles import build_profiles
from gputailor_agent.rules import Context, RuleSettings

HOUR: Final = 3600
DAY: Final = 86_400
NOW: Final = 1_700_006_400  # midnight UTC
GIB: Final = 1024**3
CLUSTER: Final = "test"

MIG_1G: Final = MigProfile(
    name="1g.10gb",
    card="A100 80GB",
    max_instances=7,
    compute_slices=1,
    memory_slices=1,
    of_compute_slices=7,
    of_memory_slices=8,
    memory_bytes=10 * GIB,
    usable_memory_bytes=int(9.5 * GIB),
    sm_count=14,
    source="test",
)
MIG_3G: Final = MigProfile(
    name="3g.40gb",
    card="A100 80GB",
    max_instances=2,
    compute_slices=3,
    memory_slices=4,
    of_compute_slices=7,
    of_memory_slices=8,
    memory_bytes=40 * GIB,
    usable_memory_bytes=39 * GIB,
    sm_count=42,
    source="test",
)


def spec(key: str, memory_gib: float, **figures: Any) -> DeviceSpec:
    """A card; figures not given are those of an A100."""
    values: dict[str, Any] = {
        "bandwidth_bytes_per_second": 2.0e12,
        "fp32_flops": 20e12,
        "fp16_tensor_flops": 300e12,
        "sm_count": 108,
        "tensor_cores": True,
        "compute_capability": "8.0",
        "tdp_watts": 400.0,
        "interconnect_bytes_per_second": 600e9,
        "mig": (),
        **figures,
    }
    return DeviceSpec(
        key=key,
        vendor="NVIDIA",
        memory_bytes=int(memory_gib * GIB),
        usable_memory_bytes=int(memory_gib * GIB * 0.98),
        sources={},
        note="",
        **values,
    )


A100: Final = spec("A100", 80, mig=(MIG_1G, MIG_3G))
H100: Final = spec(
    "H100",
    80,
    bandwidth_bytes_per_second=3.2e12,
    fp32_flops=60e12,
    fp16_tensor_flops=900e12,
    compute_capability="9.0",
    tdp_watts=700.0,
)
L4: Final = spec(
    "L4",
    24,
    bandwidth_bytes_per_second=0.3e12,
    fp32_flops=30e12,
    fp16_tensor_flops=120e12,
    compute_capability="8.9",
    tdp_watts=72.0,
    interconnect_bytes_per_second=0.0,
)
T4: Final = spec(
    "T4",
    16,
    bandwidth_bytes_per_second=0.32e12,
    fp32_flops=8e12,
    fp16_tensor_flops=65e12,
    compute_capability="7.5",
    tdp_watts=70.0,
    interconnect_bytes_per_second=0.0,
)
A40: Final = spec(
    "A40",
    48,
    bandwidth_bytes_per_second=0.7e12,
    fp32_flops=37e12,
    fp16_tensor_flops=150e12,
    compute_capability="8.6",
    tdp_watts=300.0,
    interconnect_bytes_per_second=112e9,
)
PRICES: Final = {"A100": 4.0, "H100": 8.0, "L4": 0.8, "T4": 0.4, "A40": 2.0}


class FakeCatalogue:
    """Five cards and one price each; ``prices`` replaces them."""

    def __init__(self, prices: Mapping[str, float] = PRICES, currency: str = "USD") -> None:
        self.devices: tuple[DeviceSpec, ...] = (A100, H100, L4, T4, A40)
        self.prices = prices
        self.currency = currency

    def find(self, model: str, memory_bytes: int | None = None) -> DeviceSpec | None:
        return next((card for card in self.devices if card.key == model.partition("-MIG")[0]), None)

    def of_instance(self, instance_type: str) -> DeviceSpec | None:
        return self.find(instance_type.partition("-")[2])

    def price(
        self,
        spec: DeviceSpec,
        *,
        instance_type: str = "",
        region: str = "",
        capacity_type: str = "on-demand",
        labels: dict[str, str] | None = None,
    ) -> Price | None:
        told = labelled_price(labels, spec.key) if labels else None
        if told is not None:
            return told
        amount = self.prices.get(spec.key)
        if amount is None:
            return None
        return Price(
            accelerator=spec.key,
            amount_per_gpu_hour=amount,
            currency=self.currency,
            kind="on_demand",
            provider="test",
            instance_type=instance_type,
            region=region,
            as_of="2026-01-01",
            source="test",
            gpu_count=1,
        )


def histogram(parts: Mapping[float, float], resolution: float = 0.05) -> Histogram:
    """Seconds by value, each put into the bucket that holds it."""
    seconds = [0.0] * len(HISTOGRAM_EDGES)
    for value, length in parts.items():
        place = next(i for i, edge in enumerate(HISTOGRAM_EDGES) if value <= edge + 1e-9)
        seconds[place] += quantise(length)
    return Histogram(seconds=tuple(seconds), resolution=resolution)


def use(value: float, seconds: float = HOUR, *, with_histogram: bool = True) -> SignalUse:
    """A signal that stood at ``value`` all the time."""
    return SignalUse(
        observed_seconds=quantise(seconds),
        active_seconds=quantise(value * seconds),
        maximum=value,
        histogram=histogram({value: seconds}) if with_histogram else None,
    )


def row(
    hour: float,
    *,
    pod: str = "train-0",
    gpu: str = "GPU-0",
    uid: str | None = None,
    namespace: str = "team-a",
    container: str = "main",
    seconds: float = HOUR,
    observed: float | None = None,
    watts: float | None = 60.0,
    memory_gib: float | None = 8.0,
    total_gib: float = 80.0,
    signals: Mapping[str, SignalUse] | None = None,
    last_active: float | None = None,
    **values: float,
) -> UsageRow:
    """One hour of one device. ``values``: signal=level; encoder and decoder are 0 unless given."""
    seen = seconds if observed is None else observed
    levels = {"kernel": 0.0, "encoder": 0.0, "decoder": 0.0, **values}
    told = signals if signals is not None else {n: use(v, seen) for n, v in levels.items()}
    told = {name: part for name, part in told.items() if part.observed_seconds > 0}
    return UsageRow(
        key=UsageKey(
            cluster=CLUSTER,
            namespace=namespace,
            pod=pod,
            pod_uid=f"uid-{pod}" if uid is None else uid,
            container=container,
            gpu_uuid=gpu,
            hour=int(hour),
        ),
        dialect="gputailor",
        allocated_seconds=quantise(seconds),
        signals=dict(told),
        memory_peak_bytes=None if memory_gib is None else int(memory_gib * GIB),
        memory_total_bytes=int(total_gib * GIB),
        energy_joules=None if watts is None else quantise(watts * seen),
        last_active=last_active,
        samples=int(seen),
    )


def rows(start: float, end: float, **options: Any) -> list[UsageRow]:
    """Return rows for every hour of ``[start, end)``, all alike."""
    return [row(hour, **options) for hour in range(int(start), int(end), HOUR)]


def device(gpu: str = "GPU-0", model: str = "A100", node: str = "node-a", mig: str = "") -> Device:
    return Device(cluster=CLUSTER, gpu_uuid=gpu, node=node, model=model, mig_profile=mig)


def pod(
    name: str = "train-0",
    *,
    gpus: float = 1,
    start: float | None = NOW - 3 * DAY,
    finished: float | None = None,
    phase: str | None = None,
    node: str | None = "node-a",
    resource: str = "nvidia.com/gpu",
    kind: str = "gpu",
    mig_profile: str = "",
    oom: bool = False,
    namespace: str = "team-a",
    owner: OwnerReference | None = None,
    template: bool = False,
) -> Pod:
    request = GpuRequest(
        resource=resource, count=gpus, kind=kind, vendor="nvidia", mig_profile=mig_profile
    )
    ended = "Running" if finished is None else "Succeeded"
    return Pod(
        cluster=CLUSTER,
        namespace=namespace,
        name=name,
        uid=f"uid-{name}",
        node=node,
        phase=phase or ended,
        containers=(ContainerSpec(name="main", gpus=(request,)),),
        created=start,
        scheduled=start if node else None,
        started=start if node else None,
        finished=finished,
        oom_killed=oom,
        owners=() if owner is None else (owner,),
        template=template,
    )


def node(name: str = "node-a", *, model: str = "A100", gpus: int = 8, **fields: Any) -> Node:
    values: dict[str, Any] = {
        "capacity": {"nvidia.com/gpu": float(gpus)},
        "ready": True,
        "gpu_count": gpus,
        "gpu_product": model,
        **fields,
    }
    values.setdefault("allocatable", values["capacity"])
    return Node(cluster=CLUSTER, name=name, **values)


def inventory(pods: Iterable[Pod] = (), nodes: Iterable[Node] = (), at: float = NOW) -> Inventory:
    return Inventory(cluster=CLUSTER, at=at, pods=tuple(pods), nodes=tuple(nodes))


def workload(
    name: str = "train", kind: str = "Job", task: TaskClass = TaskClass.TRAINING, **fields: Any
) -> Workload:
    values: dict[str, Any] = {
        "gpu_requests": (
            GpuRequest(resource="nvidia.com/gpu", count=1, kind="gpu", vendor="nvidia"),
        ),
        **fields,
    }
    return Workload(
        id=f"team-a/{kind}/{name}/main",
        cluster=CLUSTER,
        namespace="team-a",
        kind=kind,
        name=name,
        container="main",
        task_class=task,
        **values,
    )


def resolution(
    work: Workload, runs: Mapping[str, Iterable[Pod]], outcomes: Mapping[str, Outcome] | None = None
) -> Resolution:
    """Return a mapping of pods to runs of one workload; outcomes from the pods unless given."""
    told = outcomes or {}
    made, assigned = [], []
    for run_id, pods in runs.items():
        members = list(pods)
        ends = [member.finished for member in members]
        default = Outcome.RUNNING if None in ends else Outcome.SUCCEEDED
        made.append(
            Run(
                id=run_id,
                workload_id=work.id,
                pods=tuple(f"{m.namespace}/{m.name}/{m.uid}" for m in members),
                started=min(
                    (m.scheduled for m in members if m.scheduled is not None), default=None
                ),
                finished=None if None in ends else max(end for end in ends if end is not None),
                outcome=told.get(run_id, default),
            )
        )
        assigned += [
            PodAssignment(
                cluster=CLUSTER,
                namespace=m.namespace,
                pod=m.name,
                pod_uid=m.uid,
                container="main",
                workload_id=work.id,
                run_id=run_id,
            )
            for m in members
        ]
    return Resolution(workloads=(work,), runs=tuple(made), assignments=tuple(assigned))


def profile(
    usage: Iterable[UsageRow],
    pods: Iterable[Pod],
    work: Workload | None = None,
    *,
    devices: Iterable[Device] | None = None,
    nodes: Iterable[Node] | None = None,
    runs: Mapping[str, Iterable[Pod]] | None = None,
    outcomes: Mapping[str, Outcome] | None = None,
    window: Window | None = None,
    measured_since: float | None = None,
) -> tuple[Profile, Inventory]:
    """Build the profile of one workload the way the agent does; one run unless ``runs`` is given."""
    usage, pods = list(usage), list(pods)
    work = work or workload()
    world = inventory(pods, (node(),) if nodes is None else nodes)
    uuids = sorted({one.key.gpu_uuid for one in usage}) if devices is None else []
    known = [device(uuid) for uuid in uuids] if devices is None else devices
    mapping = resolution(work, runs or {"run-1": pods}, outcomes)
    span = window or Window(start=NOW - 14 * DAY, end=NOW)
    built = build_profiles(usage, known, world, mapping, span, measured_since=measured_since)
    return next(one for one in built if one.workload.id == work.id), world


def context(world: Inventory, catalogue: FakeCatalogue | None = None, **thresholds: Any) -> Context:
    """Return a context at ``NOW``; thresholds as ``rule={name: value}``."""
    return Context(
        now=float(NOW),
        catalogue=catalogue or FakeCatalogue(),
        inventory=world,
        settings=RuleSettings(thresholds),
    )
