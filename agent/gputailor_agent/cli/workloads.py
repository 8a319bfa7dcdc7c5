"""``gputailor workloads``: the workloads of a report, filtered and sorted as on the page."""

from typing import Annotated, Final

import typer

from gputailor_agent.api.filters import FilterError, Filters
from gputailor_agent.api.listing import REPORT, SORTS, Index
from gputailor_agent.cli import failing_on, options, showing
from gputailor_agent.cli.errors import UsageError
from gputailor_agent.cli.inputs import Inputs
from gputailor_agent.cli.judged import judging
from gputailor_agent.cli.reported import report_of
from gputailor_agent.cli.terminal import answer
from gputailor_agent.model.judgement import Plan, Verdict
from gputailor_agent.reports import csv_report, json_report, overview, units
from gputailor_agent.reports.catalogues import ENGLISH, _, speaking
from gputailor_agent.reports.document import Document, Heading, Paragraph
from gputailor_agent.reports.plan_page import workloads_table
from gputailor_agent.reports.scoping import Scope, only

_EPILOG: Final = """Examples:

  gputailor workloads --store sqlite:///gputailor.db

  gputailor workloads --store "$DB" --state finding --rule idle --sort -saving --limit 20

  gputailor workloads --store "$DB" --team vision --output csv > vision.csv

  gputailor workloads --store "$DB" --search "bert train" --fail-on 'findings>0'
"""
_FILTER: Final = "Which workloads"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=_EPILOG)(judging(workloads))


def _chosen(name: str, help_text: str) -> typer.models.OptionInfo:
    found: typer.models.OptionInfo = typer.Option(name, help=help_text, rich_help_panel=_FILTER)
    return found


def workloads(
    *,
    inputs: Inputs,
    search: Annotated[
        str, _chosen("--search", "Words that its name, kind, team or labels hold, all of them.")
    ] = "",
    state: Annotated[
        list[str] | None, _chosen("--state", f"One of {', '.join(overview.STATES)}. Repeatable.")
    ] = None,
    kind: Annotated[
        list[str] | None, _chosen("--kind", "Such as Deployment or Job. Repeatable.")
    ] = None,
    rule: Annotated[
        list[str] | None, _chosen("--rule", "Whose first recommendation is this rule's. Repeatable")
    ] = None,
    team: options.Teams = None,
    owner: options.Owners = None,
    sort: Annotated[
        str,
        _chosen("--sort", f"By {', '.join((REPORT, *SORTS))}; with - in front the largest first."),
    ] = REPORT,
    limit: Annotated[
        int | None,
        typer.Option("--limit", help="No more than so many.", min=1, rich_help_panel=_FILTER),
    ] = None,
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            help="Format: table, markdown, json or csv.",
            autocompletion=lambda: [*showing.FORMATS, "csv"],
            rich_help_panel=options.ANSWER,
        ),
    ] = "table",
    language: options.Language = ENGLISH,
    fail_on: failing_on.FailOn = None,
) -> None:
    """List workloads: state, use, cost, what could be saved and why, one line each.

    --fail-on counts what is listed.
    """
    if output not in (*showing.FORMATS, "csv"):
        raise UsageError(f"--output: expected table, markdown, json or csv, found {output!r}")
    wanted = failing_on.conditions(fail_on or ())
    asked = Filters(q=search, state=state, kind=kind, rule=rule, sort=sort)
    try:
        question = asked.question()
    except FilterError as error:
        raise UsageError(f"--{error}") from error
    scope = Scope(teams=tuple(team or ()), owners=tuple(owner or ()))
    with speaking(options.spoken_language(language)):
        plan, _beside = report_of(inputs, scope)
        found = Index(plan).page(question, 1, limit or max(1, len(plan.verdicts)))
        _write(output, plan, found.verdicts, found.total)
    listed = {one.workload.id for one in found.verdicts}
    failing_on.end(wanted, only(plan, lambda one: one.id in listed))


def _write(output: str, plan: Plan, verdicts: list[Verdict], total: int) -> None:
    lines = [overview.line_of(one) for one in verdicts]
    if output == "json":
        answer(json_report.encode_list(tuple(map(json_report.workload_text, lines))))
    elif output == "csv":
        answer(csv_report.of_lines(plan, lines))
    else:
        showing.show(output, _page(plan, lines, total), None)


def _page(plan: Plan, lines: list[overview.Line], total: int) -> Document:
    title = _("Workloads of {name}", name=plan.cluster)
    told = _(
        "{found} of {all} workloads fit.",
        found=units.count(total),
        all=units.count(len(plan.verdicts)),
    )
    blocks = (
        Heading(text=title, level=1),
        Paragraph(text=overview.window_text(plan.window), tone="muted"),
        Paragraph(text=told, tone="muted"),
    )
    table = (workloads_table(lines),) if lines else ()
    return Document(title=title, blocks=(*blocks, *table))
