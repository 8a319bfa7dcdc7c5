"""How right the product is, on real data: every study of a folder of data, and what it found.

``make evaluate`` prints the page, ``docs/accuracy.md`` is that page for the data that the project
was built on. A new study is a module in ``studies`` with a ``STUDY``; what the product takes from
the data (``rules/calibrated.yaml``) comes from the studies' ``calibrate``.
"""

import pkgutil
from functools import cache
from importlib import import_module
from pathlib import Path

from gputailor_agent.evaluation import studies as _studies
from gputailor_agent.evaluation.base import EvaluationError, Outcome, Study

__all__ = ["EvaluationError", "Outcome", "Study", "evaluate", "find", "studies"]


@cache
def studies() -> tuple[Study, ...]:
    """Every study, in the order of the page."""
    modules = (
        import_module(f"{_studies.__name__}.{module.name}")
        for module in pkgutil.iter_modules(_studies.__path__)
    )
    found = (getattr(module, "STUDY", None) for module in modules)
    return tuple(
        sorted((one for one in found if isinstance(one, Study)), key=lambda s: (s.order, s.id))
    )


def find(name: str) -> Study:
    """Return the study of that name; raises ``EvaluationError`` with the names that there are."""
    for study in studies():
        if study.id == name:
            return study
    raise EvaluationError(
        f"no study is called {name!r}; there are: {', '.join(one.id for one in studies())}"
    )


def evaluate(folder: Path, chosen: tuple[Study, ...] = ()) -> tuple[Outcome, ...]:
    """Run studies on a folder laid out as ``usage/``, ``profiles/``, ``requests/``.

    A study whose files are not there says so instead of figures. Raises ``EvaluationError`` for a
    folder that does not exist and for files that cannot be read.
    """
    if not folder.is_dir():
        raise EvaluationError(f"{folder}: no such folder; expected one with usage/ and profiles/")
    return tuple(_outcome(study, folder) for study in chosen or studies())


def _outcome(study: Study, folder: Path) -> Outcome:
    missing = study.missing(folder)
    if study.can_run(folder):
        return study.run(folder)
    return Outcome(
        study=study.id,
        title=study.title,
        sources=study.sources,
        method=(),
        not_evaluable=tuple(f"all of it: {name} is not in this folder" for name in missing),
    )
