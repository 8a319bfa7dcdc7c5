"""Garbage collection while very many small values are made: a plan, an inventory, rows.

They are millions of values without a cycle among them. Python's collector, as it is set by default,
walks them again and again while they are made: a fifth of the whole time.
"""

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

#: New objects between two collections, and of how many collections one looks at older objects.
_RARELY: Final = (500_000, 20, 100)


class _Rare:
    """How many wish for rare collections now, and how it was before the first of them.

    Plans, readings and writings of several threads overlap; one that restored what it found would
    leave the process with rare collections for good.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wishes = 0
        self._before = gc.get_threshold()

    def begin(self) -> None:
        with self._lock:
            if not self._wishes:
                self._before = gc.get_threshold()
                gc.set_threshold(*_RARELY)
            self._wishes += 1

    def end(self) -> None:
        with self._lock:
            self._wishes -= 1
            if not self._wishes:
                gc.set_threshold(*self._before)


_rare: Final = _Rare()


@contextmanager
def rare_collections() -> Iterator[None]:
    """Within: garbage is collected rarely, in all threads; as before once all are through."""
    _rare.begin()
    try:
        yield
    finally:
        _rare.end()
