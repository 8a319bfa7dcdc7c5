"""``python -m tests.fakes.build``: builds the fake NVIDIA driver and prints where it is."""

import shutil
import sys

from tests.fakes.fixtures import cache_folder
from tests.fakes.nvml import build


def main() -> int:
    """Build (or find) the library; 1 where there is no C compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        sys.stderr.write("error: no C compiler (gcc or cc): install gcc to build the fake driver\n")
        return 1
    sys.stdout.write(f"fake NVIDIA driver: {build(cache_folder(), compiler=compiler)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
