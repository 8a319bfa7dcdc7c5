"""``gputailor explain WORKLOAD``: why it got its verdict, with every number."""

from typing import Annotated

import typer

from gputailor_agent.cli import options
from gputailor_agent.cli.inputs import Inputs, assess_inputs
from gputailor_agent.cli.judged import judging
from gputailor_agent.cli.terminal import answer, look
from gputailor_agent.reports.explain import explain as explain_verdict
from gputailor_agent.reports.explain import find_verdict

_EPILOG = """Examples:

  gputailor explain team-a/Deployment/web --store sqlite:///gputailor.db

  gputailor explain web --prometheus-url http://localhost:9090 --context lab

  gputailor explain web --archive metrics/ --inventory cluster.json

A beginning or a part of the id is enough when only one workload has it.
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=_EPILOG)(judging(explain))


def explain(
    workload: Annotated[str, typer.Argument(help="A workload's id, or a part only one has.")],
    *,
    inputs: Inputs,
    output: options.Output = "table",
) -> None:
    """Explain a verdict: for each rule the numbers, window, samples, coverage and thresholds.

    Rules that say nothing are shown too, with the reason.
    """
    shape = options.output_format(output)
    plan = assess_inputs(inputs).plan
    verdict = find_verdict(plan, workload)
    answer(shape.explanation(explain_verdict(plan, verdict, inputs.rules), look()))
