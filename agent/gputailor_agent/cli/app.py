"""The typer application: every module beside this one with a ``register(app)`` adds its command."""

import os
import pkgutil
import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module, metadata
from typing import Annotated, Final

import typer
from typer.main import get_command

from gputailor_agent.cli import errors
from gputailor_agent.cli.terminal import tell

COMMANDS_GROUP: Final = "gputailor.commands"

_PACKAGE: Final = "gputailor_agent.cli"

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
def build(only: str = "") -> typer.Typer:
    """The whole application with its own and other packages' commands.

    With ``only`` it has just that one of its own commands: what the others import (servers, a
    database) would triple the time to start.
    """
    app = typer.Typer(
        name="gputailor",
        help=_HELP,
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for name in (only,) if only else _modules():
        register = getattr(import_module(f"{_PACKAGE}.{name}"), "register", None)
        if register is not None:
            register(app)
    if not only:
        for point in metadata.entry_points(group=COMMANDS_GROUP):
            _add(point, app)
    return app


def _modules() -> list[str]:
    """Modules that may have a command, which is called like its module."""
    found = pkgutil.iter_modules(import_module(_PACKAGE).__path__)
    return [module.name for module in found if module.name not in {"entry", "app"}]


def _asked_for(arguments: Sequence[str]) -> str:
    """The one command of ours that is called, or '' where all are needed: help, completion."""
    name = arguments[0] if arguments else ""
    completing = any(name.startswith("_") and name.endswith("_COMPLETE") for name in os.environ)
    if completing or name not in _modules():
        return ""
    return name if hasattr(import_module(f"{_PACKAGE}.{name}"), "register") else ""


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
        application = build(_asked_for(arguments))
        get_command(application).main(args=list(arguments), prog_name=program)
    except Exception as error:
        if not errors.is_told(error):
            raise
        tell(f"error: {error}")
        return errors.exit_code_of(error)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(bool(stop.code))
    return 0
