"""``gputailor`` and ``kubectl gputailor``: the entry point, safe without the agent extra.

Only the standard library is imported here: an installation of the exporter alone has this script
too, and must be told which extra is missing instead of failing in an import.
"""

import sys
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Final

_NEEDED: Final = (
    "typer",
    "rich",
    "msgspec",
    "numpy",
    "httpx",
    "yaml",
    "sqlalchemy",
    "alembic",
    "apscheduler",
    "pydantic_settings",
    "fastapi",
    "uvicorn",
    "jinja2",
    "prometheus_client",
)


def missing_modules() -> list[str]:
    """Libraries of the agent extra that are not installed."""
    return [name for name in _NEEDED if find_spec(name) is None]


def main() -> None:
    """Run the command line; exits 0 fine, 1 failed, 2 wrong usage, 3 threshold exceeded."""
    called = Path(sys.argv[0]).name
    program = "kubectl gputailor" if called.startswith("kubectl-") else "gputailor"
    missing = missing_modules()
    if missing:
        raise SystemExit(_without_agent(program, sys.argv[1:], missing))
    raise SystemExit(import_module("gputailor_agent.cli.app").run(program, sys.argv[1:]))


def _without_agent(program: str, arguments: list[str], missing: list[str]) -> int:
    """The version, and commands of other packages: they need no library of the agent."""
    if arguments == ["--version"]:
        sys.stdout.write(f"gputailor {metadata.version('gputailor')}\n")
        return 0
    wanted = arguments[0] if arguments else ""
    points = {point.name: point for point in metadata.entry_points(group="gputailor.commands")}
    if wanted in points and "typer" not in missing:
        app = import_module("typer").Typer(name="gputailor", pretty_exceptions_enable=False)
        app.callback()(_nothing)
        points[wanted].load()(app)
        app(arguments, prog_name=program)
        return 0
    sys.stderr.write(
        f"error: this command needs the agent extra (missing: {', '.join(missing)}).\n"
        "Install it: pip install 'gputailor[agent]'\n"
    )
    return 1


def _nothing() -> None:
    """Measure what every GPU job really uses, and say what to change and what it saves."""


if __name__ == "__main__":
    main()
