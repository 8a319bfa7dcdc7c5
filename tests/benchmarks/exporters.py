"""Exporters side by side on one fake driver: what each costs, measured from outside in one run.

    python -m tests.benchmarks.exporters            # the table of docs/benchmarks.md

Both run at the same time, at 1 s sampling, on drivers of the same description with the same call
latencies, with compiled bytecode, and are scraped at the same moments. CPU is user and system time
from /proc/<pid>/stat over a window with a scrape every five seconds; then come the scrapes whose
latency counts, for each exporter while the others are stopped. A call's latency sleeps: it costs its
caller time but no CPU, so that the figures are what the exporters themselves spend. How long each
stood in driver calls is counted beside it, because a real driver spends part of that in the kernel
at the caller's cost.
"""

import argparse
import gzip
import http.client
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.benchmarks.loaded_node import Load, node
from tests.fakes.fixtures import cache_folder
from tests.fakes.nvml import FakeDriver, build
from tests.testbed.servers import free_ports

#: What the fake driver answers for a GPU that fell off the bus.
GPU_IS_LOST = 15.0
SETTLE_SECONDS = 6.0
SCRAPE_EVERY = 5.0
#: Between two scrapes whose latency counts: not a divisor of 1 s, so that they meet every moment of
#: an exporter's beat.
SCRAPE_SECONDS = 0.053
TICKS = os.sysconf("SC_CLK_TCK")


LOADS = tuple(
    Load(gpus, processes, mig)
    for gpus, mig in ((1, False), (8, False), (16, False), (8, True))
    for processes in (0, 8, 200)
)


def quantile(values: Sequence[float], share: float) -> float:
    """Quantile of sorted values by the nearest rank."""
    return values[max(0, math.ceil(share * len(values)) - 1)]


@dataclass
class Figures:
    """What one exporter took over one window."""

    cpu_seconds: float
    window_seconds: float
    resident_mib: float
    proportional_mib: float
    driver_calls: int
    driver_seconds: float
    page_bytes: int
    series: int
    scrapes: list[float] = field(default_factory=list)  # seconds, sorted

    def cpu_ms_per_gpu_second(self, gpus: int) -> float:
        """Milliseconds of CPU for each second of each GPU."""
        return self.cpu_seconds / self.window_seconds / gpus * 1000

    def scrape_ms(self, share: float) -> float:
        """Quantile of the scrapes' latency."""
        return quantile(self.scrapes, share) * 1000


@dataclass
class Process:
    """One exporter under measurement."""

    name: str
    pid: int
    port: int
    calls: Path
    scrapes: list[float] = field(default_factory=list)
    page: bytes = b""

    def scrape(self) -> None:
        """Fetch the page as Prometheus does, gzipped; a failed one raises."""
        before = time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request("GET", "/metrics", headers={"Accept-Encoding": "gzip"})
        answer = connection.getresponse()
        body = answer.read()
        self.scrapes.append(time.perf_counter() - before)
        connection.close()
        if answer.status != 200:
            raise RuntimeError(f"{self.name}: HTTP {answer.status}")
        zipped = answer.headers.get("Content-Encoding") == "gzip"
        self.page = gzip.decompress(body) if zipped else body

    def cpu_seconds(self) -> float:
        """User and system time so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def kib(self, file: str, key: str) -> int:
        """A figure of /proc/<pid>/status or smaps_rollup."""
        for line in Path(f"/proc/{self.pid}/{file}").read_text().splitlines():
            if line.startswith(f"{key}:"):
                return int(line.split()[1])
        raise LookupError(key)

    def driver(self) -> tuple[int, float]:
        """Driver calls so far and the latency they slept in all, seconds."""
        counts = self.calls.read_bytes()
        calls, nanoseconds = (int.from_bytes(counts[i : i + 8], "little") for i in (0, 8))
        return calls, nanoseconds / 1e9


def keeping_bytecode() -> dict[str, str]:
    """Variables with which bytecode is compiled once and kept, as in an image."""
    return {
        "PYTHONDONTWRITEBYTECODE": "",  # empty is as if it were not set
        "PYTHONPYCACHEPREFIX": str(cache_folder().parent / "bytecode"),
    }


def compiled_environment() -> dict[str, str]:
    """This process's environment, with kept bytecode and without settings of an exporter."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("GPUTAILOR_EXPORTER_")}
    return kept | keeping_bytecode()


