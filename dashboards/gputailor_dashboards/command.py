"""Subcommand ``gputailor dashboards``, found by the entry point group ``gputailor.commands``.

grafanalib is imported when it is needed: the command is listed without the extra, too.
"""

from pathlib import Path
from typing import Annotated

import typer

commands = typer.Typer(help="Grafana dashboards on GPU Tailor's metrics.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add ``dashboards`` to the command line ``app``."""
    app.add_typer(commands, name="dashboards")


@commands.callback()
def _dashboards() -> None:
    """Grafana dashboards on GPU Tailor's metrics."""


@commands.command(epilog="Example: gputailor dashboards generate ./grafana")
def generate(
    folder: Annotated[Path, typer.Argument(help="Folder the JSON files are written to.")],
) -> None:
    """Write the dashboards as JSON files that Grafana imports."""
    try:
        from gputailor_dashboards import generating  # noqa: PLC0415 - the extra may be missing
    except ModuleNotFoundError as error:
        typer.echo(
            f"error: this command needs the dashboards extra (missing: {error.name}).\n"
            "Install it: pip install 'gputailor[dashboards]'",
            err=True,
        )
        raise typer.Exit(1) from error
    try:
        written = generating.generate(folder)
    except OSError as error:
        typer.echo(f"error: cannot write dashboards to {folder}: {error.strerror}", err=True)
        raise typer.Exit(1) from error
    for path in written:
        typer.echo(str(path))
