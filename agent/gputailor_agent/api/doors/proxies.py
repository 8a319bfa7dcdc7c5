"""The user that a trusted proxy names in a header, believed from its addresses only.

From any other address the header is as if it were not there: who can reach the agent directly could
write any name into it. A header that comes twice was smuggled past the proxy and is refused.
"""

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

import msgspec

from gputailor_agent.api.doors.scopes import AccessError

SETTING: Final = "web_trusted_proxies"
DEFAULT_HEADER: Final = "X-Forwarded-User"
_LONGEST_NAME: Final = 256

Network = IPv4Network | IPv6Network
Headers = Sequence[tuple[bytes, bytes]]


class SmuggledError(ValueError):
    """A header that must stand once stands twice, or cannot be a name."""


class Proxies(msgspec.Struct, frozen=True, kw_only=True):
    """Which addresses are believed, and the header (lower case) that names the user."""

    networks: tuple[Network, ...] = ()
    header: str = DEFAULT_HEADER.lower()

    def trusts(self, peer: str) -> bool:
        """Whether the address at the other end of the connection is a trusted proxy's."""
        try:
            address = ip_address(peer)
        except ValueError:
            return False
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return any(address in network for network in self.networks)

    def user(self, peer: str, headers: Headers) -> str:
        """The name that a trusted proxy gives; '' where none does.

        Raises ``SmuggledError`` for two names, or one that cannot be.
        """
        if not self.networks or not self.trusts(peer):
            return ""
        given = [value for name, value in headers if name == self.header.encode()]
        if len(given) > 1:
            raise SmuggledError(f"the header {self.header} stands there {len(given)} times")
        return _name(given[0]) if given else ""


def _name(value: bytes) -> str:
    try:
        name = value.decode().strip()
    except UnicodeDecodeError as error:
        raise SmuggledError("the user's name is not UTF-8") from error
    if len(name) > _LONGEST_NAME or not name.isprintable():
        raise SmuggledError("the user's name is too long or holds signs that cannot be shown")
    return name


def networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Addresses and networks such as ``10.0.0.0/8``; raises ``AccessError``."""
    found = []
    for text in texts:
        try:
            network = ip_network(text, strict=False)
        except ValueError as error:
            raise AccessError(
                f"{SETTING}: expected an address or a network such as 10.0.0.0/8, found {text!r}"
            ) from error
        if network.prefixlen == 0:
            raise AccessError(
                f"{SETTING}: {text} is every address: then anybody could name himself anybody; "
                "name the proxy's addresses"
            )
        found.append(network)
    return tuple(found)
