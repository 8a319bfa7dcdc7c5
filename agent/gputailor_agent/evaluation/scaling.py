"""Step times of data-parallel training by number of GPUs, and what fewer GPUs did to each.

A case is one job (application, cluster, batch per GPU) on N GPUs and on k < N of as many nodes, the
work fixed: samples per second on N over samples per second on k. What a step does not spend on
waiting for the others is the only activity such profiles have.
"""

import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gputailor_agent.evaluation.base import EvaluationError
from gputailor_agent.evaluation.tables import number, records

PATTERN: Final = "profiles/scaling/*_*_*.csv*"
_NAME: Final = re.compile(
    r"(?:sia_)?(?P<job>.+)_(?P<kind>scalability|placements)_(?P<where>.+)\.csv(?:\.gz)?"
)
_TIMES: Final = ("local_bsz", "step_time", "sync_time")


@dataclass(frozen=True, slots=True)
class Setup:
    """One measured step. ``busy``: share of it that is not synchronisation, 0..1."""

    job: str
    cluster: str
    batch: float  # per GPU
    nodes: int
    gpus: int
    seconds: float
    busy: float


@dataclass(frozen=True, slots=True)
class Fewer:
    """The same work on fewer GPUs of as many nodes. ``slowdown``: measured, 1 = as fast.

    ``others``: (GPUs, seconds for the same work) of every other size that was measured.
    """

    job: str
    cluster: str
    now: int
    then: int
    busy: float
    slowdown: float
    others: tuple[tuple[float, float], ...]


def read_setups(folder: Path) -> list[Setup]:
    """Every measured step of the files of ``PATTERN``; the scalability file wins over placements.

    Raises ``EvaluationError`` for a file that lacks a column, has times of 0 or more waiting than
    time.
    """
    found: dict[tuple[object, ...], Setup] = {}
    for path in sorted(folder.glob(PATTERN)):
        match = _NAME.fullmatch(path.name)
        if match is None:
            continue
        for setup in _read(path, match["job"], match["where"], match["kind"]):
            key = (setup.job, setup.cluster, setup.batch, setup.nodes, setup.gpus)
            if key not in found or match["kind"] == "scalability":
                found[key] = setup
    return list(found.values())


def _read(path: Path, job: str, cluster: str, kind: str) -> list[Setup]:
    shape = ("num_nodes", "num_replicas") if kind == "scalability" else ("placement",)
    rows = []
    for line, cells in records(path, (*_TIMES, *shape)):
        batch, seconds, waiting = (
            number(path, line, name, cell) for name, cell in zip(_TIMES, cells, strict=False)
        )
        if seconds <= 0:
            raise EvaluationError(f"{path}: line {line}: step_time: expected more than 0 seconds")
        nodes, gpus = _shape(path, line, cells[3:])
        busy = min(1.0, max(0.0, 1 - waiting / seconds))
        rows.append(Setup(job, cluster, batch, nodes, gpus, seconds, busy))
    return rows


def _shape(path: Path, line: int, cells: list[str]) -> tuple[int, int]:
    """Nodes and GPUs; a placement has one digit per node: "134" is 8 GPUs on 3 nodes."""
    if len(cells) == 1:
        if not cells[0].isdigit():
            raise EvaluationError(
                f"{path}: line {line}: placement: expected one digit per node, found {cells[0]!r}"
            )
        return len(cells[0]), sum(map(int, cells[0]))
    nodes, gpus = (
        number(path, line, name, cell)
        for name, cell in zip(("num_nodes", "num_replicas"), cells, strict=True)
    )
    return int(nodes), int(gpus)


def fewer_cases(setups: list[Setup]) -> list[Fewer]:
    """Every N and k < N of one job and batch on as many nodes."""
    groups: dict[tuple[str, str, float, int], list[Setup]] = defaultdict(list)
    for setup in setups:
        groups[setup.job, setup.cluster, setup.batch, setup.nodes].append(setup)
    cases = []
    for members in groups.values():
        for now in members:
            cases += [_case(now, then, members) for then in members if then.gpus < now.gpus]
    return cases


def _case(now: Setup, then: Setup, members: list[Setup]) -> Fewer:
    others = tuple((float(m.gpus), _per_sample(m)) for m in members if m.gpus != then.gpus)
    ratio = _per_sample(then) / _per_sample(now)
    return Fewer(now.job, now.cluster, now.gpus, then.gpus, now.busy, ratio, others)


def _per_sample(setup: Setup) -> float:
    """Seconds for one sample: what the same work costs."""
    return setup.seconds / (setup.gpus * setup.batch)
