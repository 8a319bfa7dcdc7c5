"""From what the driver was told to what the report says, through every real part on the way:

fake driver library -> real pynvml -> exporter process -> PodResources over gRPC -> HTTP scrape ->
rollup -> store -> profile -> finding -> report.
"""

import json
import time
from datetime import UTC, datetime

import httpx
import pytest

from gputailor_agent.assessment import AssessmentSettings
from gputailor_agent.catalog import load_catalogue
from gputailor_agent.inventory.files import read_inventory
from gputailor_agent.model.judgement import SilenceKind
from gputailor_agent.reports.formats import render
from gputailor_agent.rules.base import RuleSettings
from gputailor_agent.schedule import AgentService, ServiceSettings
from gputailor_agent.sources.scrape import ScrapeSource
from gputailor_agent.store import Store
from tests.fakes.kubelet import Container, Kubelet, Pod
from tests.fakes.nvml import GIB, FakeGpu, square

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]

POD_UID = "7d0f3a52-6a3c-4a7b-9a40-6f6a2f1f0a11"
GPM_SM = 2  # NVML_GPM_METRIC_SM_UTIL
SHORT = {
    rule: {"batch_run_seconds": 10, "least_run_seconds": 5, "coverage": 0.9}
    for rule in ("too_many_gpus", "smaller_gpu")
}


def pod(name, uid, gpus, started, node="gpu-node-1"):
    """A bare pod as kubectl prints it."""
    at = datetime.fromtimestamp(started, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": "team", "name": name, "uid": uid, "creationTimestamp": at},
        "spec": {
            "nodeName": node,
            "restartPolicy": "Never",
            "containers": [
                {
                    "name": "main",
                    "image": "pytorch/pytorch:2.6.0",
                    "command": ["torchrun", "train.py"],
                    "resources": {"limits": {"nvidia.com/gpu": str(gpus)}},
                }
            ],
        },
        "status": {
            "phase": "Running",
            "startTime": at,
            "containerStatuses": [
                {"name": "main", "restartCount": 0, "state": {"running": {"startedAt": at}}}
            ],
        },
    }


