"""``gputailor backtest``: how right the advice would have been on one's own history."""

import re
import time
from pathlib import Path
from typing import Annotated, Final

import typer

from gputailor_agent.assessment import AssessmentSettings
from gputailor_agent.catalog import load_catalogue
from gputailor_agent.cli import options
from gputailor_agent.cli.errors import CommandError, UsageError
from gputailor_agent.cli.inputs import Inputs, read_asked
from gputailor_agent.cli.judged import judging
from gputailor_agent.cli.stored import reading, stored_window
from gputailor_agent.cli.terminal import answer, look, working
from gputailor_agent.cli.windows import parse_time
from gputailor_agent.evaluation.backtest import History, Settings, outcome_of, replay
from gputailor_agent.evaluation.base import Outcome
from gputailor_agent.evaluation.pages import as_json, section
from gputailor_agent.evaluation.plots import write_plots
from gputailor_agent.model.usage import HOUR_SECONDS
from gputailor_agent.reports import console, markdown
from gputailor_agent.reports.document import Document
from gputailor_agent.rollup.counters import CounterRollup
from gputailor_agent.sources.archive import read_archive

_EPILOG: Final = """Examples:

  gputailor backtest --store sqlite:///gputailor.db

  gputailor backtest --archive metrics/ --inventory cluster.yaml --every 1h --output json

  gputailor backtest --store gputailor.db --thresholds mine.yaml --plots backtest/
"""
_OUTPUTS: Final = ("table", "json", "markdown")
_LENGTH: Final = re.compile(r"(\d+(?:\.\d+)?)([hd])")
_SECONDS: Final = {"h": 3600.0, "d": 86_400.0}
_LEAST_HOURS: Final = 2


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=_EPILOG)(judging(backtest))


def backtest(
    inputs: Inputs,
    *,
    every: Annotated[str, typer.Option("--every", help="Time between moments: 1h, 6h, 1d.")] = "6h",
    window: Annotated[
        str, typer.Option("--window", help="How far each moment looks back: 14d.")
    ] = "14d",
    plots: Annotated[
        Path | None, typer.Option("--plots", help="Write plots (SVG) to this folder, too.")
    ] = None,
    output: Annotated[str, typer.Option("--output", "-o", help="table, json or markdown.")] = (
        "table"
    ),
) -> None:
    """Replay a history: what would have been advised when, and what became of it.

    At each moment only what was known then is judged. Tells precision, recall, delay, savings as a
    share of a hindsight oracle and unsafe advice per 1,000 runs, by rule and confidence.
    """
    if output not in _OUTPUTS:
        raise UsageError(f"--output: expected {', '.join(_OUTPUTS)}, found {output!r}")
    settings = Settings(
        every_seconds=_length("--every", every),
        window_days=_length("--window", window) / _SECONDS["d"],
        assessment=AssessmentSettings(rules=inputs.rules),
    )
    history = read_history(inputs)
    catalogue = load_catalogue(inputs.prices)
    with working("Replaying") as tick:
        told = replay(history, catalogue, settings, progress=tick)
    outcome = outcome_of(told)
    if plots is not None:
        _write(outcome, plots)
    answer(_drawn(outcome, output))


def _write(outcome: Outcome, folder: Path) -> None:
    try:
        write_plots([outcome], folder)
    except OSError as error:
        raise CommandError(
            f"--plots: {folder} cannot be written: {error.strerror}; give a folder that can"
        ) from error


def _drawn(outcome: Outcome, output: str) -> str:
    if output == "json":
        return as_json([outcome])
    document = _document(outcome)
    return markdown.draw(document) if output == "markdown" else console.draw(document, look())


def _document(outcome: Outcome) -> Document:
    return Document(title=outcome.title, blocks=tuple(section(outcome, level=1)))


def _length(option: str, text: str) -> float:
    """Seconds of ``6h`` or ``14d``, an hour or more."""
    match = _LENGTH.fullmatch(text)
    seconds = float(match[1]) * _SECONDS[match[2]] if match else 0.0
    if seconds < HOUR_SECONDS:
        raise UsageError(
            f"{option}: expected a length such as 6h or 1d, of an hour or more, found {text!r}"
        )
    return seconds


def read_history(inputs: Inputs) -> History:
    """The recorded history of an archive or an agent's store.

    Raises ``UsageError`` where neither was given, ``CommandError`` where it is too short.
    """
    if inputs.archive:
        history = _of_archive(inputs, options.existing("--archive", inputs.archive))
    elif inputs.store:
        history = _of_store(inputs, inputs.store)
    else:
        raise UsageError(
            "nothing to replay: give --store URL (an agent's store) or --archive PATH with "
            "--inventory PATH"
        )
    hours = (history.last - history.first) / HOUR_SECONDS
    if hours < _LEAST_HOURS:
        raise CommandError(
            f"the history spans {max(0.0, hours):g} hours; at least {_LEAST_HOURS} are needed, one "
            "to judge and one to see what became of it"
        )
    return history


def _of_archive(inputs: Inputs, paths: list[Path]) -> History:
    rollup = CounterRollup(inputs.cluster)
    with working("Reading the archive") as tick:
        archive = read_archive(paths, inputs.cluster, progress=tick)
        for page in archive.pages():
            rollup.add(page)
        rows = tuple(rollup.take_rows())
    last = max((row.key.hour for row in rows), default=0) + float(HOUR_SECONDS)
    start = parse_time("--since", inputs.since, relative_to=last) if inputs.since else 0.0
    end = parse_time("--until", inputs.until, relative_to=last) if inputs.until else last
    inventory = read_asked(inputs, options.existing("--inventory", inputs.inventory), last)
    return History(
        rows=tuple(row for row in rows if start <= row.key.hour < end),
        devices=tuple(rollup.devices()),
        inventory=inventory,
    )


def _of_store(inputs: Inputs, url: str) -> History:
    with reading(url) as store, working("Reading the store"):
        span = store.usage_span(inputs.cluster)
        since = inputs.since or (None if span is None else _iso(span[0]))
        window = stored_window(store, inputs.cluster, since, inputs.until, time.time())
        return History(
            rows=tuple(store.usage(inputs.cluster, window.start, window.end)),
            devices=tuple(store.devices(inputs.cluster)),
            inventory=store.inventory(inputs.cluster, window.end, since=window.start),
        )


def _iso(at: int) -> str:
    """Whole history rather than its last 14 days."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
