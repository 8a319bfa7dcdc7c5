"""Every way in which public sources show a pod's, a job's or a unit's cgroup is read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputailor_exporter.attribution.cgroups import CgroupRef, host_unit, parse_cgroup

UID = "0f3a1c52-7b8e-4b61-9d0e-1234567890ab"
SYSTEMD_UID = UID.replace("-", "_")
STATIC = "a1b2c3d4e5f60718293a4b5c6d7e8f90"
ID = "c0ffee" + "0" * 58
INNER = "d" * 64
POD_SLICE = f"kubepods-burstable-pod{SYSTEMD_UID}.slice"
SYSTEMD = f"/kubepods.slice/kubepods-burstable.slice/{POD_SLICE}"

#: Source, lines as they stand there, the pod's UID, the container's id.
PUBLIC = [
    (
        "iovisor/kubectl-trace#174: CRI-O, systemd",
        "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod30cea2cf_1b80_4807_abad_d81453e199c5.slice/crio-a8077b08a56c0c6e33d6716557d882ac940cb09475c50372e22e84c40d0733f2.scope",
        "30cea2cf-1b80-4807-abad-d81453e199c5",
        "a8077b08a56c0c6e33d6716557d882ac940cb09475c50372e22e84c40d0733f2",
    ),
    (
        "iovisor/kubectl-trace#174: containerd, systemd",
        "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod40934a46_d409_4f4a_bb8b_1ec0b0436320.slice/cri-containerd-afc114c69e71f18166abd63715398d7daa763c69a6454f71157272ab0bdca783.scope",
        "40934a46-d409-4f4a-bb8b-1ec0b0436320",
        "afc114c69e71f18166abd63715398d7daa763c69a6454f71157272ab0bdca783",
    ),
    (
        "opencontainers/runc#4620: CRI-O, cgroup v1, one controller at the root",
        "13:freezer:/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-poda5c1f8d5_1919_434d_add7_4afaafdaef89.slice/crio-5eed917563583925ffdbd40a64efb2aaffe58638e57add8becaf460fe74f5b1c.scope\n11:files:/",
        "a5c1f8d5-1919-434d-add7-4afaafdaef89",
        "5eed917563583925ffdbd40a64efb2aaffe58638e57add8becaf460fe74f5b1c",
    ),
    (
        "elastic/apm-agent-nodejs#3550: containerd without SystemdCgroup below its own service",
        "1:name=systemd:/system.slice/containerd.service/kubepods-burstable-podff49d0be_16b7_4a49_bb9e_8ec1f1f4e27f.slice:cri-containerd:0f99ad5f45163ed14ab8eaf92ed34bb4a631d007f8755a7d79be614bcb0df0ef",
        "ff49d0be-16b7-4a49-bb9e-8ec1f1f4e27f",
        "0f99ad5f45163ed14ab8eaf92ed34bb4a631d007f8755a7d79be614bcb0df0ef",
    ),
    (
        "cryptnono/cryptnono#47: k3s, cgroup v2, best effort",
        "0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod7fda01c4_0ece_403d_88b4_c371d66d132a.slice/cri-containerd-e58a24d4a722c99712cff74ef69d93311089584eb32617b3890e0dcb996133f1.scope",
        "7fda01c4-0ece-403d-88b4-c371d66d132a",
        "e58a24d4a722c99712cff74ef69d93311089584eb32617b3890e0dcb996133f1",
    ),
    (
        "netdata/netdata#4868: a static pod, named by the hash of its manifest",
        "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod187bff14cccb94f179e943eacce55bb3.slice/cri-containerd-c203a2647ef1ad78e990157c50331f3b6ef0b03336cf08535d6bf7faa5421415.scope",
        "187bff14cccb94f179e943eacce55bb3",
        "c203a2647ef1ad78e990157c50331f3b6ef0b03336cf08535d6bf7faa5421415",
    ),
    (
        "containerd/nri#227: kind, a kubelet with a cgroup root of its own",
        "0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod1e597579_417e_482f_bf65_5fe170c3aebd.slice/cri-containerd-a09bc17f5aa29b0dbdec9ede5f46cf1396d2405917ab02e6f1eb1019f388396e.scope",
        "1e597579-417e-482f-bf65-5fe170c3aebd",
        "a09bc17f5aa29b0dbdec9ede5f46cf1396d2405917ab02e6f1eb1019f388396e",
    ),
    (
        "k3s-io/k3s#3005: rootless k3s",
        "0::/user.slice/user-1001.slice/user@1001.service/k3s-rootless.service/kubepods/podd0eb6921-c81a-4214-b36c-d3b9bb212fac/671b393f08437d7e89e234d9d395aecef155104c7c241f5701844360ffebacac",
        "d0eb6921-c81a-4214-b36c-d3b9bb212fac",
        "671b393f08437d7e89e234d9d395aecef155104c7c241f5701844360ffebacac",
    ),
    (
        "rootless-containers/usernetes#178: rootless kubelet in RootlessKit",
        "0::/user.slice/user-1001.slice/user@1001.service/u7s-rootlesskit.service/kubepods/burstable/pod646d8b5f-e40c-4aac-9b40-581c0824895e/08ba30cd6a07d534cd020c1235020034b88aacd99f67f441edacb45c0f4dc52f",
        "646d8b5f-e40c-4aac-9b40-581c0824895e",
        "08ba30cd6a07d534cd020c1235020034b88aacd99f67f441edacb45c0f4dc52f",
    ),
    (
        "kontena/pharos-cluster#440: Docker, systemd, a UID of version 1",
        "1:name=systemd:/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod9692aa0e_748e_11e8_8dfa_76d458035df6.slice/docker-abddff03dfd7710c79a750ce3e730365cbb2c8247a974170c1062683bc3e9152.scope",
        "9692aa0e-748e-11e8-8dfa-76d458035df6",
        "abddff03dfd7710c79a750ce3e730365cbb2c8247a974170c1062683bc3e9152",
    ),
    (
        "kubernetes/kubernetes#95488: cgroupfs, cgroup v1",
        "1:name=systemd:/kubepods/burstable/pod7ffde41a-fa85-4b01-8023-69a4e4b50c55/8842def241fac72cb34fdce90297b632f098289270fa92ec04643837f5748c15",
        "7ffde41a-fa85-4b01-8023-69a4e4b50c55",
        "8842def241fac72cb34fdce90297b632f098289270fa92ec04643837f5748c15",
    ),
    (
        "pixie-io/pixie, cgroup_path_resolver_test.cc: GKE, guaranteed",
        "4:cpu,cpuacct:/kubepods/pod8dbc5577-d0e2-4706-8787-57d52c03ddf2/14011c7d92a9e513dfd69211da0413dbf319a5e45a02b354ba6e98e10272542d",
        "8dbc5577-d0e2-4706-8787-57d52c03ddf2",
        "14011c7d92a9e513dfd69211da0413dbf319a5e45a02b354ba6e98e10272542d",
    ),
    (
        "spiffe/spire, k8s attestor's tests: kind, cgroupfs, inside Docker",
        "9:devices:/docker/93529524695bb00d91c1f6dba692ea8d3550c3b94fb2463af7bc9ec82f992d26/kubepods/besteffort/poda2830d0d-b0f0-4ff0-81b5-0ee4e299cf80/09bc3d7ade839efec32b6bec4ec79d099027a668ddba043083ec21d3c3b8f1e6",
        "a2830d0d-b0f0-4ff0-81b5-0ee4e299cf80",
        "09bc3d7ade839efec32b6bec4ec79d099027a668ddba043083ec21d3c3b8f1e6",
    ),
    (
        "spiffe/spire: Docker Desktop",
        "9:devices:/kubepods/kubepods/besteffort/pod6bd2a4d3-a55a-4450-b6fd-2a7ecc72c904/a55d9ac3b312d8a2627824b6d6dd8af66fbec439bf4e0ec22d6d9945ad337a38",
        "6bd2a4d3-a55a-4450-b6fd-2a7ecc72c904",
        "a55d9ac3b312d8a2627824b6d6dd8af66fbec439bf4e0ec22d6d9945ad337a38",
    ),
    (
        "spiffe/spire: seen from another cgroup namespace, as from our own container",
        "0::/../../../burstable/pod095e82d2-713c-467a-a18a-cbb50a075296/6d1234da0f5aa7fa0ccae4c7d2d109929eb9a81694e6357bcd4547ab3985911b",
        "095e82d2-713c-467a-a18a-cbb50a075296",
        "6d1234da0f5aa7fa0ccae4c7d2d109929eb9a81694e6357bcd4547ab3985911b",
    ),
    (
        "spiffe/spire: a slice whose UID has dashes",
        "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod2c48913c-b29f-11e7-9350-020968147796.slice/docker-9bca8d63d5fa610783847915bcff0ecac1273e5b4bed3f6fa1b07350e0135961.scope",
        "2c48913c-b29f-11e7-9350-020968147796",
        "9bca8d63d5fa610783847915bcff0ecac1273e5b4bed3f6fa1b07350e0135961",
    ),
    (
        "spiffe/spire: CRI-O with KubeEdge, whose path names no pod",
        "0::/../crio-45490e76e0878aaa4d9808f7d2eefba37f093c3efbba9838b6d8ab804d9bd814.scope",
        "",
        "45490e76e0878aaa4d9808f7d2eefba37f093c3efbba9838b6d8ab804d9bd814",
    ),
    (
        "nestybox/sysbox-runc#28: below a system container's delegated root",
        f"5:devices:/kubepods/pod{UID}/{ID}/syscont-cgroup-root/docker/{INNER}",
        UID,
        ID,
    ),
    (
        "nestybox/sysbox-runc#28: a kubelet inside a system container",
        f"5:devices:/docker/{INNER}/syscont-cgroup-root/kubepods/burstable/pod{UID}/{ID}",
        UID,
        ID,
    ),
]


@pytest.mark.parametrize(
    ("text", "uid", "container"), [row[1:] for row in PUBLIC], ids=[row[0] for row in PUBLIC]
)
def test_a_path_of_a_public_source_leads_to_pod_and_container(text, uid, container):
    ref = parse_cgroup(text)
    assert (ref.pod_uid, ref.container_id) == (uid, container)


@pytest.mark.parametrize(
    ("text", "uid", "container"),
    [
        (f"0::{SYSTEMD}/crio-{ID}.scope/container/worker", UID, ID),
        (f"0::/kubepods.slice/kubepods-pod{SYSTEMD_UID}.slice/docker-{ID}.scope", UID, ID),
        (f"12:cpuset:/\n11:memory:/kubepods/besteffort/pod{UID}/{ID}\n1:name=systemd:/", UID, ID),
        (f"11:devices:/kubepods/pod{UID}\n10:memory:/kubepods/pod{UID}/{ID}", UID, ID),
        (f"0::/kubepods/burstable/pod{STATIC}/{ID}", STATIC, ID),
        (f"0::/docker/{INNER}/kubelet/kubepods/burstable/pod{UID}/{ID}", UID, ID),
        (f"0::/kubepods/pod{UID}/{ID}/docker/{INNER}", UID, ID),
        (f"0::/kubepods/pod{UID}/{ID}/kubepods/pod{STATIC}/{INNER}", UID, ID),
        (f"0::/../../{POD_SLICE}/cri-containerd-{ID}.scope", UID, ID),
        (f"0::{SYSTEMD}", UID, ""),
    ],
)
def test_the_outermost_pod_and_its_container_count(text, uid, container):
    assert parse_cgroup(text) == CgroupRef(uid, container)


@pytest.mark.parametrize(
    "text",
    [
        "0::/",
        "",
        "0::/system.slice/docker.service",
        "0::/user.slice/user-1000.slice/session-3.scope",
        "0::/machine.slice/libpod_pod_0f3a",
        "0::/kubepods.slice/kubepods-burstable.slice",
    ],
)
def test_a_process_outside_containers_has_none(text):
    assert parse_cgroup(text) is None


@pytest.mark.parametrize(
    ("text", "of_pod"),
    [
        (f"0::/system.slice/docker-{ID}.scope", False),
        (f"9:devices:/docker/{ID}", False),
        (f"0::/kubepods/tripod{UID}x/{ID}", False),
        (f"0::/system.slice/docker-{ID}.scope/system.slice/containerd.service", False),
        (f"0::/../cri-containerd-{ID}.scope", True),
    ],
)
def test_a_container_of_no_named_pod_is_told_by_its_id(text, of_pod):
    assert parse_cgroup(text) == CgroupRef("", ID, of_pod)


@given(st.text(max_size=300))
def test_no_text_breaks_the_readers(text):
    assert parse_cgroup(text) is None or isinstance(parse_cgroup(text), CgroupRef)
    assert "/" not in host_unit(text)


#: Source, lines, what stands in for the pod on a bare host.
UNITS = [
    (
        "NordicHPC/sonar: a Slurm step, cgroup v2",
        "0::/system.slice/slurmstepd.scope/job_1392969/step_0/user/task_0",
        "job_1392969",
    ),
    (
        "NordicHPC/sonar: a Slurm step, cgroup v1",
        "10:devices:/slurm/uid_2101171/job_280678/step_interactive/task_0\n1:name=systemd:/system.slice/slurmd.service",
        "job_280678",
    ),
    (
        "treydock/cgroup_exporter#30: several slurmd, cgroup v2",
        "0::/system.slice/node7_slurmstepd.scope/job_4/step_batch/user/task_special",
        "job_4",
    ),
    (
        "plazonic/cgroup_exporter#5: several slurmd, cgroup v1",
        "9:memory:/slurm_node7/uid_1000/job_99/step_0/task_0",
        "job_99",
    ),
    (
        "guilbaults/slurm-job-exporter#66: Slurm 26.05's own ids",
        "0::/system.slice/slurmstepd.scope/s5K1KKYAYG5D00/step_0/user/task_0",
        "s5K1KKYAYG5D00",
    ),
    (
        "treydock/cgroup_exporter: Slurm's own processes are no job's",
        "0::/system.slice/slurmstepd.scope/system",
        "slurmstepd.scope",
    ),
    ("a Docker container, systemd", f"0::/system.slice/docker-{ID}.scope", "docker-c0ffee000000"),
    ("a Docker container, cgroupfs", f"9:devices:/docker/{ID}", "docker-c0ffee000000"),
    (
        "a rootless Podman container",
        f"0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope/container",
        "libpod-c0ffee000000",
    ),
    ("an LXC container", "0::/lxc.payload.web1/system.slice/ollama.service", "lxc-web1"),
    ("a system service", "0::/system.slice/ollama.service", "ollama.service"),
    ("a session", "0::/user.slice/user-1000.slice/session-3.scope", "session-3.scope"),
    (
        "a user's service",
        "0::/user.slice/user-1000.slice/user@1000.service/app.slice/jupyter.service",
        "jupyter.service",
    ),
    (
        "a user's own manager says nothing",
        "0::/user.slice/user-1000.slice/user@1000.service/init.scope",
        "",
    ),
    (
        "systemd's hierarchy is finer than the others",
        "5:devices:/system.slice/ssh.service\n1:name=systemd:/user.slice/user-1000.slice/session-9.scope",
        "session-9.scope",
    ),
    ("the root", "0::/", ""),
]


@pytest.mark.parametrize(("text", "unit"), [row[1:] for row in UNITS], ids=[r[0] for r in UNITS])
def test_a_job_container_or_unit_stands_in_for_the_pod(text, unit):
    assert host_unit(text) == unit
