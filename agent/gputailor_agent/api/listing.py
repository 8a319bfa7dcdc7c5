"""The workloads of a plan, ready to be filtered, searched, sorted and paged: 50,000 in a blink.

Everything that costs is done once per plan: texts to search in, and one order per column. Sentences
are made for the page that is shown, never for all. A place in an order is the column's value with
the workload's id: whoever pages by it neither misses nor repeats a workload when others come or go.
"""

import base64
import binascii
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any, Final, NamedTuple

import msgspec

from gputailor_agent.api.packed import Reports
from gputailor_agent.model.inventory import Workload
from gputailor_agent.model.judgement import Plan, Verdict
from gputailor_agent.reports import overview
from gputailor_agent.reports.overview import rank as report_rank  # the report's one order

Value = float | str | None
Key = tuple[bool, Any, str]

#: Names of choices that a form offers; more are not offered, but can be typed.
MOST_CHOICES: Final = 500
LARGEST_PAGE: Final = 1000


def _rank(state: str) -> float:
    return float(overview.STATES.index(state)) if state in overview.STATES else 9.0


def _saving(verdict: Verdict) -> float | None:
    found = verdict.primary
    if found is None:
        return None
    money, hours = found.saving.money_per_month, found.saving.gpu_hours_per_month
    return money.amount if money is not None else (None if hours is None else hours * 1e-6)


def _memory(verdict: Verdict) -> float | None:
    if verdict.memory_peak_bytes is None or not verdict.memory_total_bytes:
        return None
    return verdict.memory_peak_bytes / verdict.memory_total_bytes


