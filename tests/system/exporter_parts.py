"""A GPU node for fault tests: the exporter's own process on the fake driver, and what it must say.

Every GPU is told the same figures, none of them zero. So whatever happens to one of them, its page
may lack a figure, but may never show another one, and a zero is a lie (``contradictions``).
"""

import os
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.exporter.hosttree import Host
from tests.fakes.kubelet import Container, Kubelet, Pod
from tests.fakes.nvml import GIB, FakeDriver, FakeGpu, FakeMig, FakeProcess
from tests.processes import Process

NOTES = "GPUTAILOR_FAKE_NVML_NOTES"
QUICK = ("--interval", "0.25", "--hang-after", "0.5")
#: How long a page may take on a busy two-core machine; alone it takes some milliseconds.
PAGE_SECONDS = 2.0

GPM = {1: 71.0, 2: 41.0, 3: 31.0, 4: 17.0, 5: 27.0, 10: 37.0, 11: 3.0, 12: 13.0, 13: 23.0}
GPM |= {20: 1000.0, 21: 2000.0, 60: 3000.0, 61: 4000.0}
#: Signals among them; the others are rates over links.
GPM_SIGNALS = 9

Key = tuple[str, tuple[tuple[str, str], ...]]


def busy_gpu(**more: object) -> FakeGpu:
    """A GPU of the newest kind with everything readable and nothing zero."""
    about: dict[str, object] = {
        "name": "NVIDIA H100 80GB HBM3",
        "architecture": 9,
        "compute_capability": "9.0",
        "util_gpu": 62.0,
        "util_memory": 34.0,
        "util_encoder": 22.0,
        "util_decoder": 14.0,
        "memory_used": 21.0 * GIB,
        "power_watts": 310.0,
        "power_limit_watts": 700.0,
        "temperature_gpu": 61.0,
        "temperature_memory": 71.0,
        "ecc_corrected": 5,
        "ecc_uncorrected": 2,
        "remapped_rows": (3, 1, 0, 0),
        "retired_pages": (4, 6, 0),
        "pcie_tx_bytes_per_second": 1.0e9,
        "pcie_rx_bytes_per_second": 2.0e9,
        "nvlink_links": 4,
        "nvlink_tx_bytes_per_second": 3.0e9,
        "nvlink_rx_bytes_per_second": 4.0e9,
        "nvlink_mbps": 26562,
        "fabric_state": 3,
        "fan": 44,
        "gpm": dict(GPM),
    }
    return FakeGpu(**{**about, **more})


def mig_gpu(place: int) -> FakeGpu:
    """The same, cut: one instance that works."""
    uuid = f"MIG-00000000-0000-4000-8000-{place:012d}"
    slice_ = FakeMig(
        uuid,
        "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
        gi=7,
        memory_total=10 * GIB,
        memory_used=3.0 * GIB,
        gpm=dict(GPM),
    )
    return busy_gpu(mig_mode=1, mig=[slice_])


def working(pid: int, **more: object) -> FakeProcess:
    """A process that uses half of what its GPU does."""
    about: dict[str, object] = {"memory": 4 * GIB, "sm": 31.0}
    return FakeProcess(pid, **{**about, **more})


@dataclass(frozen=True)
class Page:
    """One scrape; values by family name and labels without the node's."""

    values: Mapping[Key, float]
    seconds: float

    def of(self, name: str, **labels: str) -> dict[Key, float]:
        """Samples of a family whose labels match."""
        wanted = set(labels.items())
        return {k: v for k, v in self.values.items() if k[0] == name and wanted <= set(k[1])}

    def one(self, name: str, **labels: str) -> float | None:
        """The only sample that matches; None where there is none."""
        found = self.of(f"gputailor_{name}", **labels)
        assert len(found) <= 1, found
        return next(iter(found.values()), None)

    def gpu(self, index: int, uuids: Iterable[str]) -> dict[Key, float]:
        """All that is said of a GPU, its instances and their holders."""
        mine = set(uuids)
        return {
            key: value
            for key, value in self.values.items()
            if dict(key[1]).get("gpu") == str(index) or dict(key[1]).get("gpu_uuid") in mine
        }


def in_pod(host: Host, pid: int, uid: str) -> None:
    """A process of the pod's only container, as systemd and containerd arrange it."""
    inside = f"kubepods-burstable-pod{uid.replace('-', '_')}.slice/cri-containerd-{'a' * 64}.scope"
    host.process(pid, f"0::/kubepods.slice/kubepods-burstable.slice/{inside}\n")


