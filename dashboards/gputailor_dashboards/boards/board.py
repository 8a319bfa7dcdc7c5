"""What a dashboard is: questions in rows, on the exporters that can answer them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from grafanalib.core import Dashboard, Time

from gputailor_dashboards import variables
from gputailor_dashboards.expressions.base import Dialect, Scope
from gputailor_dashboards.expressions.dcgm import Dcgm
from gputailor_dashboards.expressions.native import Native
from gputailor_dashboards.expressions.smi import Smi
from gputailor_dashboards.panels import Row, lay_out

DIALECTS: Final[Mapping[str, type[Dialect]]] = {each.key: each for each in (Native, Dcgm, Smi)}
NATIVE: Final = (Native.key,)
WITH_PODS: Final = (Native.key, Dcgm.key)
EVERY: Final = tuple(DIALECTS)

#: Boards that a label in a table leads to.
_LEADS: Final = {
    "node": "gputailor-node",
    "gpu": "gputailor-gpu",
    "namespace": "gputailor-workload",
    "workload": "gputailor-workload",
}


@dataclass(frozen=True, slots=True)
class Board:
    """One dashboard. ``ask`` gives its rows on a dialect; what a dialect cannot answer is left out.

    ``exporters``: keys of the dialects that it is made for. ``one``: variables with a single value.
    ``place``: where it stands among the others.
    """

    uid: str
    title: str
    description: str
    place: int
    scope: Scope
    variables: tuple[str, ...]
    ask: Callable[[Dialect], tuple[Row, ...]]
    exporters: tuple[str, ...] = NATIVE
    one: tuple[str, ...] = ()
    since: str = "now-24h"

    def names(self, dialect: Dialect) -> tuple[str, ...]:
        """Names of its variables on this dialect: no namespace where pods are not named."""
        if dialect.share() is not None:
            return self.variables
        return tuple(name for name in self.variables if name in {"cluster", "node", "gpu"})

    def build(self, dialect: Dialect, leads: Mapping[str, str]) -> Any:
        """Return grafanalib's dashboard; ``leads``: uid of the board that a label leads to."""
        native = isinstance(dialect, Native)
        names = self.names(dialect)
        return Dashboard(
            title=f"GPU Tailor / {self.title}" + ("" if native else f" ({dialect.title})"),
            description=self.description,
            uid=variables.uid(dialect, self.uid),
            tags=variables.tags(dialect),
            timezone="utc",
            refresh="1m",
            time=Time(self.since, "now"),
            links=variables.links(dialect),
            annotations=variables.annotations(dialect, names),
            templating=variables.templating(dialect, names, self.one),
            panels=lay_out(self.ask(dialect), leads),
        )


def leads(boards: Mapping[str, Board], dialect: Dialect) -> dict[str, str]:
    """Uid of the board that each label in a table leads to, where the exporter has that board."""
    return {
        label: variables.uid(dialect, name)
        for label, name in _LEADS.items()
        if dialect.key in boards[name].exporters
    }
