"""Queries that only GPU Tailor's own exporter can answer: inside seconds, sharing, health, itself.

Each is a function of a ``Native`` dialect; a board asks them where its dialect is that one.
"""

from typing import Final

from gputailor_dashboards.expressions.base import matchers
from gputailor_dashboards.expressions.native import (
    BUSY_SIGNALS,
    DEVICE,
    DEVICE_KEY,
    HOLDER,
    ON_DEVICE,
    Native,
)
from gputailor_exporter import metrics as m

_SHARED: Final = "time_slicing|mps|shared"
_LOADED: Final = 0.05  # of the device's memory; less is a bare context


# -- inside the minutes ----------------------------------------------------------------------------
def idle_seconds(dialect: Native) -> str:
    """Seconds since a kernel, the encoder or the decoder was last active, per holder."""
    return f"time() - max by ({HOLDER}) ({dialect.holders(m.CONTAINER_LAST_ACTIVE)})"


def seconds_at_zero(dialect: Native, signal: str) -> str:
    """Share of one-second values of a signal that were exactly zero, per holder."""
    zero = dialect.holders(m.CONTAINER_ACTIVITY, "_bucket", signal=signal, le="0|0[.]0")
    count = dialect.holders(m.CONTAINER_ACTIVITY, "_count", signal=signal)
    return dialect.mean(zero, count, HOLDER)


def condition(dialect: Native) -> str:
    """Share of time in which a joint one-second condition held, per holder and condition."""
    seconds = dialect.holders(m.CONTAINER_CONDITION_SECONDS)
    return f"sum by ({HOLDER}, condition) (rate({seconds}[{dialect.scope.window}]))"


def link_bytes(dialect: Native) -> str:
    """Bytes per second over PCIe and NVLink, per holder, link and direction."""
    count = dialect.holders(m.CONTAINER_LINK_BYTES)
    return f"sum by ({HOLDER}, link, direction) (rate({count}[{dialect.scope.window}]))"


def coverage(dialect: Native, by: str) -> str:
    """Observed seconds / held seconds, the best-read of kernel and SM activity; 1 at most.

    Where an exporter begins, ``rate`` reaches differently far beyond the two counters' samples.
    """
    observed = dialect.holders(m.CONTAINER_OBSERVED_SECONDS, signal="|".join(BUSY_SIGNALS))
    held = dialect.holders(m.CONTAINER_ALLOCATED_SECONDS)
    window = dialect.scope.window
    return (
        f"clamp_max((sum by ({by}) (max by ({HOLDER}) (rate({observed}[{window}])))"
        f" or 0 * sum by ({by}) (rate({held}[{window}])))"
        f" / (sum by ({by}) (rate({held}[{window}])) > 0), 1)"
    )


def standby(dialect: Native) -> str:
    """Holders with a model in memory on whose device no kernel ran, with the memory's share."""
    used = f"max by ({HOLDER}) ({dialect.holders(m.CONTAINER_MEMORY_USED)})"
    total = f"max by ({DEVICE_KEY}) ({m.DEVICE_MEMORY_TOTAL.name})"
    loaded = f"({used} / {ON_DEVICE} group_left () {total} >= {_LOADED})"
    return f"{loaded} and on ({HOLDER}) (({dialect.busy()}) == 0)"


# -- sharing ---------------------------------------------------------------------------------------
def instances(dialect: Native) -> str:
    """MIG instances, by their profile and parent."""
    mig = {"mig_profile": ".+"}
    info = dialect.devices(m.DEVICE_INFO, **mig)
    return dialect.sliced(f"max by ({DEVICE}, mig_profile, parent_uuid) ({info})")


def instances_by_profile(dialect: Native) -> str:
    """Number of MIG instances by profile."""
    return f"count by (cluster, node, mig_profile) ({instances(dialect)})"


