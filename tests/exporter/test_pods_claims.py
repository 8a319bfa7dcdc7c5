"""DRA claims, and the ids of every plugin, become allocations of the right device."""

import pytest

from gputailor_exporter.attribution.allocations import Allocation
from gputailor_exporter.devices.base import DeviceIdentity
from gputailor_exporter.kubelet.device_ids import DeviceIndex, DeviceRef
from gputailor_exporter.kubelet.driver_files import DriverFiles
from gputailor_exporter.metrics import Sharing
from gputailor_exporter.pods import PodResources
from tests.exporter.test_pods import (
    DEVICES,
    GPU,
    MIG,
    MIG2,
    OTHER,
    UUID,
    folder,
    kubelet,
    ref,
    source,
)
from tests.fakes.kubelet import Claim, Container, Pod

__all__ = ["folder", "kubelet", "source"]


def test_a_dra_claim_is_found_by_uuid_in_its_cdi_name_by_number_or_by_profile(kubelet, source):
    claims = [
        Claim("anything", cdi=(f"k8s.gpu.nvidia.com/device={UUID}",)),
        Claim("gpu-1-mig-1g10gb-19-0"),
    ]
    kubelet.pods = [
        Pod("team", "train-0", [Container("main", claims=claims)]),
        Pod("team", "x", [Container("main", claims=[Claim("chan-0", driver="net.example.com")])]),
    ]
    assert set(source.allocations(DEVICES, 0.0)) == {
        Allocation(ref(), UUID),
        Allocation(ref(), MIG, Sharing.MIG),
    }
    assert not source.unmatched


def test_a_claim_of_several_containers_is_shared_in_an_unknown_way(kubelet, source):
    both = [Container(name, claims=[Claim("gpu-0")]) for name in ("a", "b")]
    kubelet.pods = [Pod("team", "train-0", both)]
    found = source.allocations(DEVICES, 0.0)
    assert {(one.holder.container, one.sharing, one.share) for one in found} == {
        ("a", Sharing.SHARED, 0.5),
        ("b", Sharing.SHARED, 0.5),
    }


def claiming(*names, **pods):
    return [
        Pod("team", pod, [Container("main", claims=[Claim(name) for name in claims])])
        for pod, claims in pods.items()
    ]


def test_several_pods_on_one_claim_share_its_device(kubelet, source):
    kubelet.pods = claiming(a=["gpu-0"], b=["gpu-0"], c=["gpu-0"])
    found = source.allocations(DEVICES, 0.0)
    assert {(one.holder.pod, one.gpu_uuid, one.sharing) for one in found} == {
        (pod, UUID, Sharing.SHARED) for pod in "abc"
    }
    assert sum(one.share for one in found) == pytest.approx(1.0)


def test_a_claim_of_several_devices_is_an_allocation_of_each(kubelet, source):
    devices = (*DEVICES[:1], DeviceIdentity("1", OTHER))
    kubelet.pods = claiming(a=["gpu-0", "gpu-1"])
    assert set(source.allocations(devices, 0.0)) == {
        Allocation(ref("a"), UUID),
        Allocation(ref("a"), OTHER),
    }


def test_a_claim_of_another_kind_of_device_is_none_of_ours(kubelet, source):
    kubelet.pods = [
        Pod("team", "x", [Container("main", claims=[Claim("gpu-0", driver="net.example.com")])])
    ]
    assert source.allocations(DEVICES, 0.0) == ()


def slices(*profiles):
    """Instances of one GPU with these profiles; their instance ids count from 7."""
    parent = DeviceIdentity("0", UUID, mig_enabled=True, pci_bus_id="00000000:3B:00.0")
    return (
        parent,
        *(
            DeviceIdentity(
                "0",
                f"MIG-{place}",
                parent_uuid=UUID,
                mig_profile=profile,
                gpu_instance_id=7 + place,
                compute_instance_id=0,
            )
            for place, profile in enumerate(profiles)
        ),
    )


