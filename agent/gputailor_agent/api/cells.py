"""What stands in a cell, and how it looks: a figure, 0, unknown, or not measured yet.

The four differ by words and by marks, never by colour alone. What is not measured yet and what is
unknown is told apart as in every report (``overview.use_of``).
"""

from typing import NamedTuple

from gputailor_agent.reports import overview, units
from gputailor_agent.reports.catalogues import _
from gputailor_agent.reports.overview import Line


class Cell(NamedTuple):
    """A cell's text; ``kind``: "" a figure, "zero", "unknown" or "unmeasured"."""

    text: str
    kind: str = ""


class Row(NamedTuple):
    """A workload in a table."""

    id: str
    state: str
    state_text: str
    team: Cell
    gpus: Cell
    models: Cell
    use: Cell
    memory: Cell
    observed: Cell
    cost: Cell
    saving: str
    text: str


def cell(value: float | None, text: str, *, unmeasured: bool = False) -> Cell:
    """A figure as a cell; ``text`` is how it reads where it is known."""
    if units.is_known(value):
        return Cell(text, "zero" if value == 0 else "")
    return Cell(_("not measured yet"), "unmeasured") if unmeasured else unknown()


def unknown() -> Cell:
    """What is not known."""
    return Cell(units.unknown(), "unknown")


def named(text: str) -> Cell:
    """A name; '' is unknown."""
    return Cell(text) if text else unknown()


def row(line: Line, *, per: str = "month") -> Row:
    """The cells of a report's line; with ``per=""`` the column's title says per month."""
    verdict, found = line.verdict, line.verdict.primary
    waits = overview.use_of(verdict) == overview.NOT_YET
    peak = verdict.memory_peak_bytes
    cost = None if verdict.cost is None else verdict.cost.amount
    return Row(
        id=verdict.workload.id,
        state=line.state,
        state_text=overview.state_word(line.state),
        team=named(verdict.workload.team),
        gpus=cell(verdict.gpus_now, units.count(verdict.gpus_now)),
        models=named(", ".join(one.removeprefix("NVIDIA ") for one in verdict.device_models)),
        use=cell(verdict.mean_kernel, units.ratio(verdict.mean_kernel), unmeasured=waits),
        memory=cell(peak, units.size(peak), unmeasured=waits),
        observed=cell(verdict.coverage, units.ratio(verdict.coverage), unmeasured=waits),
        cost=cell(cost, units.money(verdict.cost)),
        saving="" if found is None else overview.saving_text(found, per=per),
        text=line.headline,
    )
