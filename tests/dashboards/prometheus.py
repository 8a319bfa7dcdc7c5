"""A real Prometheus over a folder of history, on a free port of the loopback interface.

Servers are those of the test bed (Prometheus 3) where it is built, else the system's; unit tests of
rules take the system's promtool (Debian's is a Prometheus 2), so that both are covered.
"""

import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.testbed import build
from tests.testbed.servers import free_ports


def program(name: str, *, newest: bool = False) -> str:
    """Path of a program, or skip by its name; ``newest`` prefers the test bed's."""
    built, installed = build.find(name), shutil.which(name)
    found = (built or installed) if newest else (installed or built)
    if found is None:
        pytest.skip(f"{name} is not installed (Debian: apt-get install prometheus)")
    return str(found)


def run(*arguments: object, seconds: float = 100) -> str:
    """Run a program; its whole output is in the error where it fails."""
    done = subprocess.run(
        [str(one) for one in arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def fill(data: Path, files: Sequence[Path], *, blocks: str = "2h", seconds: float = 100) -> None:
    """Turn OpenMetrics files into blocks of a Prometheus, each of at most the time ``blocks``."""
    tool = (program("promtool", newest=True), "tsdb", "create-blocks-from")
    for file in files:
        run(
            *(*tool, f"--max-block-duration={blocks}", "openmetrics", "--quiet", file, data),
            seconds=seconds,
        )


def record(url: str, data: Path, rules: Path, start: int, end: int) -> None:
    """Work the recording rules out over history, into blocks of their own."""
    span = (f"--start={start}", f"--end={end}", "--eval-interval=120s")
    tool = (
        program("promtool", newest=True),
        "tsdb",
        "create-blocks-from",
        "rules",
        f"--url={url}",
        *span,
    )
    run(*tool, f"--output-dir={data}", rules)


@contextmanager
def serving(folder: Path, data: Path) -> Iterator[str]:
    """Yield the address of a Prometheus over ``data``."""
    config = folder / "prometheus.yml"
    config.write_text("global: {scrape_interval: 1m}\n", "utf-8")
    address = f"127.0.0.1:{free_ports(1)[0]}"
    process = subprocess.Popen(
        [
            program("prometheus", newest=True),
            f"--config.file={config}",
            f"--storage.tsdb.path={data}",
            "--storage.tsdb.retention.time=100y",
            f"--web.listen-address={address}",
            "--log.level=warn",
        ],
        stderr=(folder / "prometheus.log").open("ab"),
    )
    try:
        _wait(f"http://{address}/-/ready", process, folder)
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait(20)


def _wait(url: str, process: subprocess.Popen[bytes], folder: Path) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if httpx.get(url, timeout=2).is_success:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise AssertionError((folder / "prometheus.log").read_text("utf-8"))
