"""A scenario file describes a cluster over time: nodes, GPUs, workloads, what they do, what fails.

It serves the demo, the tests and ``gputailor-exporter simulate``. Every value is a pure function
of (scenario, device, Unix time); "random" looks come from hashes of a seed. The document (YAML):

``version``      1
``cluster``      name (default ``simulated``); ``seed`` whole number (default 0)
``anchor``       ISO time or Unix seconds that relative times count from, instead of the caller's
                 now: one file then means the same to a simulation and to exporters started later
``models``       own GPU models by key: ``name, memory, sms, idle_watts, max_watts`` and optionally
                 ``product, architecture, compute_capability, reserved, context_watts,
                 pcie_generation, clock_max_mhz, memory_clock_mhz, gpm, mig_sms_per_slice, vendor``;
                 built in: t4 v100-sxm2-32gb a10 a100-sxm4-40gb a100-sxm4-80gb l4 l40s
                 h100-sxm5-80gb h200-sxm5-141gb
``nodes``        list: ``name``; ``gpus`` = list of ``model`` with ``count``, or ``mig`` = list of
                 profiles, or ``replicas`` with ``sharing`` time_slicing|mps; optional
                 ``instance_type, region, zone, cpu, memory, driver, cuda, labels, taints,
                 cordoned``; ``profiling`` auto (SM, tensor, DRAM … where the model has GPM),
                 all (as where DCGM's profiling runs), none
``activities``   by name: ``signals`` = levels 0..1 at full intensity (kernel graphics sm occupancy
                 tensor fp64 fp32 fp16 integer dram memcopy encoder decoder); ``shape`` =
                 intensity over time; ``noise`` = ``amplitude, cell, seed`` (takes up to the
                 amplitude off); ``memory`` = ``plateau`` with ``start, peak, warmup, peak_at,
                 peak_length``; ``power`` 0..1 of the range from loaded context to maximum;
                 ``pcie``, ``nvlink`` = ``rx, tx`` bytes per second at full intensity
shape ``kind``   constant(level) · on_off(period, duty, on, off) · ramp(duration, from, to) ·
                 diurnal(day, night, weekend, peak_hour) · burst(every, length, level, base, seed)
                 · warmup(duration, level, then: shape) · hours(days, from, to, inside: shape,
                 outside: shape)
``workloads``    list: ``name, namespace, kind`` (Pod Job CronJob Deployment StatefulSet PyTorchJob,
                 or HostProcess: a process of no pod on a shared GPU), ``container, image, command,
                 args, env, ports, cpu, memory, labels, annotations, activity`` (a name, or an
                 activity in place); then ``runs`` = list of ``start``, ``end`` or ``duration``
                 (neither: it goes on), ``repeat`` = ``count, every``, ``outcome``
                 succeeded|failed|oom_killed, ``name`` (suffix), ``pods``; or ``schedule`` = ``at``
                 "HH:MM", ``days``, ``duration, from, until, outcome, pods`` (daily runs)
``pods``         list: ``node``; ``gpus`` = device addresses (``0``, or ``"7/2"`` for the third MIG
                 instance of GPU 7); ``replicas`` of a shared GPU; ``activity``, or ``activities``
                 one per device (``none``: never touched)
``missing``      list: ``node``, ``start``, ``end``, ``what`` exporter|device|signals or a list of
                 signals; ``gpus`` (default all); ``reason``

Times: ``now``, ``-14d``, ``+2h30m``, ``-3d@09:00`` (that UTC day at that hour), or ISO 8601;
``now`` is the caller's. Hours and weekdays are UTC.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from gputailor_exporter.attribution.allocations import Allocation, ContainerRef
from gputailor_exporter.devices.base import DeviceIdentity, DeviceReading, Reason
from gputailor_exporter.metrics import Signal
from gputailor_exporter.scenarios.activities import read_activity
from gputailor_exporter.scenarios.document import ScenarioError, Section
from gputailor_exporter.scenarios.manifests import cluster_objects
from gputailor_exporter.scenarios.nodes import read_nodes
from gputailor_exporter.scenarios.timeline import DeviceTimeline, to_reading
from gputailor_exporter.scenarios.values import Hold, Missing, Node, Workload
from gputailor_exporter.scenarios.workloads import WorkloadReader, number_processes
from gputailor_exporter.vocabulary import BASIC

__all__ = ["DEMO", "Scenario", "ScenarioError", "load", "manifests", "parse", "pinned"]

#: The cluster of ``gputailor demo``.
DEMO: Final = Path(__file__).with_name("demo.yaml")
VERSION: Final = 1
#: Signals a simulated device has without being asked; the others only where an activity has them.
_USUAL: Final = BASIC | {
    Signal.GRAPHICS, Signal.SM, Signal.TENSOR, Signal.FP64, Signal.FP32, Signal.FP16, Signal.DRAM,
}  # fmt: skip
_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Scenario:
    """A simulated cluster, anchored at ``now`` (Unix time)."""

    cluster: str
    seed: int
    now: float
    nodes: Mapping[str, Node]
    workloads: tuple[Workload, ...]
    missing: tuple[Missing, ...]
    timelines: Mapping[tuple[str, str], DeviceTimeline]  # (node, device uuid)
    owners: Mapping[tuple[str, int], ContainerRef | None]  # (node, pid)

    def devices(self, node: str) -> tuple[DeviceIdentity, ...]:
        """Devices of a node, MIG instances after their parent."""
        return tuple(device.identity for device in self.nodes[node].devices)

    def gpu_count(self, node: str) -> int:
        """GPUs of a node, MIG instances not counted."""
        return sum(1 for device in self.nodes[node].devices if not device.identity.parent_uuid)

    def timeline(self, node: str, device: str) -> DeviceTimeline:
        """The device's pure functions; ``device`` is a UUID."""
        return self.timelines[node, device]

    def reading(self, node: str, device: str, start: float, end: float) -> DeviceReading:
        """Mean values of a device over [start, end] Unix time, without running counters."""
        timeline = self.timelines[node, device]
        return to_reading(timeline.device, timeline.sample(start, end), end)

    def allocations(self, node: str, at: float) -> tuple[Allocation, ...]:
        """Who holds which device of the node at this Unix time, as kubelet would say."""
        found = []
        for device in self.nodes[node].devices:
            if device.identity.mig_enabled:
                continue
            for hold in self.timelines[node, device.identity.uuid].active(at):
                if hold.owner is not None:
                    uuid = device.identity.uuid
                    found.append(Allocation(hold.owner, uuid, device.sharing, hold.share))
        return tuple(found)

    def changes(self, node: str, start: float, end: float) -> list[float]:
        """Times in (start, end) at which an allocation of the node begins or ends, ascending."""
        return sorted(
            {
                edge
                for device in self.nodes[node].devices
                for edge in self.timelines[node, device.identity.uuid].edges
                if start < edge < end
            }
        )

    def exporter_down(self, node: str) -> tuple[tuple[float, float], ...]:
        """Windows in which the node's exporter does not run, ascending."""
        return tuple(
            sorted(
                (one.start, one.end) for one in self.missing if one.exporter and one.node == node
            )
        )


