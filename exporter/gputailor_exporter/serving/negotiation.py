"""What a client's headers ask for: the format of the page, gzip, and how long it will wait.

Formats and header values: https://prometheus.io/docs/instrumenting/content_negotiation/. Three are
offered: OpenMetrics 1.0.0, text 1.0.0 and text 0.0.4; protobuf and OpenMetrics 0.0.1 are not. All
names of ours are plain ASCII, so that every escaping scheme leaves the page as it is and the one
that was asked for is said back. Read here and not by prometheus-client, which picks the first known
format instead of the most wanted one and loads an HTTP client, 10 MB of memory, with it.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
_TEXT_1: Final = "text/plain; version=1.0.0; charset=utf-8"
_OPENMETRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_ESCAPINGS: Final = frozenset({"allow-utf-8", "underscores", "dots", "values"})

#: How long a scrape may take where the client does not say: Prometheus' default scrape_timeout.
DEFAULT_WAIT_SECONDS: Final = 10.0
#: Nobody is made to wait longer, whatever the header says.
LONGEST_WAIT_SECONDS: Final = 60.0
#: Kept of the client's time for the way of the answer; a quarter of it where that is less.
MARGIN_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class Format:
    """A format of the page with the exact header that names it."""

    content_type: str
    openmetrics: bool = False


def choose_format(accept: str | None) -> Format:
    """Return the offered format that an Accept header wants most; text 0.0.4 where none is."""
    wanted = sorted(_parts(accept), key=lambda part: -part[2])  # stable: the first of equals wins
    for name, parameters, quality in wanted:
        found = _offered(name, parameters) if quality > 0 else None
        if found is not None:
            return found
    return Format(TEXT)


def _offered(name: str, parameters: dict[str, str]) -> Format | None:
    version, escaping = parameters.get("version", ""), parameters.get("escaping", "")
    said = f"; escaping={escaping}" if escaping in _ESCAPINGS else ""
    if name == "application/openmetrics-text" and version in {"", "1.0.0"}:
        return Format(_OPENMETRICS + said, openmetrics=True)
    if name == "text/plain" and version == "1.0.0":
        return Format(_TEXT_1 + said)
    if name in {"text/plain", "text/*", "*/*"} and version in {"", "0.0.4"}:
        return Format(TEXT)
    return None


def accepts_gzip(header: str | None) -> bool:
    """Return whether an Accept-Encoding header allows gzip (``gzip;q=0`` forbids it)."""
    allowed = {name: quality > 0 for name, _, quality in _parts(header)}
    return allowed.get("gzip", allowed.get("*", False))


def _parts(header: str | None) -> Iterator[tuple[str, dict[str, str], float]]:
    """Name, parameters and quality of each element of a list header."""
    for element in (header or "").split(","):
        name, *rest = element.split(";")
        pairs = (parameter.partition("=") for parameter in rest)
        parameters = {key.strip().lower(): value.strip().strip('"') for key, _, value in pairs}
        yield name.strip().lower(), parameters, _quality(parameters.get("q", "1"))


def _quality(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        return 0.0  # what cannot be understood is not asked for
    return value if 0.0 <= value <= 1.0 else 0.0


def wait_seconds(scrape_timeout: str | None) -> float:
    """Return how long an answer may take by an X-Prometheus-Scrape-Timeout-Seconds header."""
    try:
        given = float(scrape_timeout or "")
    except ValueError:
        given = math.nan
    if not (0.0 < given < math.inf):
        given = DEFAULT_WAIT_SECONDS
    return min(given - min(MARGIN_SECONDS, given / 4), LONGEST_WAIT_SECONDS)
