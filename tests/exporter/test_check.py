"""``gputailor-exporter check``: what can be read on this node, and how to get the rest."""

import json
from importlib.resources import files

import pynvml
import pytest

from gputailor_exporter.attribution.allocations import AllocationError
from gputailor_exporter.checking import command as checking
from gputailor_exporter.checking import node as nodecheck
from gputailor_exporter.checking.command import check, lines
from gputailor_exporter.checking.remedies import backend_advice, remedy
from gputailor_exporter.cli import main
from gputailor_exporter.devices.base import DeviceError, DeviceIdentity, DeviceReading, Reason
from gputailor_exporter.lifecycle.assembly import Parts
from gputailor_exporter.metrics import Signal
from gputailor_exporter.options import parse_options
from tests.exporter.machines import GPU, OTHER, reading
from tests.exporter.stubs import Gate, StubAllocations, StubBackend, half_busy
from tests.fakes.fixtures import fake_driver, fake_nvml_library, preloaded_nvml
from tests.fakes.nvml import FakeGpu

__all__ = ["fake_driver", "fake_nvml_library", "preloaded_nvml"]

SCENARIO = str(files("gputailor_exporter") / "scenarios" / "demo.yaml")
SIMULATED = ("--backend", "simulated", "--scenario", SCENARIO, "--node", "a100-0")
QUICK = ("--interval", "0.05")


def run(capsys, *flags):
    code = main(["check", *QUICK, *flags])
    return code, capsys.readouterr().out


def outcome_of(monkeypatch, backend, allocations=None, *flags):
    monkeypatch.setattr(checking, "assemble", lambda _: Parts(backend, allocations, None))
    return check(parse_options([*QUICK, "--attribution", "none", *flags], {}))


def said(outcome):
    return "\n".join(lines(outcome))


def test_a_simulated_node_is_readable_but_for_what_its_cards_lack(capsys):
    code, text = run(capsys, *SIMULATED)
    assert code == 0
    assert text.count("NVIDIA A100-SXM4-80GB") == 8
    assert "scenario  ok" in text
    assert "No device gives occupancy, integer" in text
    assert "MISSING" not in text


def test_the_same_as_json(capsys):
    code, text = run(capsys, *SIMULATED, "--output", "json")
    found = json.loads(text)
    assert code == 0
    assert len(found["devices"]) == 8
    values = {one["name"]: one for one in found["devices"][0]["values"]}
    assert values["sm"]["readable"]
    assert values["occupancy"] == {
        "name": "occupancy",
        "readable": False,
        "text": "not_supported",
        "hint": remedy(GPU, "occupancy", Reason.NOT_SUPPORTED),
    }
    assert found["silent_signals"] == ["occupancy", "integer"]


@pytest.mark.parametrize("flags", [("--output", "yaml"), ("--nothing",), ("--interval", "x")])
def test_wrong_usage_ends_with_code_2(capsys, flags):
    with pytest.raises(SystemExit) as ended:
        main(["check", *flags])
    assert ended.value.code == 2
    assert "gputailor-exporter check: error" in capsys.readouterr().err


# -- the NVIDIA driver -------------------------------------------------------------------------


def nvml(capsys, *flags):
    return run(capsys, "--attribution", "none", *flags)


def hopper(**about):
    return FakeGpu(name="NVIDIA H100 80GB HBM3", util_gpu=50.0, gpm={2: 40.0, 5: 10.0}, **about)


def test_a_card_without_gpm_says_who_has_it(preloaded_nvml, capsys):
    preloaded_nvml.add(FakeGpu(util_gpu=50.0))
    preloaded_nvml.write()
    code, text = nvml(capsys)
    assert code == 0
    kernel = next(line for line in text.splitlines() if line.startswith("  kernel"))
    assert " ok " in kernel
    sm = next(line for line in text.splitlines() if line.startswith("  sm "))
    assert "not_supported" in sm
    assert "dcgm-exporter" in sm


def test_a_hopper_card_gives_what_gpm_has(preloaded_nvml, capsys):
    preloaded_nvml.add(hopper())
    preloaded_nvml.write()
    _, text = nvml(capsys, "--interval", "0.3")  # GPM wants some time between two samples
    for signal, value in (("sm", "0.40"), ("tensor", "0.10"), ("kernel", "0.50")):
        line = next(one for one in text.splitlines() if one.startswith(f"  {signal} "))
        assert line.split()[1:] == ["ok", value]


def test_what_may_not_be_read_is_a_fault_with_its_remedy(preloaded_nvml, capsys):
    preloaded_nvml.add(FakeGpu(util_gpu=50.0))
    refused = pynvml.NVML_ERROR_NO_PERMISSION
    preloaded_nvml.faults["nvmlDeviceGetPowerUsage", "*"] = {"error": refused}
    preloaded_nvml.write()
    code, text = nvml(capsys)
    assert code == 1
    power = next(line for line in text.splitlines() if line.startswith("  power "))
    assert "MISSING" in power
    assert "run as root" in power


