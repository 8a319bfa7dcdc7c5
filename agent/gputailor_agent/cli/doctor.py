"""``gputailor doctor``: what is there, what is missing, and what to do about it.

Each check answers with what it saw; a problem always comes with the next step. Nothing is changed.
"""

import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

import typer

from gputailor_agent.cli import options
from gputailor_agent.cli.checks import (
    Check,
    driver,
    exporter_reachable,
    extra_installed,
    installation,
    store_readable,
)
from gputailor_agent.cli.cluster_checks import cluster_checks, inventory_checks, monitor_checks
from gputailor_agent.cli.clusters import ClusterAccess
from gputailor_agent.cli.config import Config
from gputailor_agent.cli.discovered import AUTO, find_prometheus
from gputailor_agent.cli.errors import FAILED, UsageError, is_told
from gputailor_agent.cli.histories import PrometheusAccess
from gputailor_agent.cli.judged import asking
from gputailor_agent.cli.prometheus_checks import checks_of
from gputailor_agent.cli.settings import load_settings
from gputailor_agent.cli.terminal import answer, look
from gputailor_agent.model.inventory import Inventory
from gputailor_agent.reports.console import draw
from gputailor_agent.reports.document import Column, Document, Heading, Table
from gputailor_agent.reports.plurals import agreed

_EXTRAS: Final = {
    "exporter": ("pynvml", "h2", "h11", "google.protobuf", "yaml"),
    "agent": ("typer", "sqlalchemy", "fastapi", "apscheduler", "numpy"),
    "dashboards": ("grafanalib",),
}
_COLUMNS: Final = (
    Column(title="check"),
    Column(title=""),
    Column(title="found", least=24),
    Column(title="what to do", least=24),
)

_EPILOG = """Examples:

  gputailor doctor

  gputailor doctor --context lab --namespace team-a

  gputailor doctor --context lab --prometheus-url auto

  gputailor doctor --store sqlite:///gputailor.db --target http://node-1:9836

  gputailor doctor --config /etc/gputailor/agent.yaml    # and what these settings need
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=_EPILOG)(asking(doctor))


def doctor(
    *,
    store: options.Store = None,
    target: Annotated[
        list[str] | None, typer.Option("--target", help="An exporter to reach. Repeatable.")
    ] = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    namespace: options.Namespaces = None,
    prometheus: PrometheusAccess,
    config: Config = None,
) -> None:
    """Check installation, driver, cluster, store, Prometheus and exporters. Exit 1 on a problem."""
    access = ClusterAccess(
        kubeconfig=kubeconfig, context=context, namespaces=tuple(namespace or ())
    )
    checks = list(all_checks(store, target or [], access, prometheus, config))
    rows = tuple(
        (check.name, check.standing, agreed(check.found), agreed(check.advice)) for check in checks
    )
    title = "GPU Tailor doctor"
    page = Document(
        title=title, blocks=(Heading(text=title, level=1), Table(columns=_COLUMNS, rows=rows))
    )
    answer(draw(page, look()))
    if any(check.standing == "problem" for check in checks):
        raise typer.Exit(FAILED)


def all_checks(
    store: str | None,
    targets: Iterable[str],
    access: ClusterAccess,
    prometheus: PrometheusAccess,
    config: Path | None = None,
) -> Iterable[Check]:
    """Every check in order; ``config``: the agent's settings, where they are in a file."""
    yield installation()
    for extra, modules in _EXTRAS.items():
        yield extra_installed(extra, modules)
    yield driver()
    features: tuple[str, ...] = ()
    try:
        settings = load_settings({}, config)
    except UsageError as error:
        yield Check(name="settings", standing="problem", found=str(error))
    else:
        features = settings.features
        access = replace(access, namespaces=access.namespaces or settings.namespaces)
    cluster = list(cluster_checks(access, features))
    yield from cluster
    asked: Inventory | None = None
    if any(one.name == "Kubernetes" and one.standing == "ok" for one in cluster):
        asked, found = inventory_checks(access, time.time())
        yield from found
        yield from monitor_checks(access)
    yield store_readable(store)
    yield from _prometheus(prometheus, access, asked)
    exporters = [exporter_reachable(target) for target in targets]
    yield from exporters or [
        Check(
            name="exporters",
            standing="note",
            found="none asked for",
            advice="give --target http://NODE:9836 to check one",
        )
    ]


def _prometheus(
    prometheus: PrometheusAccess, access: ClusterAccess, asked: Inventory | None
) -> Iterable[Check]:
    """The one that is named, or that of the cluster."""
    if prometheus.url == AUTO:
        try:
            prometheus = find_prometheus(prometheus, access, now=time.time())
        except Exception as error:
            if not is_told(error):
                raise
            yield Check(name="Prometheus", standing="problem", found=str(error))
            return
    yield from checks_of(prometheus, asked)
