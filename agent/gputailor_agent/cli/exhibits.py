"""What a demo leaves to look at: the dashboards, and the report as it would be sent each week."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gputailor_agent.model.judgement import Plan
from gputailor_agent.reports.beside import NOTHING, Beside
from gputailor_agent.reports.formats import formats, render

_PROGRAM: Final = (sys.executable, "-m", "gputailor_agent.cli.entry")
_ENDINGS: Final = {"html": "html", "markdown": "md", "text": "txt", "json": "json", "csv": "csv"}


def write_exhibits(plan: Plan, folder: Path, beside: Beside = NOTHING) -> Iterator[str]:
    """Write everything below ``folder``; yields a line on each thing written or missing.

    Raises ``OSError`` where the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for path in write_report(plan, folder, beside):
        yield f"weekly report: {path}"
    yield dashboards(folder / "grafana")


def write_report(plan: Plan, folder: Path, beside: Beside = NOTHING) -> list[Path]:
    """Write the report in every format that people are sent."""
    written = []
    for name, ending in _ENDINGS.items():
        if name in formats():
            path = folder / f"weekly-report.{ending}"
            path.write_text(render(plan, name, beside=beside), encoding="utf-8")
            written.append(path)
    return written


def dashboards(folder: Path) -> str:
    """Write the Grafana dashboards as anybody would; says where they are, or why they are not."""
    command = [*_PROGRAM, "dashboards", "generate", str(folder)]
    done = subprocess.run(  # noqa: S603 - our own program
        command, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or ["no reason given"]
        return f"Grafana dashboards: none: {said[-1].removeprefix('error: ')}"
    return f"Grafana dashboards, recording rules and alerts: {folder}"
