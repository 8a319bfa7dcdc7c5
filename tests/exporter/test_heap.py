"""One arena for all threads, as the C library itself tells it."""

import subprocess
import sys

import pytest

SCRIPT = """
import ctypes, sys, threading
from gputailor_exporter.lifecycle.heap import use_one_arena

if sys.argv[1] == "one" and not use_one_arena():
    sys.exit(77)
libc = ctypes.CDLL(None)
libc.fdopen.restype = ctypes.c_void_p
together = threading.Barrier(8)

def allocate():
    together.wait()
    kept = [bytes(5000) for _ in range(10)]
    together.wait()

threads = [threading.Thread(target=allocate) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
out = ctypes.c_void_p(libc.fdopen(1, b"w"))
libc.malloc_info(0, out)
libc.fflush(out)
"""


def arenas(how):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, how], capture_output=True, text=True, check=False
    )
    if done.returncode == 77:
        pytest.skip("this C library has no mallopt")
    assert done.returncode == 0, done.stderr
    return done.stdout.count("<heap nr=")


def test_threads_share_one_arena():
    assert arenas("one") == 1


def test_without_it_each_would_have_its_own():
    assert arenas("many") > 1
