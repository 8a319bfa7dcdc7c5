"""Is an NVIDIA GPU at hand? ``python -m tests.gpu.presence`` says why not, or nothing.

Asked in a process of its own (``missing_gpu``): a test run may have a fake driver loaded under the
real one's name, and a driver that hangs must not hang the run.
"""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).resolve().parents[2]
NVML: Final = "libnvidia-ml.so.1"
PATIENCE_SECONDS: Final = 60.0


def missing_gpu(environment: Mapping[str, str] | None = None) -> str | None:
    """Why no GPU can be used, in one line; None where one can."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "tests.gpu.presence"],
            capture_output=True,
            text=True,
            check=False,
            cwd=REPOSITORY,
            env=None if environment is None else dict(environment),
            timeout=PATIENCE_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return f"the NVIDIA driver of this machine does not answer within {PATIENCE_SECONDS:g} s"
    if done.returncode not in {0, 1}:
        raise RuntimeError(f"cannot look for a GPU:\n{done.stderr}")
    return done.stdout.strip() or None


def _look() -> str | None:
    return _look_with_nvml() or _look_with_cuda()


def _look_with_nvml() -> str | None:
    import pynvml  # noqa: PLC0415 - only of the process that looks

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError_LibraryNotFound:
        return f"no NVIDIA driver on this machine: {NVML} not found"
    except pynvml.NVMLError as error:
        return f"the NVIDIA driver of this machine cannot be used: {NVML}: {error}"
    try:
        found = pynvml.nvmlDeviceGetCount()
    except pynvml.NVMLError as error:
        return f"the NVIDIA driver of this machine cannot be used: {NVML}: {error}"
    return None if found else f"no NVIDIA GPU on this machine: {NVML} counts none"


def _look_with_cuda() -> str | None:
    from tests.gpu.driver import LIBRARY, CudaError, Library  # noqa: PLC0415 - likewise

    try:
        found = Library().count()
    except CudaError as error:
        return f"no GPU can be used for calculating on this machine: {LIBRARY}: {error}"
    return None if found else f"no GPU can be used for calculating: {LIBRARY} counts none"


def main() -> int:
    """Say why there is none; 1 then."""
    reason = _look()
    if reason:
        sys.stdout.write(f"{reason}\n")
    return 1 if reason else 0


if __name__ == "__main__":
    sys.exit(main())
