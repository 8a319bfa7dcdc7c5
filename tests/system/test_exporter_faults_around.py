"""What surrounds the driver fails: kubelet, the log, impatient scrapers, a bomb of processes."""

import contextlib
import fcntl
import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from tests.exporter.hosttree import Host
from tests.fakes.kubelet import Kubelet
from tests.fakes.nvml import GIB, FakeDriver
from tests.system.exporter_parts import (
    QUICK,
    Node,
    busy_gpu,
    contradictions,
    fell,
    figures,
    get,
    in_pod,
    mig_gpu,
    observed_seconds,
    read_page,
    wait_for,
    working,
)
from tests.testbed.servers import free_ports

pytestmark = [pytest.mark.system, pytest.mark.timeout(120)]

UID = "7d0f3a52-6a3c-4a7b-9a40-6f6a2f1f0a11"


@pytest.fixture
def node(tmp_path, fake_nvml_library):
    driver = FakeDriver(tmp_path / "nvml-state")
    driver.add(busy_gpu())
    driver.add(busy_gpu())
    made = Node(tmp_path, fake_nvml_library, driver, Kubelet(tmp_path / "kubelet.sock"))
    yield made
    made.stop()


def held(node):
    page = node.page()
    return page.one("container_gpu_allocated", pod="train")


def errors(node, reason):
    return node.page().one("exporter_errors_total", source="kubelet", reason=reason) or 0.0


# -- kubelet -----------------------------------------------------------------------------------


class Babbler:
    """Something that listens on kubelet's socket and speaks another language."""

    def __init__(self, path):
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(path)
        self._socket.listen()
        threading.Thread(target=self._babble, daemon=True).start()

    def _babble(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._socket.accept()
                with client, contextlib.suppress(OSError):
                    client.sendall(bytes(range(256)) * 64)

    def close(self):
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def slow(kubelet):
    kubelet.delay_seconds = 6.0


def half(kubelet):
    kubelet.half = True


def test_devices_are_measured_while_kubelet_is_absent_babbles_or_restarts(node):
    node.run()
    wait_for(node.settled_devices)
    well = figures(node.page().gpu(0, node.uuids(0)))
    assert errors(node, "socket_missing") >= 1.0
    babbler = Babbler(node.kubelet.path)
    wait_for(lambda: errors(node, "bad_answer") >= 1.0)
    babbler.close()
    Path(node.kubelet.path).unlink()
    node.kubelet.start()
    node.hand_out({"train": [node.uuids(0)[0]]})
    wait_for(lambda: held(node) == 1.0)
    before = node.page()
    node.kubelet.stop()
    time.sleep(1.5)
    node.kubelet.start()
    wait_for(lambda: errors(node, "socket_missing") > 1.0)
    page = node.page()
    assert held(node) == 1.0  # the last good answer stood for it
    assert fell(before.values, page.values) == []
    said = page.gpu(0, node.uuids(0))
    devices = {k: v for k, v in said.items() if "container" not in k[0]}
    devices = {k: v for k, v in devices.items() if "unattributed" not in k[0]}  # it is held now
    assert contradictions(devices, well) == []
    kept = {key: value for key, value in well.items() if "unattributed" not in key[0]}
    wait_for(lambda: node.says_all(0, kept))


@pytest.mark.parametrize("fault", [slow, half], ids=lambda fault: fault.__name__)
def test_an_allocation_outlives_a_kubelet_that_answers_badly(node, fault):
    node.kubelet.start()
    node.hand_out({"train": [node.uuids(0)[0]]})
    node.run()
    wait_for(lambda: held(node) == 1.0)
    fault(node.kubelet)
    before = node.page()
    known = before.of("gputailor_exporter_errors_total", source="kubelet")
    wait_for(lambda: node.page().of("gputailor_exporter_errors_total", source="kubelet") != known)
    page = node.page()
    name = "container_gpu_allocated_seconds_total"
    assert page.one(name, pod="train") > before.one(name, pod="train")
    assert held(node) == 1.0
    assert node.up(0, page)
    assert node.up(1, page)
    assert page.seconds < 1.0


# -- the log -----------------------------------------------------------------------------------


def started(node, *flags, **streams):
    """The exporter with streams of the test's choice, on a port that is known beforehand."""
    node.driver.write()
    [port] = free_ports(1)
    node.url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "gputailor_exporter", "--listen", f"127.0.0.1:{port}"]
    alone = ("--attribution", "none", "--log-level", "debug")
    return subprocess.Popen([*command, *QUICK, *alone, *flags], env=node.environment(), **streams)


@contextlib.contextmanager
def ended(process):
    try:
        yield
    finally:
        process.kill()
        process.wait()


def answers(node):
    with contextlib.suppress(OSError):
        return node.up(0) and node.up(1)
    return False


def test_a_full_disk_under_the_log_changes_nothing(node):
    with open("/dev/full", "wb") as full:  # noqa: PTH123 - a device
        process = started(node, stdout=full, stderr=full)
    with ended(process):
        wait_for(lambda: answers(node))
        node.fault({("*", 0): {"error": 15}})
        wait_for(lambda: not node.up(0))
        wait_for(lambda: node.page().one("exporter_errors_total", source="log", reason="dropped"))
        assert node.up(1)
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0