def test_a_collector_that_is_off_is_not_missing(preloaded_nvml, capsys):
    preloaded_nvml.add(FakeGpu(util_gpu=50.0))
    preloaded_nvml.write()
    _, text = nvml(capsys, "--collect.gpm=false", "--collect.temperature=false")
    assert "  sm " not in text
    assert "  temperature " not in text


def test_a_node_without_a_device_fails_with_what_to_do(preloaded_nvml, capsys):
    code, text = nvml(capsys)
    assert code == 1
    assert "PROBLEM the driver lists no device. What to do:" in text


def test_a_driver_that_does_not_start_fails_with_what_to_do(preloaded_nvml, capsys):
    preloaded_nvml.faults["nvmlInitWithFlags", "*"] = {"error": pynvml.NVML_ERROR_DRIVER_NOT_LOADED}
    preloaded_nvml.faults["nvmlInit_v2", "*"] = {"error": pynvml.NVML_ERROR_DRIVER_NOT_LOADED}
    preloaded_nvml.write()
    code, text = nvml(capsys)
    assert code == 1
    assert "modprobe nvidia" in text


# -- any back end ------------------------------------------------------------------------------


def test_a_device_that_hangs_harms_only_itself(monkeypatch):
    gate = Gate()

    def hang(device, at):
        if device is GPU:
            gate.wait()
        return half_busy(device, at)

    monkeypatch.setattr(checking, "READ_SECONDS", 0.1)
    found = outcome_of(monkeypatch, StubBackend((GPU, OTHER), hang))
    gate.open()
    assert [device.fault for device in found.devices] == [True, False]
    assert "DOES NOT ANSWER  timeout" in said(found)
    assert found.fault


def test_a_lost_device_says_so(monkeypatch):
    def lost(*_):
        raise DeviceError(Reason.GPU_IS_LOST, "nvmlDeviceGetPowerUsage: GPU is lost")

    found = outcome_of(monkeypatch, StubBackend(answer=lost))
    assert "DOES NOT ANSWER  gpu_is_lost: nvmlDeviceGetPowerUsage: GPU is lost" in said(found)
    assert "dmesg" in said(found)


def test_a_back_end_that_hangs_at_its_first_call_is_left(monkeypatch):
    gate = Gate()
    backend = StubBackend()
    backend.open = gate.wait
    monkeypatch.setattr(checking, "OPEN_SECONDS", 0.1)
    monkeypatch.setattr(checking, "READ_SECONDS", 0.1)
    found = outcome_of(monkeypatch, backend)
    assert "has not answered for 0.1 s" in found.problem
    assert found.fault
    gate.open()


def test_fewer_devices_than_there_should_be_is_a_fault(monkeypatch):
    backend = StubBackend()
    backend.expected = lambda: 8
    found = outcome_of(monkeypatch, backend)
    assert found.problem.startswith("1 of 8 GPUs answer")


def test_the_back_end_is_closed_and_read_twice_per_device(monkeypatch):
    backend = StubBackend((GPU, OTHER))
    outcome_of(monkeypatch, backend)
    assert backend.closed
    assert len(backend.reads) == 4


def test_signals_that_another_device_gives_are_not_silent(monkeypatch):
    def answer(device, at):
        signals = {Signal.KERNEL: 0.5} if device is GPU else {Signal.SM: 0.5}
        return reading(at, signals, unavailable={"tensor": Reason.HELD_BY_DCGM})

    found = outcome_of(monkeypatch, StubBackend((GPU, OTHER), answer))
    assert "kernel" not in found.silent_signals
    assert "sm" not in found.silent_signals
    assert "tensor" in found.silent_signals
    assert "dcgmi profile --pause" in said(found)


# -- the node ----------------------------------------------------------------------------------


def kubelet_raises(reason, text):
    def refuse():
        raise AllocationError(reason, text)

    return StubAllocations(before=refuse)


def test_a_missing_kubelet_socket_says_what_to_mount(monkeypatch):
    source = kubelet_raises("socket_missing", "/nowhere/kubelet.sock is not there")
    found = outcome_of(monkeypatch, StubBackend(), source)
    assert found.fault
    assert "kubelet  MISSING  /nowhere/kubelet.sock is not there. What to do: mount" in said(found)


def test_a_kubelet_that_hangs_is_left(monkeypatch):
    gate = Gate()
    monkeypatch.setattr(nodecheck, "KUBELET_SECONDS", 0.1)
    found = outcome_of(monkeypatch, StubBackend(), StubAllocations(before=gate.wait))
    gate.open()
    assert "no answer within 0.1 s" in said(found)


def test_ids_that_name_no_device_are_told(monkeypatch):
    source = StubAllocations(unmatched={"nvidia.com/gpu": 2})
    assert "2 ids that name no device" in said(outcome_of(monkeypatch, StubBackend(), source))


def proc_of(folder, name):
    (folder / "2").mkdir()
    (folder / "2" / "comm").write_text(f"{name}\n", encoding="utf-8")
    return folder


