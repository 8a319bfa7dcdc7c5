"""Figures of one device obey units times clock and pins times rate, and wrong ones are caught."""

import pytest
from msgspec.structs import replace

from gputailor_agent.catalog import load_catalogue
from gputailor_agent.catalog.devices import GIB
from gputailor_agent.catalog.loading import load_with_faults
from gputailor_agent.catalog.physics import (
    PIN_RATES,
    contradictions,
    implied_clock_hertz,
    pin_rate_bits,
)

DEVICES = load_catalogue().devices
BY_KEY = {device.key: device for device in DEVICES}
#: H20's tensor cores run at a quarter of what its units could: twice that is no contradiction.
CLOCKED = [
    device
    for device in DEVICES
    if implied_clock_hertz(device, tensor=True) and not device.key.startswith("H20 ")
]
WIRED = [device for device in DEVICES if pin_rate_bits(device) and device.memory_type in PIN_RATES]


def named(device):
    return device.key


def wrong(device):
    return {one.figure for one in contradictions(device)}


@pytest.mark.parametrize("device", DEVICES, ids=named)
def test_no_figure_contradicts_another(device):
    assert contradictions(device) == ()


def test_most_devices_have_enough_figures_to_be_checked():
    assert len(CLOCKED) >= 55
    assert len(WIRED) >= 85
    assert {device.vendor for device in CLOCKED} == {"NVIDIA", "AMD", "Huawei"}


@pytest.mark.parametrize("device", CLOCKED, ids=named)
def test_a_tensor_figure_with_sparsity_is_caught(device):
    sparse = replace(device, fp16_tensor_flops=2 * device.fp16_tensor_flops)
    assert wrong(sparse) == {"fp16_tensor_dense_tflops"}
    assert all(one.over for one in contradictions(sparse))


@pytest.mark.parametrize("device", CLOCKED, ids=named)
def test_half_the_multiprocessors_are_caught(device):
    assert wrong(replace(device, sm_count=device.sm_count // 2, mig=()))


@pytest.mark.parametrize("device", WIRED, ids=named)
@pytest.mark.parametrize("times", [8, 1 / 8], ids=["bits", "bytes"])
def test_bits_taken_for_bytes_are_caught(device, times):
    mistaken = replace(device, bandwidth_bytes_per_second=times * device.bandwidth_bytes_per_second)
    assert wrong(mistaken) == {"bandwidth_gb_s"}


def test_one_die_of_two_is_caught():
    b200 = BY_KEY["B200"]
    assert wrong(replace(b200, bandwidth_bytes_per_second=b200.bandwidth_bytes_per_second / 2))
    mi300x = BY_KEY["MI300X"]
    assert wrong(replace(mi300x, bandwidth_bytes_per_second=10.3e12))


def test_more_usable_memory_than_the_card_has_is_caught():
    device = BY_KEY["H100 SXM5 80GB"]
    assert "usable_memory_mib" in wrong(replace(device, usable_memory_bytes=81 * GIB))


def test_the_slices_of_another_card_are_caught():
    pcie = replace(BY_KEY["H100 PCIe 80GB"], mig=BY_KEY["H100 SXM5 80GB"].mig)
    assert wrong(pcie) == {"sm_count"}
    small = replace(BY_KEY["A30"], mig=BY_KEY["A100 SXM4 40GB"].mig)
    assert {"memory_gb", "usable_memory_mib", "sm_count"} <= wrong(small)


def test_an_architecture_that_is_not_known_is_not_judged():
    unknown = replace(BY_KEY["H100 SXM5 80GB"], compute_capability="13.0", mig=())
    assert implied_clock_hertz(unknown, tensor=True) is None
    assert contradictions(replace(unknown, fp16_tensor_flops=9e18)) == ()


def own(tmp_path, text):
    path = tmp_path / "hardware.csv"
    path.write_text(text, "utf-8")
    return load_with_faults(path)[1]


def test_own_hardware_with_a_sparse_figure_is_told_so(tmp_path):
    (fault,) = own(tmp_path, "accelerator,fp16_tensor_dense_tflops\nH100 SXM5 80GB,1979\n")
    assert "hardware.csv:2: fp16_tensor_dense_tflops needs 3.66 GHz" in str(fault)
    assert "without sparsity?" in str(fault)


def test_own_hardware_may_be_slower_than_its_kind(tmp_path):
    text = "accelerator,fp16_tensor_dense_tflops,bandwidth_gb_s\nH100 SXM5 80GB,600,2000\n"
    assert own(tmp_path, text) == ()