#: Columns by which the list can be sorted; None (unknown) is last in either direction.
SORTS: Final[dict[str, Callable[[Verdict], Value]]] = {
    "name": lambda one: one.workload.id.casefold(),
    "state": lambda one: _rank(one.state),
    "gpus": lambda one: one.gpus_now,
    "use": lambda one: one.mean_kernel,
    "memory": _memory,
    "observed": lambda one: one.coverage,
    "hours": lambda one: one.gpu_hours,
    "cost": lambda one: None if one.cost is None else one.cost.amount,
    "saving": _saving,
}
#: The report's own order: what saves most, then watching, unknown and fine.
REPORT: Final = "report"


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What is looked for. '' is any; several values of one field are joined by "or"."""

    text: str = ""
    state: tuple[str, ...] = ()
    namespace: tuple[str, ...] = ()
    team: tuple[str, ...] = ()
    kind: tuple[str, ...] = ()
    task: tuple[str, ...] = ()
    rule: tuple[str, ...] = ()
    sort: str = REPORT
    descending: bool = False

    def ordered(self, sort: str, *, descending: bool) -> "Question":
        """The same in another order."""
        return msgspec.structs.replace(self, sort=sort, descending=descending)

    def of_state(self, state: str) -> "Question":
        """The same of one state."""
        return msgspec.structs.replace(self, state=(state,))

    @property
    def order(self) -> str:
        """Column and direction as an address has them, e.g. ``-saving``."""
        return f"-{self.sort}" if self.descending else self.sort

    @property
    def filtered(self) -> bool:
        """Whether some workloads may be left out."""
        fields = (self.state, self.namespace, self.team, self.kind, self.task, self.rule)
        return bool(self.text.strip()) or any(fields)


def asked_order(text: str) -> tuple[str, bool]:
    """Column and direction of ``saving`` or ``-saving``; raises ``ValueError``."""
    sort = text.removeprefix("-") or REPORT
    if sort != REPORT and sort not in SORTS:
        raise ValueError(f"sort: expected {', '.join((REPORT, *SORTS))}, found {text!r}")
    return sort, text.startswith("-")


class Answer(NamedTuple):
    """One page: the verdicts, how many there are in all, where it begins and how to go on."""

    verdicts: list[Verdict]
    total: int
    start: int
    after: str  # '' where it is the last


class CursorError(ValueError):
    """A place to go on from that this list never gave."""


class Index:
    """One plan's workloads."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.reports = Reports(plan)
        self._verdicts = sorted(plan.verdicts, key=lambda one: one.workload.id)
        self._texts = [_searched(one.workload) for one in self._verdicts]
        self._values: dict[str, list[Any]] = {}
        self._orders: dict[tuple[str, bool], list[int]] = {}
        self._order(REPORT, descending=False)

    def __len__(self) -> int:
        """How many workloads there are."""
        return len(self._verdicts)

    def ready(self) -> None:
        """Make every order, so that nobody waits for one."""
        for sort in (REPORT, *SORTS):
            for descending in (False, True):
                self._order(sort, descending=descending)
        _ = self.totals, self.findings, self.namespaces, self.teams, self.rules

    @cached_property
    def totals(self) -> overview.Totals:
        """The plan in one line."""
        return overview.totals(self.plan)

    @cached_property
    def findings(self) -> int:
        """How many workloads have a saving that is counted."""
        return len(overview.counted_findings(self.plan))

    @cached_property
    def namespaces(self) -> list[str]:
        """Namespaces to choose from."""
        return _choices(one.workload.namespace for one in self._verdicts)

    @cached_property
    def teams(self) -> list[str]:
        """Teams to choose from."""
        return _choices(one.workload.team for one in self._verdicts)

    @cached_property
    def rules(self) -> list[str]:
        """Rules that found something first."""
        return _choices(one.primary.rule for one in self._verdicts if one.primary is not None)

    def matching(self, question: Question) -> list[int]:
        """Places of the workloads that are looked for, in the order that is asked for."""
        order = self._order(question.sort, descending=question.descending)
        if not question.filtered:
            return order
        found, verdicts, texts = order, self._verdicts, self._texts
        for keep in _filters(question):
            found = [at for at in found if keep(verdicts[at])]
        for word in question.text.casefold().split():
            found = [at for at in found if word in texts[at]]
        return found

    def page(self, question: Question, number: int, size: int) -> Answer:
        """The page of a number from 1 on; past the last it is the last."""
        found = self.matching(question)
        last = max(1, -(-len(found) // size))
        start = (min(max(1, number), last) - 1) * size
        return self._cut(question, found, start, size)

    def after(self, question: Question, cursor: str, size: int) -> Answer:
        """What comes after a place; '' is the beginning. Raises ``CursorError``."""
        found = self.matching(question)
        start = 0
        if cursor:
            place = _read_cursor(cursor, question)
            start = bisect_right(found, place, key=lambda at: self._key(at, question))
        return self._cut(question, found, start, size)

    def _cut(self, question: Question, found: list[int], start: int, size: int) -> Answer:
        shown = found[start : start + size]
        more = bool(shown) and start + size < len(found)
        after = _cursor(self._key(shown[-1], question)) if more else ""
        return Answer([self._verdicts[at] for at in shown], len(found), start, after)

    def _order(self, sort: str, *, descending: bool) -> list[int]:
        """Places in an order; ties are in order of ids, what is unknown comes last."""
        key = (sort, descending)
        if key not in self._orders:
            values = self._of(sort)
            places = range(len(values))  # of ids in order, and sorting keeps it where values tie
            known = [at for at in places if values[at] is not None]
            known.sort(key=values.__getitem__, reverse=descending)
            self._orders[key] = known + [at for at in places if values[at] is None]
        return self._orders[key]

    def _of(self, sort: str) -> list[Any]:
        """What is sorted by, of each workload."""
        if sort not in self._values:
            value = report_rank if sort == REPORT else SORTS[sort]
            self._values[sort] = [value(one) for one in self._verdicts]
        return self._values[sort]

    def _key(self, at: int, question: Question) -> Key:
        value, identity = self._of(question.sort)[at], self._verdicts[at].workload.id
        if value is None:
            return True, 0.0, identity
        return False, _turned(value, question.descending), identity


class _Down(str):
    """A text that is sorted the other way round."""

    __slots__ = ()

    def __lt__(self, other: str) -> bool:
        return str.__gt__(self, other)

    def __gt__(self, other: str) -> bool:
        return str.__lt__(self, other)


def _turned(value: Any, descending: bool) -> Any:
    if not descending:
        return value
    if isinstance(value, str):
        return _Down(value)
    return tuple(-one for one in value) if isinstance(value, tuple) else -value


def _cursor(key: Key) -> str:
    unknown, value, identity = key
    plain = str(value) if isinstance(value, str) else value  # of ``_Down``, too
    return (
        base64.urlsafe_b64encode(msgspec.json.encode((unknown, plain, identity)))
        .decode()
        .rstrip("=")
    )


def _read_cursor(text: str, question: Question) -> Key:
    try:
        unknown, value, identity = msgspec.json.decode(
            base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)),
            type=tuple[bool, float | str | tuple[float, ...], str],
        )
    except (ValueError, binascii.Error, msgspec.DecodeError) as error:
        raise CursorError("cursor: not one of this list; begin without it") from error
    wanted: type = tuple if question.sort == REPORT else str if question.sort == "name" else float
    if not unknown and not isinstance(value, wanted):
        raise CursorError("cursor: it is of another order; begin without it")
    if question.sort == "name" and question.descending and isinstance(value, str):
        value = _Down(value)
    return unknown, value, identity


def _searched(workload: Workload) -> str:
    """What a search looks in, in one text."""
    parts = (workload.id, workload.team, workload.image, workload.framework, workload.queue)
    return "\n".join(parts).casefold()


def _filters(question: Question) -> Iterator[Callable[[Verdict], bool]]:
    """One test for each field that is asked for."""
    fields: tuple[tuple[tuple[str, ...], Callable[[Verdict], str | None]], ...] = (
        (question.state, lambda one: one.state),
        (question.namespace, lambda one: one.workload.namespace),
        (question.team, lambda one: one.workload.team),
        (question.kind, lambda one: one.workload.kind),
        (question.task, lambda one: one.workload.task_class.value),
        (question.rule, lambda one: None if one.primary is None else one.primary.rule),
    )
    for wanted, value in fields:
        if wanted:
            yield _one_of(frozenset(wanted), value)


def _one_of(
    wanted: frozenset[str], value: Callable[[Verdict], str | None]
) -> Callable[[Verdict], bool]:
    return lambda one: value(one) in wanted


def _choices(values: Iterable[str]) -> list[str]:
    return sorted({value for value in values if value})[:MOST_CHOICES]
