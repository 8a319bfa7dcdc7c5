"""Memory arithmetic against measured memory: others' published runs, and profiles of single jobs.

The product's own form is ``estimating``. Its spreads were chosen with the published runs in sight;
the profiles were looked at afterwards and changed nothing.
"""

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final

import msgspec

from gputailor_agent.estimating import (
    Amount,
    ModelShape,
    Training,
    config_shape,
    estimate_training,
)
from gputailor_agent.estimating.amounts import GIB
from gputailor_agent.estimating.known import known_shape
from gputailor_agent.estimating.published import published_cases
from gputailor_agent.evaluation.base import Figure, Outcome, Source, Study, Table, at_least
from gputailor_agent.evaluation.pairs import Alone, read_alone, told
from gputailor_agent.evaluation.statistics import share, statistic_interval

ALONE: Final = Source(
    file="profiles/single_job_utilisation.csv", origin="S-Lab Lucid", licence="BSD"
)
_INSIDE: Final = 0.95
_MIB: Final = 1024**2
#: Sequence length of the SQuAD example in Hugging Face's transformers.
_SQUAD_TOKENS: Final = 384
_PUBLISHED: Final = (
    "Published: memory that frameworks' own documentation and users' logs tell for a stated model "
    "and setting (estimating/published.csv names each source). What PyTorch told lacks the CUDA "
    "context, so the estimate's context is left out there. The spreads of activations were chosen "
    "with these in sight."
)
_PROFILED: Final = (
    "Profiles: memory of whole jobs as measured by themselves; the spreads were not changed for "
    "them. Not stated there and taken as usual: SGD with momentum for ResNet-50, BERT base with "
    f"{_SQUAD_TOKENS} tokens and AdamW for SQuAD."
)
_ERRORS: Final = (
    "Inside: low end <= measured <= high end of the estimate. Error: expected value over measured "
    "value, less one."
)
_CIFAR: Final = (
    "Networks on CIFAR-10 and others of the profiles: their widths are not stated, and variants "
    "for small images differ from the published ones."
)
_PARALLEL: Final = (
    "Sharded training below ZeRO stage 3, and tensor or pipeline parallel training: nothing "
    "published states all settings."
)
_ENGINES: Final = (
    "Whole serving engines: they take a set share of the card; only weights and cache are held "
    "against what was measured."
)

_Pair = tuple[str, Amount, float]  # name, estimated, measured bytes


def _shape(job: Alone) -> tuple[ModelShape, Training] | None:
    """Model and settings of a job whose architecture is known; None for the others."""
    model, dataset, batch, amp = job.name
    settings = Training(precision="amp" if amp == "1" else "fp32", batch=int(float(batch)))
    if (model, dataset) == ("ResNet50", "ImageNet"):
        shape = config_shape({"architecture": "resnet50"}, ALONE.file)
        return shape, msgspec.structs.replace(settings, optimizer="momentum")
    bert = known_shape("bert-base-uncased")
    if (model, dataset) == ("BERT", "SQuAD") and bert is not None:
        longer = msgspec.structs.replace(settings, sequence=_SQUAD_TOKENS, attention="eager")
        return bert, longer
    return None


def _profiled(folder: Path) -> list[_Pair]:
    pairs = []
    for name, job in sorted(read_alone(ALONE.files(folder)).items()):
        found = _shape(job)
        if found is not None:
            estimated = estimate_training(*found).total
            pairs.append((told(name), estimated, job.memory_mib * _MIB))
    return pairs


def _published() -> list[_Pair]:
    cases = published_cases()
    return [(case.name, case.estimated, case.measured_bytes) for case in cases]


def _inside(pairs: Sequence[_Pair]) -> float | None:
    within = sum(one.low * 0.995 <= seen <= one.high * 1.005 for _, one, seen in pairs)
    return share(within, len(pairs))


def _error(pairs: Sequence[_Pair]) -> float | None:
    return median(one.expected / seen - 1 for _, one, seen in pairs) if pairs else None


def _absolute(pairs: Sequence[_Pair]) -> float | None:
    return median(abs(one.expected / seen - 1) for _, one, seen in pairs) if pairs else None


def _width(pairs: Sequence[_Pair]) -> float | None:
    return median(one.high / one.low for _, one, _ in pairs) if pairs else None


def _figures(pairs: Sequence[_Pair], part: str) -> tuple[Figure, ...]:
    count = len(pairs)
    low, high = statistic_interval(pairs, _absolute) or (None, None)
    return (
        at_least(f"measured memory inside the interval, {part}", _inside(pairs), _INSIDE,
                 cases=count),
        Figure(name=f"median error of the expected value, {part}", value=_error(pairs),
               cases=count),
        Figure(name=f"median size of that error, {part}", value=_absolute(pairs), low=low,
               high=high, cases=count),
        Figure(name=f"median high end over low end, {part}", value=_width(pairs), unit="factor",
               cases=count),
    )  # fmt: skip


def _table(pairs: Sequence[_Pair], part: str) -> Table:
    rows = tuple(
        (
            name,
            round(seen / GIB, 2),
            round(one.low / GIB, 2),
            round(one.expected / GIB, 2),
            round(one.high / GIB, 2),
            one.expected / seen - 1,
        )
        for name, one, seen in pairs
    )
    return Table(
        title=f"Memory in GiB, {part}",
        columns=("run", "measured", "low", "expected", "high", "error"),
        units=("", "count", "count", "count", "count", "ratio"),
        rows=rows,
    )


def run(folder: Path) -> Outcome:
    """Hold estimates against published measurements and the profiles of the folder."""
    published, profiled = _published(), _profiled(folder)
    groups = (("published", published), ("profiles", profiled))
    return Outcome(
        study=STUDY.id,
        title=STUDY.title,
        sources=STUDY.sources,
        method=(_PUBLISHED, _PROFILED, _ERRORS),
        figures=tuple(figure for part, pairs in groups for figure in _figures(pairs, part)),
        tables=tuple(_table(pairs, part) for part, pairs in groups if pairs),
        not_evaluable=(_CIFAR, _PARALLEL, _ENGINES),
    )


STUDY: Final = Study(
    id="memory_models",
    title="Memory of a model, from its sizes alone",
    sources=(ALONE,),
    run=run,
    order=70,
)
