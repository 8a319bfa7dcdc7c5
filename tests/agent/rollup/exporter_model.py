"""A tiny exporter for tests: integrates a workload's truth into counters, second by second."""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from gputailor_agent.model.usage import ContainerCounters, Device, Page
from gputailor_exporter.metrics import HISTOGRAM_BOUNDS

GIB = 2**30
UUID = "GPU-0"


@dataclass
class Job:
    """A container on one device; ``kernel(t)`` is the truth at second t, None: unreadable."""

    kernel: Callable[[int], float | None]
    start: int
    end: int = 10**12
    pod: str = "train-0"
    pod_uid: str = "uid-0"
    gpu_uuid: str = UUID
    share: float = 1.0
    memory: Callable[[int], int] = lambda second: 8 * GIB


@dataclass
class Totals:
    allocated: float = 0.0
    active: float = 0.0
    observed: float = 0.0
    energy: float = 0.0
    zero_inside: float = 0.0
    buckets: list[float] = field(default_factory=lambda: [0.0] * (len(HISTOGRAM_BOUNDS) + 1))
    peak: int = 0
    last_active: float | None = None


class Exporter:
    """Runs from ``started``; ``advance`` lets seconds pass, ``page`` shows the counters."""

    def __init__(self, jobs: list[Job], started: int, name: str = "http://node-a:9400") -> None:
        self.jobs, self.name = jobs, name
        self.restart(started)

    def restart(self, at: int) -> None:
        self.started = self.now = at
        self.totals: dict[int, Totals] = {}

    def advance(self, until: int) -> None:
        for second in range(self.now, until):
            for place, job in enumerate(self.jobs):
                if job.start <= second < job.end:
                    self._count(self.totals.setdefault(place, Totals()), job, second)
        self.now = max(self.now, until)

    @staticmethod
    def _count(totals: Totals, job: Job, second: int) -> None:
        totals.allocated += 1
        totals.peak = max(totals.peak, job.memory(second))
        totals.energy += 100.0
        value = job.kernel(second)
        if value is None:
            return
        totals.observed += 1
        totals.active += value
        for bucket in range(bisect_left(HISTOGRAM_BOUNDS, value), len(totals.buckets)):
            totals.buckets[bucket] += 1
        if value > 0:
            totals.last_active = second + 1.0
        else:
            totals.zero_inside += 1

    def page(self, linger: int = 180) -> Page:
        containers = [
            self._container(job, self.totals.get(place, Totals()))
            for place, job in enumerate(self.jobs)
            if job.start <= self.now <= job.end + linger
        ]
        device = Device(
            cluster="", gpu_uuid=UUID, node="node-a", model="A100", memory_total_bytes=80 * GIB
        )
        return Page(
            at=float(self.now),
            exporter=self.name,
            process_started=float(self.started),
            devices=(device,),
            containers=tuple(containers),
            histogram_bounds=HISTOGRAM_BOUNDS,
        )

    def _container(self, job: Job, totals: Totals) -> ContainerCounters:
        return ContainerCounters(
            namespace="team-a",
            pod=job.pod,
            pod_uid=job.pod_uid,
            container="main",
            gpu_uuid=job.gpu_uuid,
            allocated=self.now < job.end,
            share=job.share if self.now < job.end else 1.0,  # the gauge goes with the allocation
            allocated_seconds=totals.allocated,
            active={"kernel": totals.active},
            observed={"kernel": totals.observed},
            histogram={"kernel": tuple(totals.buckets)},
            conditions={"zero_inside_active_minute": totals.zero_inside},
            link_bytes={"pcie/rx": totals.active * 1e9},
            memory_peak_bytes=totals.peak,
            energy_joules=totals.energy,
            last_active=totals.last_active,
        )


def run_pages(exporter: Exporter, until: int, every: int) -> list[Page]:
    """Pages from now to ``until``, both ends included."""
    pages = [exporter.page()]
    for at in range(exporter.now + every, until + 1, every):
        exporter.advance(at)
        pages.append(exporter.page())
    return pages


def without_histograms(page: Page) -> Page:
    """The page as it is read where histograms are left to a later hour."""
    bare = tuple(msgspec.structs.replace(one, histogram={}) for one in page.containers)
    return msgspec.structs.replace(
        page, containers=bare, histogram_bounds=(), histograms_later=True
    )
