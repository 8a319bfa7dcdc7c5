"""Exporters asked over HTTP: each answer is one page, each failure a reason, never a zero.

Connections are kept between rounds and targets are asked side by side. A page counts as taken at
the time the caller gives; a page with one broken line is refused as a whole, since the next round
comes in seconds and a half-read page would look like devices that went away. Targets that begin
with ``dns+`` are resolved at every round to one target per address.
"""

import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from typing import Final, Self

import httpx
import msgspec

from gputailor_agent.model.addresses import public
from gputailor_agent.model.usage import Page
from gputailor_agent.sources.exposition import PageReader
from gputailor_agent.sources.lines import batches
from gputailor_agent.sources.problems import ProblemList
from gputailor_agent.sources.prometheus.access import PrometheusError
from gputailor_agent.sources.resolving import (
    DNS,
    Address,
    Resolver,
    UnresolvedError,
    addresses,
    is_dns,
    system_resolver,
)

ACCEPT: Final = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.9"
_OPENMETRICS: Final = "application/openmetrics-text"
_FORMATS: Final = ("text/plain", _OPENMETRICS)
_LARGEST: Final = 64 * 1024 * 1024  # bytes unpacked; a node of ours has some 0.5 MB
_AT_ONCE: Final = 64


class FailureReason(StrEnum):
    """Why a target gave no page."""

    REFUSED = "refused"  # nobody listens, or the name is not known
    TIMEOUT = "timeout"
    TLS = "tls"
    STATUS = "status"  # answered, but not with 200
    CONTENT_TYPE = "content_type"
    TOO_LARGE = "too_large"
    PARSE = "parse"
    NOT_OURS = "not_ours"  # a page without any metric that we know
    BROKEN = "broken"  # the connection ended early, or the answer is no HTTP
    ADDRESS = "address"  # the target is no address
    DNS = "dns"  # its name has none
    CREDENTIALS = "credentials"  # what is to be shown to it cannot be read


class ScrapeFailure(msgspec.Struct, frozen=True, kw_only=True):
    """A target that gave no page this round; ``text`` says more than the reason."""

    target: str
    reason: FailureReason
    text: str


class ScrapeResult(msgspec.Struct, frozen=True, kw_only=True):
    """One round: a page for each target that answered well, in the order of the targets."""

    pages: tuple[Page, ...] = ()
    failures: tuple[ScrapeFailure, ...] = ()


class _Refused(Exception):  # noqa: N818 - becomes a ScrapeFailure
    def __init__(self, reason: FailureReason, text: str) -> None:
        super().__init__(text)
        self.reason = reason


def target_url(target: str) -> httpx.URL:
    """Address of a target: ``host:port`` gets ``http://`` and ``/metrics``.

    Raises ``ValueError`` when it is no address.
    """
    try:
        url = httpx.URL(target if "://" in target else f"http://{target}")
    except httpx.InvalidURL as error:
        raise ValueError(str(error)) from error
    if url.scheme not in {"http", "https"} or not url.host:
        raise ValueError(f"{public(target)!r} is no address; expected http://host:port/metrics")
    return url.copy_with(path="/metrics") if url.path in {"", "/"} else url


def _name(target: Address | ScrapeFailure) -> str:
    return target.target if isinstance(target, ScrapeFailure) else str(target.url)


def _names(urls: Iterable[str]) -> dict[str, str]:
    """Each URL as it may be shown; those that differ only in what is masked are numbered."""
    names: dict[str, str] = {}
    taken: Counter[str] = Counter()
    for url in urls:
        shown = public(url)
        taken[shown] += 1
        names[url] = shown if taken[shown] == 1 else f"{shown} #{taken[shown]}"
    return names


def _host_header(target: Address) -> str:
    host = f"[{target.name}]" if ":" in target.name else target.name
    return host if target.url.port is None else f"{host}:{target.url.port}"


