"""``gputailor analyse LOG…``: the judgement of recorded runs, no cluster needed."""

from pathlib import Path
from typing import Annotated

import typer

from gputailor_agent.catalog import load_catalogue
from gputailor_agent.cli import options
from gputailor_agent.cli.errors import CommandError, UsageError
from gputailor_agent.cli.terminal import answer, look, tell, working
from gputailor_agent.reports.cards import Guess
from gputailor_agent.reports.single_run import LogJudgement, judge
from gputailor_agent.sources.archive import read_archive

_EPILOG = """Examples:

  gputailor analyse run.csv

  gputailor analyse logs/*.csv --gpu "A100 80GB" --output markdown

  nvidia-smi --query-gpu=timestamp,uuid,name,utilization.gpu,memory.used --format=csv -l 1 > x.csv
"""


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
    if guess.model and catalogue.find(guess.model) is None:
        raise UsageError(
            f"--gpu: no GPU is called {guess.model!r}; use a name as nvidia-smi prints it or one "
            f"of: {', '.join(device.key for device in catalogue.devices)}"
        )
    with working("Reading logs") as tick:
        archive = read_archive(options.existing("LOG", paths), "", progress=tick)
        judgements = tuple(judge(log, catalogue, guess) for log in archive.logs if log.knows)
    silent = [f"{log.path}: nothing about a GPU is in it" for log in archive.logs if not log.knows]
    problems = [*map(str, archive.problems), *silent]
    if not judgements:
        told = "\n".join(problems) or "no log was found"
        raise CommandError(f"no log could be read\n{told}")
    for problem in problems:
        tell(f"warning: {problem}")
    return judgements