def read_page(text: str, seconds: float) -> Page:
    """Parse an exposition page."""
    values = {
        (sample.name, tuple(sorted((k, v) for k, v in sample.labels.items() if k != "node"))): (
            sample.value
        )
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    return Page(values, seconds)


def get(url: str, timeout: float = 5.0) -> tuple[int, str]:
    """Status and text of a page."""
    try:
        with urllib.request.urlopen(url, timeout=timeout) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def wait_for(condition: Callable[[], object], seconds: float = 20.0, what: str = "") -> None:
    """Wait until ``condition`` is true; fail after ``seconds``."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"not within {seconds} s: {what or condition}")
        time.sleep(0.05)


@dataclass(repr=False)
class Node:
    """Fake driver, kubelet and the exporter's process."""

    folder: Path
    library: Path
    driver: FakeDriver
    kubelet: Kubelet | None = None
    host: Host | None = None
    variables: dict[str, str] = field(default_factory=dict)
    process: Process | None = None
    url: str = ""

    def run(self, *flags: str, listen: str = "127.0.0.1:0", wait: bool = True) -> Process:
        """Start the exporter; with ``wait``, until it is ready."""
        self.driver.write()
        socket = str(self.folder / "kubelet.sock")
        attribution: tuple[str, ...] = ("--attribution", "none")
        if self.kubelet is not None:
            attribution = ("--pod-resources-socket", socket)
        if self.host is not None:
            proc, pods = str(self.host.proc), str(self.host.pods)
            attribution += ("--proc-root", proc, "--pod-logs-root", pods)
        command = [sys.executable, "-m", "gputailor_exporter", "--listen", listen]
        self.process = Process(
            [*command, *QUICK, *attribution, *flags],
            self.folder / f"exporter-{time.monotonic_ns()}.log",
            self.environment(),
        )
        self.url = self.process.url()
        if wait:
            wait_for(self.ready, what=f"ready: {self.process.output}")
        return self.process

    def environment(self) -> dict[str, str]:
        """Variables of the exporter."""
        base = {k: v for k, v in os.environ.items() if not k.startswith("GPUTAILOR_")}
        return self.driver.environment(self.library, base) | self.variables

    def ready(self) -> bool:
        """Whether the exporter says that it is."""
        return get(f"{self.url}/readyz")[0] == 200

    def page(self) -> Page:
        """Scrape; fails where that takes long."""
        began = time.monotonic()
        status, text = get(f"{self.url}/metrics")
        took = time.monotonic() - began
        assert status == 200, text
        assert took < PAGE_SECONDS
        return read_page(text, took)

    def hand_out(self, devices: Mapping[str, list[str]]) -> None:
        """Let kubelet give devices (uuids, by pod name) to pods."""
        assert self.kubelet is not None
        self.kubelet.pods = [
            Pod("team", pod, [Container("main", {"nvidia.com/gpu": uuids})])
            for pod, uuids in devices.items()
        ]

    def fault(self, faults: Mapping[tuple[str, int | str], Mapping[str, float]]) -> None:
        """Order faults, in the place of those before."""
        self.driver.faults = {where: dict(what) for where, what in faults.items()}
        self.driver.write()

    def uuids(self, index: int) -> list[str]:
        """The GPU and its instances."""
        gpu = self.driver.gpus[index]
        return [gpu.uuid, *(one.uuid for one in gpu.mig)]

    def up(self, index: int, page: Page | None = None) -> bool:
        """Whether the GPU and its instances are said to be up."""
        page = page or self.page()
        return all(page.one("device_up", gpu_uuid=uuid) == 1.0 for uuid in self.uuids(index))

    def settled(self, *indices: int) -> bool:
        """Whether these GPUs (all, if none is named) are observed long enough for means."""
        page = self.page()
        chosen = indices or range(len(self.driver.gpus))
        held = self.kubelet is not None
        return all(settled(page.gpu(i, self.uuids(i)), held=held) for i in chosen)

    def settled_devices(self) -> bool:
        """The same of the devices, whoever holds them."""
        page = self.page()
        numbers = range(len(self.driver.gpus))
        return all(settled(page.gpu(i, self.uuids(i)), held=False) for i in numbers)

    def says_all(self, index: int, truth: Mapping[Key, float]) -> bool:
        """Whether a GPU says all that a well one does.

        To be waited for: where two readings follow each other closely, as on a busy machine, one
        of them may have no value.
        """
        return not missing(self.page().gpu(index, self.uuids(index)), truth)

    def stop(self) -> None:
        """End what still runs."""
        if self.process is not None:
            self.process.end()
        if self.kubelet is not None:
            self.kubelet.stop()


#: Families that say how measuring went, not what was measured.
_ABOUT = ("gputailor_exporter_", "gputailor_device_info", "gputailor_device_energy_source_info")
_PAIRS = (
    ("gputailor_device_active_seconds_total", "gputailor_device_observed_seconds_total"),
    (
        "gputailor_container_gpu_active_seconds_total",
        "gputailor_container_gpu_observed_seconds_total",
    ),
)
_OBSERVED = tuple(observed for _, observed in _PAIRS)


def _kind(key: Key) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The key without what tells GPUs and pods apart."""
    rest = {k: v for k, v in key[1] if k not in {"gpu", "gpu_uuid", "pod", "pod_uid", "serial"}}
    return key[0], tuple(sorted(rest.items()))


def _counts(name: str) -> bool:
    return name.endswith(("_total", "_bucket", "_sum", "_count")) or "timestamp" in name


def _constant(name: str) -> bool:
    """Whether a family holds still on a machine whose figures do."""
    lasting = ("ecc_errors", "remapped_rows", "retired_pages", "nvlink_errors", "xid")
    return not _counts(name) or any(one in name for one in lasting)


def figures(samples: Mapping[Key, float]) -> dict[Key, float]:
    """What a well GPU says, for comparison: figures that hold still, and means of signals."""
    found = {}
    for key, value in samples.items():
        name = key[0]
        if name.startswith(_ABOUT) or name == "gputailor_device_up":
            continue
        if _constant(name):
            found[_kind(key)] = value
    found.update(_means(samples))
    return found


def _means(samples: Mapping[Key, float]) -> dict[Key, float]:
    """active / observed of each signal that was observed long enough to have one."""
    found = {}
    for active, observed in _PAIRS:
        for key, value in samples.items():
            seconds = samples.get((observed, key[1]), 0.0)
            if key[0] == active and seconds >= 0.5:
                found[_kind((f"mean {active}", key[1]))] = value / seconds
    return found


def contradictions(
    samples: Mapping[Key, float], truth: Mapping[Key, float], tolerance: float = 0.03
) -> list[str]:
    """What a page says of a GPU that is not so; a figure that is missing is no lie."""
    wrong = []
    for key, value in figures(samples).items():
        if key not in truth:
            wrong.append(f"{key} = {value}: a well GPU does not say this")
        elif abs(value - truth[key]) > tolerance * abs(truth[key]):
            wrong.append(f"{key} = {value}, not {truth[key]}")
    return wrong


def missing(samples: Mapping[Key, float], truth: Mapping[Key, float]) -> list[Key]:
    """Figures of a well GPU that a page lacks."""
    said = figures(samples)
    return [key for key in truth if key not in said]


def observed_seconds(samples: Mapping[Key, float]) -> float:
    """Seconds observed, over all devices, holders and signals."""
    return sum(value for key, value in samples.items() if key[0] in _OBSERVED)


def settled(samples: Mapping[Key, float], *, held: bool, seconds: float = 1.0) -> bool:
    """Whether all signals of a GPU, and of its holders, are observed long enough for their means."""
    device, holder = ([v for k, v in samples.items() if k[0] == name] for name in _OBSERVED)
    enough = len(device) >= GPM_SIGNALS and (bool(holder) or not held)
    return enough and min((*device, *holder)) >= seconds


def fell(before: Mapping[Key, float], after: Mapping[Key, float]) -> list[str]:
    """Counters that went down between two pages of one process."""
    return [
        f"{key}: {value} -> {after[key]}"
        for key, value in before.items()
        if key[0].endswith("_total") and key in after and after[key] < value
    ]


def in_parallel(functions: Iterable[Callable[[], None]]) -> None:
    """Run all at once; raises the first error."""
    errors: list[BaseException] = []

    def run(function: Callable[[], None]) -> None:
        try:
            function()
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)

    threads = [threading.Thread(target=run, args=(one,)) for one in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
