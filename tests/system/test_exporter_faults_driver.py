"""The driver as a whole: not here yet, hanging, locked by one GPU, replaced; GPUs lost and found."""

import shutil
import subprocess
import sys
import time

import pytest

from tests.fakes.nvml import FakeDriver
from tests.system.exporter_parts import (
    Node,
    busy_gpu,
    contradictions,
    figures,
    get,
    in_parallel,
    mig_gpu,
    observed_seconds,
    wait_for,
)
from tests.testbed.servers import free_ports

pytestmark = [pytest.mark.system, pytest.mark.timeout(120)]

UNINITIALIZED, LOST, MISMATCH = 1, 15, 18

#: Calls that belong to no GPU. Those of the first row are asked before there is any device.
AT_START = ("nvmlInitWithFlags", "nvmlDeviceGetCount_v2", "nvmlGpmSampleAlloc")
SPARED = (
    "nvmlSystemGetDriverVersion",
    "nvmlSystemGetCudaDriverVersion_v2",
    "nvmlEventSetCreate",
    "nvmlEventSetWait_v2",
)
AT_THE_END = ("nvmlEventSetFree", "nvmlShutdown", "nvmlGpmSampleFree")


def machine(folder, library, gpus=2):
    folder.mkdir(parents=True, exist_ok=True)
    driver = FakeDriver(folder / "nvml-state")
    for _ in range(gpus):
        driver.add(busy_gpu())
    return Node(folder, library, driver)


@pytest.fixture
def node(tmp_path, fake_nvml_library):
    made = machine(tmp_path, fake_nvml_library)
    yield made
    made.stop()


@pytest.fixture
def many(tmp_path, fake_nvml_library):
    """A function: a machine for each name."""
    made = []

    def build(names):
        found = {name: machine(tmp_path / name, fake_nvml_library) for name in names}
        made.extend(found.values())
        return found

    yield build
    for one in made:
        one.stop()


def observed(node, index):
    return observed_seconds(node.page().gpu(index, node.uuids(index)))


# -- calls of no GPU -------------------------------------------------------------------------


def test_a_call_of_no_gpu_that_hangs_at_the_start_is_told_by_the_probes(many):
    nodes = many(AT_START)

    def hang(name):
        node = nodes[name]
        node.fault({(name, "*"): {"hang": 1}})
        process = node.run(wait=False)
        time.sleep(1.5)
        page = node.page()
        assert get(f"{node.url}/healthz")[0] == 200
        assert [one for key, one in page.values.items() if "seconds_total" in key[0]] == []
        if name != "nvmlGpmSampleAlloc":  # that one is asked when devices are known
            status, why = get(f"{node.url}/readyz")
            assert status == 503
            assert "the driver has not answered for" in why
        node.fault({})
        wait_for(lambda: node.ready() and node.up(0) and node.up(1), what=name)
        assert process.stop() == 0

    in_parallel([lambda name=name: hang(name) for name in AT_START])


def test_a_call_of_no_gpu_that_is_not_needed_costs_only_what_it_tells(many):
    nodes = many(SPARED)

    def hang(name):
        node = nodes[name]
        node.fault({(name, "*"): {"hang": 1}})
        process = node.run()
        before = observed(node, 0)
        wait_for(lambda: node.up(0) and observed(node, 0) > before + 1.0, what=name)
        assert get(f"{node.url}/healthz")[0] == 200
        assert process.stop() == 0  # within the time of a graceful stop, though the call hangs

    in_parallel([lambda name=name: hang(name) for name in SPARED])


def test_a_call_that_hangs_while_it_stops_does_not_keep_the_process(many):
    nodes = many(AT_THE_END)

    def hang(name):
        node = nodes[name]
        process = node.run()
        wait_for(lambda: node.up(0))
        node.fault({(name, "*"): {"hang": 1}})
        began = time.monotonic()
        assert process.stop() == 0
        assert time.monotonic() - began < 10.0

    in_parallel([lambda name=name: hang(name) for name in AT_THE_END])


