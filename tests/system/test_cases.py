"""Cases from the field that need the exporter as a process; the others: tests/exporter/test_cases.py."""

import time
import urllib.error
import urllib.request

import psutil
import pytest

from tests.exporter.fake_nodes import rich_gpu
from tests.exporter.stubs import eventually
from tests.fakes.nvml import FakeProcess

pytestmark = pytest.mark.system

#: The bound in MiB on 8 GPUs; dcgm-exporter was OOM-killed at the 400 MiB of its own default limits.
MOST_MEMORY_MIB = 60


@pytest.fixture
def exporter(start, fake_driver, fake_nvml_library):
    """Return a function: the exporter on so many GPUs, its address, and the driver."""

    def begin(gpus):
        for index in range(gpus):
            fake_driver.add(rich_gpu(processes=[FakeProcess(100 + index, sm=50.0)]))
        fake_driver.write()
        arguments = ("--attribution", "none", "--listen", "127.0.0.1:0", "--interval", "0.2")
        environment = fake_driver.environment(fake_nvml_library)
        process = start("gputailor_exporter", *arguments, env=environment)
        return process, process.url()

    return begin


def fetch(url):
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as answer:
        with answer:
            return answer.code, answer.read().decode()


def sample(url, name, **labels):
    """The value of the first sample of the page with this name and these labels; None: not there."""
    wanted = [f'{label}="{text}"' for label, text in labels.items()]
    for line in fetch(f"{url}/metrics")[1].splitlines():
        if line.startswith(name + "{") and all(part in line for part in wanted):
            return float(line.rsplit(" ", 1)[1])
    return None


def test_case_08_a_call_that_hangs_for_ever_stops_neither_scrapes_nor_the_other_gpu(
    exporter, fake_driver
):
    """A driver call hung for ever (NVSentinel#1576)."""
    _, url = exporter(2)
    hung, well = (gpu.uuid for gpu in fake_driver.gpus)
    up, seconds = "gputailor_device_up", "gputailor_device_observed_seconds_total"
    eventually(lambda: sample(url, up, gpu_uuid=well) == 1.0, within=15)
    fake_driver.faults[("nvmlDeviceGetPowerUsage", 0)] = {"hang": 1}
    fake_driver.write()
    eventually(lambda: sample(url, up, gpu_uuid=hung) == 0.0, within=20)
    before = time.monotonic()
    page = fetch(f"{url}/metrics")[1]
    assert time.monotonic() - before < 1.0
    assert 'reason="timeout"' in page
    observed = {uuid: sample(url, seconds, gpu_uuid=uuid, signal="kernel") for uuid in (hung, well)}
    age = sample(url, "gputailor_exporter_cycle_duration_seconds", gpu_uuid=hung)
    time.sleep(1.5)
    after = {uuid: sample(url, seconds, gpu_uuid=uuid, signal="kernel") for uuid in (hung, well)}
    assert after[hung] == observed[hung]
    assert after[well] > observed[well]
    assert sample(url, "gputailor_exporter_cycle_duration_seconds", gpu_uuid=hung) > age
    status, said = fetch(f"{url}/healthz")
    assert status == 200  # a restart would not help, and the other GPU is measured
    assert hung in said
    fake_driver.faults.clear()
    fake_driver.write()
    eventually(lambda: sample(url, up, gpu_uuid=hung) == 1.0, within=15)


def test_case_17_memory_stays_within_a_small_bound_under_scrapes(exporter):
    """400 MB, and OOM-killed at its default limits (dcgm-exporter#609)."""
    process, url = exporter(8)
    eventually(lambda: fetch(f"{url}/readyz")[0] == 200, within=15)
    for _ in range(100):
        fetch(f"{url}/metrics")
    memory = psutil.Process(process.popen.pid).memory_info().rss / 2**20
    assert memory < MOST_MEMORY_MIB