def instances_held(dialect: Native) -> str:
    """Number of MIG instances that containers hold, by profile; 0 where none is held."""
    mig = {"mig_profile": ".+"}
    info = f"max by ({DEVICE_KEY}, mig_profile) ({dialect.devices(m.DEVICE_INFO, **mig)})"
    held = dialect.holders(m.CONTAINER_ALLOCATED, sharing="mig")
    by = "cluster, node, mig_profile"
    taken = f"count by ({by}) ({info} and {ON_DEVICE} {held})"
    return f"{taken} or 0 * count by ({by}) ({info})"


def sharers(dialect: Native) -> str:
    """Containers per shared device."""
    held = dialect.holders(m.CONTAINER_ALLOCATED, sharing=_SHARED)
    return dialect.named(f"count by ({DEVICE_KEY}) ({held})")


def share_taken(dialect: Native) -> str:
    """Part of each shared device that is handed out; 1 is all of it."""
    held = dialect.holders(m.CONTAINER_ALLOCATED, sharing=_SHARED)
    share = f"({dialect.share()}) and on ({HOLDER}) {held}"
    return dialect.named(f"sum by ({DEVICE_KEY}) ({share})")


def shared_activity(dialect: Native, signal: str) -> str:
    """Mean of a signal per holder of a shared device, by its processes."""
    held = dialect.holders(m.CONTAINER_ALLOCATED, sharing=_SHARED)
    return dialect.named(f"({dialect.activity(signal)}) and on ({HOLDER}) {held}")


def shared_memory(dialect: Native) -> str:
    """Bytes in use per holder of a shared device."""
    held = dialect.holders(m.CONTAINER_ALLOCATED, sharing=_SHARED)
    return dialect.named(f"({dialect.memory_used()}) and on ({HOLDER}) {held}")


def unattributed(dialect: Native, signal: str) -> str:
    """Part of a device's activity that belongs to no container."""
    active = dialect.devices(m.DEVICE_UNATTRIBUTED_ACTIVE_SECONDS, signal=signal)
    observed = dialect.devices(m.DEVICE_OBSERVED_SECONDS, signal=signal)
    return dialect.sliced(dialect.mean(active, observed, DEVICE))


# -- health ----------------------------------------------------------------------------------------
def temperature_margin(dialect: Native) -> str:
    """Degrees left until the device slows down, by node the least."""
    limit = dialect.devices(m.DEVICE_TEMPERATURE_LIMIT, limit="slowdown")
    now = dialect.devices(m.DEVICE_TEMPERATURE, sensor="gpu")
    return f"max by ({DEVICE}) ({limit}) - max by ({DEVICE}) ({now})"


def narrow_links(dialect: Native) -> str:
    """PCIe lanes that a device lacks, of those that it and its slot have; only where some do."""
    most = f"max by ({DEVICE}) ({dialect.devices(m.DEVICE_PCIE_WIDTH_MAX)})"
    return f"{most} - max by ({DEVICE}) ({dialect.devices(m.DEVICE_PCIE_WIDTH)})"


# -- the exporters themselves ----------------------------------------------------------------------
def on_cluster(dialect: Native, family: m.Family, **labels: str) -> str:
    """Series of the exporters of the chosen clusters; they name no node."""
    return family.name + matchers(cluster=dialect.scope.clusters, **labels)


def unavailable(dialect: Native) -> str:
    """Number of devices by signal that cannot be read, and why."""
    return f"count by (signal, reason) ({on_cluster(dialect, m.EXPORTER_SIGNAL_UNAVAILABLE)})"


def source_age(dialect: Native) -> str:
    """Seconds since each source of an exporter was last read well."""
    return f"time() - max by (instance, source) ({on_cluster(dialect, m.EXPORTER_LAST_SUCCESS)})"


def exporter_errors(dialect: Native) -> str:
    """Failures of an exporter per second, by source and reason."""
    errors = on_cluster(dialect, m.EXPORTER_ERRORS)
    return f"sum by (instance, source, reason) (rate({errors}[{dialect.scope.window}]))"
