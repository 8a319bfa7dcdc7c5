"""``gputailor`` and ``kubectl gputailor``: the entry point, safe without the agent extra.

Only the standard library is imported here: an installation of the exporter alone has this script
too, and must be told which extra is missing instead of failing in an import.
"""

import sys
from importlib import import_module
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
    missing = missing_modules()
    if missing:
        sys.stderr.write(
            f"error: this command needs the agent extra (missing: {', '.join(missing)}).\n"
            "Install it: pip install 'gputailor[agent]'\n"
        )
        raise SystemExit(1)
    called = Path(sys.argv[0]).name
    program = "kubectl gputailor" if called.startswith("kubectl-") else "gputailor"
    raise SystemExit(import_module("gputailor_agent.cli.app").run(program, sys.argv[1:]))


if __name__ == "__main__":
    main()
