"""The options that say what to judge, declared once for every command that judges.

``judging`` gives them to a command and hands their meaning on as one ``Inputs``.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any, Final

from gputailor_agent.cli import options
from gputailor_agent.cli.clusters import ClusterAccess
from gputailor_agent.cli.histories import access_of
from gputailor_agent.cli.inputs import Inputs

_INPUTS: Final = "inputs"


def inputs_of(
    *,
    archive: options.Archive = None,
    prometheus_url: options.PrometheusUrl = None,
    prometheus_bearer_token_file: options.PrometheusTokenFile = None,
    prometheus_header: options.PrometheusHeaders = None,
    prometheus_label: options.PrometheusLabels = None,
    prometheus_parameter: options.PrometheusParameters = None,
    prometheus_ca_file: options.PrometheusCa = None,
    prometheus_certificate_file: options.PrometheusCertificate = None,
    prometheus_key_file: options.PrometheusKey = None,
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
        prometheus=access_of(
            prometheus_url,
            bearer_token_file=prometheus_bearer_token_file,
            headers=prometheus_header or (),
            labels=prometheus_label or (),
            parameters=prometheus_parameter or (),
            ca_file=prometheus_ca_file,
            certificate_file=prometheus_certificate_file,
            key_file=prometheus_key_file,
        ),
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


def judging(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options of ``inputs_of`` in place of its parameter ``inputs``."""
    own = inspect.signature(command).parameters
    shared = inspect.signature(inputs_of).parameters
    parameters: list[inspect.Parameter] = []
    for name, parameter in own.items():
        parameters += shared.values() if name == _INPUTS else [parameter]

    @functools.wraps(command)
    def called(**given: Any) -> None:
        asked = {name: given.pop(name) for name in shared}
        command(inputs=inputs_of(**asked), **given)

    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {one.name: one.annotation for one in parameters}
    return called
