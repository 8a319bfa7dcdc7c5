"""Subcommand ``gputailor dashboards``, found by the entry point group ``gputailor.commands``.

grafanalib is imported when it is needed: the command is listed without the extra, too.
"""

from pathlib import Path
from typing import Annotated

import typer

commands = typer.Typer(
    help="Grafana dashboards, Prometheus rules and alerts.", no_args_is_help=True
)


def register(app: typer.Typer) -> None:
    """Add ``dashboards`` to the command line ``app``."""
    app.add_typer(commands, name="dashboards")


@commands.callback()
def _dashboards() -> None:
    """Grafana dashboards, Prometheus rules and alerts."""


@commands.command(epilog="Example: gputailor dashboards generate ./grafana")
def generate(
    folder: Annotated[Path, typer.Argument(help="Folder the files are written to.")],
    namespace: Annotated[
        str, typer.Option(help="Namespace written into the Kubernetes objects.")
    ] = "",
    sidecar_label: Annotated[
        str, typer.Option(help="Label by which Grafana's sidecar finds ConfigMaps, as NAME=VALUE.")
    ] = "grafana_dashboard=1",
    rule_label: Annotated[
        list[str] | None,
        typer.Option(
            help="Label by which the Prometheus operator finds rules, as release=NAME; repeat."
        ),
    ] = None,
) -> None:
    """Write dashboards and Prometheus rules, as files to import and as Kubernetes objects."""
    try:
        from gputailor_dashboards import generating, publishing  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        typer.echo(
            f"error: this command needs the dashboards extra (missing: {error.name}).\n"
            "Install it: pip install 'gputailor[dashboards]'",
            err=True,
        )
        raise typer.Exit(1) from error
    placing = publishing.Placing(
        namespace,
        _labels("--sidecar-label", [sidecar_label]),
        _labels("--rule-label", rule_label or []),
    )
    try:
        written = generating.generate(folder, placing)
    except OSError as error:
        typer.echo(f"error: cannot write dashboards to {folder}: {error.strerror}", err=True)
        raise typer.Exit(1) from error
    for path in written:
        typer.echo(str(path))


def _labels(option: str, texts: list[str]) -> dict[str, str]:
    """Split NAME=VALUE; anything else is wrong usage."""
    labels = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals):
            typer.echo(f"error: {option}: expected NAME=VALUE, found {text!r}", err=True)
            raise typer.Exit(2)
        labels[name] = value
    return labels
