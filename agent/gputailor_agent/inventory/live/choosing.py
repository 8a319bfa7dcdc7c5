"""Which namespaces are looked at: some by name or pattern, all but some, or all."""

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

_WILD: Final = frozenset("*?[")
_NOT: Final = "!"


def _is_pattern(name: str) -> bool:
    return not _WILD.isdisjoint(name)


@dataclass(frozen=True, slots=True)
class NamespaceChoice:
    """``include`` empty: all. Both may hold shell patterns (``team-*``); the exclusion wins."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    @classmethod
    def of(cls, names: Sequence[str] | None) -> Self:
        """The choice that names and patterns make; one behind ``!`` leaves namespaces out."""
        once = tuple(dict.fromkeys(names or ()))
        return cls(
            include=tuple(name for name in once if not name.startswith(_NOT)),
            exclude=tuple(name.removeprefix(_NOT) for name in once if name.startswith(_NOT)),
        )

    def takes(self, namespace: str) -> bool:
        """Whether objects of this namespace count."""
        if any(fnmatch.fnmatchcase(namespace, pattern) for pattern in self.exclude):
            return False
        return not self.include or any(
            fnmatch.fnmatchcase(namespace, pattern) for pattern in self.include
        )

    @property
    def places(self) -> tuple[str, ...]:
        """Where to ask: each namespace that is named outright, or ('',) for all at once.

        A pattern can only be met by asking for all, which a Role in some namespaces does not allow.
        """
        if not self.include or any(_is_pattern(name) for name in self.include):
            return ("",)
        return tuple(name for name in self.include if self.takes(name)) or ("",)
