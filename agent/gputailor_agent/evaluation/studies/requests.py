"""Requests in cluster traces: how much of the demand the rules' gates and thresholds reach.

Traces of requests have no use in them. They cannot tell whether advice is right, only whom a gate
leaves out and how common an odd request is.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from gputailor_agent.evaluation.base import Cell, Figure, Outcome, Source, Study, Table
from gputailor_agent.evaluation.tables import numbers, records
from gputailor_agent.rules import excess_cpu_memory
from gputailor_agent.rules.gates import SIZING_THRESHOLDS

JOBS: Final = Source(
    file="requests/philly_jobs*.csv*",
    origin="Philly trace, as carried by the Helios artifact",
    licence="CC-BY-4.0, MIT",
)
PODS: Final = Source(
    file="requests/openb_pod_list_*.csv*",
    origin="Alibaba clusterdata v2023",
    licence="no file stated: not part of the project, quoted as figures only",
)
NODES: Final = Source(
    file="requests/openb_node_list_all*.csv*", origin=PODS.origin, licence=PODS.licence
)
_WHOLE: Final = 1000.0
_METHOD: Final = (
    (
        "Gates: share of jobs, and of the GPU time they held, that a rule may judge after one run "
        "(the product's settings for the least length of a run). Jobs that come back three times "
        "are judged earlier; names of jobs are not in the trace."
    ),
    (
        "CPU and memory: requests of pods with GPUs against the CPU and memory per GPU of the "
        "median node with GPUs; on which node a pod ran is not in the trace. GPUs stranded as in "
        "the rule excess_cpu_memory."
    ),
)
_CANNOT: Final = (
    "Precision and recall of rules on these requests: what was used of them is not in the traces.",
    "Joining of runs to workloads: names were replaced by numbers.",
)


@dataclass(frozen=True, slots=True)
class _Pod:
    """What one pod asks for: GPUs (shares of one below 1), cores, MiB."""

    gpus: float
    cpus: float
    memory: float


def _pods(path: Path) -> list[_Pod]:
    columns = ("num_gpu", "gpu_milli", "cpu_milli", "memory_mib")
    found = []
    for line, cells in records(path, columns):
        gpus, milli, cpu, memory = numbers(path, line, columns, cells)
        part = milli / _WHOLE if gpus == 1 and milli > 0 else 1.0
        found.append(_Pod(gpus * part, cpu / _WHOLE, memory))
    return [pod for pod in found if pod.gpus > 0]


def _per_gpu(paths: Iterable[Path]) -> tuple[float, float] | None:
    """Cores and MiB per GPU of the median node with GPUs; None without one."""
    columns = ("cpu_milli", "memory_mib", "gpu")
    rows = [
        numbers(path, line, columns, cells)
        for path in paths
        for line, cells in records(path, columns)
    ]
    shares = [(cpu / _WHOLE / gpus, memory / gpus) for cpu, memory, gpus in rows if gpus > 0]
    if not shares:
        return None
    cpus, memory = np.median(np.array(shares), axis=0)
    return float(cpus), float(memory)


def _stranding(pods: list[_Pod], per_gpu: tuple[float, float]) -> int:
    limit = next(one.default for one in excess_cpu_memory.RULE.thresholds
                 if one.name == "stranded_gpus")  # fmt: skip
    stranded = (
        max(pod.cpus / per_gpu[0] - pod.gpus, pod.memory / per_gpu[1] - pod.gpus) for pod in pods
    )
    return sum(one >= limit for one in stranded)


def _gates(paths: Iterable[Path]) -> Iterator[Figure]:
    columns = ("duration", "num_gpus")
    rows = [
        numbers(path, line, columns, cells)
        for path in paths
        for line, cells in records(path, columns)
    ]
    table = np.array([row for row in rows if row[0] > 0 and row[1] > 0], dtype=float)
    table = table.reshape(-1, len(columns))
    times = table[:, 0] * table[:, 1]
    limits = {one.name: one.default for one in SIZING_THRESHOLDS}
    for name, label in (
        ("batch_run_seconds", "long enough to be judged after one run"),
        ("least_run_seconds", "long enough to be judged at all"),
    ):
        enough = table[:, 0] >= limits[name]
        seconds = f"{limits[name]:g} s"
        total = float(times.sum())
        yield Figure(
            name=f"jobs {label}",
            value=float(enough.mean()) if len(table) else None,
            cases=len(table),
            note=seconds,
        )
        yield Figure(
            name=f"GPU time of jobs {label}",
            value=float(times[enough].sum()) / total if total > 0 else None,
            cases=len(table),
            note=seconds,
        )


def run(folder: Path) -> Outcome:
    """Count what traces of requests can tell."""
    per_gpu = _per_gpu(NODES.files(folder))
    rows: list[tuple[Cell, ...]] = []
    for path in PODS.files(folder):
        pods = _pods(path)
        if not pods:
            continue
        parts = sum(pod.gpus < 1 for pod in pods)
        several = sum(pod.gpus > 1 for pod in pods)
        stranding = _stranding(pods, per_gpu) / len(pods) if per_gpu is not None else None
        rows.append((path.stem, len(pods), parts / len(pods), several / len(pods), stranding))
    return Outcome(
        study=STUDY.id,
        title=STUDY.title,
        sources=STUDY.sources,
        method=_METHOD,
        figures=tuple(_gates(JOBS.files(folder))),
        tables=(
            Table(
                title="Pods that ask for GPUs",
                columns=("trace", "pods with GPUs", "ask for a part of one", "ask for several",
                         "CPU or memory strand half a GPU or more"),
                units=("", "count", "ratio", "ratio", "ratio"),
                rows=tuple(rows),
            ),
        ),
        not_evaluable=_CANNOT,
    )  # fmt: skip


STUDY: Final = Study(
    id="requests",
    title="Requests in cluster traces",
    sources=(JOBS, PODS, NODES),
    run=run,
    order=60,
    partial=True,
)
