"""Measured jobs, alone and in pairs on one card: utilisation, bandwidth, memory, relative speed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gputailor_agent.evaluation.base import EvaluationError
from gputailor_agent.evaluation.tables import numbers, records

Configuration = tuple[str, str, str, str]  # model, dataset, batch size, mixed precision
_IDENTITY: Final = ("model", "dataset", "batchsize", "amp")
_ALONE: Final = ("speed", "gpu_util", "gmem_util", "gmem")
_PERCENT: Final = 100.0


@dataclass(frozen=True, slots=True)
class Alone:
    """One job configuration by itself. Shares are 0..1; ``speed`` in samples per second."""

    name: Configuration
    speed: float
    busy: float  # share of time with a kernel
    bandwidth: float  # share of time with memory traffic
    memory_mib: float


@dataclass(frozen=True, slots=True)
class Pair:
    """Two configurations on one card, and how fast each was there (1: as alone)."""

    first: Alone
    second: Alone
    speed_first: float
    speed_second: float

    @property
    def slowdown(self) -> float:
        """Of the slower one: times the time that it takes alone."""
        return 1 / min(self.speed_first, self.speed_second)

    @property
    def worst_speed(self) -> float:
        """Relative speed of the slower one."""
        return min(self.speed_first, self.speed_second)

    @property
    def names(self) -> tuple[str, str]:
        """Both configurations as text."""
        return told(self.first.name), told(self.second.name)


def told(name: Sequence[str]) -> str:
    """Return a configuration as text."""
    return "/".join(name)


def read_alone(paths: Iterable[Path]) -> dict[Configuration, Alone]:
    """Every configuration that was measured by itself; raises ``EvaluationError``."""
    found: dict[Configuration, Alone] = {}
    rows = ((path, *row) for path in paths for row in records(path, (*_IDENTITY, *_ALONE)))
    for path, line, cells in rows:
        model, dataset, batch, amp = cells[:4]
        speed, busy, bandwidth, memory = numbers(path, line, _ALONE, cells[4:])
        name = (model, dataset, batch, amp)
        found[name] = Alone(name, speed, busy / _PERCENT, bandwidth / _PERCENT, memory)
    return found


def read_pairs(paths: Iterable[Path], alone: dict[Configuration, Alone]) -> tuple[list[Pair], int]:
    """Pairs of known configurations, and how many rows name one that was not measured alone.

    Raises ``EvaluationError``, also for a speed that is not above zero.
    """
    sides = tuple(f"{name}{side}" for side in "12" for name in _IDENTITY)
    columns = (*sides, "speed1", "speed2")
    found, strangers = [], 0
    rows = ((path, *row) for path in paths for row in records(path, columns))
    for path, line, cells in rows:
        speeds = numbers(path, line, ("speed1", "speed2"), cells[8:])
        if min(speeds) <= 0:
            raise EvaluationError(f"{path}: line {line}: expected speeds above 0, found {speeds}")
        first, second = alone.get(_name(cells[:4])), alone.get(_name(cells[4:8]))
        if first is None or second is None:
            strangers += 1
            continue
        found.append(Pair(first, second, *speeds))
    return found, strangers


def _name(cells: list[str]) -> Configuration:
    model, dataset, batch, amp = cells
    return (model, dataset, batch, amp)