class ScrapeSource:
    """Scrapes a fixed list of targets; close it, or use it as a context manager.

    A target is ``host:port`` or a URL, which may carry ``user:password@``; with ``dns+`` in front
    of a URL it stands for every address of its host. ``verify`` is what httpx takes: True, False,
    or an ``ssl.SSLContext`` with the CA of the exporters. ``auth`` is shown to all of them, in
    place of what a URL carries; where it raises ``PrometheusError``, the target fails by that.
    """

    def __init__(
        self,
        targets: Sequence[str],
        cluster: str,
        timeout_seconds: float = 5.0,
        *,
        verify: bool | ssl.SSLContext = True,
        auth: httpx.Auth | None = None,
        largest_bytes: int = _LARGEST,
        resolver: Resolver = system_resolver,
    ) -> None:
        self._targets = tuple(dict.fromkeys(targets))
        self._cluster = cluster
        self._timeout = timeout_seconds
        self._largest = largest_bytes
        self._resolver = resolver
        self._readers: dict[str, PageReader] = {}
        self._names: dict[str, str] = {}  # of each URL, as metrics, logs and the rollup know it
        at_once = _AT_ONCE if any(map(is_dns, self._targets)) else len(self._targets) or 1
        self._client = httpx.Client(
            timeout=httpx.Timeout(timeout_seconds),
            limits=httpx.Limits(
                max_connections=None, max_keepalive_connections=max(at_once, len(self._targets))
            ),
            headers={"Accept": ACCEPT, "Accept-Encoding": "gzip", "User-Agent": "gputailor-agent"},
            verify=verify,
            auth=auth,
            trust_env=False,  # exporters are neighbours: no proxy stands between
        )
        self._pool = ThreadPoolExecutor(
            max_workers=min(_AT_ONCE, at_once), thread_name_prefix="scrape"
        )

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, *_exception: object) -> None:
        """Close."""
        self.close()

    def close(self) -> None:
        """Let go of connections and threads."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._client.close()

    def scrape(self, at: float) -> ScrapeResult:
        """Ask every target once; ``at`` is now, in Unix seconds.

        A page is dated by the moment its answer began, which targets that hang may put off: dated
        earlier, its counters would seem to have run faster than time.
        """
        began = time.monotonic()

        def ask(target: Address | ScrapeFailure) -> Page | ScrapeFailure:
            if isinstance(target, ScrapeFailure):
                return target
            return self._ask(target, lambda: at + time.monotonic() - began)

        found = [one for part in self._pool.map(self._found, self._targets) for one in part]
        asked = list({_name(one): one for one in found}.values())
        self._names = _names(str(one.url) for one in asked if isinstance(one, Address))
        results = list(self._pool.map(ask, asked))
        self._readers = {
            key: reader for key, reader in self._readers.items() if key in set(map(_name, asked))
        }
        return ScrapeResult(
            pages=tuple(result for result in results if isinstance(result, Page)),
            failures=tuple(result for result in results if isinstance(result, ScrapeFailure)),
        )

    def _found(self, target: str) -> list[Address] | list[ScrapeFailure]:
        """Where to ask for a target, or why nowhere."""
        try:
            url = target_url(target.removeprefix(DNS))
            return addresses(url, self._resolver) if is_dns(target) else [Address(url)]
        except ValueError as error:
            reason, text = FailureReason.ADDRESS, str(error)
        except UnresolvedError as error:
            reason, text = FailureReason.DNS, str(error)
            target = f"{DNS}{url}"
        return [ScrapeFailure(target=public(target), reason=reason, text=text)]

    def _ask(self, target: Address, clock: Callable[[], float]) -> Page | ScrapeFailure:
        shown = self._names[str(target.url)]
        try:
            return self._page(target, clock)
        except _Refused as refused:
            return ScrapeFailure(target=shown, reason=refused.reason, text=str(refused))
        except PrometheusError as error:  # a token's file that cannot be read just now
            return ScrapeFailure(target=shown, reason=FailureReason.CREDENTIALS, text=str(error))
        except httpx.TimeoutException:
            return ScrapeFailure(
                target=shown,
                reason=FailureReason.TIMEOUT,
                text=f"no whole answer within {self._timeout:g} s",
            )
        except httpx.ConnectError as error:
            tls = "ssl" in str(error).lower() or "certificate" in str(error).lower()
            reason = FailureReason.TLS if tls else FailureReason.REFUSED
            return ScrapeFailure(target=shown, reason=reason, text=str(error))
        except httpx.HTTPError as error:
            return ScrapeFailure(
                target=shown,
                reason=FailureReason.BROKEN,
                text=str(error) or type(error).__name__,
            )

    def _page(self, target: Address, clock: Callable[[], float]) -> Page:
        key, url = str(target.url), target.url
        more = {"sni_hostname": target.name} if target.name else {}
        host = {"Host": _host_header(target)} if target.name else {}
        with self._client.stream("GET", url, headers=host, extensions=more) as response:
            at = clock()
            kind = self._check(response)
            pieces = list(self._body(response))
        problems = ProblemList()
        if key not in self._readers:
            self._readers[key] = PageReader(self._cluster, self._names[key], problems)
        reader = self._readers[key]
        reader.problems = problems
        pages = list(reader.read(batches(pieces), at=at, stamped=False))
        if kind == _OPENMETRICS and not reader.ended:
            raise _Refused(FailureReason.PARSE, "the page has no '# EOF': it was cut")
        if len(problems):
            raise _Refused(FailureReason.PARSE, str(next(iter(problems))))
        if not pages:
            names = ", ".join(sorted(reader.strangers)) or "nothing"
            raise _Refused(
                FailureReason.NOT_OURS,
                f"found {names}; expected metrics of the GPU Tailor exporter (gputailor_…)",
            )
        return pages[0]

    @staticmethod
    def _check(response: httpx.Response) -> str:
        if response.status_code != httpx.codes.OK:
            raise _Refused(
                FailureReason.STATUS,
                f"answered {response.status_code} {response.reason_phrase}; expected 200",
            )
        kind: str = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in _FORMATS:
            raise _Refused(
                FailureReason.CONTENT_TYPE,
                f"content type {kind or 'missing'}; expected {' or '.join(_FORMATS)}",
            )
        return kind

    def _body(self, response: httpx.Response) -> Iterator[bytes]:
        """The unpacked body, within the size and, all pieces together, the time allowed."""
        size, until = 0, time.monotonic() + self._timeout
        for piece in response.iter_bytes():
            size += len(piece)
            if size > self._largest:
                raise _Refused(FailureReason.TOO_LARGE, f"more than {self._largest:,} bytes")
            if time.monotonic() > until:
                raise httpx.ReadTimeout("the answer drips")
            yield piece
