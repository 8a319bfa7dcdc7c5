"""GPUs known by nothing but their DRM clients: what fdinfo tells, and when it is not enough."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputailor_exporter.devices import drm_clients
from gputailor_exporter.devices.base import DeviceError, Reason
from gputailor_exporter.devices.drm import DrmBackend
from gputailor_exporter.devices.drm_clients import OpenFiles
from gputailor_exporter.devices.drm_fdinfo import parse_fdinfo, signal_of
from gputailor_exporter.kubelet.device_ids import DeviceIndex, DeviceRef
from gputailor_exporter.metrics import Signal
from tests.fakes.amd_tree import Machine, client

MIB = 1 << 20

#: The example of the kernel's xe-drm-usage-stats page.
XE = """\
pos:    0
flags:  0100002
drm-driver:     xe
drm-client-id:  3
drm-pdev:       0000:03:00.0
drm-total-system:       0
drm-resident-system:    0
drm-total-gtt:  192 KiB
drm-resident-gtt:       192 KiB
drm-total-vram0:        23992 KiB
drm-shared-vram0:       16 MiB
drm-resident-vram0:     23992 KiB
drm-cycles-rcs: 28257900
drm-total-cycles-rcs:   7655183225
drm-cycles-bcs: 0
drm-total-cycles-bcs:   7655183225
drm-cycles-ccs: 0
drm-total-cycles-ccs:   7655183225
drm-engine-capacity-ccs:        4
"""


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


@pytest.fixture
def backend(machine):
    return DrmBackend(machine.sys, machine.proc)


def intel(machine, driver="i915", number=0, name="0000:03:00.0", render=128):
    card = machine.card(number, name, driver, render=render)
    card.write(vendor="0x8086", device="0x56c0", power__runtime_status="active")
    return card


def read_twice(machine, backend, first, second):
    """Let ``first`` and ``second`` (pid -> fdinfo) be a second apart; return the later reading."""
    (device,) = backend.devices()
    found = None
    for at, clients in ((1.0, first), (2.0, second)):
        for pid, text in clients.items():
            machine.opens(pid, 128, text)
        found = backend.read(device, at)
    return found


def i915(number, render_ns, **more):
    keys = {"engine_render": f"{render_ns} ns", "resident_local0": "8 MiB", **more}
    return client(number, "i915", "0000:03:00.0", **keys)


def test_the_kernels_example_is_read():
    usage = parse_fdinfo(XE)
    assert (usage.driver, usage.client, usage.pdev) == ("xe", "3", "0000:03:00.0")
    assert usage.busy["rcs"] == (28257900, 7655183225)
    assert usage.capacity == {"ccs": 4}
    assert usage.memory_bytes == 23992 * 1024


def test_a_file_that_is_no_drm_client_is_none():
    assert parse_fdinfo("pos:\t0\nflags:\t02\nmnt_id:\t26\n") is None
    assert parse_fdinfo("drm-driver:\ti915\n") is None


def test_lines_that_are_no_numbers_are_left_out():
    usage = parse_fdinfo(
        "drm-client-id: 1\ndrm-engine-render: soon\ndrm-resident-vram: 3 parsecs\n"
    )
    assert usage.busy is None
    assert usage.memory_bytes is None


@given(st.text(alphabet=st.sampled_from("drm-enginetotalcyclsvr:0123456789 \nKiBMG"), max_size=200))
def test_any_text_is_a_client_or_none(text):
    parse_fdinfo("drm-client-id: 1\n" + text)


@pytest.mark.parametrize(
    ("engine", "signal"),
    [
        ("render", Signal.KERNEL),
        ("compute", Signal.KERNEL),
        ("gfx", Signal.KERNEL),
        ("ccs", Signal.KERNEL),
        ("panthor", Signal.KERNEL),
        ("fragment", Signal.KERNEL),
        ("video", Signal.DECODER),
        ("dec", Signal.DECODER),
        ("enc_1", Signal.ENCODER),
        ("video-enhance", None),
        ("copy", None),
        ("bcs", None),
        ("dma", None),
    ],
)
def test_each_engine_counts_for_its_signal(engine, signal):
    assert signal_of(engine) is signal


def test_an_intel_card_says_who_it_is(machine, backend):
    intel(machine)
    (device,) = backend.devices()
    assert (device.vendor, device.uuid) == ("intel", "PCI-0000:03:00.0")
    assert (device.index, device.architecture) == ("0", "i915")
    assert device.model
    assert device.driver_version == "6.8.0-52-generic"


def test_a_display_and_other_back_ends_cards_are_none(machine, backend):
    machine.card(0, "0000:02:00.0", "ast")
    machine.card(1, "0000:c1:00.0", "amdgpu", render=128)
    machine.card(2, "0000:d1:00.0", "nvidia", render=129)
    assert backend.devices() == ()
    with pytest.raises(DeviceError, match="render node"):
        backend.open()


def test_the_device_is_busy_as_its_clients_engines_are(machine, backend):
    intel(machine)
    found = read_twice(
        machine,
        backend,
        {100: i915(1, 0), 101: i915(2, 10**9)},
        {100: i915(1, int(3e8)), 101: i915(2, 10**9 + int(2e8), engine_video="0 ns")},
    )
    assert found.signals[Signal.KERNEL].value == pytest.approx(0.5)
    assert found.signals[Signal.KERNEL].covers_seconds == pytest.approx(1.0)
    assert [one.kernel for one in found.processes] == [pytest.approx(0.3), pytest.approx(0.2)]
    assert {one.memory_used_bytes for one in found.processes} == {8 * MIB}
    assert found.process_utilization_known


def test_engines_side_by_side_never_exceed_the_device(machine, backend):
    intel(machine)
    busy = {100 + number: i915(number, int(9e8)) for number in range(3)}
    idle = {100 + number: i915(number, 0) for number in range(3)}
    found = read_twice(machine, backend, idle, busy)
    assert found.signals[Signal.KERNEL].value == 1.0


def test_a_group_of_engines_is_busy_by_its_share(machine, backend):
    intel(machine)

    def video(spent):
        return i915(1, 0, engine_video=f"{spent} ns", engine_capacity_video=2)

    found = read_twice(machine, backend, {100: video(0)}, {100: video(int(1.2e9))})
    assert found.signals[Signal.DECODER].value == pytest.approx(0.6)


def test_cycles_are_measured_against_all_cycles(machine, backend):
    intel(machine, "xe")

    def cycles(busy, total):
        return client(1, "xe", "0000:03:00.0", cycles_ccs=busy, total_cycles_ccs=total)

    found = read_twice(machine, backend, {100: cycles(5, 1000)}, {100: cycles(255, 2000)})
    assert found.signals[Signal.KERNEL].value == pytest.approx(0.25)


def test_a_device_nobody_has_open_is_idle(machine, backend):
    intel(machine)
    found = read_twice(machine, backend, {}, {})
    assert found.signals[Signal.KERNEL].value == 0.0
    assert found.processes == ()


def test_a_driver_without_engine_times_is_unknown_while_in_use(machine, backend):
    intel(machine, "nouveau")
    text = client(1, "nouveau", "0000:03:00.0", resident_vram="4 MiB")
    found = read_twice(machine, backend, {100: text}, {100: text})
    assert Signal.KERNEL not in found.signals
    assert found.unavailable[Signal.KERNEL] is Reason.NOT_SUPPORTED
    assert [(one.kernel, one.memory_used_bytes) for one in found.processes] == [(None, 4 * MIB)]


def test_clients_of_another_card_do_not_count(machine, backend):
    intel(machine)
    other = client(1, "i915", "0000:99:00.0", engine_render="900000000 ns")
    found = read_twice(machine, backend, {100: other}, {100: other})
    assert found.processes == ()


def test_without_sight_of_all_processes_the_device_is_unknown_not_idle(machine, backend):
    intel(machine)
    machine.ends(2)
    found = read_twice(machine, backend, {}, {})
    assert Signal.KERNEL not in found.signals
    assert found.unavailable[Signal.KERNEL] is Reason.NO_PERMISSION
    assert found.processes is None


def test_one_process_whose_files_are_hidden_makes_it_unknown(machine, backend, monkeypatch):
    intel(machine)
    machine.process(100)
    listed = os.listdir

    def listdir(folder):
        if str(folder).endswith("/100/fd"):
            raise PermissionError(13, "Permission denied")
        return listed(folder)

    monkeypatch.setattr(drm_clients.os, "listdir", listdir)
    found = read_twice(machine, backend, {}, {})
    assert Signal.KERNEL not in found.signals
    assert found.unavailable[Signal.KERNEL] is Reason.NO_PERMISSION


def test_a_process_that_ends_takes_its_time_along_and_no_other(machine, backend):
    intel(machine)
    (device,) = backend.devices()
    machine.opens(100, 128, i915(1, 0))
    machine.opens(101, 128, i915(2, 0))
    backend.read(device, 1.0)
    machine.ends(100)
    machine.opens(101, 128, i915(2, int(2e8)))
    found = backend.read(device, 2.0)
    assert [one.pid for one in found.processes] == [101]
    assert found.signals[Signal.KERNEL].value == pytest.approx(0.2)


def test_sensors_come_from_hwmon(machine, backend):
    card = intel(machine, "xe")
    card.write(
        hwmon__hwmon3__energy1_input="5000000",
        hwmon__hwmon3__power1_max="120000000",
        hwmon__hwmon3__temp2_input="55000",
        hwmon__hwmon3__temp2_label="pkg",
    )
    found = read_twice(machine, backend, {}, {})
    assert found.energy_joules == pytest.approx(5.0)
    assert found.power_limit_watts == 120
    assert found.temperatures_celsius == {"package": 55.0}
    assert found.power_watts is None
    assert found.unavailable["power"] is Reason.NOT_SUPPORTED


def test_a_suspended_device_is_not_woken_for_its_sensors(machine, backend):
    card = intel(machine, "xe")
    card.write(power__runtime_status="suspended", hwmon__hwmon3__temp2_input="55000")
    found = read_twice(machine, backend, {}, {})
    assert found.temperatures_celsius == {}
    assert found.unavailable["temperature"] is Reason.NO_SAMPLES
    assert found.signals[Signal.KERNEL].value == 0.0


def test_a_gpu_on_another_bus_than_pci_goes_by_its_own_name(machine, backend):
    machine.card(0, "fb000000.gpu", "panthor", render=128, folder="platform")
    (device,) = backend.devices()
    assert (device.uuid, device.vendor) == ("DRM-fb000000.gpu", "panthor")
    assert device.pci_bus_id == ""


def test_intels_device_plugin_means_the_card(machine, backend):
    intel(machine, number=3)
    index = DeviceIndex(backend.devices())
    assert index.resolve("card3-1") == DeviceRef("PCI-0000:03:00.0", "1")
    assert index.resolve("card4-0") is None


# -- finding open files ----------------------------------------------------------------------


def test_thousands_of_processes_are_looked_at_in_turn_and_unknown_until_then(machine):
    for pid in range(100, 160):
        machine.process(pid)
    files = OpenFiles(machine.proc, scans=25)
    missing = []
    for at in range(4):
        before = files.opened
        files.refresh(float(at))
        missing.append(files.missing())
        assert files.opened - before <= 25 + 2
    assert missing == [Reason.NO_SAMPLES, Reason.NO_SAMPLES, None, None]


def test_a_process_is_looked_at_again_after_ten_seconds(machine):
    machine.process(100)
    files = OpenFiles(machine.proc)
    files.refresh(0.0)
    machine.opens(100, 128, i915(1, 0))
    files.refresh(11.0)
    assert files.of(frozenset({128})) == ((100, 5),)


def test_devices_whose_cycles_fall_together_share_a_look(machine):
    files = OpenFiles(machine.proc)
    files.refresh(1.0)
    before = files.opened
    files.refresh(1.1)
    assert files.opened == before
