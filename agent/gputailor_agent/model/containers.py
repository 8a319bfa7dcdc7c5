"""What a container did beside its devices: CPU, memory, pressure, and the requests it answered.

These are of the container itself, so they stand in a row of their own (``CONTAINER_ITSELF`` in
place of a device) and are never counted once per device. A row holds them as amounts, which add up,
and peaks, of which the highest counts; so any set of rows merges to the same figures in any order.
An amount that nobody told is absent.
"""

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Final, Self

import msgspec

from gputailor_agent.model import cpu_levels
from gputailor_agent.model.cpu_levels import CpuLevel

#: In place of a device's UUID: the row is of the container itself.
CONTAINER_ITSELF: Final = ""


class Amount(StrEnum):
    """Names of ``UsageRow.amounts``; all are sums over time, and over processes of an engine."""

    ENGINE_OBSERVED = "engine/observed_seconds"  # seconds of engine processes
    REQUESTS = "engine/requests"  # finished
    PROMPT_TOKENS = "engine/prompt_tokens"
    OUTPUT_TOKENS = "engine/output_tokens"
    LATENCY = "engine/latency_seconds"  # of all requests together
    LATENCY_REQUESTS = "engine/latency_requests"
    RUNNING = "engine/running"  # requests x seconds, as is the next
    WAITING = "engine/waiting"
    CACHE = "engine/cache"  # used share of the KV cache x seconds
    HOST_OBSERVED = "host/observed_seconds"
    CPU_USED_OF_LIMIT = "host/cpu_used_of_limit_seconds"  # where a limit is known
    CPU_PERIODS = "host/cpu_periods"  # of the CPU quota
    CPU_THROTTLED_PERIODS = "host/cpu_throttled_periods"
    NETWORK_RECEIVED = "host/network_received_bytes"  # of the pod
    NETWORK_SENT = "host/network_sent_bytes"
    DISK_READ = "host/disk_read_bytes"
    DISK_WRITTEN = "host/disk_written_bytes"
    PRESSURE_OBSERVED = "host/pressure/observed_seconds"
    NODE_OBSERVED = "node/pressure/observed_seconds"


class Peak(StrEnum):
    """Names of ``UsageRow.peaks``; an engine's are those of any one process."""

    RUNNING = "engine/running"
    WAITING = "engine/waiting"
    CACHE = "engine/cache"
    ENGINE_MEMORY = "engine/memory_bytes"  # in use on any one device, as the engine says
    LAST_REQUEST = "engine/last_request"  # Unix seconds, end of the last hour with a request
    MEMORY = "host/memory_bytes"  # working set
    MEMORY_LIMIT = "host/memory_limit_bytes"
    CPUS = "host/cpus"  # CPUs used, mean of the hour that used most


#: Levels and the amounts of time in which each was told: not every process tells all.
LEVELS: Final = (Amount.RUNNING, Amount.WAITING, Amount.CACHE)

#: Of CPU use, as Kubernetes' own recommenders take it.
_P95: Final = 0.95

#: Pressure stalls: ``some`` tasks waited, or all of them (``full``), by resource.
RESOURCES: Final = ("cpu", "io", "memory")
STALLS: Final = ("some", "full")


def pressure(of: str, resource: str, stall: str) -> str:
    """Return the name of the amount of seconds stalled; ``of``: "host" or "node"."""
    return f"{of}/pressure/{resource}/{stall}"


def observed(level: Amount) -> str:
    """Return the name of the amount of seconds in which a level was told."""
    return f"{level}/observed_seconds"


class Level(msgspec.Struct, frozen=True, kw_only=True):
    """A level over some time: its mean per process, and the highest of any one process."""

    mean: float
    maximum: float | None


class EngineUse(msgspec.Struct, frozen=True, kw_only=True):
    """What inference engines say of the time; None: they do not tell."""

    engines: tuple[str, ...]
    observed_seconds: float  # of all processes together
    requests: float | None  # finished
    prompt_tokens: float | None
    output_tokens: float | None
    latency_seconds: float | None  # mean of a request
    running: Level | None  # requests at the same time
    waiting: Level | None
    cache: Level | None  # used share of the KV cache, 0..1
    memory_peak_bytes: float | None  # in use on any one device
    last_request: float | None  # Unix seconds: the end of the last hour with a request

    @classmethod
    def of(
        cls, engines: Collection[str], amounts: Mapping[str, float], peaks: Mapping[str, float]
    ) -> Self | None:
        """Return the use that amounts and peaks tell of; None where no engine was seen."""
        seconds = amounts.get(Amount.ENGINE_OBSERVED)
        if seconds is None:
            return None
        return cls(
            engines=tuple(sorted(engines)),
            observed_seconds=seconds,
            requests=amounts.get(Amount.REQUESTS),
            prompt_tokens=amounts.get(Amount.PROMPT_TOKENS),
            output_tokens=amounts.get(Amount.OUTPUT_TOKENS),
            latency_seconds=_ratio(amounts.get(Amount.LATENCY), amounts, Amount.LATENCY_REQUESTS),
            running=_level(Amount.RUNNING, amounts, peaks),
            waiting=_level(Amount.WAITING, amounts, peaks),
            cache=_level(Amount.CACHE, amounts, peaks),
            memory_peak_bytes=peaks.get(Peak.ENGINE_MEMORY),
            last_request=peaks.get(Peak.LAST_REQUEST),
        )


