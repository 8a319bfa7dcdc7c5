"""One scenario's history in a real Prometheus, as each of two exporters would have told it.

Our exporter's pages come from ``gputailor-exporter simulate``, dcgm-exporter's from the same
scenario by ``dcgm_page``; both get the labels that a scrape adds.
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from gputailor_agent.dialects.gputailor_series import CONTAINER, DEVICE, PROCESS_START
from gputailor_exporter.scenarios.scenario import Scenario
from tests.testbed import build
from tests.testbed.servers import HOST, Server, start_on_free_ports

MIB = 1024.0**2
SCRAPE = 30
READ = tuple(f"{name}{end}" for name in (*CONTAINER, *DEVICE, PROCESS_START) for end in "{ ")
PERCENT = {
    "GPU_UTIL": "kernel", "MEM_COPY_UTIL": "memcopy", "ENC_UTIL": "encoder", "DEC_UTIL": "decoder",
}  # fmt: skip
PROFILING = {
    "GR_ENGINE_ACTIVE": "graphics", "SM_ACTIVE": "sm", "PIPE_TENSOR_ACTIVE": "tensor",
    "DRAM_ACTIVE": "dram", "PIPE_FP64_ACTIVE": "fp64", "PIPE_FP32_ACTIVE": "fp32",
    "PIPE_FP16_ACTIVE": "fp16",
}  # fmt: skip


@dataclass(frozen=True)
class Binaries:
    """A Prometheus and its promtool."""

    prometheus: Path
    promtool: Path


def found_binaries() -> list[Binaries]:
    """Every Prometheus on this machine: the test bed's, the system's."""
    pairs = [
        tuple(build.find(name) for name in ("prometheus", "promtool")),
        tuple(shutil.which(name) for name in ("prometheus", "promtool")),
    ]
    return [Binaries(Path(a), Path(b)) for a, b in pairs if a is not None and b is not None]


def need_binaries() -> Binaries:
    """One Prometheus, or skip by name."""
    found = found_binaries()
    if not found:
        pytest.skip("no prometheus and promtool: `make testbed` or apt-get install prometheus")
    return found[0]


class Running:
    """A server over given history; its address in ``url``. ``flags`` are the server's own."""

    def __init__(
        self, binaries: Binaries, folder: Path, history: Iterable[str], flags: Iterable[str] = ()
    ) -> None:
        self.folder = folder
        self.url = ""
        self._binaries = binaries
        self._flags = tuple(flags)
        text = folder / "history.om"
        with text.open("w", encoding="utf-8") as file:
            file.writelines(history)
            file.write("# EOF\n")
        command = [binaries.promtool, "tsdb", "create-blocks-from", "--max-block-duration=240h"]
        done = subprocess.run(
            [*command, "openmetrics", "--quiet", text, folder / "data"],
            capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        text.unlink()
        self._config = folder / "prometheus.yml"
        self._config.write_text("{}", encoding="utf-8")
        self._server = start_on_free_ports(1, lambda ports: self._begin(binaries, ports[0]))

    def _begin(self, binaries: Binaries, port: int) -> Server:
        server = Server(
            "prometheus",
            [
                binaries.prometheus,
                f"--config.file={self._config}",
                f"--storage.tsdb.path={self.folder / 'data'}",
                f"--web.listen-address={HOST}:{port}",
                "--storage.tsdb.retention.time=20y",
                *self._flags,
            ],
            self.folder / "prometheus.log",
        )
        url = f"http://{HOST}:{port}"
        server.wait_ready(lambda: httpx.get(f"{url}/-/ready", trust_env=False).is_success)
        self.url = url
        return server

    def stop(self) -> None:
        self._server.stop()

    def kill(self) -> None:
        """End it as a crash does; its data and its port stay."""
        self._server.kill()

    def restart(self) -> None:
        """Start it again at the same address."""
        self._server = self._begin(self._binaries, int(self.url.rsplit(":", 1)[1]))


def simulate(
    scenario: Path,
    out: Path,
    now: float,
    days: float,
    *,
    page: str = "60s",
    node: str = "all",
    manifests: Path | None = None,
) -> list[Path]:
    """Pages of our exporter, one file per node."""
    arguments = [
        "simulate", "--scenario", scenario, "--out", out, "--now", f"{now:.0f}",
        "--days", f"{days:g}", "--page-interval", page, "--node", node, "--openmetrics",
        "--jobs", "1", *(() if manifests is None else ("--manifests", manifests)),
    ]  # fmt: skip
    command = [sys.executable, "-m", "gputailor_exporter", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return sorted(out.glob("*.om"))


def labelled(line: str, labels: str) -> str:
    """A sample line with more labels."""
    brace, space = line.find("{"), line.find(" ")
    if 0 <= brace < space:
        return f"{line[: brace + 1]}{labels},{line[brace + 1 :]}"
    return f"{line[:space]}{{{labels}}}{line[space:]}"


def scraped(
    files: Iterable[Path], *, late: float = 0.0, also: tuple[str, ...] = (), **labels: str
) -> Iterator[str]:
    """Lines as a Prometheus stores them: with the target's labels, ``late`` seconds later.

    Families that only people look at are left out (they are most of a page), but for ``also``.
    """
    for file in files:
        more = {"job": "gputailor-exporter", "instance": f"{file.stem}:9400", **labels}
        text = ",".join(f'{name}="{value}"' for name, value in more.items())
        with file.open(encoding="utf-8") as lines:
            for line in lines:
                if not line.startswith((*READ, *also)):
                    continue
                body, _, stamp = line.rstrip().rpartition(" ")
                yield f"{labelled(body, text)} {float(stamp) + late:.3f}\n"


def _line(name: str, labels: Mapping[str, str], value: float, at: float) -> str:
    text = ",".join(f"{key}={json.dumps(told)}" for key, told in labels.items())
    return f"DCGM_FI_{name}{{{text}}} {value} {at:.3f}\n"


def _identity(scenario: Scenario, node: str, uuid: str, hostname: str) -> dict[str, str]:
    identity = next(one for one in scenario.devices(node) if one.uuid == uuid)
    labels = {
        "gpu": identity.index,
        "UUID": identity.parent_uuid or identity.uuid,
        "device": f"nvidia{identity.index}",
        "modelName": identity.model,
        hostname: node,
        "DCGM_FI_DRIVER_VERSION": identity.driver_version,
    }
    if identity.parent_uuid:
        labels |= {
            "GPU_I_PROFILE": identity.mig_profile,
            "GPU_I_ID": str(identity.gpu_instance_id),
        }
    return labels


def dcgm_page(
    scenario: Scenario,
    node: str,
    at: float,
    *,
    hostname: str = "Hostname",
    exported: bool = False,
    profiling_stuck: bool = False,
) -> Iterator[str]:
    """One scrape of dcgm-exporter: a shared card's values are copied to each of its pods."""
    prefix = "exported_" if exported else ""
    held = scenario.allocations(node, at)
    for identity in scenario.devices(node):
        labels = _identity(scenario, node, identity.uuid, hostname)
        target = {"job": "dcgm-exporter", "instance": f"{node}:9401"}
        if exported:
            own = {
                "pod": "nvidia-gpu-metrics-x7",
                "namespace": "monitoring",
                "container": "metrics",
            }
            target |= own
        holders = [
            {
                f"{prefix}namespace": one.holder.namespace,
                f"{prefix}pod": one.holder.pod,
                f"{prefix}container": one.holder.container,
            }
            for one in held
            if one.gpu_uuid == identity.uuid
        ]
        values = dict(_values(scenario, node, identity.uuid, at, stuck=profiling_stuck))
        for holder in holders or [{}]:
            for name, value in values.items():
                yield _line(name, {**labels, **target, **holder}, value, at)


def _values(
    scenario: Scenario, node: str, uuid: str, at: float, *, stuck: bool
) -> Iterator[tuple[str, float]]:
    reading = scenario.reading(node, uuid, at - SCRAPE, at)
    signals = {signal.value: told.value for signal, told in reading.signals.items()}
    yield "DEV_POWER_USAGE", reading.power_watts or 0.0
    for name, signal in PERCENT.items():
        if signal in signals:
            yield f"DEV_{name}", signals[signal] * 100
    for name, signal in PROFILING.items():
        if signal in signals:
            yield f"PROF_{name}", 0.0 if stuck else signals[signal]
    memory = reading.memory
    if memory is not None:
        yield "DEV_FB_USED", memory.used_bytes / MIB
        yield "DEV_FB_RESERVED", memory.reserved_bytes / MIB
        free = memory.total_bytes - memory.used_bytes - memory.reserved_bytes
        yield "DEV_FB_FREE", free / MIB


def dcgm_history(
    scenario: Scenario,
    start: float,
    end: float,
    *,
    exported: bool = False,
    hostname: str = "Hostname",
) -> Iterator[str]:
    """Every scrape of every node, and the ``up`` that tells each target's own labels."""
    for node in scenario.nodes:
        down = scenario.exporter_down(node)
        for at in range(int(start) + SCRAPE, int(end) + 1, SCRAPE):
            if any(low < at <= high for low, high in down):
                continue
            yield from dcgm_page(scenario, node, at, exported=exported, hostname=hostname)
            own = 'pod="nvidia-gpu-metrics-x7",namespace="monitoring",container="metrics"'
            yield f'up{{job="dcgm-exporter",instance="{node}:9401",{own}}} 1 {at}\n'


def renamed(lines: Iterable[str], pods: Mapping[str, str], namespace: str) -> Iterator[str]:
    """Exporter lines with the pods' real names (by simulated name) and their namespace.

    Lines of pods that are not named are left out.
    """
    simulated = re.compile(r'namespace="[^"]+",pod="(?P<pod>[^"]+)"')
    for line in lines:
        found = simulated.search(line)
        if found is None or found["pod"] not in pods:
            if found is None or "up{" in line:
                yield line
            continue
        real = f'namespace="{namespace}",pod="{pods[found["pod"]]}"'
        yield line[: found.start()] + real + line[found.end() :]


def repeated(
    page: Iterable[str], start: float, end: float, *, every: int = 60, **labels: str
) -> Iterator[str]:
    """Lines of one page as if they had been scraped, unchanged, from ``start`` to ``end``."""
    more = ",".join(f'{name}="{value}"' for name, value in labels.items())
    for line in page:
        body, _, value = line.rstrip().rpartition(" ")
        told = labelled(f"{body} {value}", more) if more else f"{body} {value}"
        for at in range(int(start), int(end) + 1, every):
            yield f"{told} {at}\n"
