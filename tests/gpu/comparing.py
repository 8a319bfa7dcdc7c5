"""The exporter's own process beside loads that are known: what was done, and what it says of it.

Its command line is a user's on a bare host, everything at its defaults. A window is judged from
scrapes at its two ends by rise(active) / rise(observed), as any reader of the counters would; gauges
are the median of scrapes within, each beside a call of nvidia-smi at that moment. Bytes over the
link count from before the loads began until after they ended, so that all of them are in it.
"""

import json
import os
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from gputailor_exporter import metrics
from tests.gpu import nvidia_smi
from tests.gpu.kernels import Kind
from tests.gpu.presence import REPOSITORY
from tests.processes import Process
from tests.system.exporter_parts import Page, get, read_page

#: From a load's first burst to the window: the driver's samples trail by up to a second.
SETTLE_SECONDS: Final = 3.0
#: A load goes on for so long after its window: a slow nvidia-smi may lengthen that.
AFTER_SECONDS: Final = 4.0
#: From a load's end to the scrape that has all of its bytes.
TRAIL_SECONDS: Final = 3.0
START_SECONDS: Final = 60.0
_FULL_DUTY: Final = 1.0


class LoadError(Exception):
    """A load, or the exporter, that did not run: in its own words."""


@dataclass(frozen=True)
class Load:
    """What to run; ``name`` is its command's (15 characters)."""

    kind: Kind
    duty: float = _FULL_DUTY
    name: str = "known-load"
    hold_mib: int = 0


@dataclass(frozen=True)
class Observation:
    """One window. Signals 0 to 1, gauges in base units; what nobody could tell is not there."""

    loads: tuple[Load, ...]
    begun: tuple[Mapping[str, Any], ...]  # load.Beginning
    done: tuple[Mapping[str, Any], ...]  # load.Result
    gpu_uuid: str
    opening: Page
    closing: Page
    means: Mapping[str, float]
    unreadable: Mapping[str, str]  # signal -> the exporter's reason
    link_bytes: Mapping[str, float]  # rx, tx, as the device sees it
    ours: Mapping[str, float]
    smi: Mapping[str, float]

    def rise(self, name: str, **labels: str) -> float:
        """How much a counter of this GPU rose in the window, over all its series that match."""
        return rise(self.opening, self.closing, name, gpu_uuid=self.gpu_uuid, **labels)


def rise(before: Page, after: Page, name: str, **labels: str) -> float:
    """Rise of a family's matching series; one that began in between counts from 0."""
    return sum(v - before.values.get(key, 0.0) for key, v in after.of(name, **labels).items())


@dataclass(repr=False)
class Exporter:
    """The exporter's process and the variables under which loads run beside it."""

    url: str
    folder: Path
    environment: Mapping[str, str]
    started: list[Process] = field(default_factory=list)

    def page(self) -> Page:
        """Scrape."""
        began = time.monotonic()
        status, text = get(f"{self.url}/metrics")
        if status != 200:
            raise LoadError(f"the exporter answers {status}: {text}")
        return read_page(text, time.monotonic() - began)

    def begin(self, load: Load, seconds: float) -> Process:
        """Start a load."""
        command = [
            sys.executable, "-m", "tests.gpu.load", "--kind", load.kind, "--duty", str(load.duty),
            "--seconds", str(seconds), "--hold-mib", str(load.hold_mib), "--name", load.name,
        ]  # fmt: skip
        log = self.folder / f"load-{len(self.started)}.log"
        self.started.append(Process(command, log, self.environment, REPOSITORY))
        return self.started[-1]


@contextmanager
def exporter(
    folder: Path, environment: Mapping[str, str] | None = None, flags: Sequence[str] = ()
) -> Iterator[Exporter]:
    """Start the exporter and wait until it is ready; all that was started ends with it."""
    ours = {k: v for k, v in os.environ.items() if not k.startswith("GPUTAILOR_EXPORTER_")}
    found = dict(ours if environment is None else environment)
    command = [sys.executable, "-m", "gputailor_exporter", "--listen", "127.0.0.1:0"]
    process = Process(
        [*command, "--attribution", "process", *flags], folder / "exporter.log", found, REPOSITORY
    )
    made = Exporter("", folder, found, [process])
    try:
        made.url = process.url()
        deadline = time.monotonic() + START_SECONDS
        while get(f"{made.url}/readyz")[0] != 200:
            if time.monotonic() > deadline:
                raise LoadError(f"the exporter does not become ready:\n{process.output}")
            time.sleep(0.1)
        yield made
    finally:
        for one in made.started:
            one.end()


