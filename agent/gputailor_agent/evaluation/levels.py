"""A cluster's trace of levels: one digit per GPU and sample, and the spells at level 0 in it.

A spell is a run of samples at level 0 of one GPU while every GPU of its node was allocated to the
same list of users. Which GPU belongs to which job is not in such a trace, so a spell is cut where
that list changes: from there on another job may hold the GPU. A cut spell tells nothing of what
would have come next; it is neither right nor wrong.
"""

from collections import defaultdict
from dataclasses import dataclass, fields
from enum import IntEnum
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gputailor_agent.evaluation.base import EvaluationError
from gputailor_agent.evaluation.tables import number, records

_NEEDED: Final = ("ts", "node", "alloc", "gpus", "levels", "users")
_USERS: Final = 5
_GAP_STEPS: Final = 2.5  # one missing sample is bridged, two are a gap
_ZERO: Final = ord("0")
WEEK_SECONDS: Final = 7 * 86_400

Ints = NDArray[np.int64]


class Began(IntEnum):
    """How a spell began."""

    WENT_IDLE = 0  # the same users had the GPU at work the sample before
    FROM_START = 1  # new users, and the GPU worked or was free before
    UNCLEAR = 2  # it was at zero before, or nobody looked


class Ended(IntEnum):
    """How a spell ended."""

    WORK = 0
    CUT = 1  # the users changed, a gap, or the end of the data


@dataclass(frozen=True, slots=True)
class Spells:
    """Spells at level 0, one per place of each array. ``ticks``: length, in steps of the trace."""

    started: Ints  # Unix seconds
    ticks: Ints
    began: Ints
    ended: Ints
    step_seconds: float

    def __len__(self) -> int:
        """Number of spells."""
        return len(self.started)

    def where(self, chosen: NDArray[np.bool_]) -> "Spells":
        """Return the spells that are chosen."""
        parts = {one.name: getattr(self, one.name)[chosen] for one in fields(self)[:-1]}
        return Spells(**parts, step_seconds=self.step_seconds)

    @property
    def weeks(self) -> Ints:
        """Number of the week in which each began: what happens in one is not independent."""
        return np.asarray(self.started // WEEK_SECONDS, dtype=np.int64)

    def steps(self, minutes: float) -> int:
        """Steps that a time takes, rounded up."""
        return max(1, int(np.ceil(minutes * 60 / self.step_seconds - 1e-9)))


@dataclass(frozen=True, slots=True)
class Trace:
    """Spells of a trace, and when each holding began: one GPU, one list of users, until it changes.

    Holdings are what stands for runs: a trace of levels has no jobs.
    """

    spells: Spells
    holdings: Ints  # Unix seconds


@dataclass(slots=True)
class _Node:
    """Samples of one node, as they were read."""

    times: list[int]
    full: list[bool]
    levels: list[str]
    users: list[int]


@lru_cache(maxsize=2)
def read_trace(paths: tuple[Path, ...]) -> Trace:
    """Spells and holdings of every GPU of a trace in some files; what was read is remembered.

    Columns: ts (Unix seconds), node, alloc, gpus, levels, users; others are left alone. Raises
    ``EvaluationError`` for a table that lacks one, or of which nothing is left.
    """
    nodes = _read(paths)
    path = paths[0]
    step = _step(nodes, path)
    found = [_of_node(node, step) for node in nodes.values()]
    spells = [part for part, _ in found if part is not None]
    if not spells:
        raise EvaluationError(
            f"{path}: no GPU was at level 0 on a node that was allocated whole; nothing can be "
            "told of idle GPUs"
        )
    columns = [np.concatenate(column) for column in zip(*spells, strict=True)]
    holdings = np.concatenate([held for _, held in found])
    started, ticks, began, ended = columns
    return Trace(Spells(started, ticks, began, ended, step), holdings)


def _read(paths: tuple[Path, ...]) -> dict[tuple[str, int], _Node]:
    nodes: dict[tuple[str, int], _Node] = defaultdict(lambda: _Node([], [], [], []))
    codes: dict[str, int] = {}
    rows = ((path, *row) for path in paths for row in records(path, _NEEDED))
    for path, line, cells in rows:
        levels = cells[4]
        if not levels.isdigit():
            if not levels:
                continue  # a node whose page had no levels
            raise EvaluationError(
                f"{path}: line {line}: levels: expected one digit per GPU, found {levels!r}"
            )
        node = nodes[cells[1], len(levels)]
        node.times.append(int(number(path, line, "ts", cells[0])))
        allocated, gpus = (number(path, line, _NEEDED[i], cells[i]) for i in (2, 3))
        node.full.append(gpus > 0 and allocated >= gpus)
        node.levels.append(levels)
        node.users.append(codes.setdefault(cells[_USERS], len(codes)))
    if not nodes:
        raise EvaluationError(f"{paths[0]}: no rows; expected one per node and sample")
    return nodes


def _step(nodes: dict[tuple[str, int], _Node], path: Path) -> float:
    times = np.unique(np.array([at for node in nodes.values() for at in node.times]))
    if len(times) < 3:  # noqa: PLR2004 - two steps at least
        raise EvaluationError(f"{path}: fewer than 3 times of samples; give a longer trace")
    return float(np.median(np.diff(times)))


def _of_node(node: _Node, step: float) -> tuple[list[Ints] | None, Ints]:
    """Started, ticks, began, ended of the node's spells; when its holdings began, by GPU."""
    times, keep = np.unique(np.array(node.times), return_index=True)
    width = len(node.levels[0])
    digits = np.frombuffer("".join(node.levels).encode(), dtype=np.uint8).reshape(-1, width)
    zero = digits[keep] == _ZERO
    full = np.array(node.full)[keep]
    users = np.array(node.users)[keep]
    gap = np.diff(times, prepend=times[0] - 10 * step) > _GAP_STEPS * step
    changed = np.diff(users, prepend=-1) != 0
    changed |= np.diff(full.astype(int), prepend=0) != 0
    parts = [
        _of_gpu(times, zero[:, gpu], full, gap=gap, changed=changed, step=step)
        for gpu in range(width)
    ]
    found = [part for part in parts if len(part[0])]
    held = np.repeat(times[full & (gap | changed)], width)
    spells = [np.concatenate(column) for column in zip(*found, strict=True)] if found else None
    return spells, held


def _of_gpu(
    times: Ints,
    zero: NDArray[np.bool_],
    full: NDArray[np.bool_],
    *,
    gap: NDArray[np.bool_],
    changed: NDArray[np.bool_],
    step: float,
) -> list[Ints]:
    idle = zero & full
    before = np.concatenate([[False], idle[:-1]])
    first = np.flatnonzero(idle & (~before | gap | changed))
    after = np.concatenate([idle[1:], [False]])
    cut = np.concatenate([gap[1:] | changed[1:], [True]])
    last = np.flatnonzero(idle & (~after | cut))
    ended = np.where(cut[last], int(Ended.CUT), int(Ended.WORK))
    zero_before = np.concatenate([[False], zero[:-1] & full[:-1]])
    began = np.where(
        gap[first] | zero_before[first],
        int(Began.UNCLEAR),
        np.where(changed[first], int(Began.FROM_START), int(Began.WENT_IDLE)),
    )
    ticks = np.rint((times[last] - times[first]) / step).astype(np.int64)
    return [times[first], ticks, began, ended]