def ours(folder: Path, port: int) -> list[str]:
    """Our exporter as on a node of a cluster, its files from ``folder``."""
    return [
        sys.executable, "-m", "gputailor_exporter", "--listen", f"127.0.0.1:{port}",
        "--proc-root", str(folder / "proc"), "--pod-logs-root", str(folder / "pods"),
        "--pod-resources-socket", str(folder / "kubelet.sock"), "--node", "bench",
    ]  # fmt: skip


def nvitop(_folder: Path, port: int) -> list[str]:
    """The exporter of the nvitop project, 1 s by default."""
    return [
        sys.executable, "-m", "nvitop_exporter",
        "--bind-address", "127.0.0.1", "--port", str(port), "--hostname", "bench",
    ]  # fmt: skip


EXPORTERS = {"gputailor-exporter": ours, "nvitop-exporter": nvitop}


@contextmanager
def started(name: str, folder: Path, driver: FakeDriver) -> Iterator[Process]:
    """Start one exporter and wait for its first page; it is killed at the end.

    What it imports is compiled by a start before the first that counts: a process that compiles
    keeps some ten megabytes of it.
    """
    if name not in _COMPILED:
        _COMPILED.add(name)
        with _started(name, folder, driver):
            pass
    with _started(name, folder, driver) as made:
        yield made


_COMPILED: set[str] = set()


@contextmanager
def _started(name: str, folder: Path, driver: FakeDriver) -> Iterator[Process]:
    [port], calls = free_ports(1), folder / f"{name}.calls"
    environment = driver.environment(build(cache_folder()), compiled_environment())
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            EXPORTERS[name](folder, port),
            env={**environment, "GPUTAILOR_FAKE_NVML_CALLS": str(calls)},
            stdout=log,
            stderr=log,
        )
    made = Process(name, process.pid, port, calls)
    try:
        _await_page(made, process, folder / f"{name}.log")
        yield made
    finally:
        process.kill()
        process.wait()