def _ratio(part: float | None, amounts: Mapping[str, float], whole: str) -> float | None:
    total = amounts.get(whole)
    return part / total if part is not None and total else None


def _level(name: Amount, amounts: Mapping[str, float], peaks: Mapping[str, float]) -> Level | None:
    seconds = amounts.get(observed(name))
    if not seconds:
        return None
    return Level(mean=amounts.get(name, 0.0) / seconds, maximum=peaks.get(name))


class HostUse(msgspec.Struct, frozen=True, kw_only=True):
    """What containers used of their nodes, all of them together; None: not told.

    ``pressure``: share of the time (0..1) by resource and stall ("io/some"), of the containers;
    ``node_pressure``: of their nodes, which other pods cause, too.
    """

    sources: tuple[str, ...]
    observed_seconds: float | None  # of all containers together
    cpu_used_seconds: float | None
    cpu_limit_seconds: float | None  # limit in CPUs x seconds; None: no limit, or not told
    cpu_of_limit: float | None  # used / limit of the containers that have one
    cpu_throttled_seconds: float | None
    throttled_ratio: float | None  # of the quota's periods
    memory_peak_bytes: float | None  # the highest of any one container
    memory_limit_bytes: float | None  # the highest of any one container
    network_received_bytes: float | None
    network_sent_bytes: float | None
    disk_read_bytes: float | None
    disk_written_bytes: float | None
    pressure: dict[str, float]
    node_pressure: dict[str, float]
    restarts: int | None
    oom_kills: int | None
    cpus_peak: float | None = None  # of any one container: mean of the hour that used most
    cpus_p95: CpuLevel | None = None  # of any one container, over all its time

    @property
    def cpus_used(self) -> float | None:
        """CPUs that one container used on average."""
        if self.cpu_used_seconds is None or not self.observed_seconds:
            return None
        return self.cpu_used_seconds / self.observed_seconds

    @classmethod
    def of(
        cls,
        sources: Collection[str],
        counted: Mapping[str, float],
        amounts: Mapping[str, float],
        peaks: Mapping[str, float],
    ) -> Self | None:
        """Return the use that sums tell of; ``counted``: by the name of a row's field."""
        if not counted and not any(name.startswith(("host/", "node/")) for name in amounts):
            return None
        throttled = amounts.get(Amount.CPU_THROTTLED_PERIODS)
        return cls(
            sources=tuple(sorted(sources)),
            observed_seconds=amounts.get(Amount.HOST_OBSERVED),
            cpu_used_seconds=counted.get("cpu_used_seconds"),
            cpu_limit_seconds=counted.get("cpu_limit_seconds"),
            cpu_of_limit=_ratio(
                amounts.get(Amount.CPU_USED_OF_LIMIT), counted, "cpu_limit_seconds"
            ),
            cpu_throttled_seconds=counted.get("cpu_throttled_seconds"),
            throttled_ratio=_ratio(throttled, amounts, Amount.CPU_PERIODS),
            memory_peak_bytes=peaks.get(Peak.MEMORY),
            memory_limit_bytes=peaks.get(Peak.MEMORY_LIMIT),
            network_received_bytes=amounts.get(Amount.NETWORK_RECEIVED),
            network_sent_bytes=amounts.get(Amount.NETWORK_SENT),
            disk_read_bytes=amounts.get(Amount.DISK_READ),
            disk_written_bytes=amounts.get(Amount.DISK_WRITTEN),
            pressure=_pressures("host", amounts, Amount.PRESSURE_OBSERVED),
            node_pressure=_pressures("node", amounts, Amount.NODE_OBSERVED),
            restarts=_whole(counted.get("restarts")),
            oom_kills=_whole(counted.get("oom_kills")),
            cpus_peak=peaks.get(Peak.CPUS),
            cpus_p95=cpu_levels.quantile(amounts, _P95),
        )


def _pressures(of: str, amounts: Mapping[str, float], seconds: Amount) -> dict[str, float]:
    told = amounts.get(seconds)
    if not told:
        return {}
    return {
        f"{resource}/{stall}": min(1.0, amounts[name] / told)
        for resource in RESOURCES
        for stall in STALLS
        if (name := pressure(of, resource, stall)) in amounts
    }


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)
