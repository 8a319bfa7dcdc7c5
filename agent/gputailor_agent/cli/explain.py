"""``gputailor explain WORKLOAD``: why it got its verdict, with every number."""

from typing import Annotated

import typer

from gputailor_agent.cli import options
from gputailor_agent.cli.clusters import ClusterAccess
from gputailor_agent.cli.histories import access_of
from gputailor_agent.cli.inputs import Inputs, assess_inputs
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
    app.command(epilog=_EPILOG)(explain)


def explain(
    workload: Annotated[str, typer.Argument(help="A workload's id, or a part only one has.")],
    *,
    archive: options.Archive = None,
    prometheus_url: options.PrometheusUrl = None,
    prometheus_bearer_token_file: options.PrometheusTokenFile = None,
    prometheus_header: options.PrometheusHeaders = None,
    prometheus_label: options.PrometheusLabels = None,
    prometheus_ca_file: options.PrometheusCa = None,
    inventory: options.InventoryFiles = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    namespace: options.Namespaces = None,
    kubernetes: options.Kubernetes = False,
    prices: options.Prices = None,
    thresholds: options.Thresholds = None,
    since: options.Since = None,
    until: options.Until = None,
    cluster: options.Cluster = options.DEFAULT_CLUSTER,
    store: options.Store = None,
    belongs: options.For = None,
    output: options.Output = "table",
) -> None:
    """Explain a verdict: for each rule the numbers, window, samples, coverage and thresholds.

    Rules that say nothing are shown too, with the reason.
    """
    shape = options.output_format(output)
    rules = options.read_thresholds(thresholds)
    plan = assess_inputs(
        Inputs(
            archive=tuple(archive or ()),
            prometheus=access_of(
                prometheus_url,
                bearer_token_file=prometheus_bearer_token_file,
                headers=prometheus_header or (),
                labels=prometheus_label or (),
                ca_file=prometheus_ca_file,
            ),
            inventory=tuple(inventory or ()),
            live=ClusterAccess(
                kubeconfig=kubeconfig,
                context=context,
                namespaces=tuple(namespace or ()),
                kubernetes=kubernetes,
            ),
            prices=prices,
            rules=rules,
            since=since,
            until=until,
            cluster=cluster,
            store=store,
            joins=tuple(belongs or ()),
        )
    ).plan
    verdict = find_verdict(plan, workload)
    answer(shape.explanation(explain_verdict(plan, verdict, rules), look()))
