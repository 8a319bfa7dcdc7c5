"""Garbage collection while a plan is made.

A plan is made of millions of small values without a cycle among them. Python's collector, as it is
set by default, walks them again and again while they are made: a fifth of the whole time.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

#: New objects between two collections, and of how many collections one looks at older objects.
_RARELY: Final = (100_000, 20, 100)


@contextmanager
def rare_collections() -> Iterator[None]:
    """Within: garbage is collected rarely, in all threads; afterwards as before."""
    before = gc.get_threshold()
    gc.set_threshold(*_RARELY)
    try:
        yield
    finally:
        gc.set_threshold(*before)
