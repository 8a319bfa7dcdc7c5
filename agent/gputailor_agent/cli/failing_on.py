"""``--fail-on 'saving>1000'``: when a report ends with an exit code, for pipelines.

A figure that is unknown (a saving where no price is known) meets no condition; that is told, so
that a pipeline does not take it for zero.
"""

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from gputailor_agent.cli.errors import UsageError
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


#: What can be compared: how it is read, and what it is.
FIGURES: Final[Mapping[str, tuple[Callable[[Plan], float | None], str]]] = {
    "saving": (_saving, "money that can be saved per month, in the prices' currency"),
    "gpu_hours": (
        lambda plan: plan.saving_gpu_hours_per_month,
        "GPU-hours that can be saved per month",
    ),
    "cost": (_cost, "money that the GPU nodes cost in the window"),
    "findings": (_findings, "workloads with a recommendation"),
    "high": (_high, "workloads whose recommendation is of high severity"),
    "unknown": (_unknown, "workloads of which too little is known"),
}
HELP: Final = (
    "Exit 3 when it holds: NAME>NUMBER (also >=, <, <=) with saving, gpu_hours, cost, findings, "
    "high or unknown. Repeatable: any of them."
)


@dataclass(frozen=True)
class Condition:
    """A figure held against a number."""

    name: str
    sign: str
    limit: float
    text: str

    def met(self, plan: Plan) -> bool | None:
        """None where the figure is unknown."""
        value = FIGURES[self.name][0](plan)
        return None if value is None else _COMPARISONS[self.sign](value, self.limit)


def conditions(texts: Iterable[str]) -> tuple[Condition, ...]:
    """What was given, in its order; raises ``UsageError``."""
    return tuple(map(_condition, texts))


def _condition(text: str) -> Condition:
    found = _CONDITION.fullmatch(text)
    if found is None or found[1] not in FIGURES:
        raise UsageError(
            f"--fail-on {text!r} is no condition: NAME>NUMBER is expected, e.g. 'saving>1000' (in "
            f"quotes, for the shell), with {', '.join(FIGURES)}"
        )
    name, sign, number = found.groups()
    try:
        limit = float(number)
    except ValueError:
        limit = float("nan")
    if limit != limit:  # noqa: PLR0124 - not a number, or said so
        raise UsageError(f"--fail-on {text!r}: {number!r} is no number")
    return Condition(name, sign, limit, f"{name}{sign}{number}")


def verdict(wanted: Iterable[Condition], plan: Plan) -> tuple[bool, list[str]]:
    """Whether any condition holds, and what to tell of those that hold or cannot be decided."""
    fails, told = False, []
    for one in wanted:
        met = one.met(plan)
        what = FIGURES[one.name][1]
        if met is None:
            told.append(f"--fail-on {one.text}: unknown ({what})")
        elif met:
            fails = True
            value = FIGURES[one.name][0](plan)
            told.append(f"--fail-on {one.text}: {value:,.10g} ({what})")
    return fails, told