def test_devices_are_read_on_while_the_listing_of_new_ones_hangs(node):
    node.run()
    wait_for(lambda: node.up(0))
    node.fault({("nvmlDeviceGetCount_v2", "*"): {"hang": 1}})
    time.sleep(0.5)
    before = observed(node, 0)
    wait_for(lambda: observed(node, 0) > before + 1.0)
    assert node.up(0)


def test_a_driver_that_holds_its_one_lock_makes_all_unknown_and_nothing_zero(node):
    node.run()
    wait_for(node.settled)
    well = [figures(node.page().gpu(i, node.uuids(i))) for i in (0, 1)]
    node.fault({("nvmlDeviceGetPowerUsage", 0): {"hang": 2}})
    wait_for(lambda: not node.up(0) and not node.up(1))
    standing = node.page()
    time.sleep(0.6)
    page = node.page()
    for index in (0, 1):
        said = page.gpu(index, node.uuids(index))
        assert contradictions(said, well[index]) == []
        assert "gputailor_device_power_watts" not in {key[0] for key in said}
        assert observed_seconds(said) == observed_seconds(standing.gpu(index, node.uuids(index)))
        uuid = node.driver.gpus[index].uuid
        assert page.one("exporter_device_failure", gpu_uuid=uuid, reason="timeout") == 1.0
        assert page.one("exporter_signal_unavailable", gpu_uuid=uuid, signal="kernel") == 1.0
    assert get(f"{node.url}/healthz")[0] == 200
    node.fault({})
    wait_for(lambda: node.up(0) and node.up(1))


# -- GPUs that leave and come back ------------------------------------------------------------


def test_a_gpu_that_falls_off_the_bus_is_missed_and_found_again(node):
    node.run()
    wait_for(node.settled)
    well = figures(node.page().gpu(1, node.uuids(1)))
    lost = node.driver.gpus[0].uuid
    node.fault({("*", 0): {"error": LOST}})
    wait_for(lambda: not node.up(0))
    before = node.page()
    time.sleep(1.0)
    page = node.page()
    assert page.one("device_up", gpu_uuid=lost) == 0.0
    assert page.one("exporter_device_failure", gpu_uuid=lost, reason="gpu_is_lost") == 1.0
    age = time.time() - page.one("exporter_device_last_success_timestamp_seconds", gpu_uuid=lost)
    assert 0.9 < age < 10.0
    assert observed_seconds(page.gpu(0, [lost])) == observed_seconds(before.gpu(0, [lost]))
    assert page.one("device_power_watts", gpu_uuid=lost) is None
    assert contradictions(page.gpu(1, node.uuids(1)), well) == []
    wait_for(lambda: node.says_all(1, well))
    node.fault({})
    wait_for(lambda: node.up(0))
    back = node.page()
    assert back.one("exporter_device_failure", gpu_uuid=lost, reason="gpu_is_lost") is None
    wait_for(lambda: observed(node, 0) > observed_seconds(page.gpu(0, [lost])))
    gap = observed_seconds(back.gpu(0, [lost])) - observed_seconds(page.gpu(0, [lost]))
    assert gap < 8.0 * 13  # signals: what the driver sampled meanwhile, not hours


def test_a_gpu_that_names_itself_in_bytes_that_are_no_text_harms_only_itself(node):
    node.run()
    wait_for(node.settled)
    well = figures(node.page().gpu(1, node.uuids(1)))
    odd = node.driver.gpus[0].uuid
    state = node.driver.state
    state.write_bytes(state.read_bytes().replace(odd.encode(), b"GPU-\xff", 1))
    wait_for(lambda: node.page().one("exporter_devices", state="present") == 1.0)
    page = node.page()
    assert page.one("exporter_devices", state="expected") == 2.0
    assert page.one("device_up", gpu_uuid=odd) == 0.0
    assert contradictions(page.gpu(1, node.uuids(1)), well) == []
    assert node.says_all(1, well)
    assert "Traceback" not in node.process.output
    node.fault({})
    wait_for(lambda: node.up(0) and node.up(1))


