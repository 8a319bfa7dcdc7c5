"""From the document's ``workloads`` to runs, pods and what they hold.

Names and UIDs follow from the scenario's seed and the run's own times, so that a history made
yesterday and a live exporter started today speak of the same pods.
"""

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from gputailor_exporter.attribution.allocations import ContainerRef
from gputailor_exporter.metrics import Sharing
from gputailor_exporter.scenarios.activities import NOTHING, read_activity
from gputailor_exporter.scenarios.document import Section
from gputailor_exporter.scenarios.nodes import object_name, stable_uuid
from gputailor_exporter.scenarios.shapes import DAY
from gputailor_exporter.scenarios.values import Activity, Device, Hold, Node, PodRun, Run, Workload

KINDS: Final = (
    "Pod", "Job", "CronJob", "Deployment", "StatefulSet", "PyTorchJob", "HostProcess",
)  # fmt: skip
OUTCOMES: Final = ("succeeded", "failed", "oom_killed")
#: How far behind and ahead of now a schedule without limits reaches.
SCHEDULE_BEHIND: Final = 14 * DAY
SCHEDULE_AHEAD: Final = 2 * DAY
#: Kubernetes' alphabet for generated suffixes: no vowels, no look-alikes.
_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"


def token(length: int, *parts: object) -> str:
    """Return a suffix as Kubernetes generates them, set by the arguments alone."""
    digest = hashlib.sha256("\x1f".join(str(part) for part in parts).encode()).digest()
    return "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in digest[:length])


@dataclass(frozen=True, slots=True)
class _Spell:
    """When one run is, and the section that describes its pods."""

    section: Section
    start: float
    end: float
    key: str  # what tells this run from its siblings


