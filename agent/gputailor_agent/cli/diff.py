"""``gputailor diff``: what changed between two reports."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from gputailor_agent.cli import failing_on, options, showing
from gputailor_agent.cli.errors import CommandError, UsageError
from gputailor_agent.cli.inputs import Inputs
from gputailor_agent.cli.judged import judging
from gputailor_agent.cli.reported import report_of
from gputailor_agent.model.judgement import Plan
from gputailor_agent.reports.beside import NOTHING, Beside
from gputailor_agent.reports.catalogues import ENGLISH, _, speaking
from gputailor_agent.reports.changes_page import Changes, changes, changes_blocks
from gputailor_agent.reports.document import Document, Heading, Paragraph
from gputailor_agent.reports.overview import window_text
from gputailor_agent.reports.remembering import read_former

_EPILOG: Final = """Examples:

  gputailor report --store "$DB" --output json > monday.json

  gputailor diff monday.json --store "$DB"       # what is new since

  gputailor diff --store "$DB"                   # since the last weekly report that is kept

  gputailor diff monday.json friday.json --output json

  gputailor diff --store "$DB" --fail-on 'new>0' --fail-on 'worse>0'

Worse is the same advice that would save a tenth more; fixed and expired need the agent's ledger,
so a difference of two files knows new, worse and gone only.
"""

_WHAT: Final = {
    "new": "workloads with a recommendation they did not have",
    "worse": "workloads whose recommendation would save more than before",
    "fixed": "recommendations that were followed",
    "expired": "recommendations that hold no more, without a change",
    "dismissed": "recommendations that somebody dismissed",
    "gone": "recommendations that are gone, why is not known",
}


def _counting(name: str) -> Callable[[Changes], float]:
    return lambda found: float(len(getattr(found, name)))


FIGURES: Final[failing_on.Figures] = {name: (_counting(name), what) for name, what in _WHAT.items()}
_FailOn = Annotated[
    list[str] | None, failing_on.option("new, worse, fixed, expired, dismissed or gone")
]


class _Report(msgspec.Struct, frozen=True):
    """What is needed of a report's JSON."""

    plan: Plan


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=_EPILOG)(judging(diff))


def diff(
    old: Annotated[
        Path | None,
        typer.Argument(help="A report's JSON; without it the last one kept in --store."),
    ] = None,
    new: Annotated[
        Path | None,
        typer.Argument(help="A later one's; without it what the options say is judged now."),
    ] = None,
    *,
    inputs: Inputs,
    output: showing.Output = "table",
    language: options.Language = ENGLISH,
    fail_on: _FailOn = None,
) -> None:
    """Tell what changed between two reports: new, worse, fixed, expired, dismissed, gone."""
    wanted = failing_on.conditions(fail_on or (), FIGURES)
    with speaking(options.spoken_language(language)):
        plan, beside = report_of(inputs) if new is None else (_plan(new), NOTHING)
        if old is not None:
            beside = msgspec.structs.replace(beside, former=read_former(_text(old)))
            if beside.former is None:
                raise CommandError(_no_report(old))
        found = changes(plan, beside)
        if found is None:
            raise UsageError(
                "nothing to compare with: name a report's JSON, or give a --store in which the "
                "agent keeps its weekly reports"
            )
        showing.show(output, _page(plan, beside), _values(plan, found))
    failing_on.end(wanted, found)


def _values(plan: Plan, found: Changes) -> dict[str, object]:
    return {
        "schema_version": "1.0",
        "cluster": plan.cluster,
        "made_at": plan.made_at,
        **msgspec.to_builtins(found),
    }


def _page(plan: Plan, beside: Beside) -> Document:
    title = _("What changed: {name}", name=plan.cluster)
    blocks = (Heading(text=title, level=1), Paragraph(text=window_text(plan.window), tone="muted"))
    return Document(title=title, blocks=(*blocks, *changes_blocks(plan, beside)))


def _plan(path: Path) -> Plan:
    try:
        return msgspec.json.decode(_text(path), type=_Report).plan
    except msgspec.MsgspecError as error:
        raise CommandError(f"{_no_report(path)}: {error}") from error


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error


def _no_report(path: Path) -> str:
    return (
        f"{path} is no report of ours; expected the JSON that gputailor report --output json writes"
    )
