"""Which devices the NVML back end finds, and what it expects to find."""

import pynvml
import pytest

from gputailor_exporter.devices.base import DeviceError, Reason
from gputailor_exporter.devices.nvml import NvmlBackend
from tests.fakes.nvml import GIB, FakeMig


def test_a_gpu_is_identified_in_full(rig):
    rig.add(name="NVIDIA H100 80GB HBM3", architecture=9, compute_capability="9.0")
    (device,) = rig.backend.devices()
    assert device.index == "0"
    assert device.uuid == rig.driver.gpus[0].uuid
    assert device.vendor == "nvidia"
    assert device.model == "NVIDIA H100 80GB HBM3"
    assert device.architecture == "Hopper"
    assert device.compute_capability == "9.0"
    assert device.driver_version == "550.54.15"
    assert device.cuda_version == "12.4"
    assert device.pci_bus_id == "00000000:10:00.0"
    assert not device.mig_enabled


def test_facts_that_the_driver_does_not_tell_are_empty(rig):
    rig.add(architecture=None)
    rig.fault("nvmlDeviceGetName", error=pynvml.NVML_ERROR_UNKNOWN)
    rig.fault("nvmlDeviceGetCudaComputeCapability", error=pynvml.NVML_ERROR_NOT_SUPPORTED)
    (device,) = rig.backend.devices()
    assert (device.model, device.architecture, device.compute_capability) == ("", "", "")


def sliced(rig, **about):
    name = "NVIDIA A100-SXM4-80GB MIG "
    rig.add(
        mig_mode=1,
        mig=[
            FakeMig("MIG-a", name + "3g.40gb", gi=2, gpu_slices=3, memory_total=40 * GIB),
            FakeMig("MIG-b", name + "1g.10gb", gi=9),
        ],
        **about,
    )


def test_mig_instances_follow_their_parent(rig):
    sliced(rig)
    rig.add()
    parent, a, b, other = rig.backend.devices()
    assert parent.mig_enabled
    assert not other.mig_enabled
    assert (a.uuid, a.mig_profile, a.gpu_instance_id, a.index) == ("MIG-a", "3g.40gb", 2, "0")
    assert (b.uuid, b.mig_profile, b.compute_instance_id) == ("MIG-b", "1g.10gb", 0)
    assert a.parent_uuid == b.parent_uuid == parent.uuid
    assert a.model == parent.model == "NVIDIA A100-SXM4-80GB"


def test_a_profile_that_the_name_hides_comes_from_the_slices(rig):
    rig.add(
        mig_mode=1,
        mig=[FakeMig("MIG-c", "GPU", gi=1, gpu_slices=3, compute_slices=1, memory_total=40 * GIB)],
    )
    assert rig.backend.devices()[1].mig_profile == "1c.3g.40gb"


def test_a_gpu_that_is_cut_into_slices_while_we_run_is_found_anew(rig):
    rig.add(mig_mode=0)
    assert [d.mig_enabled for d in rig.backend.devices()] == [False]
    rig.change(mig_mode=1, mig=[FakeMig("MIG-a", "GPU MIG 1g.10gb", gi=7)])
    assert [d.mig_enabled for d in rig.backend.devices()] == [True, False]


def test_a_lost_gpu_is_expected_and_not_present_and_the_others_go_on(rig):
    lost, well = rig.add(), rig.add()
    assert len(rig.backend.devices()) == 2
    rig.fault("*", 0, error=pynvml.NVML_ERROR_GPU_IS_LOST)
    assert [d.uuid for d in rig.backend.devices()] == [well.uuid]
    assert rig.backend.expected() == 2
    rig.driver.faults.clear()
    rig.driver.write()
    assert [d.uuid for d in rig.backend.devices()] == [lost.uuid, well.uuid]


def garble(rig, text):
    """Put a byte that is no UTF-8 into what the driver says."""
    state = rig.driver.state
    before = state.read_bytes()
    state.write_bytes(before.replace(text.encode(), b"\xff", 1))
    assert state.read_bytes() != before


