"""What the whole-cluster test is put together from: pods, their past, an exporter, an agent.

The past is simulated for the very pods that the scheduler placed: a simulated page's pods, uids and
namespace are written over with the real ones, and the devices of the fake driver carry the uuids
of the simulated ones. Start times are put into the pods' status, as a kubelet had written them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import yaml

from gputailor_exporter.scenarios.scenario import load
from tests.fakes.kubelet import Container, Kubelet, Pod
from tests.fakes.nvml import GIB, FakeDriver, FakeGpu
from tests.system.prometheus_history import labelled, simulate
from tests.testbed import objects
from tests.testbed.control_plane import ControlPlane
from tests.testbed.monitoring import scrape_config
from tests.testbed.servers import eventually

NODE = "whole-a"
HOUR = 3600
DAY = 24 * HOUR
#: How much of the past there is.
PAST_SECONDS = 54 * HOUR
#: ... and of it with what the recording rules would have written, which takes longest to make.
RECORDED_SECONDS = 30 * HOUR
#: Hopper: the driver itself tells SM, tensor and memory activity (GPM), as the past has them.
PRODUCT = "NVIDIA-H100-80GB-HBM3"
INSTANCE_TYPE = "p5.48xlarge"
RESOURCE = "nvidia.com/gpu"
HOLDER = re.compile(r'pod="(?P<life>[^"]+)",pod_uid="[^"]*"')
Pods = Mapping[str, Mapping[str, Any]]
CHART = Path(__file__).resolve().parents[2] / "helm" / "gputailor"
HOPPER: Mapping[str, Any] = {
    "name": PRODUCT.replace("-", " "),
    "architecture": 9,
    "compute_capability": "9.0",
    "power_limit_watts": 700.0,
}
#: Metrics of GPM: graphics, SM, tensor, memory bandwidth in percent, PCIe both ways in MiB/s.
GPM = (1, 2, 5, 10, 20, 21)
#: NVML's bit for "held down by the power limit".
SW_POWER_CAP = 0x4
RULES = CHART / "files" / "rules" / "gputailor.yaml"
SCENARIO = f"""
version: 1
cluster: test
nodes:
  - name: {NODE}
    instance_type: {INSTANCE_TYPE}
    region: us-east-1
    gpus: [{{model: h100-sxm5-80gb, count: 4}}]
    profiling: all
activities:
  rest: {{signals: {{kernel: 0.0, sm: 0.0, graphics: 0.0}}, memory: {{plateau: 2GiB}}, power: 0.0}}
  busy: {{signals: {{kernel: 0.9, sm: 0.7, graphics: 0.9, tensor: 0.3, dram: 0.4}},
         memory: {{plateau: 60GiB}}, power: 0.8}}
workloads:
"""


@dataclass(frozen=True)
class Life:
    """A pod's simulated past: hours before now, the devices it held, and whether it worked."""

    began: float
    ended: float
    devices: tuple[int, ...]
    busy: bool

    @property
    def gpu_hours(self) -> float:
        """What it has held by now."""
        return (self.began - self.ended) * len(self.devices)

    @property
    def open_devices(self) -> int:
        """Devices that it holds still."""
        return 0 if self.ended else len(self.devices)

    def scenario(self, name: str) -> str:
        """One workload of the scenario."""
        end = f"end: -{self.ended:g}h, " if self.ended else ""
        activity = "busy" if self.busy else "rest"
        pods = f"pods: [{{node: {NODE}, gpus: {list(self.devices)}}}]"
        run = f"[{{start: -{self.began:g}h, {end}{pods}}}]"
        fields = f"name: {name}, namespace: team, kind: Pod, activity: {activity}, runs: {run}"
        return f"  - {{{fields}}}\n"


#: By the beginning of the pods' names, which is also what the simulated pods are called.
LIVES = {
    "chat": Life(52, 0, (0,), busy=False),
    "bert-worker-0": Life(8, 0, (1, 2), busy=True),
    "nightly-1": Life(7, 5, (3,), busy=True),
    "nightly-2": Life(4, 2, (3,), busy=True),
}

#: By the end of the workload's id: its lives, its mean of kernel activity, its peak of memory.
TRUTH = {
    "Deployment/chat/main": (("chat",), 0.0, 2 * GIB),
    "PyTorchJob/bert/main": (("bert-worker-0",), 0.9, 60 * GIB),
    "CronJob/nightly/main": (("nightly-1", "nightly-2"), 0.9, 60 * GIB),
}
#: A plan out of a Prometheus ends with the last whole hour that is settled, so the last one or two
#: hours of what goes on are not in it yet.
OPEN_HOURS = 2.0
SLACK_HOURS = 0.1


def stamp(at: float) -> str:
    """Unix seconds as Kubernetes writes them."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def fill(plane: ControlPlane, namespace: str) -> dict[str, dict[str, Any]]:
    """A Deployment, two runs of a CronJob and a custom resource's pod, placed; pods by life."""
    definition = objects.custom_definition("PyTorchJob")
    custom = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "bert"}}
    made = [
        objects.deployment("chat", replicas=1, gpus=1),
        objects.cron_job("nightly", gpus=1, completes_after="0s"),
        definition,
        {**custom, "spec": {}},
    ]
    plane.apply(made, namespace)
    for run in ("nightly-1", "nightly-2"):
        plane.kubectl("create", "job", "--from=cronjob/nightly", run, "-n", namespace)
    owner = plane.get("pytorchjob bert", namespace)
    plane.apply(objects.pod("bert-worker-0", gpus=2, owner=owner), namespace)

    def settled() -> dict[str, dict[str, Any]] | None:
        found = {
            life: pod
            for pod in plane.get("pods", namespace)
            for life in LIVES
            if pod["metadata"]["name"].startswith(life)
        }
        phases = {life: pod["status"]["phase"] for life, pod in found.items()}
        wanted = {life: "Succeeded" if LIVES[life].ended else "Running" for life in LIVES}
        return found if phases == wanted else None

    return eventually(settled, "the pods run or are done", seconds=60)


