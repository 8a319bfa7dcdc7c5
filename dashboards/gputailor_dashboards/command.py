"""Subcommand ``gputailor dashboards``, found by the entry point group ``gputailor.commands``."""

from pathlib import Path
from typing import Annotated

import typer

from gputailor_dashboards.generating import generate

app = typer.Typer(help="Grafana dashboards on GPU Tailor's metrics.", no_args_is_help=True)


@app.callback()
def _dashboards() -> None:
    """Grafana dashboards on GPU Tailor's metrics."""


@app.command("generate")
def generate_command(
    folder: Annotated[Path, typer.Argument(help="Folder the JSON files are written to.")],
) -> None:
    """Write the dashboards as JSON files that Grafana imports.

    Example: gputailor dashboards generate ./grafana
    """
    try:
        written = generate(folder)
    except OSError as error:
        typer.echo(f"error: cannot write dashboards to {folder}: {error.strerror}", err=True)
        raise typer.Exit(1) from error
    for path in written:
        typer.echo(str(path))