def node(name="gpu-node-1", gpus=3):
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
                "nvidia.com/gpu.count": str(gpus),
                "nvidia.com/gpu.memory": "81559",
                "node.kubernetes.io/instance-type": "p5.48xlarge",
            },
        },
        "status": {
            "capacity": {"nvidia.com/gpu": str(gpus)},
            "allocatable": {"nvidia.com/gpu": str(gpus)},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def h100(**told) -> FakeGpu:
    return FakeGpu(
        name="NVIDIA H100 80GB HBM3",
        architecture=9,
        compute_capability="9.0",
        memory_total=80 * GIB,
        power_limit_watts=700.0,
        **told,
    )


class Machine:
    """Exporter, kubelet and agent around one fake driver."""

    def __init__(self, tmp_path, start, driver, library):
        self.folder, self.driver = tmp_path, driver
        (tmp_path / "logs").mkdir()
        self.kubelet = Kubelet(tmp_path / "kubelet.sock")
        self._start, self._library = start, library

    def run_exporter(self):
        self.kubelet.start()
        self.driver.write()
        process = self._start(
            "gputailor_exporter",
            *("--node", "gpu-node-1", "--listen", "127.0.0.1:0"),
            *("--pod-resources-socket", str(self.folder / "kubelet.sock")),
            *("--pod-logs-root", str(self.folder / "logs")),
            env=self.driver.environment(self._library),
        )
        self.url = process.url()
        return process

    def hand_out(self, name, uid, uuids):
        """Kubelet gives devices to a pod, as it would when the pod starts."""
        (self.folder / "logs" / f"team_{name}_{uid}" / "main").mkdir(parents=True)
        devices = {"nvidia.com/gpu": list(uuids)}
        given = Pod("team", name, [Container("main", devices)])
        self.kubelet.pods = [*self.kubelet.pods, given]

    def service(self, store, objects, thresholds):
        path = self.folder / "cluster.json"
        path.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": objects}))
        settings = ServiceSettings(
            cluster="test",
            assessment=AssessmentSettings(rules=RuleSettings(thresholds=thresholds)),
        )
        return AgentService(
            settings,
            store,
            ScrapeSource([f"{self.url}/metrics"], "test"),
            lambda at: read_inventory([path], "test", at),
            load_catalogue(),
        )


@pytest.fixture
def machine(tmp_path, start, fake_driver, fake_nvml_library):
    whole = Machine(tmp_path, start, fake_driver, fake_nvml_library)
    yield whole
    whole.kubelet.stop()


def wait_for(condition, seconds=30.0):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return
        time.sleep(0.1)
    pytest.fail(f"not true within {seconds} s: {condition}")


def scrape_for(service, seconds, every=5.0):
    """Scrape as the agent does; returns the Unix times of the first and the last scrape."""
    first = time.time()
    service.tick_scrape(first)
    while time.time() < first + seconds:
        time.sleep(every)
        last = time.time()
        service.tick_scrape(last)
    return first, last


def only_verdict(plan):
    (found,) = plan.verdicts
    return found


def test_the_findings_figures_are_what_the_driver_was_told(machine):
    busy = machine.driver.add(
        h100(util_gpu=60.0, gpm={GPM_SM: 30.0}, memory_used=21.0 * GIB, power_watts=310.0)
    )
    unused = machine.driver.add(h100(util_gpu=0.0, gpm={GPM_SM: 0.0}, power_watts=70.0))
    exporter = machine.run_exporter()
    wait_for(lambda: httpx.get(f"{machine.url}/readyz").status_code == 200)
    started = time.time()
    machine.hand_out("train-0", POD_UID, [busy.uuid, unused.uuid])
    wait_for(lambda: "train-0" in httpx.get(f"{machine.url}/metrics").text)
    with Store.open(f"sqlite:///{machine.folder / 'store.db'}") as store:
        service = machine.service(store, [node(), pod("train-0", POD_UID, 2, started)], SHORT)
        first, last = scrape_for(service, 45)
        plan = service.recommend(time.time())
        rows = list(store.usage("test", first - 7200, last + 7200))
    assert {row.key.pod_uid for row in rows} == {POD_UID}
    by_gpu = {}
    for row in rows:
        by_gpu.setdefault(row.key.gpu_uuid, []).append(row)
    told = machine.driver
    kernel = [row.signals["kernel"] for row in by_gpu[busy.uuid]]
    observed = sum(use.observed_seconds for use in kernel)
    measured = sum(use.active_seconds for use in kernel) / observed
    assert measured == pytest.approx(told.mean("gpu.0.util.gpu", first, last) / 100, rel=0.01)
    sm = [row.signals["sm"] for row in by_gpu[busy.uuid]]
    assert sum(u.active_seconds for u in sm) / sum(u.observed_seconds for u in sm) == (
        pytest.approx(0.30, rel=0.01)
    )
    assert max(row.memory_peak_bytes for row in by_gpu[busy.uuid]) == 21 * GIB
    energy = sum(row.energy_joules for row in by_gpu[busy.uuid])
    assert energy / observed == pytest.approx(310.0, rel=0.01)
    assert sum(row.signals["kernel"].active_seconds for row in by_gpu[unused.uuid]) == 0

    finding = only_verdict(plan).primary
    assert finding is not None, only_verdict(plan).silences
    assert finding.rule == "too_many_gpus"
    # the other GPU never worked, so the work that is done fits on one of them as it is
    assert (finding.slowdown.low, finding.slowdown.high) == (1.0, 1.0)
    assert finding.message.params["gpus"] == 2
    assert finding.message.params["unused"] == 1
    assert "nvidia.com/gpu" in finding.change.patch
    numbers = {item.name: item for item in finding.evidence}
    assert all(item.window is not None and item.samples for item in numbers.values())
    # 60 % on one of two; the two GPUs are looked at for as long, to a cycle of the sampler
    both = sum(row.signals["kernel"].observed_seconds for row in rows)
    verdict = only_verdict(plan)
    assert verdict.mean_kernel == pytest.approx(0.6 * observed / both, rel=0.01)
    assert verdict.mean_kernel == pytest.approx(0.30, abs=0.01)
    assert verdict.memory_peak_bytes == 21 * GIB
    text = render(plan, "markdown")
    assert "1 of 2 GPUs" in text
    assert "21.0 GiB" in text
    assert exporter.stop() == 0


def test_a_device_whose_signal_stops_is_unknown_and_no_rule_fires(machine):
    lost = machine.driver.add(h100(util_gpu=50.0, gpm={GPM_SM: 20.0}, memory_used=4.0 * GIB))
    other = machine.driver.add(h100(util_gpu=square(1, 1), gpm={GPM_SM: 20.0}))
    machine.run_exporter()
    wait_for(lambda: httpx.get(f"{machine.url}/readyz").status_code == 200)
    started = time.time()
    machine.hand_out("train-1", POD_UID, [lost.uuid])
    wait_for(lambda: "train-1" in httpx.get(f"{machine.url}/metrics").text)
    thresholds = SHORT | {"idle": {"start_warn_minutes": 0.05, "warn_minutes": 0.05}}
    with Store.open(f"sqlite:///{machine.folder / 'store.db'}") as store:
        service = machine.service(store, [node(), pod("train-1", POD_UID, 1, started)], thresholds)
        scrape_for(service, 4, every=2)
        machine.driver.faults["*", 0] = {"error": 15}  # NVML_ERROR_GPU_IS_LOST
        machine.driver.write()
        wait_for(lambda: _value(machine.url, "gputailor_device_up", lost.uuid) == 0.0)
        observed = _value(machine.url, "gputailor_container_gpu_observed_seconds_total", lost.uuid)
        scrape_for(service, 12, every=3)
        after = _value(machine.url, "gputailor_container_gpu_observed_seconds_total", lost.uuid)
        plan = service.recommend(time.time())
    assert after == observed
    assert _value(machine.url, "gputailor_device_up", other.uuid) == 1.0
    verdict = only_verdict(plan)
    assert verdict.primary is None
    assert verdict.alternatives == ()
    assert {s.kind for s in verdict.silences if s.rule == "idle"} <= {
        SilenceKind.UNKNOWN,
        SilenceKind.WATCHING,
    }


def _value(url, name, uuid):
    """First sample of the metric for the device (signal kernel where it has signals)."""
    for line in httpx.get(f"{url}/metrics").text.splitlines():
        if line.startswith(f"{name}{{") and uuid in line:
            if 'signal="' in line and 'signal="kernel"' not in line:
                continue
            return float(line.rsplit(" ", 1)[1])
    return None


@pytest.mark.parametrize("every", [5, 15])
def test_a_job_that_is_on_and_off_by_the_second_reads_one_half(machine, every):
    gpu = machine.driver.add(h100(util_gpu=square(1, 1), gpm={GPM_SM: 10.0}))
    machine.run_exporter()
    wait_for(lambda: httpx.get(f"{machine.url}/readyz").status_code == 200)
    machine.hand_out("burst", POD_UID, [gpu.uuid])
    wait_for(lambda: "burst" in httpx.get(f"{machine.url}/metrics").text)
    with Store.open(f"sqlite:///{machine.folder / 'store.db'}") as store:
        service = machine.service(store, [node(), pod("burst", POD_UID, 1, time.time())], {})
        first, last = scrape_for(service, 30, every=every)
        service.flush(last)
        rows = list(store.usage("test", first - 7200, last + 7200))
    uses = [row.signals["kernel"] for row in rows]
    mean = sum(u.active_seconds for u in uses) / sum(u.observed_seconds for u in uses)
    assert mean == pytest.approx(0.5, abs=0.02)