@pytest.mark.parametrize(
    ("name", "place"),
    [  # as announced by the driver: kubernetes-sigs/dra-driver-nvidia-gpu#852, dcgm-exporter#664
        ("gpu-0-mig-1g24gb-me-20-5", 0),
        ("gpu-0-mig-1g47gb-15-6", 1),
        ("gpu-0-mig-2g47gb-14-0", 2),
        ("gpu-0-mig-1g6gb", 3),
    ],
)
def test_a_claimed_profile_that_is_there_once_is_that_instance(name, place):
    devices = slices("1g.24gb+me", "1g.47gb", "2g.47gb", "1g.6gb")
    assert DeviceIndex(devices).resolve_claim(name) == DeviceRef(f"MIG-{place}")


CLAIM = "dab5ab50-d59a-42a6-af16-cfd4628c0f7a"
SPECIFICATION = f"""\
cdiVersion: 0.5.0
kind: k8s.gpu.nvidia.com/claim
devices:
- name: {CLAIM}-gpu-3-mig-1g18gb-19-2
  containerEdits:
    deviceNodes:
    - path: /dev/nvidia3
    - path: /dev/nvidia-caps/nvidia-cap66
    - path: /dev/nvidia-caps/nvidia-cap67
- name: {CLAIM}-gpu-1
  containerEdits: {{}}
"""


@pytest.fixture
def files(tmp_path):
    """A driver's files: GPU 0 has minor number 3, two instances their capabilities."""
    gpu = tmp_path / "driver" / "nvidia" / "gpus" / "0000:3b:00.0"
    gpu.mkdir(parents=True)
    (gpu / "information").write_text(
        f"Model: \t\t NVIDIA H200\nGPU UUID: \t {UUID}\nBus Type: \t PCIe\nDevice Minor: \t 3\n"
    )
    caps = tmp_path / "driver" / "nvidia-caps"
    caps.mkdir()
    (caps / "mig-minors").write_text(
        "config 1\nmonitor 2\ngpu3/gi7/access 30\ngpu3/gi7/ci0/access 31\n"
        "gpu3/gi8/access 66\ngpu3/gi8/ci0/access 67\n"
    )
    cdi = tmp_path / "cdi"
    cdi.mkdir()
    (cdi / f"k8s.gpu.nvidia.com-claim_{CLAIM}.yaml").write_text(SPECIFICATION)
    return DriverFiles(tmp_path, cdi)


def test_of_several_instances_of_a_profile_the_cdi_specification_tells_the_claimed_one(
    kubelet, files
):
    name = "gpu-3-mig-1g18gb-19-2"
    cdi = (f"k8s.gpu.nvidia.com/claim={CLAIM}-gpu-3-mig-1g18gb-19-2",)
    kubelet.pods = [Pod("team", "a", [Container("main", claims=[Claim(name, cdi=cdi)])])]
    source = PodResources(kubelet.path, 2.0, files=files)
    devices = slices("1g.18gb", "1g.18gb")
    assert source.allocations(devices, 0.0) == (Allocation(ref("a"), "MIG-1", Sharing.MIG),)


def test_without_the_specification_such_a_claim_is_counted_not_guessed(kubelet, source):
    kubelet.pods = claiming(a=["gpu-0-mig-1g18gb-19-2"])
    assert source.allocations(slices("1g.18gb", "1g.18gb"), 0.0) == ()
    assert source.unmatched == {"gpu.nvidia.com": 1}


@pytest.mark.parametrize(
    "text", ["", "kind: x", "devices: 3", "- a", "{", "kind: k\ndevices: [{name: 3}]"]
)
def test_a_specification_that_is_half_written_says_nothing(files, text):
    (files._cdi / f"k8s.gpu.nvidia.com-claim_{CLAIM}.yaml").write_text(text)
    assert files.mig_place(f"k8s.gpu.nvidia.com/claim={CLAIM}-gpu-3-mig-1g18gb-19-2") is None


