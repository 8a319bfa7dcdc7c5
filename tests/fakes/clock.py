"""A process whose clocks a test can set: Python's side of clock_shift.c."""

import struct
from collections.abc import Mapping
from pathlib import Path

from tests.fakes.compiling import compiled

SOURCE = Path(__file__).with_name("clock_shift.c")
SHIFT_VARIABLE = "TEST_CLOCK_SHIFT"


class ShiftedClock:
    """``set`` moves the clocks of the processes that were started with ``environment``."""

    def __init__(self, file: Path, cache: Path, compiler: str = "gcc") -> None:
        """Compile the library into ``cache``, unless it is there; ``file`` holds the shifts."""
        self.library = compiled(
            cache, "clock-shift.so", [SOURCE], options=["-lm"], compiler=compiler
        )
        self._file = file
        self.set()

    def set(self, wall_seconds: float = 0.0, boot_seconds: float = 0.0) -> None:
        """Shift the wall clock, and the clock since boot (both: the machine was suspended)."""
        with self._file.open("r+b" if self._file.exists() else "wb") as file:
            file.write(struct.pack("2d", wall_seconds, boot_seconds))

    def environment(self) -> Mapping[str, str]:
        """Variables under which a process is started."""
        return {"LD_PRELOAD": str(self.library), SHIFT_VARIABLE: str(self._file)}
