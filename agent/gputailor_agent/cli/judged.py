"""The options that say what to judge, declared once for every command that judges.

``judging`` gives them to a command and hands their meaning on as one ``Inputs``.
"""

from collections.abc import Callable
from typing import Final

from gputailor_agent.cli import options
from gputailor_agent.cli.clusters import ClusterAccess
from gputailor_agent.cli.histories import PrometheusAccess, access_of
from gputailor_agent.cli.inputs import Inputs
from gputailor_agent.cli.spreading import spread


def prometheus_of(
    *,
    prometheus_url: options.PrometheusUrl = None,
    prometheus_bearer_token_file: options.PrometheusTokenFile = None,
    prometheus_header: options.PrometheusHeaders = None,
    prometheus_label: options.PrometheusLabels = None,
    prometheus_parameter: options.PrometheusParameters = None,
    prometheus_ca_file: options.PrometheusCa = None,
    prometheus_certificate_file: options.PrometheusCertificate = None,
    prometheus_key_file: options.PrometheusKey = None,
) -> PrometheusAccess:
    """The Prometheus that is meant; raises ``UsageError`` for options that mean nothing."""
    return access_of(
        prometheus_url,
        bearer_token_file=prometheus_bearer_token_file,
        headers=prometheus_header or (),
        labels=prometheus_label or (),
        parameters=prometheus_parameter or (),
        ca_file=prometheus_ca_file,
        certificate_file=prometheus_certificate_file,
        key_file=prometheus_key_file,
    )


#: For a command that asks a Prometheus: its parameter ``prometheus`` becomes these options.
asking: Final = spread("prometheus", prometheus_of)


@asking
def inputs_of(
    *,
    archive: options.Archive = None,
    prometheus: PrometheusAccess,
    inventory: options.InventoryFiles = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    namespace: options.Namespaces = None,
    kubernetes: options.Kubernetes = False,
    team_key: options.TeamKeys = None,
    prices: options.Prices = None,
    thresholds: options.Thresholds = None,
    since: options.Since = None,
    until: options.Until = None,
    cluster: options.Cluster = options.DEFAULT_CLUSTER,
    store: options.Store = None,
    belongs: options.For = None,
) -> Inputs:
    """What these options ask for; raises ``UsageError`` for those that mean nothing."""
    return Inputs(
        archive=tuple(archive or ()),
        prometheus=prometheus,
        inventory=tuple(inventory or ()),
        live=ClusterAccess(
            kubeconfig=kubeconfig,
            context=context,
            namespaces=tuple(namespace or ()),
            kubernetes=kubernetes,
        ),
        team_keys=tuple(team_key or ()),
        prices=prices,
        rules=options.read_thresholds(thresholds),
        since=since,
        until=until,
        cluster=cluster,
        store=store,
        joins=tuple(belongs or ()),
    )


#: For a command that judges: its parameter ``inputs`` becomes these options.
judging: Final[Callable[[Callable[..., None]], Callable[..., None]]] = spread("inputs", inputs_of)
