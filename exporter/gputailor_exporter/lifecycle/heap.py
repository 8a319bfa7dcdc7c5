"""Keeps memory small where many threads allocate.

glibc gives each new thread an arena of its own, up to eight for each core, and every arena keeps
what its busiest moment took. An exporter has a thread for each device, which allocate little and
never at the same time (the interpreter's lock sees to that): on 8 GPUs the arenas held 20 MB of
nothing. Source of the numbers: mallopt(3).
"""

import ctypes
from contextlib import suppress
from typing import Final

#: ``M_ARENA_MAX`` of glibc's malloc.h.
_ARENA_MAX: Final = -8


def use_one_arena() -> bool:
    """Let all threads share one arena; False where the C library has no such setting.

    To be called before the first thread starts: arenas that are there already stay.
    """
    with suppress(AttributeError, OSError):  # musl has no mallopt
        return bool(ctypes.CDLL(None).mallopt(_ARENA_MAX, 1))
    return False