def test_a_log_that_nobody_reads_holds_up_nobody(node):
    for _ in range(8):
        node.driver.add(busy_gpu())
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    quick = ("--interval", "0.05")
    process = started(node, *quick, stdout=subprocess.DEVNULL, stderr=writer)
    os.close(writer)
    with ended(process):
        wait_for(lambda: answers(node))
        # a GPU that is listed and cannot be read is told of at each reading, at this level
        node.fault({("nvmlDeviceGetSamples", i): {"error": 15} for i in range(2, 10)})
        wait_for(
            lambda: node.page().one("exporter_errors_total", source="log", reason="dropped"), 60.0
        )
        before = observed(node, 1)
        wait_for(lambda: observed(node, 1) > before)
        assert get(f"{node.url}/healthz")[0] == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
    os.close(reader)


def observed(node, index):
    return observed_seconds(node.page().gpu(index, node.uuids(index)))


# -- scrapers ----------------------------------------------------------------------------------


def scrape(url):
    """A whole page, or None where the exporter is gone; fails for half a page."""
    where = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(where.hostname, where.port, timeout=10)
    try:
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        return answer.read().decode()
    except (ConnectionError, http.client.RemoteDisconnected):
        return None
    finally:
        connection.close()


def test_a_hundred_scrapes_at_once_are_all_answered(node):
    node.run("--attribution", "none")
    wait_for(node.settled_devices)
    began = time.monotonic()
    with ThreadPoolExecutor(100) as pool:
        pages = list(pool.map(scrape, [node.url] * 100))
    assert time.monotonic() - began < 10.0
    assert all(read_page(page, 0.0).one("device_up", gpu="0") == 1.0 for page in pages[:5])
    assert all(page.count("gputailor_device_up{") == 2 for page in pages)
    assert node.page().seconds < 1.0


def test_a_scrape_is_whole_though_the_process_is_asked_to_stop(node):
    process = node.run("--attribution", "none")
    wait_for(node.settled_devices)
    pages, going = [], threading.Event()

    def keep_on():
        while not going.is_set():
            pages.append(scrape(node.url))

    scrapers = [threading.Thread(target=keep_on) for _ in range(4)]
    for thread in scrapers:
        thread.start()
    time.sleep(0.3)
    began = time.monotonic()
    process.popen.send_signal(signal.SIGTERM)
    assert process.popen.wait(10) == 0
    assert time.monotonic() - began < 6.0
    going.set()
    for thread in scrapers:
        thread.join(15)
    whole = [page for page in pages if page is not None]
    assert len(whole) > 4
    assert {page.count("gputailor_device_up{") for page in whole} == {2}
    assert "Traceback" not in process.output


# -- many of everything ------------------------------------------------------------------------


def test_ten_thousand_processes_on_one_gpu_leave_the_others_alone(node, tmp_path):
    many = 10_000
    node.host = Host(tmp_path)
    node.host.pod("team", "bomb", UID, "main")
    in_pod(node.host, 1, UID)
    node.host.alike(1, range(2, many + 1))
    bomb = node.driver.gpus[0]
    bomb.processes = [working(pid, memory=1 << 20, sm=0.0) for pid in range(1, many + 1)]
    bomb.processes[0].sm = 40.0
    node.kubelet.start()
    uuid = node.uuids(0)[0]
    node.hand_out({"bomb": [f"{uuid}::0"], "other": [f"{uuid}::1"]})
    process = node.run("--interval", "1", "--hang-after", "5")
    # their share of the time is theirs, their memory is summed up
    wait_for(lambda: node.page().one("container_gpu_memory_used_bytes", pod="bomb"), 60.0)
    before = [observed(node, index) for index in (0, 1)]
    seconds = []
    wait_for(lambda: observed(node, 1) > before[1] + 15.0, 30.0)
    for _ in range(10):
        page = node.page()
        seconds.append(page.seconds)
        time.sleep(0.1)
    assert sorted(seconds)[5] < 0.5
    assert page.one("container_gpu_memory_used_bytes", pod="bomb") == many << 20
    assert observed(node, 0) > before[0]
    assert node.up(0, page)
    assert node.up(1, page)
    assert psutil.Process(process.popen.pid).memory_info().rss < 100 << 20
    assert get(f"{node.url}/healthz")[0] == 200


def test_sixteen_gpus_of_seven_instances_are_all_told_apart(tmp_path, fake_nvml_library):
    driver = FakeDriver(tmp_path / "nvml-state")
    for place in range(16):
        gpu = driver.add(mig_gpu(place))
        first = gpu.mig[0]
        gpu.mig = [
            type(first)(
                f"MIG-{place:08d}-0000-4000-8000-{n:012d}",
                first.name,
                gi=n + 7,
                memory_total=10 * GIB,
                memory_used=(1 + n) * 1.0 * GIB,
                gpm={2: 10.0 + n},
            )
            for n in range(7)
        ]
    node = Node(tmp_path, fake_nvml_library, driver)
    try:
        process = node.run("--interval", "1", "--hang-after", "5")
        wait_for(lambda: all(node.up(i) for i in range(16)))
        time.sleep(3.0)
        page = node.page()
        for gpu in driver.gpus:
            for n, instance in enumerate(gpu.mig):
                told = page.one("device_memory_used_bytes", gpu_uuid=instance.uuid)
                ratio = page.one("device_activity_ratio", gpu_uuid=instance.uuid, signal="sm")
                assert (told, ratio) == ((1 + n) * GIB, pytest.approx(0.10 + n / 100))
        assert page.one("exporter_devices", state="present") == 16.0
        assert psutil.Process(process.popen.pid).memory_info().rss < 100 << 20
    finally:
        node.stop()
