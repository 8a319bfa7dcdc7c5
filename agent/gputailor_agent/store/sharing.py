"""Stored objects as values that share what is equal in them.

The pods of a controller have the same containers, labels and owner, the devices of a cluster a few
models: decoded one by one each would have its own copy, four times as much memory for a large
cluster. Values are immutable by agreement, so nobody can tell.
"""

from typing import Any, Final, Generic, TypeVar

import msgspec

from gputailor_agent.model.inventory import Pod
from gputailor_agent.model.usage import Device

T = TypeVar("T", Pod, Device)

#: Fields whose value is a structure; it is told apart by its stored bytes.
_STRUCTURES: Final = ("labels", "annotations", "owners", "containers", "overhead", "tolerations")


class Sharing(Generic[T]):
    """Decodes objects of one kind. Not safe to use from several threads at once."""

    def __init__(self, kind: type[T], texts: tuple[str, ...]) -> None:
        """``texts``: fields that hold the same words again and again."""
        self._decoder: msgspec.msgpack.Decoder[T] = msgspec.msgpack.Decoder(kind)
        self._texts = texts
        self._structures = tuple(name for name in _STRUCTURES if name in kind.__struct_fields__)
        raw: list[Any] = [(name, msgspec.Raw, msgspec.Raw()) for name in self._structures]
        self._parts = msgspec.msgpack.Decoder(msgspec.defstruct("Parts", raw))
        self._known: dict[bytes | str, Any] = {}

    def decoded(self, packed: bytes) -> T:
        """The object of its stored form."""
        made = self._decoder.decode(packed)
        known, put = self._known, msgspec.structs.force_setattr
        for name in self._texts:
            text = getattr(made, name)
            put(made, name, known.setdefault(text, text))
        parts = self._parts.decode(packed) if self._structures else None
        for name in self._structures:
            value = getattr(made, name)
            put(made, name, known.setdefault(bytes(getattr(parts, name)), value))
        return made


def pods() -> Sharing[Pod]:
    """For the pods of one reading."""
    return Sharing(Pod, ("cluster", "namespace", "node", "phase", "reason", "service_account"))


def devices() -> Sharing[Device]:
    """For the devices of one reading."""
    words = ("cluster", "node", "index", "vendor", "model", "mig_profile", "parent_uuid")
    return Sharing(Device, (*words, "compute_capability", "driver_version", "cuda_version"))
