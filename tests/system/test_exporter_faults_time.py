"""Clocks that are set, a machine that sleeps, a process that is stopped: nothing is counted twice."""

import os
import signal
import time

import pytest

from gputailor_exporter.devices.nvml_activity import REST_SECONDS
from tests.exporter.hosttree import Host
from tests.fakes.clock import ShiftedClock
from tests.fakes.fixtures import cache_folder
from tests.fakes.kubelet import Kubelet
from tests.fakes.nvml import FakeDriver
from tests.system.exporter_parts import (
    Node,
    busy_gpu,
    contradictions,
    fell,
    figures,
    get,
    in_pod,
    wait_for,
    working,
)

pytestmark = [pytest.mark.system, pytest.mark.timeout(120)]

HOUR = 3600.0
UID = "7d0f3a52-6a3c-4a7b-9a40-6f6a2f1f0a11"


@pytest.fixture
def node(tmp_path, fake_nvml_library):
    driver = FakeDriver(tmp_path / "nvml-state")
    driver.origin -= 2 * HOUR  # so that the driver knew its figures an hour ago too
    for _ in range(2):
        driver.add(busy_gpu())
    driver.gpus[1].processes += [working(11), working(12, sm=15.0)]
    kubelet = Kubelet(tmp_path / "kubelet.sock")
    made = Node(tmp_path, fake_nvml_library, driver, kubelet)
    kubelet.start()
    one, shared = (gpu.uuid for gpu in driver.gpus)
    made.host = Host(tmp_path)
    for pod, pid in (("first", 11), ("second", 12)):
        uid = UID[:-2] + str(pid)
        made.host.pod("team", pod, uid, "main")
        in_pod(made.host, pid, uid)
    made.hand_out({"alone": [one], "first": [f"{shared}::0"], "second": [f"{shared}::1"]})
    yield made
    made.stop()


@pytest.fixture
def clock(node, tmp_path):
    made = ShiftedClock(tmp_path / "shift", cache_folder())
    node.variables.update(made.environment())
    return made


def seconds(page, name="device_observed_seconds_total", **labels):
    return page.one(name, **{"signal": "kernel", "gpu": "0", **labels})


def shared_seconds(page):
    return page.one("container_gpu_observed_seconds_total", pod="first", signal="kernel")


def compare(node, before, since, *, most, sampled=0.0):
    """The figures are those of a well machine, and no more time is observed than went by.

    ``sampled``: seconds that the driver itself may have sampled into its buffers beside it.
    """
    after = node.page()
    took = time.monotonic() - since
    for index in range(2):
        uuids = node.uuids(index)
        truth = figures(before.gpu(index, uuids))
        assert any("container_gpu_active" in key[0] for key in truth)
        said = after.gpu(index, uuids)
        assert contradictions(said, truth) == []
        wait_for(lambda i=index, truth=truth: node.says_all(i, truth))
        assert fell(before.gpu(index, uuids), said) == []
    for signal_name in ("kernel", "memcopy", "sm", "dram"):
        was = seconds(before, signal=signal_name)
        beside = sampled if signal_name in {"kernel", "memcopy"} else 0.0
        late = REST_SECONDS if signal_name == "memcopy" else 0.0  # read so seldom, without a gap
        rise = seconds(after, signal=signal_name) - was
        assert rise < took + most + beside + late, signal_name
        assert rise > 0.5 * took - 1.0 - late, signal_name
        wait_for(
            lambda name=signal_name, was=was: (
                seconds(node.page(), signal=name) - was > 0.5 * took - 1.0
            ),
            REST_SECONDS + 2.0,
            f"{signal_name} is observed",
        )
    energy = after.one("device_energy_joules_total", gpu="0")
    drawn = energy - before.one("device_energy_joules_total", gpu="0")
    assert drawn == pytest.approx(310.0 * took, rel=0.5)
    return node.page()  # of now: the waiting above may have taken a while


def age(page, uuid, now):
    return now - page.one("exporter_device_last_success_timestamp_seconds", gpu_uuid=uuid)


@pytest.mark.parametrize("step", [HOUR, -HOUR])
def test_a_wall_clock_that_is_set_by_an_hour_changes_no_figure(node, clock, step):
    node.run()
    wait_for(node.settled)
    before, since = node.page(), time.monotonic()
    clock.set(wall_seconds=step)
    time.sleep(4.0)
    after = compare(node, before, since, most=1.0)
    assert after.one("exporter_errors_total", source="watchdog", reason="stood_still") is None
    # times of past events moved with the clock: the GPU was last read a moment ago, by either
    assert age(after, node.driver.gpus[0].uuid, time.time() + step) == pytest.approx(0.2, abs=1.0)
    last = after.one("container_gpu_last_active_timestamp_seconds", pod="alone")
    assert time.time() + step - last == pytest.approx(0.2, abs=1.0)
    wait_for(
        lambda: shared_seconds(node.page()) > shared_seconds(after) + 0.5,
        what="sharers are told apart by the set clock too",
    )
    start = [v for k, v in after.values.items() if k[0] == "process_start_time_seconds"]
    assert start == [v for k, v in before.values.items() if k[0] == "process_start_time_seconds"]


def test_what_ended_before_the_clock_was_set_keeps_its_age(node, clock):
    node.run()
    wait_for(node.settled)
    node.driver.gpus[0].util_gpu = node.driver.gpus[0].util_encoder = 0.0
    node.driver.gpus[0].util_decoder = 0.0
    node.driver.write()
    time.sleep(2.5)
    page = node.page()
    idle = time.time() - page.one("container_gpu_last_active_timestamp_seconds", pod="alone")
    assert idle > 1.5
    clock.set(wall_seconds=HOUR)
    time.sleep(0.6)
    page = node.page()
    last = page.one("container_gpu_last_active_timestamp_seconds", pod="alone")
    assert time.time() + HOUR - last == pytest.approx(idle + 0.6, abs=1.0)


def test_a_suspended_machine_has_a_gap_and_keeps_its_allocations(node, clock):
    node.run()
    wait_for(node.settled)
    before, since = node.page(), time.monotonic()
    clock.set(wall_seconds=HOUR, boot_seconds=HOUR)
    time.sleep(3.0)
    # the fake driver claims to have sampled up to the last moment, as far as its buffer holds
    after = compare(node, before, since, most=1.0, sampled=21.0)
    assert after.one("container_gpu_allocated", pod="alone") == 1.0
    assert after.one("exporter_errors_total", source="watchdog", reason="stood_still") == 1.0
    assert after.one("exporter_errors_total", source="kubelet", reason="stale_dropped") is None
    assert all(after.one("device_up", gpu=str(i)) == 1.0 for i in range(2))
    assert get(f"{node.url}/healthz")[0] == 200


def test_a_process_that_was_stopped_goes_on_where_it_was(node):
    process = node.run()
    wait_for(node.settled)
    before, since = node.page(), time.monotonic()
    os.kill(process.popen.pid, signal.SIGSTOP)
    time.sleep(2.0)
    os.kill(process.popen.pid, signal.SIGCONT)
    time.sleep(1.5)
    compare(node, before, since, most=0.5)
    assert get(f"{node.url}/healthz")[0] == 200