def grow_old(plane: ControlPlane, namespace: str, pods: Pods, now: float) -> None:
    """Write the times of the simulated past into the pods' status."""
    for life, pod in pods.items():
        began, ended = (
            stamp(now - hours * HOUR) for hours in (LIVES[life].began, LIVES[life].ended)
        )
        (container,) = pod["status"]["containerStatuses"]
        state = container["state"]
        if "terminated" in state:
            told = {**state["terminated"], "startedAt": began, "finishedAt": ended}
            state = {"terminated": told}
        else:
            state = {"running": {"startedAt": began}}
        conditions = [
            {**one, "lastTransitionTime": ended if one["status"] == "False" else began}
            for one in pod["status"]["conditions"]
        ]
        status = {
            "startTime": began,
            "conditions": conditions,
            "containerStatuses": [{**container, "state": state}],
        }
        plane.patch_status(f"pod/{pod['metadata']['name']}", status, namespace)


def devices(folder: Path, now: float) -> list[str]:
    """The uuids of the scenario's devices."""
    path = folder / "scenario.yaml"
    lives = (life.scenario(name) for name, life in LIVES.items())
    path.write_text(SCENARIO + "".join(lives), "utf-8")
    return [one.uuid for one in load(path, now).devices(NODE)]


def past(folder: Path, namespace: str, pods: Pods, now: float, url: str) -> Path:
    """The scrapes of the hours before ``now``, with the names and uids of the real pods.

    They are of the target at ``url``: when it is gone, so are their last values.
    """
    (page,) = simulate(folder / "scenario.yaml", folder / "pages", now, PAST_SECONDS / DAY)
    history = folder / "history.om"
    target = f'job="gputailor-exporter",instance="{url.removeprefix("http://")}"'

    def real(found: re.Match[str]) -> str:
        meta = pods[found["life"]]["metadata"]
        return f'pod="{meta["name"]}",pod_uid="{meta["uid"]}"'

    with page.open(encoding="utf-8") as lines, history.open("w", encoding="utf-8") as out:
        for line in lines:
            if not line.startswith("#"):
                told = HOLDER.sub(real, line.rstrip())
                told = told.replace('namespace="team"', f'namespace="{namespace}"')
                body, _, at = told.rpartition(" ")
                out.write(f"{labelled(body, target)} {at}\n")
        out.write("# EOF\n")
    return history


def alert_rules(path: Path) -> Path:
    """The chart's rules with all that waits shortened to a second; expressions as they are."""
    document = yaml.safe_load(RULES.read_text("utf-8"))
    for group in document["groups"]:
        group["interval"] = "2s"
        for rule in group["rules"]:
            if "alert" in rule:
                rule["for"] = "1s"
    path.write_text(yaml.safe_dump(document), "utf-8")
    return path


def scraping(rules: Path, targets: Mapping[str, str]) -> str:
    """A configuration that scrapes these every five seconds.

    A scrape may take so long, and a busy machine is no blind exporter.
    """
    return scrape_config(targets, interval="5s", rules=[rules])


def plug_in(driver: FakeDriver, uuids: list[str]) -> None:
    """The devices as they are now: what the lives say goes on."""
    working = {n for life in LIVES.values() if life.busy and not life.ended for n in life.devices}
    for number, uuid in enumerate(uuids):
        driver.add(_busy(uuid) if number in working else _resting(uuid))


def _busy(uuid: str) -> FakeGpu:
    """At work, held down by its power limit."""
    return FakeGpu(
        **HOPPER,
        uuid=uuid,
        util_gpu=90.0,
        gpm=dict(zip(GPM, (90.0, 70.0, 30.0, 40.0, 500.0, 500.0), strict=True)),
        memory_used=60.0 * GIB,
        power_watts=600.0,
        throttle=SW_POWER_CAP,
    )


def _resting(uuid: str) -> FakeGpu:
    return FakeGpu(
        **HOPPER,
        uuid=uuid,
        util_gpu=0.0,
        gpm=dict.fromkeys(GPM, 0.0),
        memory_used=2.0 * GIB,
        power_watts=70.0,
    )


def hand_out(
    kubelet: Kubelet,
    logs: Path,
    namespace: str,
    pods: Pods,
    uuids: list[str],
) -> None:
    """Kubelet lists the pods that run, with their devices."""
    listed = []
    for life, pod in pods.items():
        if LIVES[life].ended:
            continue
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        (logs / f"{namespace}_{name}_{uid}" / "main").mkdir(parents=True)
        held = [uuids[number] for number in LIVES[life].devices]
        listed.append(Pod(namespace, name, [Container("main", {RESOURCE: held})]))
    kubelet.pods = listed


def fetch(url: str) -> httpx.Response:
    """One page."""
    return httpx.get(url, trust_env=False, timeout=10)


def cron_that_fired(now: float) -> str:
    """A weekly schedule whose last time was between one and two hours before ``now``."""
    return datetime.fromtimestamp(now - HOUR, UTC).strftime("0 %H * * %a").lower()
