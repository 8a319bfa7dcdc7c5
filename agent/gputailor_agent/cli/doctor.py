"""``gputailor doctor``: what is there, what is missing, and what to do about it.

Each check answers with what it saw; a problem always comes with the next step. Nothing is changed.
"""

import ctypes
import os
import sys
from collections.abc import Callable, Iterable
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Final

import httpx
import msgspec
import typer

from gputailor_agent.cli import options
from gputailor_agent.cli.errors import FAILED
from gputailor_agent.cli.settings import exporter_url
from gputailor_agent.cli.terminal import answer, look
from gputailor_agent.reports.console import draw
from gputailor_agent.reports.document import Column, Document, Heading, Table
from gputailor_agent.store import Store

_EXTRAS: Final = {
    "exporter": ("pynvml", "h2", "google.protobuf", "prometheus_client", "yaml"),
    "agent": ("typer", "sqlalchemy", "fastapi", "apscheduler", "numpy"),
    "dashboards": ("grafanalib",),
}
_TIMEOUT_SECONDS: Final = 5.0
_OURS: Final = "gputailor_exporter_build_info"
_SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
_SHOWN_PYTHON: Final = 3
_COLUMNS: Final = (
    Column(title="check"),
    Column(title=""),
    Column(title="found", least=24),
    Column(title="what to do", least=24),
)

_EPILOG = """Examples:

  gputailor doctor

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
    store: options.Store = None,
    target: Annotated[
        list[str] | None, typer.Option("--target", help="An exporter to reach. Repeatable.")
    ] = None,
) -> None:
    """Check the installation, driver, cluster access, store and exporters. Exit 1 on a problem."""
    checks = list(all_checks(store, target or []))
    rows = tuple((check.name, check.standing, check.found, check.advice) for check in checks)
    title = "GPU Tailor doctor"
    page = Document(
        title=title, blocks=(Heading(text=title, level=1), Table(columns=_COLUMNS, rows=rows))
    )
    answer(draw(page, look()))
    if any(check.standing == "problem" for check in checks):
        raise typer.Exit(FAILED)


def all_checks(store: str | None, targets: Iterable[str]) -> Iterable[Check]:
    """Every check in order."""
    yield installation()
    for extra, modules in _EXTRAS.items():
        yield extra_installed(extra, modules)
    yield driver()
    yield cluster_access(os.environ)
    yield store_readable(store)
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


def cluster_access(environment: "os._Environ[str] | dict[str, str]") -> Check:
    """Whether there is a kubeconfig or a service account."""
    if _SERVICE_ACCOUNT.exists():
        return Check(name="Kubernetes", standing="ok", found="running inside a cluster")
    named = environment.get("KUBECONFIG", "")
    paths = [Path(part) for part in named.split(os.pathsep) if part] or [
        Path(environment.get("HOME", "/")) / ".kube" / "config"
    ]
    readable = [path for path in paths if os.access(path, os.R_OK)]
    if readable:
        return Check(name="Kubernetes", standing="ok", found=f"kubeconfig {readable[0]}")
    return Check(
        name="Kubernetes",
        standing="problem" if named else "note",
        found=f"no kubeconfig at {', '.join(str(path) for path in paths)}",
        advice="set KUBECONFIG, or work from files: kubectl get … -o json > cluster.json "
        "elsewhere, then --inventory cluster.json",
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


def exporter_reachable(target: str) -> Check:
    """Whether an exporter answers with our metrics."""
    name = f"exporter {target}"
    try:
        url = exporter_url(target)
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