def test_a_gpu_whose_uuid_is_no_text_harms_only_itself(rig, caplog):
    rig.add(uuid="GPU-odd")
    well = rig.add()
    garble(rig, "GPU-odd")
    for _ in range(3):
        assert [(d.index, d.uuid) for d in rig.backend.devices()] == [("1", well.uuid)]
    assert rig.backend.expected() == 2
    assert [line for line in caplog.messages if "GPU 0" in line] == [
        "GPU 0 does not answer: its UUID is no text: b'\\xff'"
    ]


def test_a_gpu_whose_address_is_no_text_has_none(rig):
    gpu = rig.add()
    garble(rig, gpu.pci_bus_id)
    assert [(d.uuid, d.pci_bus_id) for d in rig.backend.devices()] == [(gpu.uuid, "")]


def test_a_slice_whose_uuid_is_no_text_is_left_out(rig):
    slices = [FakeMig(name, "GPU MIG 1g.10gb", gi=gi) for gi, name in enumerate(("MIG-a", "MIG-b"))]
    gpu = rig.add(mig_mode=1, mig=slices)
    garble(rig, "MIG-a")
    assert [d.uuid for d in rig.backend.devices()] == [gpu.uuid, "MIG-b"]


def test_of_two_gpus_with_one_uuid_the_first_is_read_and_the_other_missed(rig, caplog):
    for watts in (100.0, 200.0):
        rig.add(uuid="GPU-same", power_watts=watts)
    for _ in range(3):
        (device,) = rig.backend.devices()
    assert (device.index, rig.step(device).power_watts) == ("0", 100.0)
    assert rig.backend.expected() == 2
    said = [line for line in caplog.messages if "GPU 1" in line]
    assert said == ["GPU 1 does not answer: it says the UUID of GPU 0, GPU-same"]


def test_a_gpu_that_left_the_count_is_still_expected(rig):
    rig.add()
    rig.add()
    rig.backend.devices()
    rig.driver.gpus.pop()
    rig.driver.write()
    assert rig.backend.expected() == 2


def test_gpus_bound_to_the_driver_by_the_kernel_are_expected(rig, tmp_path):
    driver = tmp_path / "drivers" / "nvidia"
    driver.mkdir(parents=True)
    for name, kind in (("0000:10:00.0", "0x030200"), ("0000:11:00.0", "0x068000")):
        folder = tmp_path / "pci" / name
        folder.mkdir(parents=True)
        (folder / "class").write_text(kind + "\n")
        (folder / "driver").symlink_to(driver)
    rig.driver.write()
    assert rig.backend.expected() == 1  # the second is an NVSwitch


def test_without_gpus_nothing_is_expected(rig):
    assert rig.backend.devices() == ()
    assert rig.backend.expected() is None


def test_no_driver_is_a_clear_error(rig):
    rig.fault("nvmlInitWithFlags", error=pynvml.NVML_ERROR_DRIVER_NOT_LOADED)
    with pytest.raises(DeviceError, match=r"Driver Not Loaded.*What to do.*modprobe") as error:
        NvmlBackend().open()
    assert error.value.reason is Reason.DRIVER_ERROR


def test_a_driver_that_was_upgraded_under_its_library_is_told_apart(rig):
    rig.fault("nvmlInitWithFlags", error=pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)
    with pytest.raises(DeviceError, match=r"different driver versions.*reload the modules"):
        NvmlBackend().open()


def test_no_permission_is_told_apart(rig):
    rig.fault("nvmlInitWithFlags", error=pynvml.NVML_ERROR_NO_PERMISSION)
    with pytest.raises(DeviceError) as error:
        NvmlBackend().open()
    assert error.value.reason is Reason.NO_PERMISSION


def test_a_driver_that_went_away_is_an_error_of_discovery(rig):
    rig.fault("nvmlDeviceGetCount_v2", error=pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)
    with pytest.raises(DeviceError, match="nvmlDeviceGetCount"):
        rig.backend.devices()
