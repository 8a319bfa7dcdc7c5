"""A process leads through its cgroup and kubelet's log folders to its container."""

import os
from pathlib import Path

import pytest

from gputailor_exporter.attribution import tracking
from gputailor_exporter.attribution.allocations import UNTOLD, ContainerRef
from gputailor_exporter.attribution.tracking import CHECKS_PER_SECOND, FRESH_SECONDS, read_stat
from gputailor_exporter.processes import CgroupAttribution, PodLogFolders
from tests.exporter.hosttree import Host
from tests.exporter.test_cgroups import ID, INNER, STATIC, SYSTEMD, UID

MAIN = ContainerRef("team", "train-0", "main", UID)
IN_POD = f"0::{SYSTEMD}/cri-containerd-{ID}.scope"
ON_HOST = "0::/system.slice/sshd.service"


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path)


@pytest.fixture
def reads(monkeypatch):
    """Names the files that are opened; folders are listed by other means."""
    counted = []
    real = Path.open

    def counting(self, *args, **kwargs):
        counted.append(self.name)
        return real(self, *args, **kwargs)

    monkeypatch.setattr(Path, "open", counting)
    return counted


def test_a_pod_of_one_container_needs_no_links(host):
    host.process(42, IN_POD)
    host.pod("team", "train-0", UID, "main")
    assert host.attribution().owner(42) == MAIN


def test_the_links_tell_which_of_several_containers(host):
    host.process(42, IN_POD)
    host.pod("team", "train-0", UID, "main-loop", "sidecar")
    host.link("team", "train-0", "main-loop", ID)
    host.link("team", "train-0", "sidecar", INNER)
    assert host.attribution().owner(42) == ContainerRef("team", "train-0", "main-loop", UID)


def test_of_several_containers_without_links_only_the_pod_is_known(host):
    host.process(42, IN_POD)
    host.pod("team", "train-0", UID, "main", "sidecar")
    attribution = host.attribution()
    assert attribution.owner(42) == ContainerRef("team", "train-0", "", UID)
    host.link("team", "train-0", "sidecar", ID)
    host.later()
    assert attribution.owner(42) == ContainerRef("team", "train-0", "sidecar", UID)


def test_a_container_whose_path_names_no_pod_is_found_by_its_link(host):
    host.process(42, f"0::/../crio-{ID}.scope")
    host.pod("team", "train-0", UID, "main")
    attribution = host.attribution()
    assert attribution.owner(42) == UNTOLD
    host.link("team", "train-0", "main", ID)
    host.later()
    assert attribution.owner(42) == MAIN


@pytest.mark.parametrize("cgroup", [ON_HOST, f"0::/system.slice/docker-{ID}.scope", "0::/"])
def test_a_process_of_the_host_belongs_to_nobody(host, cgroup):
    host.process(42, cgroup)
    assert host.attribution().owner(42) is None


def test_a_process_that_is_gone_may_have_been_anyones(host):
    assert host.attribution().owner(42) == UNTOLD


def test_a_pod_whose_folder_comes_later_is_found_then(host):
    host.process(42, IN_POD)
    attribution = host.attribution()
    assert attribution.owner(42) == UNTOLD
    host.pod("team", "train-0", UID, "main")
    host.later()
    assert attribution.owner(42) == MAIN


def test_the_mps_server_is_known_by_its_command_wherever_it_runs(host):
    host.process(42, ON_HOST, name="nvidia-cuda-mps")
    host.process(43, IN_POD, name="nvidia-cuda-mps")
    host.pod("gpu", "mps-control-daemon-x", UID, "mps")
    attribution = host.attribution()
    assert attribution.owner(42).mps_server
    assert attribution.owner(43) == ContainerRef("gpu", "mps-control-daemon-x", "mps", UID)
    assert attribution.owner(43).mps_server


def test_a_reused_pid_is_not_led_to_the_former_container(host):
    host.process(42, IN_POD)
    host.pod("team", "train-0", UID, "main")
    attribution = host.attribution()
    assert attribution.owner(42) == MAIN
    host.process(42, ON_HOST, started=900)
    host.later(FRESH_SECONDS)
    assert attribution.owner(42) is None


def test_a_process_replaced_during_the_look_up_may_be_anyones(host):
    host.pod("team", "train-0", UID, "main")
    host.process(42, IN_POD)
    attribution = host.attribution()
    looked_up = attribution.tracked._look_up

    def replaced(pid, command):
        found = looked_up(pid, command)
        host.process(pid, ON_HOST, started=900)
        return found

    attribution.tracked._look_up = replaced
    assert attribution.owner(42) == UNTOLD
    assert len(attribution.tracked) == 0


def test_a_known_process_is_not_looked_up_again(host):
    host.process(42, IN_POD)
    host.pod("team", "train-0", UID, "main")
    attribution = host.attribution()
    first = attribution.owner(42)
    (host.proc / "42" / "cgroup").unlink()
    host.later()
    assert attribution.owner(42) == first


