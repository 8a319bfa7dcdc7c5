"""What many pods have in common, kept once.

The pods of one controller differ by name, node and times; what their containers are is the larger
part of them and the same. 20,000 pods take a third of the room so.
"""

from typing import Final

import msgspec

from gputailor_agent.model.inventory import ContainerSpec

_MOST: Final = 50_000  # emptied when full: what is lost is room, nothing else

_CONTAINERS: Final = msgspec.msgpack.Decoder(tuple[ContainerSpec, ...])


class Once:
    """Gives the first of equal values back. Not safe to use from several threads at once."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._kept: dict[bytes, bytes] = {}

    def of(self, value: bytes) -> bytes:
        """The value, or an equal one that came before."""
        if len(self._kept) >= self._most:
            self._kept.clear()
        return self._kept.setdefault(value, value)


class Unpacking:
    """Containers by how they are packed, each decoded once; for one reading."""

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[ContainerSpec, ...]] = {}

    def containers(self, packed: bytes) -> tuple[ContainerSpec, ...]:
        """The containers; equal ones are one value."""
        found = self._known.get(packed)
        if found is None:
            found = self._known[packed] = _CONTAINERS.decode(packed)
        return found
