"""``gputailor analyse LOG…``: the judgement of recorded runs, no cluster needed."""

from pathlib import Path
from typing import Annotated, Final

import typer

from gputailor_agent.catalog import Catalogue, load_catalogue
from gputailor_agent.cli import options
from gputailor_agent.cli.errors import CommandError, UsageError
from gputailor_agent.cli.terminal import answer, look, tell, working
from gputailor_agent.model.nearest import nearest
from gputailor_agent.reports.cards import Guess
from gputailor_agent.reports.runs import LogJudgement
from gputailor_agent.reports.single_run import judge
from gputailor_agent.sources.archive import read_archive
from gputailor_agent.sources.problems import shown

_EPILOG = """Examples:

  gputailor analyse run.csv

  gputailor analyse logs/*.csv --gpu "A100 80GB" --output markdown

  nvidia-smi --query-gpu=timestamp,uuid,name,utilization.gpu,memory.used --format=csv -l 1 > x.csv
"""


_SHOWN: Final = 8


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=_EPILOG)(analyse)


def analyse(
    logs: Annotated[
        list[Path], typer.Argument(metavar="LOG…", help="nvidia-smi CSV or dmon logs, or folders.")
    ],
    gpu: Annotated[
        str, typer.Option("--gpu", help="The GPU's model, where the log does not name it.")
    ] = "",
    instance_type: Annotated[
        str, typer.Option("--instance-type", help="The cloud instance it ran on, for its price.")
    ] = "",
    prices: options.Prices = None,
    output: options.Output = "table",
) -> None:
    """Judge recorded runs: what they used, which GPU would do, what it would cost.

    Reads nvidia-smi --query-gpu CSV (with or without header and units) and dmon logs. Says what
    such a log cannot tell, and which lines were skipped.
    """
    shape = options.output_format(output)
    judgements = judge_all(logs, Guess(model=gpu, instance_type=instance_type), prices)
    answer(shape.log(judgements, look()))


def judge_all(paths: list[Path], guess: Guess, prices: Path | None) -> tuple[LogJudgement, ...]:
    """Judge every log of files and folders; raises ``CommandError`` when none can be read."""
    catalogue = load_catalogue(prices)
    _check(guess, catalogue)
    with working("Reading logs") as tick:
        archive = read_archive(options.existing("LOG", paths), "", progress=tick)
        judgements = tuple(judge(log, catalogue, guess) for log in archive.logs)
    problems = [*map(str, archive.problems), *map(_page, archive.page_files)]
    if not judgements:
        raise CommandError(_none(problems))
    for problem in problems:
        tell(f"warning: {problem}")
    return judgements


def _check(guess: Guess, catalogue: Catalogue) -> None:
    if guess.model and catalogue.find(guess.model) is None:
        near = _alike(guess.model, [device.key for device in catalogue.devices])
        raise UsageError(
            f"--gpu: no GPU is called {guess.model!r}; use a name as nvidia-smi prints it"
            + (f", or one of: {', '.join(near)}" if near else ", such as A100 SXM4 80GB")
        )
    if guess.instance_type and catalogue.of_instance(guess.instance_type) is None:
        raise UsageError(
            f"--instance-type: no price of {guess.instance_type!r} is known; give it with "
            "--prices: a CSV with instance_type, accelerator, price_per_gpu_hour"
        )


def _alike(name: str, keys: list[str]) -> list[str]:
    """Names that hold the one typed, else those with a word like it."""
    wanted = name.casefold()
    words = sorted({word for key in keys for word in key.casefold().split()})
    close = [wanted, *nearest(wanted, words, most=2)]
    fits = dict.fromkeys(key for part in close for key in keys if part in key.casefold())
    return list(fits)[:_SHOWN]


def _page(path: Path) -> str:
    name = shown(path)
    return (
        f"{name}: these are pages of an exporter, not a log; judge them with: gputailor report "
        f"--archive {name}"
    )


def _none(problems: list[str]) -> str:
    if len(problems) == 1:
        return problems[0]
    return "no log could be read" + "".join(f"\n  {problem}" for problem in problems)
