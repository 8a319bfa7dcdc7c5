"""Measured memory that others published, beside what is estimated for the same run."""

import csv
from functools import cache
from importlib import resources

import msgspec

from gputailor_agent.estimating.amounts import GIB, Amount, Estimate, total
from gputailor_agent.estimating.known import known_shape
from gputailor_agent.estimating.serving import Serving, estimate_serving
from gputailor_agent.estimating.shapes import ModelError
from gputailor_agent.estimating.training import Training, estimate_training


class PublishedCase(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement. ``part``: what was measured, '' for all memory of one GPU.

    ``by_framework``: PyTorch told it, so the CUDA context is not in it.
    """

    name: str
    measured_bytes: float
    estimate: Estimate
    part: str
    by_framework: bool
    assumed: str
    source: str

    @property
    def estimated(self) -> Amount:
        """The estimate of what was measured."""
        if self.part:
            return self.estimate.part(self.part)
        parts = self.estimate.parts
        left_out = {"framework"} if self.by_framework else set()
        return total(part.bytes for part in parts if part.name not in left_out)

    @property
    def relative_error(self) -> float:
        """How far the expected value is off, as a share of what was measured."""
        return self.estimated.expected / self.measured_bytes - 1

    @property
    def inside(self) -> bool:
        """Whether the interval holds the measurement (to the last digit published: 0.5 %)."""
        rounding = 0.005 * self.measured_bytes
        low, high = self.estimated.low - rounding, self.estimated.high + rounding
        return low <= self.measured_bytes <= high


@cache
def published_cases() -> tuple[PublishedCase, ...]:
    """Every row of ``published.csv`` with its estimate."""
    text = resources.files(__package__).joinpath("published.csv").read_text("utf-8")
    return tuple(_case(row) for row in csv.DictReader(text.splitlines()))


def _case(row: dict[str, str]) -> PublishedCase:
    return PublishedCase(
        name=row["case"],
        measured_bytes=float(row["measured_gib"]) * GIB,
        estimate=_training(row) if row["task"] == "training" else _serving(row),
        part=row["part"],
        by_framework=row["measured_by"] == "pytorch",
        assumed=row["assumed"],
        source=row["source"],
    )


def _training(row: dict[str, str]) -> Estimate:
    settings = msgspec.convert(
        {
            "precision": row["precision"],
            "optimizer": row["optimizer"],
            "batch": int(row["batch"]),
            "sequence": int(row["sequence"]),
            "gpus": int(row["gpus"]),
            "zero": int(row["zero"]),
            "lora_rank": int(row["lora_rank"]) if row["lora_rank"] else None,
            "base_bits": float(row["base_bits"]) if row["base_bits"] else None,
            "checkpointing": row["checkpointing"],
            "attention": row["attention"],
            "fused_loss": row["fused_loss"] == "yes",
        },
        Training,
    )
    shape = known_shape(row["model"])
    if shape is None:
        raise ModelError(f"published.csv: {row['model']} is no known model")
    if shape.kind == "encoder":  # a classifier: no output over the vocabulary
        shape = msgspec.structs.replace(shape, logits=0)
    return estimate_training(shape, settings)


def _serving(row: dict[str, str]) -> Estimate:
    shape = known_shape(row["model"])
    if shape is None:
        raise ModelError(f"published.csv: {row['model']} is no known model")
    settings = Serving(
        weights=row["precision"],
        cache=row["cache"],
        batch=int(row["batch"]),
        sequence=int(row["sequence"]),
        gpus=int(row["gpus"]),
    )
    return estimate_serving(shape, settings)