def test_a_gpu_that_the_driver_no_longer_counts_is_expected_and_not_present(node):
    node.run()
    wait_for(lambda: node.up(0) and node.up(1))
    node.driver.gpus.pop()
    node.fault({})
    wait_for(lambda: node.page().one("exporter_devices", state="present") == 1.0)
    page = node.page()
    assert page.one("exporter_devices", state="expected") == 2.0
    assert page.one("device_up", gpu="1") == 0.0
    assert page.one("device_up", gpu="0") == 1.0


def test_mig_instances_come_and_go_while_a_neighbour_hangs(node):
    cut = node.driver.add(mig_gpu(2))
    node.run()
    wait_for(lambda: node.up(2))
    node.fault({("nvmlDeviceGetUUID", 0): {"hang": 1}, ("nvmlDeviceGetSamples", 0): {"hang": 1}})
    gone, cut.mig = cut.mig, []
    node.fault(node.driver.faults)
    wait_for(lambda: node.page().one("device_up", gpu_uuid=gone[0].uuid) is None)
    cut.mig = gone
    node.fault(node.driver.faults)
    wait_for(lambda: node.up(2))
    assert not node.up(0)
    assert node.up(1)


# -- a driver that is not here, or is another one now ------------------------------------------


@pytest.mark.parametrize("folder_first", [True, False], ids=["folder-first", "folder-later"])
def test_a_library_that_appears_later_is_taken_then(tmp_path, fake_nvml_library, folder_first):
    place = tmp_path / "driver" / "lib"
    if folder_first:
        place.mkdir(parents=True)
    node = machine(tmp_path, place / fake_nvml_library.name)
    try:
        process = node.run(wait=False)
        wait_for(lambda: "libnvidia-ml.so.1 is not here" in get(f"{node.url}/readyz")[1])
        assert get(f"{node.url}/readyz")[0] == 503
        assert get(f"{node.url}/healthz")[0] == 200
        page = node.page()
        assert page.one("exporter_devices", state="present") == 0.0
        failed = page.of("gputailor_exporter_errors_total", source="driver")
        assert len(failed) == 1
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy(fake_nvml_library, place)
        wait_for(lambda: node.ready() and node.up(0) and node.up(1))
        assert process.output.count("libnvidia-ml.so.1 is not here") == 1
        assert process.stop() == 0
    finally:
        node.stop()


def test_required_devices_that_are_not_here_end_the_process_in_words(tmp_path):
    node = machine(tmp_path, tmp_path / "nothing" / "libnvidia-ml.so.1")
    command = [sys.executable, "-m", "gputailor_exporter", "--listen", "127.0.0.1:0"]
    done = subprocess.run(
        [*command, "--attribution", "none", "--require-devices"],
        env=node.environment(),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 1
    assert "libnvidia-ml.so.1 is not here" in done.stderr
    assert "What to do" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_driver_replaced_under_the_process_is_read_by_a_new_one_in_its_place(node):
    process = node.run(listen=f"127.0.0.1:{free_ports(1)[0]}")
    wait_for(lambda: node.up(0))
    pid = process.popen.pid
    began = [v for k, v in node.page().values.items() if k[0] == "process_start_time_seconds"]
    node.fault({("*", "*"): {"error": UNINITIALIZED}})
    wait_for(lambda: not node.up(0))
    assert get(f"{node.url}/healthz")[0] == 200
    wait_for(lambda: process.output.count("listening on") == 2, 30.0, "a new process")
    wait_for(lambda: get(f"{node.url}/readyz")[0] == 503)
    node.fault({})
    wait_for(lambda: node.ready() and node.up(0) and node.up(1), 40.0)
    assert process.popen.poll() is None
    assert process.popen.pid == pid
    again = [v for k, v in node.page().values.items() if k[0] == "process_start_time_seconds"]
    assert again > began
    assert process.stop() == 0


def test_a_library_of_another_driver_than_the_kernels_is_waited_for(node):
    node.fault({("nvmlInitWithFlags", "*"): {"error": MISMATCH}})
    process = node.run(wait=False)
    wait_for(lambda: "different driver versions" in get(f"{node.url}/readyz")[1])
    assert node.page().one("exporter_devices", state="present") == 0.0
    node.fault({})
    wait_for(lambda: node.ready() and node.up(0))
    assert process.stop() == 0
