"""A process leads through its cgroup and kubelet's log folders to its container."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputailor_exporter.allocations import ContainerRef
from gputailor_exporter.processes import CgroupAttribution, CgroupRef, PodLogFolders, parse_cgroup

UID = "0f3a1c52-7b8e-4b61-9d0e-1234567890ab"
SYSTEMD_UID = UID.replace("-", "_")
STATIC = "a1b2c3d4e5f60718293a4b5c6d7e8f90"
ID = "c0ffee" + "0" * 58
INNER = "d" * 64
POD_SLICE = f"kubepods-burstable-pod{SYSTEMD_UID}.slice"
SYSTEMD = f"/kubepods.slice/kubepods-burstable.slice/{POD_SLICE}"


@pytest.mark.parametrize(
    ("text", "uid", "container"),
    [
        (f"0::{SYSTEMD}/cri-containerd-{ID}.scope", UID, ID),
        (f"0::{SYSTEMD}/crio-{ID}.scope", UID, ID),
        (f"0::{SYSTEMD}/crio-{ID}.scope/container/worker", UID, ID),
        (f"0::{SYSTEMD}/docker-{ID}.scope", UID, ID),
        (f"0::/kubepods.slice/kubepods-pod{SYSTEMD_UID}.slice/docker-{ID}.scope", UID, ID),
        (f"0::/kubepods/burstable/pod{UID}/{ID}", UID, ID),
        (f"12:cpuset:/\n11:memory:/kubepods/besteffort/pod{UID}/{ID}\n1:name=systemd:/", UID, ID),
        (f"11:devices:/kubepods/pod{UID}\n10:memory:/kubepods/pod{UID}/{ID}", UID, ID),
        (f"0::/kubepods/burstable/pod{STATIC}/{ID}", STATIC, ID),
        (f"0::/kubepods.slice/kubepods-burstable-pod{STATIC}.slice/crio-{ID}.scope", STATIC, ID),
        (f"0::/docker/{INNER}/kubelet/kubepods/burstable/pod{UID}/{ID}", UID, ID),
        (f"0::/kubelet.slice/kubelet-{POD_SLICE}/cri-containerd-{ID}.scope", UID, ID),
        (f"0::/kubepods/pod{UID}/{ID}/docker/{INNER}", UID, ID),
        (f"0::/kubepods/pod{UID}/{ID}/kubepods/pod{STATIC}/{INNER}", UID, ID),
        (f"0::/system.slice/containerd.service/{POD_SLICE}:cri-containerd:{ID}", UID, ID),
        (
            f"0::/user.slice/user-1000.slice/user@1000.service/{POD_SLICE}/cri-containerd-{ID}.scope",
            UID,
            ID,
        ),
        (f"0::/../../{POD_SLICE}/cri-containerd-{ID}.scope", UID, ID),
        (f"0::{SYSTEMD}", UID, ""),
    ],
)
def test_every_way_to_name_a_pods_cgroup_is_read(text, uid, container):
    assert parse_cgroup(text) == CgroupRef(uid, container)


@pytest.mark.parametrize(
    "text",
    [
        "0::/",
        "",
        "0::/system.slice/docker.service",
        f"0::/system.slice/docker-{ID}.scope",
        f"0::/docker/{ID}",
        "0::/user.slice/user-1000.slice/session-3.scope",
        "0::/machine.slice/libpod_pod_0f3a",
        "0::/kubepods.slice/kubepods-burstable.slice",
        f"0::/kubepods/tripod{UID}x/{ID}",
    ],
)
def test_a_process_outside_pods_has_no_pod(text):
    assert parse_cgroup(text) is None


@given(st.text(max_size=300))
def test_no_text_breaks_the_reader(text):
    assert parse_cgroup(text) is None or isinstance(parse_cgroup(text), CgroupRef)


class Host:
    """A made-up /proc, /var/log/pods and /var/log/containers."""

    def __init__(self, root):
        self.proc, self.pods, self.links = root / "proc", root / "pods", root / "containers"
        self.proc.mkdir()
        self.pods.mkdir()
        self.links.mkdir()

    def process(self, pid, cgroup, started=100, name="python (3.11) x"):
        folder = self.proc / str(pid)
        folder.mkdir(exist_ok=True)
        fields = ["S", *["0"] * 18, str(started), "0"]
        (folder / "stat").write_text(f"{pid} ({name}) {' '.join(fields)}\n")
        (folder / "cgroup").write_text(cgroup)

    def pod(self, namespace, name, uid, *containers):
        folder = self.pods / f"{namespace}_{name}_{uid}"
        for container in containers:
            (folder / container).mkdir(parents=True)
        return folder

    def link(self, namespace, pod, container, identity):
        (self.links / f"{pod}_{namespace}_{container}-{identity}.log").symlink_to("/nowhere")

    def attribution(self, **more):
        return CgroupAttribution(self.proc, self.pods, **more)


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path)


IN_POD = f"0::{SYSTEMD}/cri-containerd-{ID}.scope"


def test_a_pod_of_one_container_needs_no_links(host):
    host.process(42, IN_POD)
    host.pod("team", "train-0", UID, "main")
    assert host.attribution().owner(42) == ContainerRef("team", "train-0", "main", UID)


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
    assert attribution.owner(42) == ContainerRef("team", "train-0", "sidecar", UID)


def test_a_process_of_the_host_belongs_to_nobody(host):
    host.process(42, "0::/system.slice/sshd.service")
    assert host.attribution().owner(42) is None


def test_a_process_that_is_gone_belongs_to_nobody(host):
    assert host.attribution().owner(42) is None


def test_a_pod_whose_folder_comes_later_is_found_then(host):
    host.process(42, IN_POD)
    attribution = host.attribution()
    assert attribution.owner(42) is None
    host.pod("team", "train-0", UID, "main")
    assert attribution.owner(42) is not None


def test_a_reused_pid_is_not_led_to_the_former_container(host):
    host.process(42, IN_POD)
    host.pod("team", "train-0", UID, "main")
    attribution = host.attribution()
    assert attribution.owner(42) is not None
    host.process(42, "0::/system.slice/cron.service", started=900)
    assert attribution.owner(42) is None


def test_a_process_replaced_during_the_look_up_belongs_to_nobody(host, monkeypatch):
    host.process(42, IN_POD)
    host.pod("team", "train-0", UID, "main")
    attribution = host.attribution()
    times = iter(["100", "900"])
    monkeypatch.setattr(attribution, "_started", lambda _: next(times))
    assert attribution.owner(42) is None


def test_a_known_process_is_not_looked_up_again(host):
    host.process(42, IN_POD)
    host.pod("team", "train-0", UID, "main")
    attribution = host.attribution()
    first = attribution.owner(42)
    (host.proc / "42" / "cgroup").unlink()
    assert attribution.owner(42) == first


def test_the_memory_of_processes_is_bounded(host):
    host.pod("team", "train-0", UID, "main")
    attribution = host.attribution(cached=10)
    for pid in range(100, 150):
        host.process(pid, IN_POD)
        assert attribution.owner(pid) is not None
    assert len(attribution._known) == 10


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
    assert CgroupAttribution()._started(os.getpid()).isdigit()
