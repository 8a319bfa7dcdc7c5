"""Finds the NVIDIA driver's library where the dynamic linker does not look, or no longer does.

The linker remembers which folders were missing when the process began, and a library that a driver
container brings lies in a folder of its own. Loaded once by its path, it is found by its name.
"""

import ctypes
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

LIBRARY: Final = "libnvidia-ml.so.1"

#: Where installers put it: Google's GKE, NVIDIA's GPU operator (Debian, Red Hat), WSL 2.
FOLDERS: Final = (
    "/usr/local/nvidia/lib64",
    "/run/nvidia/driver/usr/lib/x86_64-linux-gnu",
    "/run/nvidia/driver/usr/lib/aarch64-linux-gnu",
    "/run/nvidia/driver/usr/lib64",
    "/usr/lib/wsl/lib",
)


def preload(environment: Mapping[str, str] | None = None, folders: Iterable[str] = FOLDERS) -> bool:
    """Load the library from ``LD_LIBRARY_PATH`` or a known folder; False where there is none."""
    path = (os.environ if environment is None else environment).get("LD_LIBRARY_PATH", "")
    for folder in (*(part for part in path.split(":") if part), *folders):
        library = Path(folder) / LIBRARY
        with suppress(OSError):  # not there, or of another architecture
            ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
            return True
    return False
