"""Variables of the environment that begin like settings and are none.

A mistyped variable would leave a setting at its default without a word, so it is an error as an
unknown key of the file is, where it is like a setting's name; others get a warning, since the
environment belongs to more than one program. What Kubernetes sets in every pod for a Service that
is called like us ("service links") is no setting of anybody and stays unsaid.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from gputailor_agent.model.nearest import nearest

PREFIX: Final = "GPUTAILOR_"
#: Read by commands themselves, and those of the exporter.
_OURS: Final = frozenset({"GPUTAILOR_CONFIG", "GPUTAILOR_LANGUAGE"})
_EXPORTER: Final = "GPUTAILOR_EXPORTER_"
#: https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables
_SERVICE_LINK: Final = re.compile(
    r"GPUTAILOR(_[A-Z0-9_]+)?_"
    r"(SERVICE_(HOST|PORT(_[A-Z0-9_]+)?)|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
)
_LINKED: Final = re.compile(r"(tcp|udp|sctp)://\S+")
#: A name so like another is it misspelled: one or two letters of ten.
_ALIKE: Final = 0.8


def is_service_link(name: str, value: str) -> bool:
    """Whether Kubernetes sets a variable for a Service."""
    if _SERVICE_LINK.fullmatch(name) is None:
        return False
    # a bare …_PORT may be somebody's setting: there the value tells
    bare = re.search(r"_SERVICE_|_PORT_\d+_", name) is None
    return not bare or _LINKED.match(value) is not None


def strangers(environment: Mapping[str, str], settings: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Variables that begin like a setting and are none, each with what it may have meant or ''."""
    known = [name.upper() for name in settings]
    ours = {*(PREFIX + name for name in known), *_OURS}
    for name, value in sorted(environment.items()):
        upper = name.upper()
        if not upper.startswith(PREFIX) or upper in ours or upper.startswith(_EXPORTER):
            continue
        if is_service_link(upper, value):
            continue
        near = nearest(upper.removeprefix(PREFIX), known, alike=_ALIKE)
        yield name, f"; did you mean {' or '.join(PREFIX + one for one in near)}?" if near else ""
