"""``gputailor ledger``: what became of findings, and how each rule fared."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Final

import typer

from gputailor_agent.api.running import ledger_document
from gputailor_agent.cli import options
from gputailor_agent.cli.keeping import Output, check_output, kept_store
from gputailor_agent.cli.terminal import answer, look
from gputailor_agent.ledger import ALL, records
from gputailor_agent.model.ledger import Decision, Entry, RuleRecord, State
from gputailor_agent.reports import units
from gputailor_agent.reports.console import draw
from gputailor_agent.reports.document import Block, Column, Document, Heading, Paragraph, Table
from gputailor_agent.store.ledger import Ledger

_EPILOG: Final = """Examples:

  gputailor ledger --store sqlite:///gputailor.db

  gputailor ledger --state applied --output json
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=_EPILOG)(ledger)


def ledger(
    *,
    store: options.Store = None,
    cluster: options.Cluster = options.DEFAULT_CLUSTER,
    state: Annotated[
        State | None, typer.Option("--state", help="Only findings in this state.")
    ] = None,
    output: Output = "table",
) -> None:
    """Show what became of findings: was the change made, was the saving real, did it slow down.

    Precision is the share of changes made whose saving was at least half of what was foretold and
    after which no run took longer than foretold, or failed.
    """
    check_output(output)
    with kept_store(store) as opened, opened.transaction() as tx:
        book = Ledger(tx)
        entries, decided = book.entries(cluster), book.decisions(cluster)
    found = records(entries)
    shown = [entry for entry in entries if state is None or entry.state == state]
    if output == "json":
        answer(ledger_document(shown, found))
        return
    waiting = {one.key: told for one in shown if (told := _decided(one, decided))}
    answer(_page(shown, found, cluster, waiting))


def _decided(entry: Entry, decisions: Iterable[Decision]) -> str:
    """What was decided since the entry was followed last; '' where nothing was."""
    for one in decisions:
        about = one.workload_id == entry.workload_id and one.rule in {entry.rule, ALL}
        if about and one.kind != entry.state and one.decided_at > entry.updated_at:
            return f"{one.kind}: {one.reason} (the agent minds it within the hour)"
    return ""


def _page(
    entries: Sequence[Entry],
    found: Sequence[RuleRecord],
    cluster: str,
    waiting: Mapping[tuple[str, str], str],
) -> str:
    title = Heading(text=f"What became of findings of cluster {cluster}", level=1)
    blocks: list[Block] = [title]
    if not found:
        blocks.append(Paragraph(text="Nothing was found yet.", tone="muted"))
    else:
        blocks += [
            Heading(text="Rules"),
            _rules(found),
            Heading(text="Findings"),
            _lives(entries, waiting),
        ]
    return draw(Document(title=title.text, blocks=tuple(blocks)), look())


def _rules(found: Sequence[RuleRecord]) -> Table:
    columns = [Column(title="rule")]
    columns += [Column(title=str(state), numeric=True) for state in State]
    columns += [
        Column(title="precision", numeric=True),
        Column(title="GPU hours a month foretold", numeric=True),
        Column(title="realised", numeric=True),
    ]
    rows = tuple(
        (
            one.rule,
            *(str(one.states[str(state)]) for state in State),
            units.ratio(one.precision) if one.judged else "no change judged yet",
            units.count(one.predicted_gpu_hours_per_month) if one.judged else "-",
            units.count(one.realised_gpu_hours_per_month) if one.judged else "-",
        )
        for one in found
    )
    return Table(columns=tuple(columns), rows=rows)


def _lives(entries: Sequence[Entry], waiting: Mapping[tuple[str, str], str]) -> Table:
    columns = (
        Column(title="workload", least=20),
        Column(title="rule"),
        Column(title="state"),
        Column(title="since"),
        Column(title="foretold GPU hours a month", numeric=True),
        Column(title="realised", numeric=True),
        Column(title="what came of it", least=16),
    )
    return Table(columns=columns, rows=tuple(_life(one, waiting.get(one.key)) for one in entries))


def _life(entry: Entry, decided: str | None) -> tuple[str, ...]:
    told = decided or entry.reason
    if entry.result is not None:
        told = str(entry.result)
        if entry.slowdown is not None:
            told += f", runs take {units.factor(entry.slowdown)} as long"
    if entry.until is not None:
        told += f" (until {units.utc(entry.until)})"
    return (
        entry.workload_id,
        entry.rule,
        str(entry.state),
        units.utc(entry.changed_at),
        units.count(entry.prediction.gpu_hours_per_month),
        units.count(entry.realised_gpu_hours_per_month),
        told,
    )
