"""Who uses a GPU, on the exporter's own process: by users on a bare host, by cgroups in a cluster."""

import os
import pwd
import subprocess

import pytest

from tests.exporter.hosttree import Host
from tests.fakes.kubelet import Container, Kubelet, Pod
from tests.fakes.nvml import GIB, FakeDriver
from tests.system.exporter_parts import Node, busy_gpu, wait_for, working

pytestmark = [pytest.mark.system, pytest.mark.timeout(120)]

ME = pwd.getpwuid(os.getuid()).pw_name
UIDS = {name: f"{place}0000000-7b8e-4b61-9d0e-1234567890ab" for place, name in enumerate("ab", 1)}


@pytest.fixture
def machine(tmp_path, fake_nvml_library):
    """A function: the node with GPUs that run these processes."""
    made = []

    def build(*gpus, kubelet=None):
        driver = FakeDriver(tmp_path / "nvml-state")
        for processes in gpus:
            driver.add(busy_gpu(processes=processes))
        made.append(Node(tmp_path, fake_nvml_library, driver, kubelet))
        return made[-1]

    yield build
    for one in made:
        one.stop()


@pytest.fixture
def sleepers():
    """Two processes of this user whose commands differ."""
    started = [
        subprocess.Popen(command) for command in (["sleep", "60"], ["tail", "-f", os.devnull])
    ]
    yield started
    for process in started:
        process.kill()
        process.wait()


def seconds(node, **labels):
    return node.page().one("container_gpu_active_seconds_total", signal="kernel", **labels) or 0.0


def share(page, container, uuid):
    labels = {"signal": "kernel", "container": container, "gpu_uuid": uuid}
    active = page.one("container_gpu_active_seconds_total", **labels)
    return active / page.one("container_gpu_observed_seconds_total", **labels)


def test_on_a_bare_host_users_and_commands_are_told_apart(machine, sleepers):
    sleep, tail = (process.pid for process in sleepers)
    alone, both = [working(sleep)], [working(sleep), working(tail, sm=11.0)]
    node = machine(alone, both)
    node.run("--attribution", "process")
    own, shared = (node.uuids(index)[0] for index in (0, 1))
    wait_for(lambda: seconds(node, container="tail", gpu_uuid=shared) > 0.1)
    sm = {"signal": "sm", "gpu_uuid": own}
    wait_for(lambda: node.page().one("container_gpu_active_seconds_total", **sm))
    page = node.page()
    held = page.of("gputailor_container_gpu_allocated")
    rows = {(dict(key[1])["container"], dict(key[1])["sharing"]) for key in held}
    assert rows == {("sleep", "exclusive"), ("sleep", "shared"), ("tail", "shared")}
    assert {dict(key[1])["namespace"] for key in held} == {ME}
    assert {dict(key[1])["pod_uid"] for key in held} == {""}
    ratio = share(page, "sleep", shared) / share(page, "tail", shared)
    assert ratio == pytest.approx(31 / 11, rel=0.1)
    memory = page.one("container_gpu_memory_used_bytes", container="tail", gpu_uuid=shared)
    assert memory == 4 * GIB
    assert page.one("container_gpu_active_seconds_total", **sm)


def test_on_a_bare_host_a_device_is_free_once_its_last_process_ended(machine, sleepers):
    node = machine([working(sleepers[0].pid)])
    node.run("--attribution", "process")
    wait_for(lambda: node.page().one("container_gpu_allocated"))
    node.driver.gpus[0].processes.clear()
    node.driver.write()
    wait_for(lambda: node.page().one("container_gpu_allocated") is None)
    assert node.page().one("container_gpu_allocated_seconds_total") > 0.0


@pytest.fixture
def cluster(tmp_path, machine):
    """A GPU of two replicas, a pod on each, and their processes in cgroups; and its kubelet."""
    (tmp_path / "host").mkdir()
    host = Host(tmp_path / "host")
    for pid, (name, uid) in enumerate(UIDS.items(), 41):
        host.process(pid, f"0::/kubepods/burstable/pod{uid}/{name * 64}")
        host.pod("team", name, uid, "main")
    with Kubelet(tmp_path / "kubelet.sock") as kubelet:
        node = machine([working(41), working(42, sm=11.0)], kubelet=kubelet)
        (uuid,) = node.uuids(0)
        kubelet.pods = [
            Pod("team", name, [Container("main", {"nvidia.com/gpu": [f"{uuid}::{place}"]})])
            for place, name in enumerate(UIDS)
        ]
        kubelet.allocatable = {"nvidia.com/gpu": [f"{uuid}::{place}" for place in range(4)]}
        roots = ("--proc-root", str(host.proc), "--pod-logs-root", str(host.pods))
        node.run(*roots, "--keep-allocations", "3")
        yield node, kubelet


def test_pods_on_replicas_have_what_their_processes_used_and_all_adds_up(cluster):
    node, _ = cluster
    wait_for(lambda: all(seconds(node, pod=pod) > 0.3 for pod in UIDS))
    page = node.page()
    assert page.one("container_gpu_allocated_share", pod="a", pod_uid=UIDS["a"]) == 0.25
    parts = sum(page.of("gputailor_container_gpu_active_seconds_total", signal="kernel").values())
    rest = page.one("device_unattributed_active_seconds_total", signal="kernel")
    whole = page.one("device_active_seconds_total", signal="kernel")
    assert parts + rest == pytest.approx(whole)
    assert parts < whole


def test_half_an_answer_is_made_whole_for_a_bounded_time_and_counted(cluster):
    node, kubelet = cluster

    def errors(reason):
        return node.page().one("exporter_errors_total", source="kubelet", reason=reason) or 0.0

    wait_for(lambda: node.page().one("container_gpu_allocated", pod="a"))
    kubelet.pods = [Pod("team", "a", [Container("main")]), kubelet.pods[1]]
    wait_for(lambda: errors("half_answer") >= 1)
    assert node.page().one("container_gpu_allocated", pod="a") == 1.0
    wait_for(lambda: node.page().one("container_gpu_allocated", pod="a") is None)
    assert errors("half_answer_believed") == 1
    assert node.page().one("container_gpu_allocated", pod="b") == 1.0
