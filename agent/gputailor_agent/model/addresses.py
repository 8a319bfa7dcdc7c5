"""Addresses as they may be shown: in logs, metrics, pages and messages.

A password may stand before the host, a token in the query, under any name: so user and password
are left out, and of a query's values only those are shown whose names say that they choose what is
asked for. Masking too much costs a hint, too little a secret. A path is shown: an address whose
path is the secret (a webhook's) is named by its host alone where it is used.
"""

import re
from typing import Final
from urllib.parse import unquote

MASK: Final = "***"

#: Parameters that choose what an exporter or a server tells: those of node_exporter, the blackbox
#: and SNMP exporters, client libraries and Prometheus' federation.
_CHOOSING: Final = frozenset(
    {"collect", "exclude", "format", "match", "module", "name", "target", "timeout"}
)
#: An address in a text. What ends it is what people write around one; a password is no such end
#: where an @ still comes before the next blank.
_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://(?:[^\s@/?#<>]*@)?[^\s\"'<>`]*")
#: ``user:password@host`` without a scheme, as targets may be written.
#: An image's digest and a mail address are none.
_BARE: Final = re.compile(r"(?<![\w/@.+-])(?!mailto:)[\w.%+-]+:[^\s/@\"'<>]+@(?=[\w\[])(?!sha\d+:)")


def public(address: str, *, credentials: str = "") -> str:
    """An address without user, password, and values of its query that may be secrets.

    ``credentials``: what stands in the place of user and password, where there were any.
    """
    scheme, separator, rest = address.partition("://")
    if not separator:
        scheme, rest = "", address
    place, query = _split(rest)
    if "@" in query and not {"@", "/"} & set(place):
        return f"{scheme}{separator}{MASK}"  # a query, or a password with a ? in it
    _, given, host = place.rpartition("@")
    return f"{scheme}{separator}{credentials if given else ''}{host}{_public_query(query)}"


def _split(rest: str) -> tuple[str, str]:
    """Host and path, and what comes from a ``?`` or ``#`` on."""
    place = re.split("[?#]", rest, maxsplit=1)[0]
    return place, rest[len(place) :]


def _public_query(text: str) -> str:
    query, hash_sign, fragment = text.partition("#")
    parts = re.split("([&;])", query.removeprefix("?"))
    told = f"?{''.join(map(_public_part, parts))}" if query else ""
    return f"{told}{hash_sign}{MASK if fragment else ''}"


def _public_part(part: str) -> str:
    if part in {"", "&", ";"}:
        return part
    name, equals, value = part.partition("=")
    if not equals:
        return MASK  # a token alone, or a name without a value: nobody can tell
    known = unquote(name).removesuffix("[]").lower()
    if known in _CHOOSING:
        return f"{name}={public(value) if '://' in value or '@' in value else value}"
    return f"{name}={MASK}" if value else part


def without_secrets(text: str) -> str:
    """A text in which every address is one that may be shown."""
    shown = _ADDRESS.sub(_public_match, text) if "://" in text else text
    return _BARE.sub("", shown) if "@" in shown else shown


def _public_match(found: re.Match[str]) -> str:
    body = found[0].rstrip(".,;:!?)]}")
    return public(body) + found[0][len(body) :]
