"""Options that several commands share, declared once with their help."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Final

import typer

from gputailor_agent.cli.errors import UsageError
from gputailor_agent.reports.formats import Format, UnknownFormatError, find, formats

INPUTS: Final = "What to judge"
ANSWER: Final = "The answer"

Archive = Annotated[
    list[Path] | None,
    typer.Option(
        "--archive",
        "-a",
        help="Recorded usage: exporter pages with timestamps, nvidia-smi CSV or dmon logs; "
        "files or folders. Repeatable.",
        rich_help_panel=INPUTS,
    ),
]
InventoryFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--inventory",
        "-i",
        help="What was asked for: output of kubectl get pods,nodes,jobs,… -o yaml or json, or "
        "manifests; files or folders. Repeatable.",
        rich_help_panel=INPUTS,
    ),
]
Prices = Annotated[
    Path | None,
    typer.Option(
        "--prices",
        help="Your own prices: CSV with accelerator and/or instance_type, price_per_gpu_hour.",
        rich_help_panel=INPUTS,
    ),
]
Since = Annotated[
    str | None,
    typer.Option(
        "--since",
        help="Begin of the window: 14d, 36h, or a UTC time like 2026-11-01T00:00. "
        "Without it the last 14 days for which there is data.",
        rich_help_panel=INPUTS,
    ),
]
Until = Annotated[
    str | None,
    typer.Option(
        "--until",
        help="End of the window, likewise; without it the end of the data.",
        rich_help_panel=INPUTS,
    ),
]
Cluster = Annotated[
    str,
    typer.Option(
        "--cluster", envvar="GPUTAILOR_CLUSTER", help="The cluster's name.", rich_help_panel=INPUTS
    ),
]
Store = Annotated[
    str | None,
    typer.Option(
        "--store",
        envvar="GPUTAILOR_STORE",
        help="Read what an agent stored, e.g. sqlite:///gputailor.db, where no --archive is given.",
        rich_help_panel=INPUTS,
    ),
]
For = Annotated[
    list[str] | None,
    typer.Option(
        "--for",
        metavar="WHOSE",
        help="Which pod recorded logs belong to: NAMESPACE/NAME or NAMESPACE/NAME/CONTAINER, for "
        "one file LOG=NAMESPACE/NAME. Repeatable.",
        rich_help_panel=INPUTS,
    ),
]
Output = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        help="Format: " + "; ".join(f"{one.name} ({one.summary})" for one in formats().values()),
        autocompletion=lambda: list(formats()),
        rich_help_panel=ANSWER,
    ),
]

#: What ``--cluster`` is when nobody says.
DEFAULT_CLUSTER: Final = "default"


def output_format(name: str) -> Format:
    """The format of ``--output``; a wrong name is wrong usage."""
    try:
        return find(name)
    except UnknownFormatError as error:
        raise UsageError(f"--output: {error}") from error


def existing(option: str, paths: Iterable[Path]) -> list[Path]:
    """The paths, all of which must exist."""
    found = list(paths)
    for path in found:
        if not path.exists():
            raise UsageError(f"{option}: {path} does not exist")
    return found
