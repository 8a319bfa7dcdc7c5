"""What ``gputailor doctor`` looks at on this machine; a problem comes with what to do."""

import ctypes
import sys
from collections.abc import Callable, Iterable
from importlib import metadata
from importlib.util import find_spec
from typing import Final

import httpx
import msgspec

from gputailor_agent.cli.targets import exporter_url
from gputailor_agent.model.addresses import public, without_secrets
from gputailor_agent.sources.resolving import DNS
from gputailor_agent.store import Store
from gputailor_agent.store.database import named

_TIMEOUT_SECONDS: Final = 5.0
_OURS: Final = "gputailor_exporter_build_info"
_SHOWN_PYTHON: Final = 3


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One thing looked at. ``standing``: "ok", "note" (may be fine) or "problem"."""

    name: str
    standing: str
    found: str
    advice: str = ""


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


def store_readable(url: str | None) -> Check:
    """Whether the store opens and what it holds."""
    if url is None:
        return Check(
            name="store",
            standing="note",
            found="none asked for",
            advice="give --store sqlite:///PATH or set GPUTAILOR_STORE to check one",
        )
    try:
        Store.open(url, reading=True).close()
    except Exception as error:  # noqa: BLE001 - whatever a database says belongs in the answer
        return Check(
            name="store",
            standing="problem",
            found=f"cannot be opened: {without_secrets(str(error).splitlines()[0])}",
            advice="check the URL, the file's permissions and that the database runs",
        )
    return Check(name="store", standing="ok", found=f"{named(url)} opens")


def exporter_reachable(target: str) -> Check:
    """Whether an exporter answers with our metrics."""
    name = f"exporter {public(target)}"
    try:
        address = exporter_url(target).removeprefix(DNS)  # one of its addresses is enough here
        url = public(address)
        page = httpx.get(address, timeout=_TIMEOUT_SECONDS)
    except (httpx.HTTPError, ValueError, httpx.InvalidURL) as error:
        return Check(
            name=name,
            standing="problem",
            found=f"no answer: {without_secrets(str(error))}",
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
