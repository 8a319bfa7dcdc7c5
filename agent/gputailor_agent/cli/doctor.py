"""``gputailor doctor``: what is there, what is missing, and what to do about it.

Each check answers with what it saw; a problem always comes with the next step. Nothing is changed.
"""

import ctypes
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from importlib import metadata
from importlib.util import find_spec
from typing import Annotated, Final

import httpx
import msgspec
import typer

from gputailor_agent.cli import options
from gputailor_agent.cli.clusters import ClusterAccess
from gputailor_agent.cli.errors import FAILED
from gputailor_agent.cli.histories import PrometheusAccess, access_of, reachable
from gputailor_agent.cli.settings import exporter_url
from gputailor_agent.cli.terminal import answer, look
from gputailor_agent.inventory.kube_state_metrics import (
    accelerator_pattern,
    inventory_of,
    lacking,
)
from gputailor_agent.model.usage import HOUR_SECONDS
from gputailor_agent.reports.console import draw
from gputailor_agent.reports.document import Column, Document, Heading, Table
from gputailor_agent.sources.resolving import DNS
from gputailor_agent.store import Store

_EXTRAS: Final = {
    "exporter": ("pynvml", "h2", "google.protobuf", "prometheus_client", "yaml"),
    "agent": ("typer", "sqlalchemy", "fastapi", "apscheduler", "numpy"),
    "dashboards": ("grafanalib",),
}
_TIMEOUT_SECONDS: Final = 5.0
_OURS: Final = "gputailor_exporter_build_info"
_SHOWN_PYTHON: Final = 3
_COLUMNS: Final = (
    Column(title="check"),
    Column(title=""),
    Column(title="found", least=24),
    Column(title="what to do", least=24),
)

_EPILOG = """Examples:

  gputailor doctor

  gputailor doctor --context lab --namespace team-a

  gputailor doctor --store sqlite:///gputailor.db --target http://node-1:9836
"""


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One thing looked at. ``standing``: "ok", "note" (may be fine) or "problem"."""

    name: str
    standing: str
    found: str
    advice: str = ""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=_EPILOG)(doctor)


def doctor(
    *,
    store: options.Store = None,
    target: Annotated[
        list[str] | None, typer.Option("--target", help="An exporter to reach. Repeatable.")
    ] = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    namespace: options.Namespaces = None,
    prometheus_url: options.PrometheusUrl = None,
    prometheus_bearer_token_file: options.PrometheusTokenFile = None,
    prometheus_header: options.PrometheusHeaders = None,
    prometheus_label: options.PrometheusLabels = None,
    prometheus_ca_file: options.PrometheusCa = None,
) -> None:
    """Check installation, driver, cluster, store, Prometheus and exporters. Exit 1 on a problem."""
    access = ClusterAccess(
        kubeconfig=kubeconfig, context=context, namespaces=tuple(namespace or ())
    )
    prometheus = access_of(
        prometheus_url,
        bearer_token_file=prometheus_bearer_token_file,
        headers=prometheus_header or (),
        labels=prometheus_label or (),
        ca_file=prometheus_ca_file,
    )
    checks = list(all_checks(store, target or [], access, prometheus))
    rows = tuple((check.name, check.standing, check.found, check.advice) for check in checks)
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
) -> Iterable[Check]:
    """Every check in order."""
    yield installation()
    for extra, modules in _EXTRAS.items():
        yield extra_installed(extra, modules)
    yield driver()
    yield from cluster_checks(access)
    yield store_readable(store)
    yield prometheus_answers(prometheus)
    yield from states_told(prometheus)
    found = [exporter_reachable(target) for target in targets]
    yield from found or [
        Check(
            name="exporters",
            standing="note",
            found="none asked for",
            advice="give --target http://NODE:9836 to check one",
        )
    ]


def installation() -> Check:
    """The package's version and the Python that runs it."""
    python = ".".join(str(part) for part in sys.version_info[:_SHOWN_PYTHON])
    return Check(
        name="installation",
        standing="ok",
        found=f"gputailor {metadata.version('gputailor')}, Python {python}, {sys.platform}",
    )


def extra_installed(extra: str, modules: Iterable[str]) -> Check:
    """Whether an extra's libraries are there."""
    missing = [name for name in modules if not _importable(name)]
    if not missing:
        return Check(name=f"extra {extra}", standing="ok", found="installed")
    return Check(
        name=f"extra {extra}",
        standing="note",
        found=f"not installed (missing {', '.join(missing)})",
        advice=f"pip install 'gputailor[{extra}]', if this machine should have it",
    )


