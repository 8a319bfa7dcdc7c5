"""Python's side of the fake ``libcuda.so.1``: builds it, sets its numbers, reads what it counted."""

import ctypes
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from tests.fakes.compiling import compiled

SOURCES = Path(__file__).parent
VARIABLE = "GPUTAILOR_FAKE_CUDA_"
#: What is held until it is given back.
HELD = ("contexts", "modules", "buffers", "host_buffers", "events")


def build(cache: Path) -> Path:
    """Compile the library into a folder below ``cache``; one built before is used again."""
    compiler = shutil.which("gcc") or shutil.which("cc") or "gcc"
    options = ("-fvisibility=hidden", "-Wl,-soname,libcuda.so.1")
    sources = SOURCES.glob("cuda*.[ch]")
    return compiled(cache, "libcuda.so.1", sources, options=options, compiler=compiler)


def environment(library: Path, base: Mapping[str, str], **numbers: float) -> dict[str, str]:
    """Variables under which a new process loads ``library`` as its CUDA driver."""
    rest = base.get("LD_LIBRARY_PATH")
    path = f"{library.parent}:{rest}" if rest else str(library.parent)
    said = {VARIABLE + name: repr(float(number)) for name, number in numbers.items()}
    return {**base, "LD_LIBRARY_PATH": path, **said}


class FakeCuda:
    """A fake driver of this very process, with a life of its own: ``path`` is a copy."""

    def __init__(self, library: Path, folder: Path) -> None:
        """Copy ``library`` into ``folder`` and load it; its clock stands still at 0."""
        self.path = folder / f"libcuda-{os.getpid()}.so.1"
        shutil.copyfile(library, self.path)
        self._raw = ctypes.CDLL(str(self.path))
        self._raw.fake_cuda_get.restype = ctypes.c_double
        self._raw.fake_cuda_set.argtypes = (ctypes.c_char_p, ctypes.c_double)
        self.set(clock_stopped=1)

    def set(self, **numbers: float) -> None:
        """Set numbers of cuda_state.c."""
        for name, number in numbers.items():
            self._raw.fake_cuda_set(name.encode(), number)

    def get(self, name: str) -> float:
        """A number of cuda_state.c."""
        return float(self._raw.fake_cuda_get(name.encode()))

    def held(self) -> dict[str, float]:
        """What was made and not given back."""
        return {name: count for name in HELD if (count := self.get(name)) != 0}

    def fail(self, function: str, code: int) -> None:
        """Let a function fail from now on; an empty name ends it."""
        self._raw.fake_cuda_fail(function.encode(), code)

    def refuse_ptx(self, log: str) -> None:
        """Let the compiler refuse what it gets, with this log."""
        self._raw.fake_cuda_refuse_ptx(log.encode())

    def now(self) -> float:
        """Seconds of the clock that stands still."""
        return self.get("now")

    def sleep(self, seconds: float) -> None:
        """Let the clock go on."""
        self.set(now=self.now() + seconds)
