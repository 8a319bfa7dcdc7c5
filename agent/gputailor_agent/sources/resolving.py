"""Targets that stand for several addresses: ``dns+http://host:port/metrics``.

A headless Service has one address per pod, and pods come and go: the name is resolved anew at each
round. Over TLS each address has to prove the name, not its number.
"""

import socket
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import httpx

DNS: Final = "dns+"

#: As ``socket.getaddrinfo``: addresses of a host and port; raises ``OSError``.
Resolver = Callable[[str, int], Iterable[str]]


class Address(NamedTuple):
    """Where to ask; ``name`` is what a certificate has to be of, '' where the URL tells."""

    url: httpx.URL
    name: str = ""


class UnresolvedError(Exception):
    """A name has no address; the text says why."""


def is_dns(target: str) -> bool:
    """Whether the target's name is to be resolved to one target per address."""
    return target.startswith(DNS)


def system_resolver(host: str, port: int) -> list[str]:
    """Every address of a host, each once, in the resolver's order."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(one[4][0]) for one in found))


def addresses(url: httpx.URL, resolver: Resolver = system_resolver) -> list[Address]:
    """One address for each that the URL's host has; raises ``UnresolvedError`` for none."""
    port = url.port or (443 if url.scheme == "https" else 80)
    try:
        found = sorted(dict.fromkeys(resolver(url.host, port)))
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UnresolvedError(f"{url.host} cannot be resolved: {why}") from error
    if not found:
        raise UnresolvedError(f"{url.host} has no address: no pod is ready behind it")
    return [Address(url.copy_with(host=one), url.host) for one in found]
