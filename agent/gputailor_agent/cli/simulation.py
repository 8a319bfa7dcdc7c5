"""A simulated cluster out of real exporter processes, for the demo.

The exporter is used as anybody would: as a program (``python -m gputailor_exporter``), never as a
library. Every process started here is stopped by its own id when its context ends, also on errors.
"""

import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from queue import Empty, Queue
from typing import IO, Final

import msgspec

from gputailor_agent.cli.errors import CommandError

EXPORTER: Final = (sys.executable, "-m", "gputailor_exporter")
_START_SECONDS: Final = 30.0
_STOP_SECONDS: Final = 10.0
_LISTENING: Final = re.compile(r"listening on (http://\S+)")
_TAIL: Final = 2000  # characters of a failed program's output that are shown


def _tell_nobody(_pid: int) -> None:
    """Nobody minds the process."""


class History(msgspec.Struct, frozen=True, kw_only=True):
    """What ``gputailor-exporter simulate`` wrote."""

    pages: Path
    manifests: Path
    nodes: tuple[str, ...]


def demo_scenario() -> Path:
    """The packaged scenario; raises ``CommandError`` when the exporter is not installed."""
    found = find_spec("gputailor_exporter")
    for folder in found.submodule_search_locations or () if found else ():
        path = Path(folder) / "scenarios" / "demo.yaml"
        if path.is_file():
            return path
    raise CommandError(
        "the demo needs the exporter and its scenario; install both: pip install 'gputailor[all]'"
    )


def write_history(
    scenario: Path, folder: Path, *, days: float, tell_of: Callable[[int], None] = _tell_nobody
) -> History:
    """Simulate ``days`` up to now into ``folder``; raises ``CommandError`` with what was said."""
    pages, manifests = folder / "history", folder / "cluster.json"
    command = [
        *EXPORTER,
        "simulate",
        *("--scenario", str(scenario), "--days", f"{days:g}", "--node", "all"),
        *("--out", str(pages), "--manifests", str(manifests)),
    ]
    with subprocess.Popen(  # noqa: S603 - our own program
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        tell_of(process.pid)
        try:
            said, _ = process.communicate()
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        raise CommandError(f"the simulation failed: {said[-_TAIL:].strip()}")
    return History(pages=pages, manifests=manifests, nodes=_nodes(manifests))


def _nodes(manifests: Path) -> tuple[str, ...]:
    items = json.loads(manifests.read_text(encoding="utf-8"))["items"]
    return tuple(item["metadata"]["name"] for item in items if item.get("kind") == "Node")


class _Exporter(msgspec.Struct, frozen=True):
    """One exporter process and where it writes what goes wrong."""

    node: str
    process: "subprocess.Popen[str]"
    log: Path


@contextmanager
def running_exporters(
    scenario: Path,
    nodes: tuple[str, ...],
    logs: Path,
    tell_of: Callable[[int], None] = _tell_nobody,
) -> Iterator[list[str]]:
    """Run one exporter per node on a free loopback port; yields the URLs of their metrics.

    ``tell_of`` hears the id of each process.
    """
    logs.mkdir(parents=True, exist_ok=True)
    started: list[_Exporter] = []
    try:
        for node in nodes:
            started.append(_start(scenario, node, logs / f"{node}.log"))
            tell_of(started[-1].process.pid)
        yield [f"{_address(exporter)}/metrics" for exporter in started]
    finally:
        _stop([exporter.process for exporter in started])


def _start(scenario: Path, node: str, log: Path) -> _Exporter:
    command = [
        *EXPORTER,
        *("--backend", "simulated", "--scenario", str(scenario), "--node", node),
        *("--listen", "127.0.0.1:0"),
    ]
    with log.open("w", encoding="utf-8") as errors:
        process = subprocess.Popen(  # noqa: S603 - our own program
            command, stdout=subprocess.PIPE, stderr=errors, text=True, stdin=subprocess.DEVNULL
        )
    return _Exporter(node, process, log)


def _stop(processes: "list[subprocess.Popen[str]]") -> None:
    """End all of them side by side; one that does not end is killed."""
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _address(exporter: _Exporter) -> str:
    """The URL that the exporter prints once it listens."""
    node, process, log = exporter.node, exporter.process, exporter.log
    assert process.stdout is not None
    lines: Queue[str] = Queue()
    threading.Thread(target=_pump, args=(process.stdout, lines), daemon=True).start()
    while True:
        try:
            line = lines.get(timeout=_START_SECONDS)
        except Empty:
            raise CommandError(f"the exporter of {node} did not start in time: {log}") from None
        match = _LISTENING.search(line)
        if match:
            return match[1].rstrip("/")
        if not line:
            said = log.read_text(encoding="utf-8")[-_TAIL:].strip()
            raise CommandError(f"the exporter of {node} did not start: {said or 'no reason given'}")


def _pump(stream: IO[str], lines: "Queue[str]") -> None:
    """Hand lines on until the stream ends; an empty line marks the end."""
    for line in stream:
        lines.put(line)
    lines.put("")
