"""A process whose clocks a test can set: Python's side of clock_shift.c."""

import hashlib
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path

SOURCE = Path(__file__).with_name("clock_shift.c")
SHIFT_VARIABLE = "GPUTAILOR_CLOCK_SHIFT"


class ShiftedClock:
    """``set`` moves the clocks of the processes that were started with ``environment``."""

    def __init__(self, file: Path, cache: Path, compiler: str = "gcc") -> None:
        """Compile the library into ``cache``, unless it is there; ``file`` holds the shifts."""
        digest = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]
        self.library = cache / f"clock-shift-{digest}.so"
        self._file = file
        self.set()
        if not self.library.exists():
            cache.mkdir(parents=True, exist_ok=True)
            draft = self.library.with_suffix(".new")
            command = [compiler, "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]
            subprocess.run([*command, "-o", str(draft), str(SOURCE), "-lm"], check=True)
            draft.replace(self.library)

    def set(self, wall_seconds: float = 0.0, boot_seconds: float = 0.0) -> None:
        """Shift the wall clock, and the clock since boot (both: the machine was suspended)."""
        with self._file.open("r+b" if self._file.exists() else "wb") as file:
            file.write(struct.pack("2d", wall_seconds, boot_seconds))

    def environment(self) -> Mapping[str, str]:
        """Variables under which a process is started."""
        return {"LD_PRELOAD": str(self.library), SHIFT_VARIABLE: str(self._file)}