class WorkloadReader:
    """Reads one workload."""

    def __init__(
        self, section: Section, nodes: Mapping[str, Node], activities: Mapping[str, Activity],
        seed: int,
    ) -> None:  # fmt: skip
        """Keep what the workload may refer to."""
        self.section = section
        self.nodes = nodes
        self.activities = activities
        self.seed = seed
        self.name = object_name(section, "name")
        self.namespace = section.text("namespace", "default")
        self.kind = section.choice("kind", KINDS)
        self.container = section.text("container", "main")
        self.default = self._activity(section) if section.has("activity") else NOTHING

    def read(self) -> Workload:
        """Return the workload with its runs in the order of their start."""
        section = self.section
        runs = tuple(sorted(map(self._run, self._spells()), key=lambda run: (run.start, run.name)))
        ports = section.raw("ports") or []
        if not isinstance(ports, list) or not all(isinstance(port, int) for port in ports):
            raise section.fail("ports", f"expected a list of port numbers, found {ports!r}")
        workload = Workload(
            name=self.name,
            namespace=self.namespace,
            kind=self.kind,
            container=self.container,
            image=section.text("image", "registry.example/app:1"),
            command=section.texts("command"),
            args=section.texts("args"),
            env=section.mapping("env"),
            ports=tuple(ports),
            cpu=section.text("cpu", "4"),
            memory=section.text("memory", "16Gi"),
            labels=section.mapping("labels"),
            annotations=section.mapping("annotations"),
            schedule=self._cron(),
            runs=runs,
        )
        section.finish()
        return workload

    def _activity(self, section: Section) -> Activity:
        if isinstance(section.raw("activity"), dict):
            return read_activity(f"{self.name}", section.section("activity"))
        return self.activities[section.choice("activity", self.activities)]

    def _cron(self) -> str:
        if not self.section.has("schedule"):
            return ""
        section = self.section.section("schedule")
        clock, days = section.clock("at"), sorted(section.days("days"))
        week = "*" if len(days) == 7 else ",".join(str((day + 1) % 7) for day in days)  # noqa: PLR2004 days of a week
        return f"{int(clock // 60 % 60)} {int(clock // 3600)} * * {week}"

    def _spells(self) -> Iterator[_Spell]:
        if self.section.has("schedule"):
            yield from self._scheduled(self.section.section("schedule"))
            return
        for section in self.section.sections("runs", required=True):
            yield from self._repeated(section)

    def _scheduled(self, section: Section) -> Iterator[_Spell]:
        clock, duration, days = (
            section.clock("at"),
            section.duration("duration"),
            section.days("days"),
        )
        first = section.time("from", section.now - SCHEDULE_BEHIND)
        last = section.time("until", section.now + SCHEDULE_AHEAD)
        for day in range(math.floor(first / DAY), math.floor(last / DAY) + 1):
            start = day * DAY + clock
            if first <= start < last and (day - 4) % 7 in days:
                yield _Spell(section, start, start + duration, str(int(start // 60)))

    def _repeated(self, section: Section) -> Iterator[_Spell]:
        start = section.time("start")
        if section.has("duration"):
            end = start + section.duration("duration")
        else:
            end = section.time("end", math.inf)
        if end <= start:
            raise section.fail("end", "expected a time after start")
        if not section.has("repeat"):
            yield _Spell(section, start, end, section.path)
            return
        repeat = section.section("repeat")
        every, count = repeat.duration("every"), repeat.whole("count", 1)
        repeat.finish()
        for index in range(count):
            shift = index * every
            yield _Spell(section, start + shift, end + shift, f"{section.path}#{index}")

    def _run(self, spell: _Spell) -> Run:
        name, suffix = self._names(spell)
        pods = tuple(
            self._pod(section, index, spell, self._pod_name(name, suffix, index))
            for index, section in enumerate(spell.section.sections("pods", required=True))
        )
        run = Run(
            name=name,
            token=suffix,
            start=spell.start,
            end=spell.end,
            outcome=spell.section.choice("outcome", OUTCOMES, "succeeded"),
            pods=pods,
        )
        spell.section.finish()
        return run

    def _names(self, spell: _Spell) -> tuple[str, str]:
        identity = (self.seed, self.namespace, self.name, spell.key)
        if self.kind == "CronJob":
            return f"{self.name}-{spell.key}", spell.key
        if self.kind == "Deployment":
            return self.name, token(10, *identity)
        several = spell.section.has("repeat") or len(self.section.values.get("runs", ())) > 1
        suffix = spell.section.text("name", token(5, *identity))
        return (f"{self.name}-{suffix}" if several else self.name), suffix

    def _pod_name(self, name: str, suffix: str, index: int) -> str:
        if self.kind == "StatefulSet":
            return f"{self.name}-{index}"
        if self.kind == "PyTorchJob":
            return f"{name}-master-0" if index == 0 else f"{name}-worker-{index - 1}"
        if self.kind in {"Pod", "HostProcess"}:
            return name if index == 0 else f"{name}-{index}"
        tail = token(5, self.seed, self.namespace, name, suffix, index)
        middle = f"{suffix}-" if self.kind == "Deployment" else ""
        return f"{name}-{middle}{tail}"

    def _pod(self, section: Section, index: int, spell: _Spell, name: str) -> PodRun:
        node = self.nodes[section.choice("node", self.nodes)]
        uid = stable_uuid(self.seed, "pod", self.namespace, name, spell.key)
        owner = ContainerRef(self.namespace, name, self.container, uid)
        activity = self._activity(section) if section.has("activity") else self.default
        addresses = section.texts("gpus")
        if not addresses:
            raise section.fail("gpus", 'expected a list of devices as 0 or "7/2"')
        several = self._several(section, activity, len(addresses))
        replicas = section.whole("replicas", 1, 1)
        holds = tuple(
            Hold(
                owner=None if self.kind == "HostProcess" else owner,
                device=self._device(section, node, address, replicas),
                replicas=0 if self.kind == "HostProcess" else replicas,
                start=spell.start,
                end=spell.end,
                activity=chosen,
                pid=0,
                path=section.path,
            )
            for address, chosen in zip(addresses, several, strict=True)
        )
        section.finish()
        return PodRun(name, uid, node.name, index, holds)

    def _several(self, section: Section, activity: Activity, count: int) -> list[Activity]:
        names: Any = section.texts("activities")
        if not names:
            return [activity] * count
        if len(names) != count:
            raise section.fail("activities", f"expected one per device ({count})")
        for name in names:
            if name not in self.activities and name != NOTHING.name:
                known = ", ".join(sorted(self.activities))
                raise section.fail("activities", f"{name!r} is not among {known}, none")
        return [self.activities.get(name, NOTHING) for name in names]

    def _device(self, section: Section, node: Node, address: str, replicas: int) -> Device:
        device = node.by_address(address)
        if device is None or device.identity.mig_enabled:
            usable = [one.address for one in node.devices if not one.identity.mig_enabled]
            raise section.fail("gpus", f"{node.name} has no device {address!r} to hold: {usable}")
        if device.sharing in {Sharing.EXCLUSIVE, Sharing.MIG} and self.kind == "HostProcess":
            raise section.fail("gpus", "expected a shared device for a process of the host")
        if replicas > device.replicas:
            raise section.fail("replicas", f"the device has {device.replicas}")
        return device


def number_processes(workloads: list[Workload]) -> list[Workload]:
    """Give every hold a process id of its own."""
    pid = 4000
    numbered = []
    for workload in workloads:
        runs = []
        for run in workload.runs:
            pods = []
            for pod in run.pods:
                holds = []
                for hold in pod.holds:
                    pid += 7
                    holds.append(replace(hold, pid=pid))
                pods.append(replace(pod, holds=tuple(holds)))
            runs.append(replace(run, pods=tuple(pods)))
        numbered.append(replace(workload, runs=tuple(runs)))
    return numbered
