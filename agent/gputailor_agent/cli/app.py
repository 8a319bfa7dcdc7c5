"""The typer application: every module beside this one with a ``register(app)`` adds its command."""

import pkgutil
import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module, metadata
from typing import Annotated, Final

import typer
from typer.main import get_command

from gputailor_agent.cli import errors

COMMANDS_GROUP: Final = "gputailor.commands"

_HELP: Final = """Measure what every GPU job really uses, and say what to change and what it saves.

Start with [bold]gputailor demo[/bold]: a simulated cluster, no GPU needed.

Examples:

  gputailor analyse run.csv                        judge one nvidia-smi log

  gputailor report --archive metrics/ --inventory cluster.yaml

  gputailor explain my-training --store sqlite:///gputailor.db

  gputailor serve --target http://node-1:9836      run the agent

Exit codes: 0 fine, 1 failed, 2 wrong usage, 3 threshold exceeded.
"""


def _version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"gputailor {metadata.version('gputailor')}\n")
        raise typer.Exit


def _root(
    _version_flag: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Hold options that stand before the command."""


@cache
def build() -> typer.Typer:
    """The whole application with its own and other packages' commands."""
    app = typer.Typer(
        name="gputailor",
        help=_HELP,
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    package = import_module("gputailor_agent.cli")
    for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        if found.name.endswith((".entry", ".app")):
            continue
        register = getattr(import_module(found.name), "register", None)
        if register is not None:
            register(app)
    for point in metadata.entry_points(group=COMMANDS_GROUP):
        _add(point, app)
    return app


def _add(point: metadata.EntryPoint, app: typer.Typer) -> None:
    """Let another package add its commands; one that cannot must not take the others with it."""
    try:
        point.load()(app)
    except Exception as error:  # noqa: BLE001 - whatever foreign code raises
        sys.stderr.write(
            f"warning: the command {point.name!r} ({point.value}) cannot be loaded: {error}\n"
        )


def run(program: str, arguments: Sequence[str]) -> int:
    """Run the command line and return its exit code; told errors become one line on stderr."""
    try:
        get_command(build()).main(args=list(arguments), prog_name=program)
    except errors.TOLD as error:
        sys.stderr.write(f"error: {error}\n")
        return errors.exit_code_of(error)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(bool(stop.code))
    return 0
