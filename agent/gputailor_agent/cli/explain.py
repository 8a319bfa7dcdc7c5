"""``gputailor explain WORKLOAD``: why it got its verdict, with every number."""

from typing import Annotated

import typer
from msgspec.structs import replace

from gputailor_agent.assessment import Assessment
from gputailor_agent.cli import options
from gputailor_agent.cli.engine_facts import engine_facts
from gputailor_agent.cli.host_facts import host_facts
from gputailor_agent.cli.inputs import Inputs, assess_inputs
from gputailor_agent.cli.judged import judging
from gputailor_agent.cli.terminal import answer, look
from gputailor_agent.reports.catalogues import ENGLISH, speaking
from gputailor_agent.reports.cluster import CLUSTER, explain_cluster
from gputailor_agent.reports.explain import Explanation, find_verdict
from gputailor_agent.reports.explain import explain as explain_verdict
from gputailor_agent.rules import cluster_registry

_EPILOG = """Examples:

  gputailor explain team-a/Deployment/web --store sqlite:///gputailor.db

  gputailor explain web --prometheus-url http://localhost:9090 --context lab

  gputailor explain web --archive metrics/ --inventory cluster.json

  gputailor explain cluster --archive metrics/ --inventory cluster.json   # free GPUs, waiting pods

A beginning or a part of the id is enough when only one workload has it.
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=_EPILOG)(judging(explain))


def explain(
    workload: Annotated[
        str, typer.Argument(help="A workload's id, or a part only one has; cluster.")
    ],
    *,
    inputs: Inputs,
    output: options.Output = "table",
    language: options.Language = ENGLISH,
) -> None:
    """Explain a verdict: for each rule the numbers, window, samples, coverage and thresholds.

    Rules that say nothing are shown too, with the reason.
    """
    shape = options.output_format(output)
    with speaking(options.spoken_language(language)):
        told = _explained(assess_inputs(inputs), workload, inputs)
        answer(shape.explanation(told, look()))


def _explained(assessed: Assessment, workload: str, inputs: Inputs) -> Explanation:
    if workload in {CLUSTER, *(rule.id for rule in cluster_registry())}:
        return explain_cluster(assessed.plan, inputs.rules)
    verdict = find_verdict(assessed.plan, workload)
    known = {profile.workload.id: profile for profile in assessed.profiles}
    told = explain_verdict(assessed.plan, verdict, inputs.rules)
    profile = known.get(verdict.workload.id)
    facts = (*told.facts, *host_facts(profile), *engine_facts(profile))
    return replace(told, facts=facts)