def test_the_memory_of_processes_is_bounded(host):
    host.pod("team", "train-0", UID, "main")
    attribution = host.attribution(cached=10)
    for pid in range(100, 150):
        host.process(pid, IN_POD)
        assert attribution.owner(pid) == MAIN
    assert len(attribution.tracked) == 10


def test_processes_that_nobody_asks_for_any_more_are_forgotten(host):
    host.process(42, ON_HOST)
    host.process(43, ON_HOST)
    attribution = host.attribution()
    attribution.owner(42)
    host.later(tracking.FORGET_SECONDS + 1)
    attribution.owner(43)
    assert len(attribution.tracked) == 1


def test_one_process_on_eight_devices_is_read_once_a_cycle(host, reads):
    host.process(42, IN_POD)
    host.pod("team", "train-0", UID, "main")
    attribution = host.attribution()
    reads.clear()
    for _ in range(8):
        attribution.owner(42)
    assert reads == ["stat", "cgroup", "stat"]
    host.later(1.0)
    reads.clear()
    for _ in range(8):
        attribution.owner(42)
    assert reads == ["stat"]


def test_ten_thousand_processes_on_sixteen_gpus_cost_no_more_than_five_hundred(host, reads):
    host.pod("team", "train-0", UID, "main")
    host.process(1, IN_POD)
    host.process(2, ON_HOST)
    pids = range(1000, 11_000)
    host.alike(1, pids[::2])
    host.alike(2, pids[1::2])
    attribution = host.attribution()
    by_gpu = [pids[gpu::16] for gpu in range(16)]
    costs = []
    for _ in range(36):
        reads.clear()
        owners = [attribution.owner(pid) for gpu in by_gpu for pid in gpu]
        costs.append(len(reads))
        host.later(1.0)
    assert owners.count(MAIN) == 5000
    assert costs[0] == 3 * len(pids)
    assert max(costs[1:]) <= 3 * CHECKS_PER_SECOND
    assert sum(costs[16:]) / 20 <= 1.5 * CHECKS_PER_SECOND


def test_processes_of_pods_nobody_knows_cost_no_more(host, reads):
    host.process(1, IN_POD)
    pids = range(1000, 3000)
    host.alike(1, pids)
    attribution = host.attribution()
    listed = []
    attribution.folders._read_pods = lambda again=False: listed.append(again)
    costs = []
    for _ in range(24):
        reads.clear()
        assert {attribution.owner(pid) for pid in pids} == {UNTOLD}
        costs.append(len(reads))
        host.later(1.0)
    assert sum(costs[14:]) / 10 <= 1.5 * 3 * CHECKS_PER_SECOND


def test_folders_are_listed_once_a_second_for_unknown_names(host, monkeypatch):
    listed = []
    real = os.scandir
    monkeypatch.setattr(os, "scandir", lambda folder: listed.append(str(folder)) or real(folder))
    folders = PodLogFolders(host.pods, clock=host.clock)
    for number in range(100):
        assert folders.pod(f"uid-{number}") is None
    assert len(listed) == 1
    host.later(1.0)
    folders.pod("uid-7")
    assert len(listed) == 2


def test_the_uid_of_a_pod_is_read_from_its_folder(host):
    host.pod("team", "train-0", UID, "main")
    assert PodLogFolders(host.pods).pod_uid("team", "train-0") == UID


def test_of_two_folders_of_one_name_the_newest_counts(host):
    old, new = host.pod("team", "web-0", STATIC, "main"), host.pod("team", "web-0", UID, "main")
    os.utime(old, (100, 100))
    os.utime(new, (200, 200))
    assert PodLogFolders(host.pods).pod_uid("team", "web-0") == UID


def test_without_the_folder_the_uid_stays_empty(tmp_path):
    folders = PodLogFolders(tmp_path / "not-mounted")
    assert folders.pod_uid("team", "train-0") == ""
    assert folders.container(UID, ID) == ""


def test_what_is_no_pod_folder_is_passed_over(host):
    (host.pods / "lost+found").mkdir()
    (host.pods / "team_train-0_file").write_text("")
    assert PodLogFolders(host.pods).pod_uid("team", "train-0") == ""


def test_our_own_process_is_found_in_the_real_proc():
    assert read_stat(tracking.PROC, os.getpid()).started.isdigit()
    assert CgroupAttribution().owner(os.getpid()) != MAIN


@pytest.mark.parametrize("text", ["", "42 (python", "42 (python) S 1 2 3"])
def test_a_stat_file_that_is_cut_short_is_a_process_that_cannot_be_told(host, text):
    host.process(42, IN_POD)
    (host.proc / "42" / "stat").write_text(text)
    assert host.attribution().owner(42) == UNTOLD
