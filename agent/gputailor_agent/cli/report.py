"""``gputailor report``: what a cluster's GPU workloads use, what to change, what it saves."""

import typer

from gputailor_agent.cli import failing_on, options
from gputailor_agent.cli.inputs import Inputs
from gputailor_agent.cli.judged import judging
from gputailor_agent.cli.reported import report_of
from gputailor_agent.cli.terminal import answer, look
from gputailor_agent.reports.catalogues import ENGLISH, speaking
from gputailor_agent.reports.scoping import Scope

_EPILOG = """Examples:

  kubectl get pods,nodes,jobs,deployments,replicasets -A -o json > cluster.json

  gputailor report --archive metrics/ --inventory cluster.json --since 14d

  gputailor report --archive metrics/ --context lab          # asks the cluster itself

  gputailor report --prometheus-url http://localhost:9090    # with kube-state-metrics in it

  gputailor report --prometheus-url http://localhost:9090 --context lab --since 14d

  gputailor report --archive run.csv --inventory job.yaml    # a log and its manifest

  gputailor report --store sqlite:///gputailor.db --output json

  gputailor report --store "$DB" --team vision --language zh --output html > vision.html

  gputailor report --store "$DB" --fail-on 'saving>1000'     # exit 3 when more can be saved
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=_EPILOG)(judging(report))


def report(
    *,
    inputs: Inputs,
    output: options.Output = "table",
    language: options.Language = ENGLISH,
    team: options.Teams = None,
    owner: options.Owners = None,
    fail_on: failing_on.FailOn = None,
) -> None:
    """Report on a cluster: totals, what to change first and what it saves, every workload.

    Usage comes from a Prometheus (--prometheus-url), from files (--archive) or from an agent's
    --store; what was asked for from the cluster itself (--context, --kubernetes), from files
    (--inventory), or else from kube-state-metrics in the Prometheus. What was not measured is shown
    as unknown, with the reason. With --team, --owner or --namespace it is of those workloads only.
    """
    wanted = failing_on.conditions(fail_on or ())
    shape = options.output_format(output)
    spoken = options.spoken_language(language)
    with speaking(spoken):
        scope = Scope(teams=tuple(team or ()), owners=tuple(owner or ()))
        plan, beside = report_of(inputs, scope)
        answer(shape.plan(plan, look(), beside))
    failing_on.end(wanted, plan)
