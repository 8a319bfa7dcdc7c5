"""The listening sockets: addresses of both families, and how a person writes them."""

import errno
import socket
from collections.abc import Iterator, Sequence
from typing import Final

#: Connections that the kernel holds until they are taken; as many scrapes may come at once.
BACKLOG: Final = 256

_EVERY: Final = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}
Address = tuple[str, int]


class ListenError(OSError):
    """An address cannot be listened on; the text says which and why."""


def bind(addresses: Sequence[Address]) -> tuple[socket.socket, ...]:
    """Return a listening socket per address, all or none; raises ``ListenError``."""
    made: list[socket.socket] = []
    for host, port in addresses:
        try:
            made.append(_bound(host, port, both=_may_take_both(port, addresses)))
        except OSError as error:
            for one in made:
                one.close()
            shown = f"[{host}]" if ":" in host else host
            raise ListenError(
                f"cannot listen on {shown}:{port}: {error.strerror or error}. "
                "What to do: choose another address with --listen HOST:PORT"
            ) from error
    return tuple(made)


def _may_take_both(port: int, addresses: Sequence[Address]) -> bool:
    """Whether ``[::]`` may take IPv4 too: not where the port has an IPv4 address of its own."""
    return not any(other == port and "." in host for host, other in addresses)


def _bound(host: str, port: int, *, both: bool) -> socket.socket:
    for family, place in _places(host, port):
        made = socket.socket(family, socket.SOCK_STREAM)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if both else 1)
            made.bind(place)
            made.listen(BACKLOG)
            made.settimeout(0.0)
        except OSError as error:
            made.close()
            if host or error.errno == errno.EADDRINUSE or family == socket.AF_INET:
                raise
        else:
            return made
    raise OSError(errno.EADDRNOTAVAIL, "no address of this kind")


def _places(host: str, port: int) -> Iterator[tuple[int, tuple[str, int]]]:
    if not host:  # every address: of both families, or of IPv4 where the kernel has no other
        if socket.has_ipv6:
            yield socket.AF_INET6, ("::", port)
        yield socket.AF_INET, ("0.0.0.0", port)
        return
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, _, _, _, place = found[0]
    yield family, (str(place[0]), int(place[1]))


def url_of(listener: socket.socket, *, tls: bool) -> str:
    """Where a person on this machine finds ``listener``."""
    host, port = listener.getsockname()[:2]
    if host == "::" and not listener.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY):
        host = "0.0.0.0"
    shown = _EVERY.get(host) or (f"[{host}]" if ":" in host else host)
    return f"{'https' if tls else 'http'}://{shown}:{port}"
