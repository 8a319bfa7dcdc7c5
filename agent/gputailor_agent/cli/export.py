"""``gputailor export FOLDER``: the report in every format, as files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from gputailor_agent.cli import failing_on, options, showing
from gputailor_agent.cli.errors import CommandError, UsageError
from gputailor_agent.cli.inputs import Inputs
from gputailor_agent.cli.judged import judging
from gputailor_agent.cli.reported import report_of
from gputailor_agent.reports.catalogues import ENGLISH, _, speaking
from gputailor_agent.reports.document import Column, Document, Heading, Table, headed
from gputailor_agent.reports.formats import Look, find
from gputailor_agent.reports.scoping import Scope
from gputailor_agent.reports.units import size

_EPILOG: Final = """Examples:

  gputailor export reports/ --store sqlite:///gputailor.db

  gputailor export vision/ --store "$DB" --team vision --language zh --format html --format csv

  gputailor export out/ --archive metrics/ --inventory cluster.json --output json

The hours themselves, as Parquet files: gputailor store export.
"""
#: Formats and the files they become; those for a terminal or a mail are none.
FILES: Final = {
    "html": "report.html",
    "markdown": "report.md",
    "text": "report.txt",
    "json": "report.json",
    "csv": "report.csv",
}
_WIDTH: Final = 100
_COLUMNS: Final = (Column(title="file", least=20), Column(title="size", numeric=True))


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=_EPILOG)(judging(export))


def export(
    folder: Annotated[
        Path, typer.Argument(help="Where to; made if it is not there. Files of the same name go.")
    ],
    *,
    inputs: Inputs,
    format_names: Annotated[
        list[str] | None,
        typer.Option(
            "--format",
            help=f"Only this one: {', '.join(FILES)}. Repeatable.",
            autocompletion=lambda: list(FILES),
            rich_help_panel=options.ANSWER,
        ),
    ] = None,
    team: options.Teams = None,
    owner: options.Owners = None,
    output: showing.Output = "table",
    language: options.Language = ENGLISH,
    fail_on: failing_on.FailOn = None,
) -> None:
    """Write the report as files: HTML, Markdown, text, JSON and CSV, the same judgement in each.

    What was written is listed.
    """
    wanted = failing_on.conditions(fail_on or ())
    names = _names(format_names or ())
    scope = Scope(teams=tuple(team or ()), owners=tuple(owner or ()))
    with speaking(options.spoken_language(language)):
        plan, beside = report_of(inputs, scope)
        texts = {FILES[name]: find(name).plan(plan, Look(width=_WIDTH), beside) for name in names}
        written = _written(folder, texts)
        showing.show(output, _page(written), {"schema_version": "1.0", "files": written})
    failing_on.end(wanted, plan)


def _names(given: Sequence[str]) -> list[str]:
    for name in given:
        if name not in FILES:
            raise UsageError(f"--format: expected one of {', '.join(FILES)}, found {name!r}")
    return list(dict.fromkeys(given)) or list(FILES)


def _written(folder: Path, texts: dict[str, str]) -> dict[str, int]:
    """Write the files; their bytes by path."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        found = {}
        for name, text in texts.items():
            content = text.encode()
            (folder / name).write_bytes(content)
            found[str(folder / name)] = len(content)
    except OSError as error:
        raise CommandError(f"{folder} cannot be written: {error.strerror or error}") from error
    return found


def _page(written: dict[str, int]) -> Document:
    title = _("Written")
    rows = tuple((name, size(length)) for name, length in written.items())
    table = Table(columns=headed(_COLUMNS), rows=rows)
    return Document(title=title, blocks=(Heading(text=title, level=1), table))
