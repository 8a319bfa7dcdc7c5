"""``--fail-on 'saving>1000'``: when a report ends with an exit code, for pipelines.

A figure that is unknown (a saving where no price is known) meets no condition; that is told, so
that a pipeline does not take it for zero.
"""

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from gputailor_agent.cli import options
from gputailor_agent.cli.errors import THRESHOLD_EXCEEDED, UsageError
from gputailor_agent.cli.terminal import tell
from gputailor_agent.model.judgement import Plan, Severity

_COMPARISONS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
_CONDITION: Final = re.compile(r"\s*(\w+)\s*(>=|<=|>|<)\s*(\S+)\s*")


def _saving(plan: Plan) -> float | None:
    saving = plan.saving_money_per_month
    return None if saving is None else saving.amount


def _cost(plan: Plan) -> float | None:
    return None if plan.cost is None else plan.cost.nodes


def _findings(plan: Plan) -> float:
    return float(sum(one.primary is not None for one in plan.verdicts))


def _high(plan: Plan) -> float:
    return float(
        sum(
            one.primary is not None and one.primary.severity is Severity.HIGH
            for one in plan.verdicts
        )
    )


def _unknown(plan: Plan) -> float:
    return float(sum(one.state == "unknown" for one in plan.verdicts))


#: What can be compared, by its name: how it is read of what is judged, and what it is.
Figures = Mapping[str, tuple[Callable[[Any], float | None], str]]

#: Figures of a plan.
FIGURES: Final[Figures] = {
    "saving": (_saving, "money that can be saved per month, in the currency of most GPUs' prices"),
    "gpu_hours": (
        lambda plan: plan.saving_gpu_hours_per_month,
        "GPU-hours that can be saved per month",
    ),
    "cost": (_cost, "money that the GPU nodes cost in the window"),
    "findings": (_findings, "workloads with a recommendation"),
    "high": (_high, "workloads whose recommendation is of high severity"),
    "unknown": (_unknown, "workloads of which too little is known"),
}


def option(names: str) -> Any:
    """The option for figures of these names."""
    text = f"Exit 3 when it holds: NAME>NUMBER (also >=, <, <=) with {names}. Repeatable: any."
    return typer.Option("--fail-on", metavar="CONDITION", help=text, rich_help_panel=options.ANSWER)


#: For the figures of a plan.
FailOn = Annotated[list[str] | None, option("saving, gpu_hours, cost, findings, high or unknown")]


@dataclass(frozen=True)
class Condition:
    """A figure held against a number."""

    sign: str
    limit: float
    text: str
    read: Callable[[Any], float | None]
    what: str

    def met(self, value: float | None) -> bool | None:
        """None where the figure is unknown."""
        return None if value is None else _COMPARISONS[self.sign](value, self.limit)


def conditions(texts: Iterable[str], figures: Figures = FIGURES) -> tuple[Condition, ...]:
    """What was given, in its order; raises ``UsageError``."""
    return tuple(_condition(text, figures) for text in texts)


def _condition(text: str, figures: Figures) -> Condition:
    found = _CONDITION.fullmatch(text)
    if found is None or found[1] not in figures:
        raise UsageError(
            f"--fail-on {text!r} is no condition: NAME>NUMBER is expected, e.g. "
            f"'{next(iter(figures))}>1000' (in quotes, for the shell), with {', '.join(figures)}"
        )
    name, sign, number = found.groups()
    try:
        limit = float(number)
    except ValueError:
        limit = float("nan")
    if limit != limit:  # noqa: PLR0124 - not a number, or said so
        raise UsageError(f"--fail-on {text!r}: {number!r} is no number")
    return Condition(sign, limit, f"{name}{sign}{number}", *figures[name])


def verdict(wanted: Iterable[Condition], judged: Any) -> tuple[bool, list[str]]:
    """Whether any condition holds, and what to tell of those that hold or cannot be decided.

    ``judged``: a plan, or what else the conditions' figures are read of.
    """
    fails, told = False, []
    for one in wanted:
        value = one.read(judged)
        met = one.met(value)
        if met is None:
            told.append(f"--fail-on {one.text}: unknown ({one.what})")
        elif met:
            fails = True
            told.append(f"--fail-on {one.text}: {value:,.10g} ({one.what})")
    return fails, told


def end(wanted: Iterable[Condition], judged: Any) -> None:
    """Tell, and end with exit code 3 where a condition holds."""
    fails, told = verdict(wanted, judged)
    for line in told:
        tell(line)
    if fails:
        raise typer.Exit(THRESHOLD_EXCEEDED)