@pytest.mark.parametrize(("name", "host"), [("kthreadd", True), ("sleep", False)])
def test_whether_the_hosts_processes_are_seen_is_said(monkeypatch, tmp_path, name, host):
    (tmp_path / "logs").mkdir()
    flags = [
        *("--attribution", "kubernetes", "--proc-root", str(proc_of(tmp_path, name))),
        *("--pod-logs-root", str(tmp_path / "logs")),
    ]
    found = outcome_of(monkeypatch, StubBackend(), StubAllocations(), *flags)
    assert found.fault is not host
    assert ("hostPID: true" in said(found)) is not host


def test_missing_log_folders_of_pods_are_said(monkeypatch, tmp_path):
    flags = ("--attribution", "kubernetes", "--pod-logs-root", str(tmp_path / "none"))
    found = outcome_of(monkeypatch, StubBackend(), StubAllocations(), *flags)
    assert f"{tmp_path / 'none'} is not here. What to do: mount" in said(found)


# -- words -------------------------------------------------------------------------------------


#: Words that help nobody whose GPU is not NVIDIA's.
NVIDIAS = ("nvidia", "xid", "nvrm", "nvml", "mig", "gpm", "dcgm", "cupti", "hopper")

VENDORS = ("nvidia", "amd", "intel", "panthor")


@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.parametrize("reason", Reason)
@pytest.mark.parametrize("name", ["kernel", "sm", "power", ""])
def test_every_reason_has_a_remedy_in_the_words_of_its_vendor(vendor, reason, name):
    whole = DeviceIdentity("0", "a", vendor=vendor)
    divided = DeviceIdentity("0", "a", vendor=vendor, mig_enabled=True)
    part = DeviceIdentity("0", "b", vendor=vendor, parent_uuid="a")
    for device in (whole, divided, part):
        words = remedy(device, name, reason).lower()
        assert words
        if vendor != "nvidia" and reason is not Reason.HELD_BY_DCGM:  # which is NVIDIA's alone
            assert not [one for one in NVIDIAS if one in words]
        if vendor != "amd":
            assert "amd" not in words


@pytest.mark.parametrize(
    ("backend", "words", "others"),
    [
        ("nvml", "nvidia-smi", "amd"),
        ("amd", "amd-smi", "nvidia"),
        ("drm", "dmesg", "nvidia"),
        ("third-party", "dmesg", "nvidia"),
    ],
)
def test_a_driver_that_does_not_answer_is_looked_for_by_its_vendors_tools(backend, words, others):
    advice = backend_advice(backend)
    assert words in advice.faulty
    assert others not in f"{advice.faulty} {advice.unlisted}".lower()


def test_an_amd_node_whose_gpus_went_is_told_amds_words(monkeypatch):
    backend = StubBackend(())
    found = outcome_of(monkeypatch, backend, None, "--backend", "amd")
    assert "lsmod | grep amdgpu" in found.problem


@pytest.mark.parametrize(
    ("device", "name", "reason", "words"),
    [
        (GPU, "sm", Reason.NO_PERMISSION, "NVreg_RestrictProfilingToAdminUsers=0"),
        (GPU, "sm", Reason.NOT_SUPPORTED, "Hopper"),
        (DeviceIdentity("0", "MIG-1", parent_uuid="GPU-a"), "kernel", Reason.NOT_SUPPORTED, "MIG"),
        (DeviceIdentity("0", "GPU-a", mig_enabled=True), "sm", Reason.NOT_SUPPORTED, "instances"),
        (DeviceIdentity("0", "a", vendor="amd"), "sm", Reason.NOT_SUPPORTED, "device-metrics"),
        (DeviceIdentity("0", "a", vendor="amd"), "sm", Reason.NO_PERMISSION, "CAP_SYS_PTRACE"),
        (DeviceIdentity("0", "a", vendor="intel"), "sm", Reason.NOT_SUPPORTED, "this device"),
        (GPU, "power", Reason.NOT_SUPPORTED, "this device"),
    ],
)
def test_the_remedy_fits_device_and_value(device, name, reason, words):
    assert words in remedy(device, name, reason)


def test_whatever_a_reading_holds_can_be_said(monkeypatch):
    full = DeviceReading(
        at=0.0,
        power_watts=1.0,
        power_limit_watts=2.0,
        energy_joules=3.0,
        temperatures_celsius={"gpu": 40.0},
        clocks_hertz={"sm": 1e9},
        pcie_bytes={"rx": 1},
        nvlink_bytes={"tx": 2},
        ecc_errors={"corrected": 0},
        remapped_rows={"corrected": 0},
        throttle_reasons=frozenset({"power"}),
        processes=(),
    )
    text = said(outcome_of(monkeypatch, StubBackend(answer=lambda *_: full)))
    for words in ("3 J", "gpu 40", "sm 1e+09", "tx 2", "0, without their utilisation", "power"):
        assert words in text