def load(path: str | Path, now: float) -> Scenario:
    """Read a scenario file; ``now`` is what its relative times count from, in Unix seconds.

    The path ``demo`` (where no such file is) means the scenario that comes with the package.

    Raises ``ScenarioError`` with file, place and what was expected.
    """
    try:
        document = yaml.safe_load(_located(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ScenarioError(str(path), "", f"cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ScenarioError(str(path), "", f"is not YAML: {error}") from error
    return parse(document, now, str(path))


def _located(path: str | Path) -> Path:
    return DEMO if str(path) == "demo" and not Path(path).exists() else Path(path)


def pinned(path: str | Path, now: float) -> str:
    """Return the scenario file's text with ``anchor`` set to ``now`` (Unix seconds).

    A live exporter that loads it later speaks of the same pods and times as a history made now.
    Raises ``ScenarioError`` where the file is not a good scenario.
    """
    scenario = load(path, now)
    text = _located(path).read_text(encoding="utf-8")
    has_anchor = "anchor" in yaml.safe_load(text)
    return text if has_anchor else f"{text.rstrip()}\nanchor: {scenario.now!r}\n"


def parse(document: Any, now: float, file: str = "scenario") -> Scenario:
    """Return the scenario of a document already decoded; see ``load``."""
    if not isinstance(document, dict):
        raise ScenarioError(file, "", f"expected a mapping, found {type(document).__name__}")
    root = Section(file, "", document, now)
    root.now = root.time("anchor", now)
    if root.whole("version", 1) != VERSION:
        raise root.fail("version", f"expected {VERSION}, found {document['version']!r}")
    seed = root.whole("seed", 0, 0)
    cluster = root.text("cluster", "simulated")
    nodes = read_nodes(root, seed)
    activities = {
        name: read_activity(name, section)
        for name, section in root.named_sections("activities").items()
    }
    workloads = number_processes(
        [WorkloadReader(one, nodes, activities, seed).read() for one in root.sections("workloads")]
    )
    missing = tuple(_read_missing(section, nodes) for section in root.sections("missing"))
    root.finish()
    _check_names(workloads, file)
    holds = _holds_by_device(workloads)
    for (node, _), group in holds.items():
        _check_holders(group, file, node)
    owners = {(node, hold.pid): hold.owner for (node, _), group in holds.items() for hold in group}
    timelines = _timelines(nodes, holds, missing)
    return Scenario(cluster, seed, root.now, nodes, tuple(workloads), missing, timelines, owners)


def manifests(scenario: Scenario, now: float) -> list[dict[str, Any]]:
    """Return the Kubernetes objects of the scenario as they stand at ``now`` (Unix time)."""
    return cluster_objects(scenario.nodes.values(), scenario.workloads, now, scenario.seed)


def _holds_by_device(workloads: Iterable[Workload]) -> dict[tuple[str, str], list[Hold]]:
    holds: dict[tuple[str, str], list[Hold]] = {}
    for workload in workloads:
        for run in workload.runs:
            for pod in run.pods:
                for hold in pod.holds:
                    holds.setdefault((pod.node, hold.device.identity.uuid), []).append(hold)
    return holds


def _timelines(
    nodes: Mapping[str, Node],
    holds: Mapping[tuple[str, str], list[Hold]],
    missing: tuple[Missing, ...],
) -> dict[tuple[str, str], DeviceTimeline]:
    spoken = _USUAL.union(*(hold.activity.levels for group in holds.values() for hold in group))
    timelines = {}
    for node in nodes.values():
        for device in node.devices:
            uuid = device.identity.uuid
            mine = [
                hold
                for one in node.devices
                if uuid in {one.identity.uuid, one.identity.parent_uuid}
                for hold in holds.get((node.name, one.identity.uuid), ())
            ]
            windows = [one for one in missing if one.node == node.name and one.touches(device)]
            timelines[node.name, uuid] = DeviceTimeline(device, mine, windows, spoken)
    return timelines


def _check_names(workloads: Iterable[Workload], file: str) -> None:
    """Two pods of one name may not live at the same time."""
    seen: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for index, workload in enumerate(workloads):
        for run in workload.runs:
            for pod in run.pods:
                spans = seen.setdefault((workload.namespace, pod.name), [])
                if any(run.start < end and start < run.end for start, end in spans):
                    text = f"two pods named {workload.namespace}/{pod.name} at the same time"
                    raise ScenarioError(file, f"workloads[{index}]", text)
                spans.append((run.start, run.end))


def _check_holders(holds: list[Hold], file: str, node: str) -> None:
    """At no time may a device be held beyond its replicas, memory or time."""
    for at in sorted({hold.start for hold in holds}):
        active = [hold for hold in holds if hold.start <= at < hold.end]
        device, path = active[-1].device, active[-1].path
        place = f"device {device.address} of {node}"
        if sum(hold.replicas for hold in active) > device.replicas:
            others = ", ".join(sorted({hold.path for hold in active[:-1]}) or {path})
            raise ScenarioError(file, path, f"{place} is held already by {others}")
        memory = sum(hold.activity.memory.peak for hold in active)
        usable = device.memory_bytes - device.reserved_bytes
        if memory > usable:
            text = f"{place}: peaks of {memory} bytes are more than the {usable} that can be used"
            raise ScenarioError(file, path, text)
        for signal in Signal:
            level = sum(hold.activity.levels.get(signal, 0.0) for hold in active)
            if level > 1 + _ROUNDING:
                text = f"{place}: levels of {signal} of all holders add up to {level:g}, above 1"
                raise ScenarioError(file, path, text)


def _read_missing(section: Section, nodes: Mapping[str, Node]) -> Missing:
    node = nodes[section.choice("node", nodes)]
    addresses = section.texts("gpus")
    for address in addresses:
        if node.by_address(address) is None:
            raise section.fail("gpus", f"{node.name} has no device {address!r}")
    what, signals = "", frozenset(Signal)
    if isinstance(section.raw("what"), list):
        known = {signal.value for signal in Signal}
        names = section.texts("what")
        if not set(names) <= known:
            raise section.fail("what", f"expected signals of {', '.join(sorted(known))}")
        signals = frozenset(Signal(name) for name in names)
    else:
        what = section.choice("what", ("exporter", "device", "signals"))
    default = Reason.GPU_IS_LOST if what == "device" else Reason.NO_SAMPLES
    window = Missing(
        node=node.name,
        addresses=frozenset(addresses),
        exporter=what == "exporter",
        device=what == "device",
        signals=signals,
        reason=Reason(section.choice("reason", [reason.value for reason in Reason], default)),
        start=section.time("start"),
        end=section.time("end"),
    )
    if window.end <= window.start:
        raise section.fail("end", "expected a time after start")
    if window.exporter and addresses:
        raise section.fail("gpus", "expected none: an exporter is down for its whole node")
    section.finish()
    return window