def _await_page(made: Process, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        try:
            made.scrape()
        except OSError:
            time.sleep(0.1)
        else:
            made.scrapes.clear()
            return
    raise RuntimeError(f"{made.name} does not serve:\n{log.read_text()}")


def measure(
    load: Load, *, seconds: float, scrapes: int, names: Sequence[str] = tuple(EXPORTERS)
) -> dict[str, Figures]:
    """Run the exporters beside each other on ``load`` and return the figures of each."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        root = Path(folder)
        driver = stack.enter_context(node(load, root))
        running = [stack.enter_context(started(name, root, driver)) for name in names]
        time.sleep(SETTLE_SECONDS)  # the first readings, discovery and allocations are over
        before = {one.name: (one.cpu_seconds(), *one.driver()) for one in running}
        begun = time.monotonic()
        scrape_evenly(running, int(seconds / SCRAPE_EVERY), seconds)
        window = time.monotonic() - begun
        after = {one.name: (one.cpu_seconds(), *one.driver()) for one in running}
        for one in running:
            with _stopped([other for other in running if other is not one]):
                one.scrapes.clear()
                scrape_evenly([one], scrapes, scrapes * SCRAPE_SECONDS)
        return {
            one.name: _figures(one, before[one.name], after[one.name], window) for one in running
        }


@contextmanager
def _stopped(others: Sequence[Process]) -> Iterator[None]:
    """Let the others stand still."""
    for one in others:
        os.kill(one.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for one in others:
            os.kill(one.pid, signal.SIGCONT)


def scrape_evenly(running: Sequence[Process], count: int, seconds: float) -> None:
    """Scrape all in turn, ``count`` times spread over the time."""
    begun = time.monotonic()
    for number in range(count):
        time.sleep(max(0.0, begun + (number + 0.5) * seconds / count - time.monotonic()))
        for one in running if number % 2 else reversed(running):
            one.scrape()
    time.sleep(max(0.0, begun + seconds - time.monotonic()))


def _figures(
    one: Process,
    before: tuple[float, int, float],
    after: tuple[float, int, float],
    window: float,
) -> Figures:
    return Figures(
        cpu_seconds=after[0] - before[0],
        window_seconds=window,
        resident_mib=one.kib("status", "VmRSS") / 1024,
        proportional_mib=one.kib("smaps_rollup", "Pss") / 1024,
        driver_calls=after[1] - before[1],
        driver_seconds=after[2] - before[2],
        page_bytes=len(one.page),
        series=sum(1 for line in one.page.splitlines() if line and not line.startswith(b"#")),
        scrapes=sorted(one.scrapes),
    )


def measure_faults(*, scrapes: int) -> tuple[list[float], list[float], bytes]:
    """Latencies of our exporter on 8 GPUs, in seconds, sorted: well, then with two bad GPUs.

    Every call about one GPU hangs for ever, another GPU is lost. The last page comes with them.
    """
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        root = Path(folder)
        driver = stack.enter_context(node(Load(8, 8), root))
        one = stack.enter_context(started("gputailor-exporter", root, driver))
        time.sleep(SETTLE_SECONDS)
        scrape_evenly([one], scrapes, scrapes * SCRAPE_SECONDS)
        well = sorted(one.scrapes)
        driver.faults["*", 3] = {"hang": 1.0}
        driver.faults["*", 5] = {"error": GPU_IS_LOST}
        driver.write()
        time.sleep(SETTLE_SECONDS)
        one.scrapes.clear()
        scrape_evenly([one], scrapes, scrapes * SCRAPE_SECONDS)
        return well, sorted(one.scrapes), one.page


HEADER = (
    "| GPUs | processes | exporter | CPU, ms per GPU and second | ratio | resident (Pss), MiB | "
    "driver calls per GPU and second (ms inside) | scrape p50 / p99, ms | page |\n"
    "|---|---|---|---|---|---|---|---|---|\n"
)


def row(load: Load, name: str, one: Figures, other: Figures) -> str:
    """One line of the table; the ratio is this exporter's CPU to the other's."""
    seconds = one.window_seconds * load.gpus
    return (
        f"| {load.name} | {load.processes} | {name} | {one.cpu_ms_per_gpu_second(load.gpus):.2f} | "
        f"{one.cpu_seconds / other.cpu_seconds:.2f} | "
        f"{one.resident_mib:.1f} ({one.proportional_mib:.1f}) | "
        f"{one.driver_calls / seconds:.1f} ({one.driver_seconds / seconds * 1000:.0f}) | "
        f"{one.scrape_ms(0.5):.1f} / {one.scrape_ms(0.99):.1f} | "
        f"{one.series} series, {one.page_bytes / 1000:.0f} kB |\n"
    )


def main() -> int:
    """Print the table of all loads, or of those that are named (GPUs x processes)."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=30.0, help="of each load's CPU window")
    parser.add_argument("--scrapes", type=int, default=200, help="whose latency is measured")
    parser.add_argument("--loads", nargs="*", help="such as 8x200 or 8x200-mig; default: all")
    given = parser.parse_args()
    sys.stdout.write(HEADER)
    for load in LOADS:
        if given.loads and load.key not in given.loads:
            continue
        found = measure(load, seconds=given.seconds, scrapes=given.scrapes)
        theirs = found["nvitop-exporter"]
        for name, one in found.items():
            sys.stdout.write(row(load, name, one, theirs))
        sys.stdout.flush()
    if not given.loads:
        well, bad, _ = measure_faults(scrapes=given.scrapes)
        for words, latencies in (("all well", well), ("one hangs, one lost", bad)):
            half, most = quantile(latencies, 0.5) * 1000, quantile(latencies, 0.99) * 1000
            sys.stdout.write(f"8 GPUs, {words}: scrape p50 {half:.1f} ms, p99 {most:.1f} ms\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