def observe(beside: Exporter, loads: Sequence[Load], seconds: float) -> Observation:
    """Run loads together for a window of ``seconds``; ``LoadError`` where one cannot."""
    before = beside.page()
    processes = [beside.begin(one, SETTLE_SECONDS + seconds + AFTER_SECONDS) for one in loads]
    begun = tuple(_line(process, "running", START_SECONDS) for process in processes)
    time.sleep(SETTLE_SECONDS)
    opening = beside.page()
    gpu_uuid = _device(opening, begun[0]["uuid"])
    ours, smi = _sampled(beside, gpu_uuid, seconds)
    closing = beside.page()
    done = tuple(_line(process, "done", START_SECONDS) for process in processes)
    time.sleep(TRAIL_SECONDS)
    means, unreadable = _signals(opening, closing, gpu_uuid)
    return Observation(
        tuple(loads), begun, done, gpu_uuid, opening, closing, means, unreadable,
        _link_bytes(before, beside.page(), gpu_uuid), ours, smi,
    )  # fmt: skip


def _line(process: Process, state: str, seconds: float) -> dict[str, Any]:
    """The line of a load that says ``state``."""
    deadline = time.monotonic() + seconds
    while True:
        ended = process.popen.poll() is not None
        for line in process.output.splitlines():
            if line.startswith("{") and line.endswith("}"):
                said: dict[str, Any] = json.loads(line)
                if said["state"] == state:
                    return said
        if ended or time.monotonic() > deadline:
            raise LoadError(process.output.strip() or f"the load says nothing, not even {state}")
        time.sleep(0.05)


def _device(page: Page, uuid: str) -> str:
    """The label of the device whose UUID CUDA told without GPU- or MIG- before it."""
    for key in page.of(metrics.DEVICE_UP.name):
        label = dict(key[1])["gpu_uuid"]
        if label.lower().endswith(uuid.lower()):
            return label
    raise LoadError(f"the exporter has no device {uuid}, on which the load ran")


def _sampled(
    beside: Exporter, gpu_uuid: str, seconds: float
) -> tuple[dict[str, float], dict[str, float]]:
    """Medians of our gauges and of nvidia-smi's, taken at the same moments, once a second."""
    ours: list[dict[str, float]] = []
    smi: list[dict[str, float]] = []
    due, until = time.monotonic(), time.monotonic() + seconds
    while due < until:
        smi.append(nvidia_smi.ask(gpu_uuid, beside.environment))
        ours.append(_gauges(beside.page(), gpu_uuid))
        due = max(due + 1.0, time.monotonic())
        time.sleep(max(0.0, min(due, until) - time.monotonic()))
    return _medians(ours), _medians(smi)


def _gauges(page: Page, gpu_uuid: str) -> dict[str, float]:
    wanted = {
        "memory_used_bytes": (metrics.DEVICE_MEMORY_USED, {}),
        "power_watts": (metrics.DEVICE_POWER, {}),
        "clock_sm_hertz": (metrics.DEVICE_CLOCK, {"domain": "sm"}),
        "clock_memory_hertz": (metrics.DEVICE_CLOCK, {"domain": "memory"}),
        "temperature_celsius": (metrics.DEVICE_TEMPERATURE, {"sensor": "gpu"}),
        "kernel": (metrics.DEVICE_ACTIVITY_RATIO, {"signal": str(metrics.Signal.KERNEL)}),
    }
    found = {}
    for name, (family, labels) in wanted.items():
        for value in page.of(family.name, gpu_uuid=gpu_uuid, **labels).values():
            found[name] = value
    return found


def _medians(samples: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = {name for sample in samples for name in sample}
    return {
        name: statistics.median(sample[name] for sample in samples if name in sample)
        for name in sorted(names)
    }


def _signals(
    opening: Page, closing: Page, gpu_uuid: str
) -> tuple[dict[str, float], dict[str, str]]:
    """Means over the window, and why a signal has none."""
    means, unreadable = {}, {}
    for signal in metrics.Signal:
        labels = {"gpu_uuid": gpu_uuid, "signal": str(signal)}
        observed = rise(opening, closing, metrics.DEVICE_OBSERVED_SECONDS.name, **labels)
        if observed > 0.0:
            active = rise(opening, closing, metrics.DEVICE_ACTIVE_SECONDS.name, **labels)
            means[str(signal)] = active / observed
            continue
        reasons = closing.of(metrics.EXPORTER_SIGNAL_UNAVAILABLE.name, **labels)
        unreadable[str(signal)] = next((dict(key[1])["reason"] for key in reasons), "not told")
    return means, unreadable


def _link_bytes(before: Page, after: Page, gpu_uuid: str) -> dict[str, float]:
    found = {}
    for direction in ("rx", "tx"):
        labels = {"gpu_uuid": gpu_uuid, "direction": direction}
        if after.of(metrics.DEVICE_PCIE_BYTES.name, **labels):
            found[direction] = rise(before, after, metrics.DEVICE_PCIE_BYTES.name, **labels)
    return found
