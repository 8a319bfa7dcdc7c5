"""``python -m gputailor_agent.evaluation``: what ``make evaluate`` runs."""

import sys
from pathlib import Path
from typing import Annotated, Final

import typer
import yaml

from gputailor_agent.evaluation import EvaluationError, evaluate, find, studies
from gputailor_agent.evaluation.pages import PLOTS, as_json, as_markdown
from gputailor_agent.evaluation.plots import write_plots

_OUTPUTS: Final = {"markdown": as_markdown, "json": as_json}
_HEAD: Final = "# Written by python -m gputailor_agent.evaluation --calibrate; see calibrated.py.\n"


def run(
    *,
    data: Annotated[Path, typer.Option("--data", help="Folder with usage/, profiles/, …")],
    output: Annotated[str, typer.Option("--output", "-o", help="markdown or json.")] = "markdown",
    study: Annotated[
        list[str] | None, typer.Option("--study", help="Only this study. Repeatable.")
    ] = None,
    write: Annotated[
        Path | None, typer.Option("--write", help="Write the page to this file.")
    ] = None,
    plots: Annotated[
        Path | None,
        typer.Option("--plots", help="Write the plots (SVG) to this folder; plots/ by the page."),
    ] = None,
    calibrate: Annotated[
        Path | None,
        typer.Option(help="Write what the product takes from the data to this file instead."),
    ] = None,
) -> None:
    """Measure on real data how right the product is."""
    if output not in _OUTPUTS:
        raise EvaluationError(f"--output: expected {' or '.join(_OUTPUTS)}, found {output!r}")
    if calibrate is not None:
        calibrate.write_text(calibration(data), encoding="utf-8")
        return
    outcomes = evaluate(data, tuple(find(name) for name in study or ()))
    page = _OUTPUTS[output](outcomes)
    if write is None:
        sys.stdout.write(page)
    else:
        write.write_text(page, encoding="utf-8")
    folder = plots or (write.parent / PLOTS if write is not None else None)
    if folder is not None:
        write_plots(outcomes, folder)


def calibration(folder: Path) -> str:
    """What every study chooses on its part of the data, as YAML.

    Raises ``EvaluationError`` where a study's files are not there: half a file is of no use.
    """
    chosen: dict[str, object] = {}
    for study in studies():
        if study.calibrate is None:
            continue
        missing = study.missing(folder)
        if missing:
            raise EvaluationError(f"{folder}: {study.id} needs {', '.join(missing)}")
        chosen |= study.calibrate(folder)
    return _HEAD + yaml.safe_dump(chosen, sort_keys=False, allow_unicode=True, width=100)


def main() -> int:
    """Run the command line; a user's mistake is one line, not a traceback."""
    application = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    application.command()(run)
    try:
        application(standalone_mode=False)
    except EvaluationError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    except typer.Exit as stop:
        return stop.exit_code
    except Exception as error:
        if type(error).__module__.split(".")[0] not in {"click", "typer"}:
            raise
        sys.stderr.write(f"error: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
