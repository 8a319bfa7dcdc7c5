"""``gputailor store``: looks after an agent's store; safe beside a running agent."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from gputailor_agent.cli import options
from gputailor_agent.cli.errors import CommandError
from gputailor_agent.cli.stored import chosen_clusters, reading, writing
from gputailor_agent.cli.terminal import answer, working
from gputailor_agent.cli.windows import parse_time
from gputailor_agent.model.usage import HOUR_SECONDS
from gputailor_agent.reports import units
from gputailor_agent.reports.plurals import counted

if TYPE_CHECKING:
    from gputailor_agent.store.checking import ClusterContents

_CHECK: Final = """Examples:

  gputailor store check --store gputailor.db

Exits 1 where something is wrong with it.
"""
_BACKUP: Final = """Examples:

  gputailor store backup copy.db --store gputailor.db
"""
_COMPACT: Final = """Examples:

  gputailor store compact --store gputailor.db --keep-days 90 --vacuum
"""
_UPGRADE: Final = """Examples:

  gputailor store backup before.db --store gputailor.db

  gputailor store upgrade --store gputailor.db
"""
_EXPORT: Final = """Examples:

  gputailor store export out/ --store gputailor.db --since 30d

  duckdb -c "from read_parquet('out/usage/**/*.parquet', hive_partitioning=true) limit 5"
"""

Address = Annotated[
    str,
    typer.Option(
        "--store", envvar="GPUTAILOR_STORE", help="The agent's store: an SQLite file or a URL."
    ),
]
Clusters = Annotated[
    list[str] | None,
    typer.Option("--cluster", help="Only this cluster of the store. Repeatable."),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(no_args_is_help=True, help="Look after an agent's store.")
    group.command("check", epilog=_CHECK)(check)
    group.command("backup", epilog=_BACKUP)(backup)
    group.command("compact", epilog=_COMPACT)(compact)
    group.command("export", epilog=_EXPORT)(export)
    group.command("upgrade", epilog=_UPGRADE)(upgrade)
    app.add_typer(group, name="store")


def check(*, store: Address) -> None:
    """Read everything in the store once: what is there, and whether it is sound."""
    with reading(store) as opened, working("Checking the store"):
        found = opened.check()
    lines = [
        f"{found.database}, schema {found.schema}, {units.size(found.size_bytes)}",
        *(_contents(one) for one in found.clusters),
        *(f"problem: {line}" for line in found.problems),
    ]
    answer("\n".join(lines))
    if found.problems:
        raise CommandError(
            f"the store is not sound ({len(found.problems)} found); restore a copy made with "
            "gputailor store backup, or report it"
        )


def _contents(held: "ClusterContents") -> str:
    if held.first is None or held.last is None:
        return f"cluster {held.cluster}: no usage"
    from gputailor_agent.store.exporting import told_span  # noqa: PLC0415

    span = told_span((held.first, held.last + HOUR_SECONDS))
    hours, days = counted(held.hours, "hour"), counted(held.days, "day")
    return f"cluster {held.cluster}: {hours} and {days} of GPUs, {span}"


def backup(
    target: Annotated[Path, typer.Argument(metavar="FILE", help="The copy; must not exist yet.")],
    *,
    store: Address,
) -> None:
    """Copy an SQLite store to a file while the agent goes on; PostgreSQL has pg_dump."""
    with reading(store) as opened, working("Copying the store"):
        opened.backup(target)
    answer(f"{target}: {units.size(target.stat().st_size)}")


def compact(
    *,
    store: Address,
    cluster: Clusters = None,
    keep_days: Annotated[
        float, typer.Option("--keep-days", min=1, help="Drop what is older.")
    ] = 400.0,
    vacuum: Annotated[
        bool, typer.Option("--vacuum", help="Give free space of the file back to the disk, too.")
    ] = False,
) -> None:
    """Sum up days that are over and drop what is old, as the agent does by itself every hour."""
    now = time.time()
    with writing(store) as opened, working("Compacting the store"):
        from gputailor_agent.store.compacting import compact as compact_cluster  # noqa: PLC0415

        for name in chosen_clusters(opened, cluster):
            done = compact_cluster(opened, name, now, keep_days=keep_days)
            days, hours = counted(done.days, "day"), counted(done.hours, "hour")
            dropped = counted(done.dropped, "old row")
            answer(f"{name}: {days} summed up from {hours}, {dropped} dropped")
        if vacuum:
            opened.vacuum()


def upgrade(*, store: Address) -> None:
    """Bring a store of an older version to what this one writes, as the agent does at its start.

    An older version cannot use it any more: make a copy first. Stop that version's agent.
    """
    from gputailor_agent.store import Store  # noqa: PLC0415 - half a second that help does not need
    from gputailor_agent.store.database import named  # noqa: PLC0415 - likewise
    from gputailor_agent.store.opening import schema_of  # noqa: PLC0415 - likewise

    before = schema_of(store)
    with working("Upgrading the store"):
        Store.open(store).close()
    now = schema_of(store)
    told = f"has schema {now} already" if before == now else f"schema {before} -> {now}"
    answer(f"{named(store)}: {told}")


def export(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the files go.")],
    *,
    store: Address,
    cluster: Clusters = None,
    since: options.Since = None,
    until: options.Until = None,
) -> None:
    """Write usage and what it belongs to as Parquet files, for DuckDB, Spark, Trino and pandas."""
    now = time.time()
    with reading(store) as opened, working("Exporting the store"):
        from gputailor_agent.store.exporting import export as write  # noqa: PLC0415

        end = now if until is None else parse_time("--until", until, relative_to=now)
        for name in chosen_clusters(opened, cluster):
            held = opened.usage_span(name)
            if held is None:
                answer(f"{name}: no usage")
                continue
            begin = float(held[0])
            if since is not None:
                begin = max(begin, parse_time("--since", since, relative_to=end))
            span = (begin, min(end, float(held[1] + HOUR_SECONDS)))
            rows = write(opened, [name], folder, span)
            answer(f"{name}: {counted(rows, 'row')} of usage in {folder}")
