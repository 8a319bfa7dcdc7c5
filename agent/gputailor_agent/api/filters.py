"""What addresses of lists ask for: the same names on the page and in the API."""

from typing import Annotated, Final

from fastapi import Depends, Query

from gputailor_agent.api.listing import Question, asked_order
from gputailor_agent.reports import overview

_MOST_VALUES: Final = 50

Search = Annotated[
    str, Query(description="Words in id, team, image, framework or queue", max_length=1024)
]
Texts = Annotated[
    list[str] | None, Query(description="One of these; repeatable", max_length=_MOST_VALUES)
]
Sort = Annotated[
    str,
    Query(
        description="report, name, state, gpus, use, memory, observed, hours, cost or saving; "
        "with - in front the largest first; unknown is last",
        max_length=64,
    ),
]
#: A number that a person may have typed: what is none counts as not given.
Number = Annotated[str, Query(max_length=32)]


class FilterError(ValueError):
    """A filter that no list has; the text says what was expected."""


class Filters:
    """Which workloads are asked for. Several values of one field are joined by "or"."""

    def __init__(
        self,
        *,
        q: Search = "",
        state: Texts = None,
        namespace: Texts = None,
        team: Texts = None,
        kind: Texts = None,
        task: Texts = None,
        rule: Texts = None,
        sort: Sort = "report",
    ) -> None:
        self._sort = sort
        self._lenient = Question(
            text=q,
            state=_some(state),
            namespace=_some(namespace),
            team=_some(team),
            kind=_some(kind),
            task=_some(task),
            rule=_some(rule),
        )

    def question(self, *, state: str = "") -> Question:
        """The question, of one ``state`` only where it is given; raises ``FilterError``."""
        strange = [one for one in self._lenient.state if one not in overview.STATES]
        if strange:
            raise FilterError(
                f"state: expected {', '.join(overview.STATES)}, found {strange[0][:100]!r}"
            )
        try:
            asked_order(self._sort)
        except ValueError as error:
            raise FilterError(str(error)) from error
        made = self.lenient()
        return made.of_state(state) if state else made

    def lenient(self) -> Question:
        """The question; an order that there is not is the report's."""
        try:
            column, descending = asked_order(self._sort)
        except ValueError:
            column, descending = asked_order("")
        return self._lenient.ordered(column, descending=descending)


Asked = Annotated[Filters, Depends()]


def _some(values: list[str] | None) -> tuple[str, ...]:
    return tuple(value for value in values or () if value)


def whole(text: str, otherwise: int) -> int:
    """A whole number of an address; ``otherwise`` for anything else, nine digits at most."""
    return min(int(text[:20]), 999_999_999) if text.isascii() and text.isdigit() else otherwise
