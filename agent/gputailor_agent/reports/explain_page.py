"""The explanation of one workload as a page: facts, then a section per rule."""

from typing import Final

from gputailor_agent.reports.catalogues import _
from gputailor_agent.reports.document import (
    Block,
    Code,
    Column,
    Document,
    Facts,
    Heading,
    Paragraph,
    Table,
    headed,
)
from gputailor_agent.reports.explain import Explanation, Number, Section

_COLUMNS: Final = (
    Column(title="number", least=24),
    Column(title="value", numeric=True),
    Column(title="held against", numeric=True),
    Column(title="passed"),
    Column(title="samples", numeric=True),
    Column(title="coverage", numeric=True),
    Column(title="formula", least=24),
)


def compose(explanation: Explanation) -> Document:
    """The page of an explanation."""
    title = explanation.subject
    blocks: list[Block] = [
        Heading(text=title, level=1),
        Facts(pairs=tuple((fact.label, fact.text) for fact in explanation.facts)),
    ]
    for section in explanation.sections:
        blocks += _section(section)
    return Document(title=title, blocks=tuple(blocks))


def _section(section: Section) -> list[Block]:
    blocks: list[Block] = [
        Heading(text=f"{section.title} ({section.rule}): {section.standing}"),
        Paragraph(text=section.text),
    ]
    if section.facts:
        blocks.append(Facts(pairs=tuple((fact.label, fact.text) for fact in section.facts)))
    if section.patch:
        blocks.append(Code(text=section.patch))
    if section.command:
        blocks.append(Code(text=section.command, language="sh"))
    if section.code:
        blocks.append(Code(text=section.code, language=""))
    if section.numbers:
        windows = {number.window for number in section.numbers if number.window}
        caption = _("Window: {window}", window=windows.pop()) if len(windows) == 1 else ""
        rows = tuple(_row(number, tell_window=len(windows) > 1) for number in section.numbers)
        blocks.append(Table(columns=headed(_COLUMNS), rows=rows, caption=caption))
    if section.thresholds:
        blocks.append(Paragraph(text=_("Thresholds in force:"), tone="muted"))
        blocks.append(Facts(pairs=tuple((fact.label, fact.text) for fact in section.thresholds)))
    return blocks


def _row(number: Number, *, tell_window: bool) -> tuple[str, ...]:
    name = f"{number.name} [{number.window}]" if tell_window and number.window else number.name
    return (
        name,
        number.value,
        number.held_against,
        number.passed,
        number.samples,
        number.coverage,
        number.formula,
    )
