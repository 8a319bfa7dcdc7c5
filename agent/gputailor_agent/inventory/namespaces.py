"""What a namespace says of the workloads in it: its labels, and our own annotations.

Labels may name the team. ``gputailor.io/notify`` says who is told, for all workloads that say
nothing themselves: as a label (a label's value can name a channel, but holds no address) or as an
annotation, which wins.
"""

from collections.abc import Mapping
from typing import Final

from gputailor_agent.inventory import raw

_OURS: Final = "gputailor.io/"
#: What workloads take over from their namespace.
_INHERITED: Final = ("gputailor.io/notify",)


def said_by(metadata: raw.RawMetadata) -> dict[str, str]:
    """A namespace's labels, and over them its annotations of our own names."""
    annotations = raw.string_map(metadata.annotations)
    own = {name: text for name, text in annotations.items() if name.startswith(_OURS)}
    return raw.string_map(metadata.labels) | own


def inherited(said: Mapping[str, str] | None) -> dict[str, str]:
    """What of it counts as if a workload's own annotation said it."""
    return {name: said[name] for name in _INHERITED if said and name in said}
