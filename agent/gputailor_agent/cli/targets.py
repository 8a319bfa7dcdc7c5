"""Exporters to scrape, as people name them."""

import re
from ipaddress import IPv6Address
from typing import Final
from urllib.parse import urlsplit

from gputailor_agent.model.addresses import public
from gputailor_agent.sources.resolving import DNS

_HOST: Final = re.compile(r"[\w-]+(\.[\w-]+)*\.?")
_HIGHEST_PORT: Final = 65535


def exporter_url(target: str) -> str:
    """A target as the URL of its metrics page: ``node-1:9836`` -> ``http://node-1:9836/metrics``.

    A URL with ``dns+`` in front stays so: it stands for every address of its host. Raises
    ``ValueError`` for what names no exporter; a password or token in it is not repeated.
    """
    url = target if "://" in target else f"http://{target}"
    scheme, _, rest = url.partition("://")
    why = _wrong(scheme.removeprefix(DNS), rest)
    if why:
        raise ValueError(
            f"expected a URL or HOST:PORT of an exporter, found {public(target)!r}: {why}"
        )
    place, path, more = _parted(rest)
    return f"{scheme}://{place}{path if path not in {'', '/'} else '/metrics'}{more}"


def _parted(rest: str) -> tuple[str, str, str]:
    """Host, path and query of what comes behind ``://``."""
    path_at = min((at for at in map(rest.find, "/?#") if at >= 0), default=len(rest))
    place, tail = rest[:path_at], rest[path_at:]
    query_at = min((at for at in map(tail.find, "?#") if at >= 0), default=len(tail))
    return place, tail[:query_at], tail[query_at:]


def _wrong(scheme: str, rest: str) -> str:
    """Why it is no address; '' for one."""
    if scheme not in {"http", "https"}:
        return "exporters are asked by http or https"
    if any(sign.isspace() or not sign.isprintable() for sign in rest):
        return "there is a blank in it; several targets are separated by commas"
    try:
        parts = urlsplit(f"http://{rest}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return _misplaced(rest) or "its port is no number up to 65535"
    return "no port is 0" if port == 0 else _wrong_host(host)


def _wrong_host(host: str) -> str:
    if not host:
        return "it has no host"
    if ":" in host:
        return _not_ipv6(host)
    return "" if _HOST.fullmatch(host) else f"no host is called {host!r}"


def _misplaced(rest: str) -> str:
    place = _parted(rest)[0]
    if "@" in rest and "@" not in place:
        return "in a password / ? # are written %2F %3F %23"
    place = place.rpartition("@")[2]
    if place.count(":") > 1 and "[" not in place:
        return "an IPv6 address stands in brackets, as in [::1]:9836"
    return ""


def _not_ipv6(host: str) -> str:
    try:
        IPv6Address(host)
    except ValueError:
        return f"{host} is no IPv6 address"
    return ""
