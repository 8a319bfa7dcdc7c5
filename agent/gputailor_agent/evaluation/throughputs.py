"""Throughputs of the same job on different cards, as a scheduler's profile has them."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gputailor_agent.catalog import DeviceSpec
from gputailor_agent.evaluation.base import EvaluationError
from gputailor_agent.evaluation.tables import text_of
from gputailor_agent.rules.base import Catalogue

_ALONE: Final = "null"
#: Jobs spread over machines: their speed is the network's, not the card's.
_SPREAD: Final = "_unconsolidated"
_JOB: Final = re.compile(r"\('(?P<name>[^']*)', (?P<gpus>\d+)\)")
_BATCH: Final = re.compile(r" \(batch size [^)]*\)")


@dataclass(frozen=True, slots=True)
class Throughput:
    """Steps per second of a job alone on a kind of card."""

    card: str
    job: str  # with the batch size
    family: str  # without it
    gpus: int
    steps_per_second: float


def read_throughputs(paths: Iterable[Path]) -> list[Throughput]:
    """Every job that runs alone on a card; jobs that do not fit (speed 0) are left out.

    Raises ``EvaluationError`` for a file of another shape than card -> job -> {"null": speed}.
    """
    return [one for path in paths for one in _read(path)]


def _read(path: Path) -> list[Throughput]:
    with text_of(path) as text:
        try:
            table = json.load(text)
        except ValueError as error:
            raise EvaluationError(f"{path}: not JSON: {error}") from error
    found = []
    for card, jobs in _mapping(path, "the file", table).items():
        if card.endswith(_SPREAD):
            continue
        for job, speeds in _mapping(path, card, jobs).items():
            speed = _mapping(path, f"{card}: {job}", speeds).get(_ALONE)
            if isinstance(speed, int | float) and speed > 0:
                found.append(_of_job(path, card, job, float(speed)))
    return found


def _mapping(path: Path, where: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise EvaluationError(f"{path}: {where}: expected an object, found {str(value)[:40]!r}")
    return value


def _of_job(path: Path, card: str, job: str, speed: float) -> Throughput:
    match = _JOB.fullmatch(job)
    if match is None:
        raise EvaluationError(
            f"{path}: {card}: expected a job such as \"('ResNet-50 (batch size 64)', 1)\", found "
            f"{job!r}"
        )
    family = _BATCH.sub("", match["name"])
    return Throughput(card, match["name"], family, int(match["gpus"]), speed)


@dataclass(frozen=True, slots=True)
class Move:
    """A job on a card and on a slower one by the catalogue; ``slowdown`` as measured."""

    job: str  # with the batch size
    family: str  # without it
    now: DeviceSpec
    then: DeviceSpec
    gpus: int
    slowdown: float


def moves(found: list[Throughput], catalogue: Catalogue) -> tuple[list[Move], tuple[str, ...]]:
    """Jobs that ran on two cards, from the one with more bandwidth; cards that are not known."""
    cards = sorted({one.card for one in found})
    specs = {card: catalogue.find(card) for card in cards}
    by_job: dict[tuple[str, int], list[tuple[DeviceSpec, Throughput]]] = {}
    for one in found:
        spec = specs[one.card]
        if spec is not None and spec.bandwidth_bytes_per_second and spec.fp32_flops:
            by_job.setdefault((one.job, one.gpus), []).append((spec, one))
    made = [
        Move(at.job, at.family, now, then, at.gpus, at.steps_per_second / to.steps_per_second)
        for ran in by_job.values()
        for now, at in ran
        for then, to in ran
        if (now.bandwidth_bytes_per_second or 0) > (then.bandwidth_bytes_per_second or 0)
    ]
    return made, tuple(card for card in cards if specs[card] is None)