def test_a_claim_that_comes_later_is_read_then(files):
    other = f"k8s.gpu.nvidia.com/claim={CLAIM[::-1]}-gpu-3-mig-1g18gb-19-2"
    assert files.mig_place(other) is None
    text = SPECIFICATION.replace(CLAIM, CLAIM[::-1])
    (files._cdi / "k8s.gpu.nvidia.com-claim_other.yaml").write_text(text)
    assert files.mig_place(other).gpu_instance == 8


@pytest.mark.parametrize("device_id", ["nvidia3", "nvidia3/vgpu1"])
def test_a_device_file_goes_by_its_minor_number_not_by_nvmls_index(files, device_id):
    devices = (DeviceIdentity("0", UUID), DeviceIdentity("3", OTHER))
    assert DeviceIndex(devices, files.minors).resolve(device_id).uuid == UUID


PCI = (DeviceIdentity("0", "GPU-amd", vendor="amd", pci_bus_id="0000:03:00.0"),)


@pytest.mark.parametrize(
    ("devices", "device_id", "found"),
    [
        (DEVICES, UUID, DeviceRef(UUID)),
        (DEVICES, UUID.upper().replace("GPU", "gpu"), DeviceRef(UUID)),
        (DEVICES, f"{UUID}::0", DeviceRef(UUID, "0")),
        (DEVICES, f"{UUID}_3", DeviceRef(UUID, "3")),
        (DEVICES, f"{MIG}::11", DeviceRef(MIG, "11")),
        (DEVICES, f"{MIG}_11", DeviceRef(MIG, "11")),
        (DEVICES, f"MIG-{OTHER}/2/0", DeviceRef(MIG2)),
        (DEVICES, f"MIG-{OTHER}/2/0::1", DeviceRef(MIG2, "1")),
        (DEVICES, "nvidia0", DeviceRef(UUID)),
        (DEVICES, "nvidia0/vgpu4", DeviceRef(UUID, "4")),
        (DEVICES, "nvidia1/gi7", DeviceRef(MIG)),
        (DEVICES, "nvidia1/gi7/vgpu0", DeviceRef(MIG, "0")),
        (PCI, "0000:03:00.0", DeviceRef("GPU-amd")),
        (PCI, "00000000:03:00.0", DeviceRef("GPU-amd")),
        (DEVICES, f"{UUID}-7", None),  # HAMi: kubelet's id is not the device it hands out
        (DEVICES, "nvidia9", None),
        (DEVICES, "nvidia0/vgpu1::2", None),
        (DEVICES, "0001:03:00.0", None),
        (DEVICES, "", None),
        (DEVICES, "::", None),
    ],
)
def test_each_form_of_an_id_means_its_device(devices, device_id, found):
    assert DeviceIndex(devices).resolve(device_id) == found


def test_replicas_of_mps_have_the_shares_that_are_held(kubelet):
    kubelet.pods = [
        Pod("team", "a", [Container("main", {GPU: [f"{UUID}::0", f"{UUID}::1"]})]),
        Pod("team", "b", [Container("main", {GPU: [f"{UUID}::2"]})]),
    ]
    kubelet.allocatable = {GPU: [f"{UUID}::{n}" for n in range(4)]}
    found = PodResources(kubelet.path, 2.0, sharing=Sharing.MPS).allocations(DEVICES, 0.0)
    assert {(one.holder.pod, one.sharing, one.share) for one in found} == {
        ("a", Sharing.MPS, 0.5),
        ("b", Sharing.MPS, 0.25),
    }


@pytest.mark.parametrize("name", ["gpu-9", "gpu-0-mig-7g80gb-0-0", "gpu", "channel-0"])
def test_a_claim_that_means_no_device_of_this_node_has_none(name):
    assert DeviceIndex(DEVICES).resolve_claim(name) is None