def _importable(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def driver(load: Callable[[str], object] = ctypes.CDLL) -> Check:
    """Whether the NVIDIA driver's library can be loaded here."""
    try:
        load("libnvidia-ml.so.1")
    except OSError as error:
        return Check(
            name="NVIDIA driver",
            standing="note",
            found=f"not visible: {error}",
            advice="fine where no GPU is expected; on a GPU node install the driver, in a "
            "container use the nvidia runtime class",
        )
    return Check(name="NVIDIA driver", standing="ok", found="libnvidia-ml.so.1 loads")


def cluster_checks(access: ClusterAccess) -> Iterator[Check]:
    """Whether the cluster answers, and what of the permissions is missing.

    Without a cluster that anybody named, none is a note: files do as well.
    """
    from gputailor_agent.inventory.live import (  # noqa: PLC0415 - a second that others need not
        ClusterError,
        NoClusterError,
        connect,
        missing_permissions,
    )

    named = access.asked or bool(os.environ.get("KUBECONFIG"))
    try:
        client = connect(access.kubeconfig, access.context)
        with closing(client):
            missing = missing_permissions(client, access.namespaces or None)
    except ClusterError as error:
        yield Check(
            name="Kubernetes",
            standing="note" if isinstance(error, NoClusterError) and not named else "problem",
            found=str(error),
            advice="or work from files: kubectl get … -o json > cluster.json elsewhere, then "
            "--inventory cluster.json",
        )
        return
    yield Check(name="Kubernetes", standing="ok", found=f"{client.host} answers ({client.where})")
    if not missing:
        yield Check(name="permissions", standing="ok", found="everything that is read may be read")
    for one in missing:
        place = f"in namespace {one.namespace}" if one.namespace else "in all namespaces"
        yield Check(
            name="permissions",
            standing="note" if one.optional else "problem",
            found=f"{', '.join(one.verbs)} on {one.resource} not granted {place}: {one.without}",
            advice="grant it: docs/kubernetes.md, or name namespaces with --namespace",
        )


def store_readable(url: str | None) -> Check:
    """Whether the store opens and what it holds."""
    if url is None:
        return Check(
            name="store",
            standing="note",
            found="none asked for",
            advice="give --store sqlite:///PATH or set GPUTAILOR_STORE to check one",
        )
    path = options.store_file(url)
    if path is not None and not path.exists():
        return Check(
            name="store",
            standing="problem",
            found=f"{path} does not exist",
            advice="gputailor serve --store … makes it; check the path",
        )
    try:
        Store.open(url).close()
    except Exception as error:  # noqa: BLE001 - whatever a database says belongs in the answer
        return Check(
            name="store",
            standing="problem",
            found=f"cannot be opened: {str(error).splitlines()[0]}",
            advice="check the URL, the file's permissions and that the database runs",
        )
    return Check(name="store", standing="ok", found=f"{url} opens")


def prometheus_answers(access: PrometheusAccess) -> Check:
    """Whether a Prometheus answers and has metrics of GPUs."""
    if not access.asked:
        return Check(
            name="Prometheus",
            standing="note",
            found="none asked for",
            advice="give --prometheus-url http://HOST:9090 to check one",
        )
    from gputailor_agent.sources.prometheus import (  # noqa: PLC0415 - others need it not
        PrometheusError,
    )

    try:
        address, exporters = reachable(access, now=time.time())
    except PrometheusError as error:
        return Check(name="Prometheus", standing="problem", found=str(error))
    if not exporters:
        return Check(
            name="Prometheus",
            standing="problem",
            found=f"{address} answers, but has no GPU metrics of the last day",
            advice="does it scrape gputailor-exporter or dcgm-exporter? is it the right server?",
        )
    told = " and ".join(exporters)
    return Check(name="Prometheus", standing="ok", found=f"{address} answers with {told} metrics")


def states_told(access: PrometheusAccess) -> Iterator[Check]:
    """What kube-state-metrics in the Prometheus tells, and what it leaves out.

    Nothing where no Prometheus is asked or it does not answer, which is told elsewhere.
    """
    if not access.asked:
        return
    from gputailor_agent.sources.prometheus import (  # noqa: PLC0415 - others need it not
        PrometheusError,
    )

    name, now = "kube-state-metrics", time.time()
    try:
        with access.states(attempts=1) as reader:
            state = reader.read(accelerator_pattern(), now - HOUR_SECONDS, now)
    except PrometheusError:
        return
    inventory = inventory_of(state, "")
    if state.found:
        there = sum(one.uid not in state.gone for one in inventory.pods)
        told = f"{there} pods with GPUs and {len(inventory.nodes)} nodes are told"
        yield Check(name=name, standing="ok" if inventory.complete else "problem", found=told)
    for one in lacking(state):
        yield Check(name=name, standing="note", found=one.found, advice=one.advice)


def exporter_reachable(target: str) -> Check:
    """Whether an exporter answers with our metrics."""
    name = f"exporter {target}"
    try:
        url = exporter_url(target).removeprefix(DNS)  # one of its addresses is enough here
        page = httpx.get(url, timeout=_TIMEOUT_SECONDS)
    except (httpx.HTTPError, ValueError, httpx.InvalidURL) as error:
        return Check(
            name=name,
            standing="problem",
            found=f"no answer: {error}",
            advice="is gputailor-exporter running there, and may this machine reach its port?",
        )
    if page.status_code != httpx.codes.OK:
        return Check(
            name=name,
            standing="problem",
            found=f"{url} answered {page.status_code}",
            advice="503: its first cycle is not over; 401: it wants a password; 404: wrong path",
        )
    if _OURS not in page.text:
        return Check(
            name=name,
            standing="problem",
            found=f"{url} answers, but is no gputailor exporter",
            advice="check the port: the exporter's default is 9836",
        )
    devices = page.text.count("\ngputailor_device_up{")
    return Check(name=name, standing="ok", found=f"{url} answers with {devices} devices")
