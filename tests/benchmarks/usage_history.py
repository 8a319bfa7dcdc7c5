"""Usage of a simulated cluster as hourly rows: as noisy as real ones, the same each time."""

import random
from collections.abc import Iterator

from gputailor_agent.model.usage import (
    HISTOGRAM_EDGES,
    Device,
    Histogram,
    SignalUse,
    UsageKey,
    UsageRow,
    quantise,
)
from gputailor_exporter.metrics import CONTAINER_SIGNALS, HISTOGRAM_SIGNALS

CLUSTER = "c1"
GIB = 2**30
GPUS_PER_NODE = 8
GPUS_PER_WORKLOAD = 5
NAMESPACES = 20
SIGNALS = tuple(str(signal) for signal in CONTAINER_SIGNALS)
WITH_HISTOGRAM = frozenset(str(signal) for signal in HISTOGRAM_SIGNALS)


def pod_name(place: int) -> str:
    """Name of a pod; five in a row are of one deployment."""
    return f"svc-{place // GPUS_PER_WORKLOAD}-6f9c{place % GPUS_PER_WORKLOAD}"


def pod_uid(place: int) -> str:
    """UID of a pod."""
    return f"{place:08x}-6f9c-4d1e-9a57-0123456789ab"


def team(place: int) -> str:
    """Namespace of a pod; pods of one deployment share it."""
    return f"team-{place // GPUS_PER_WORKLOAD % NAMESPACES}"


def gpu_of(place: int, gpus: int) -> int:
    """Number of the GPU that a pod's container uses; beyond one container a GPU they share."""
    return place % gpus


def level(place: int) -> float:
    """How busy a GPU is: a tenth of the deployments idle, the rest anything up to full."""
    workload = place // GPUS_PER_WORKLOAD
    return 0.0 if workload % 10 == 0 else workload * 37 % 100 / 100


def hour_rows(
    containers: int, hour: int, *, gpus: int | None = None, cluster: str = CLUSTER
) -> Iterator[UsageRow]:
    """Rows of one hour; ``gpus`` fewer than containers: they share them."""
    cards = gpus or containers
    for place in range(containers):
        yield _row(cluster, place, hour, gpu_of(place, cards), max(1, containers // cards))


def _row(cluster: str, place: int, hour: int, gpu: int, sharers: int) -> UsageRow:
    chance = random.Random(place * 1_000_003 + hour)
    busy = level(place)
    return UsageRow(
        key=UsageKey(
            cluster=cluster,
            namespace=team(place),
            pod=pod_name(place),
            pod_uid=pod_uid(place),
            container="main",
            gpu_uuid=f"GPU-{gpu:08x}-1f2e-3d4c-5b6a-0123456789ab",
            hour=hour,
        ),
        dialect="gputailor",
        allocated_seconds=3600.0,
        share=1.0 / sharers,
        signals={name: _use(name, busy, chance) for name in SIGNALS},
        conditions={"amp_candidate": 0.0, "zero_inside_active_minute": float(int(busy * 600))},
        link_bytes={
            "pcie/rx": float(chance.randrange(2**30)) * 1024,
            "pcie/tx": float(chance.randrange(2**30)) * 1024,
        },
        memory_peak_bytes=(place % 70 + 1) * GIB,
        memory_total_bytes=80 * GIB,
        energy_joules=quantise(3600 * (60 + 340 * busy * chance.uniform(0.9, 1.1))),
        last_active=hour + 3599.0 if busy else None,
        samples=120,
    )


def _use(name: str, busy: float, chance: random.Random) -> SignalUse:
    observed = 3600.0
    if not busy or name in {"fp64", "encoder", "decoder"}:
        zero = Histogram(seconds=(observed, *[0.0] * 20)) if name in WITH_HISTOGRAM else None
        return SignalUse(observed_seconds=observed, active_seconds=0.0, maximum=0.0, histogram=zero)
    mean = busy * chance.uniform(0.8, 1.0)
    histogram = None
    if name in WITH_HISTOGRAM:
        seconds = [0.0] * len(HISTOGRAM_EDGES)
        left, middle = observed, max(1, round(mean * 20))
        for bucket in (0, 1, 2, 5, 10, 15, 18):  # the exporter's own seven bounds
            seconds[bucket] = float(int(left * chance.uniform(0, 0.3 if bucket != middle else 0.6)))
            left -= seconds[bucket]
        seconds[20] = left
        histogram = Histogram(seconds=tuple(seconds), resolution=0.25)
    return SignalUse(
        observed_seconds=observed,
        active_seconds=quantise(observed * mean),
        maximum=min(1.0, mean * 1.3),
        histogram=histogram,
    )


def devices(gpus: int, cluster: str = CLUSTER) -> list[Device]:
    """What exporters tell of the cards."""
    return [
        Device(
            cluster=cluster,
            gpu_uuid=f"GPU-{gpu:08x}-1f2e-3d4c-5b6a-0123456789ab",
            node=f"node-{gpu // GPUS_PER_NODE}",
            index=str(gpu % GPUS_PER_NODE),
            vendor="nvidia",
            model="NVIDIA A100-SXM4-80GB",
            memory_total_bytes=80 * GIB,
            up=True,
        )
        for gpu in range(gpus)
    ]
