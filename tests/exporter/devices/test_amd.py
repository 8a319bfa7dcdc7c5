"""AMD devices out of a tree of files: what is read, what is unknown, and how few files it takes."""

import pytest

from gputailor_exporter.devices import drm_clients
from gputailor_exporter.devices.amd import AmdBackend
from gputailor_exporter.devices.amd_topology import instruction_set
from gputailor_exporter.devices.base import DeviceError, Memory, Reason
from gputailor_exporter.kubelet.device_ids import DeviceIndex, DeviceRef
from gputailor_exporter.metrics import Signal
from tests.exporter import golden_amd
from tests.fakes.amd_tables import table
from tests.fakes.amd_tree import GIB, MI300X_BYTES, Machine, client

VRAM = "65536 KiB"


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


@pytest.fixture
def backend(machine):
    return AmdBackend(machine.sys, machine.proc)


def moment(seconds, **more):
    """The table of an MI300X at work, ``seconds`` after its driver was loaded: 60 % busy."""
    ticks = round(seconds * 1000)
    values = {
        "temperature_hotspot": 61,
        "temperature_mem": 48,
        "curr_socket_power": 512,
        "average_gfx_activity": 97,
        "average_umc_activity": 33,
        "energy_accumulator": int(seconds * 512 * 2**16),
        "system_clock_counter": ticks * 1_000_000,
        "accumulation_counter": ticks,
        "gfx_activity_acc": ticks * 60,
        "mem_activity_acc": ticks * 20,
        "xgmi_read_data_acc": (ticks, ticks),
        "xgmi_write_data_acc": (ticks,),
        "current_gfxclk": (2100, 2098),
        "current_uclk": 1300,
        "ppt_residency_acc": 0,
    }
    return table(7, **{**values, **more})


def seconds_of(backend, device, machine_step, times=(1.0, 2.0)):
    """Read the device at each time, after ``machine_step`` brought the machine there."""
    found = None
    for at in times:
        machine_step(at)
        found = backend.read(device, at)
    return found


def test_an_mi300x_says_who_it_is(machine, backend):
    machine.mi300x()
    (device,) = backend.devices()
    assert (device.vendor, device.model) == ("amd", "AMD Instinct MI300X OAM")
    assert device.uuid == "GPU-21b6d61638a800c1"
    assert (device.index, device.pci_bus_id) == ("0", "0000:c1:00.0")
    assert (device.architecture, device.driver_version) == ("gfx942", "6.12.12")
    assert backend.expected() == 1


@pytest.mark.parametrize(
    ("version", "name"), [(90402, "gfx942"), (90010, "gfx90a"), (110501, "gfx1151"), (0, "")]
)
def test_an_instruction_set_is_named_as_compilers_do(version, name):
    assert instruction_set(version) == name


def test_devices_are_numbered_by_their_address(machine, backend):
    machine.mi300x(7, bus=0xC1, render=134)
    machine.mi300x(1, bus=0x11, render=128)
    assert [(one.index, one.pci_bus_id) for one in backend.devices()] == [
        ("0", "0000:11:00.0"),
        ("1", "0000:c1:00.0"),
    ]


def test_the_table_gives_what_a_second_was(machine, backend):
    card = machine.mi300x()
    (device,) = backend.devices()
    found = seconds_of(backend, device, lambda at: card.write(gpu_metrics=moment(at)))
    assert found.signals[Signal.KERNEL].value == pytest.approx(0.6)
    assert found.signals[Signal.KERNEL].covers_seconds == pytest.approx(1.0)
    assert found.signals[Signal.DRAM].value == pytest.approx(0.2)
    assert found.power_watts == 512
    assert found.energy_joules == pytest.approx(1024)
    assert found.power_limit_watts == 750
    assert found.temperatures_celsius == {"junction": 61.0, "memory": 48.0}
    assert found.clocks_hertz == {"graphics": 2.1e9, "memory": 1.3e9}
    assert found.clocks_max_hertz == {"graphics": 2.1e9, "memory": 1.3e9}
    assert found.memory == Memory(MI300X_BYTES, 297_000_960)
    assert found.nvlink_bytes == {"rx": 4000 * 1024, "tx": 2000 * 1024}
    assert (found.pcie_link.generation, found.pcie_link.width) == (5, 16)
    assert found.ecc_errors == {"corrected": 3, "uncorrected": 1}
    assert found.throttle_reasons == frozenset()


def test_without_a_table_single_files_stand_in(machine, backend):
    card = machine.mi300x()
    card.write(gpu_busy_percent="37", mem_busy_percent="12")
    (device,) = backend.devices()
    found = backend.read(device, 1.0)
    assert found.signals[Signal.KERNEL].value == pytest.approx(0.37)
    assert found.signals[Signal.KERNEL].covers_seconds is None
    assert found.signals[Signal.MEMCOPY].value == pytest.approx(0.12)
    assert found.power_watts == pytest.approx(140)
    assert found.temperatures_celsius == {"junction": 45.0, "memory": 39.0}
    assert found.clocks_hertz == {"graphics": 132e6}
    assert found.energy_joules is None
    assert found.unavailable["energy"] is Reason.NOT_SUPPORTED


def test_a_consumer_cards_energy_has_no_unit_and_is_not_told(machine, backend):
    card = machine.mi300x()
    card.write(
        gpu_metrics=table(3, energy_accumulator=6294297477348589567, average_socket_power=12)
    )
    (device,) = backend.devices()
    found = backend.read(device, 1.0)
    assert found.energy_joules is None
    assert found.power_watts == 12


def test_what_amd_does_not_have_is_unknown_with_a_reason(machine, backend):
    card = machine.mi300x()
    card.write(gpu_metrics=moment(1))
    (device,) = backend.devices()
    found = backend.read(device, 1.0)
    for signal in (Signal.SM, Signal.TENSOR, Signal.OCCUPANCY, Signal.ENCODER):
        assert signal not in found.signals
        assert found.unavailable[signal] is Reason.NOT_SUPPORTED


def test_a_percentage_out_of_range_is_dropped(machine, backend):
    card = machine.mi300x()
    card.write(gpu_busy_percent="4294967295")
    (device,) = backend.devices()
    found = backend.read(device, 1.0)
    assert Signal.KERNEL not in found.signals
    assert found.unavailable[Signal.KERNEL] is Reason.INVALID_VALUE


def test_a_suspended_card_is_left_asleep_and_runs_nothing(machine, backend):
    card = machine.mi300x()
    card.write(power__runtime_status="suspended", gpu_metrics=moment(1))
    (device,) = backend.devices()
    found = backend.read(device, 1.0)
    assert found.signals[Signal.KERNEL].value == 0.0
    assert found.power_watts is None
    assert found.unavailable["power"] is Reason.NO_SAMPLES


def test_a_card_that_is_gone_is_lost(machine, backend):
    card = machine.mi300x()
    (device,) = backend.devices()
    card.folder.rename(card.folder.with_name("gone"))
    with pytest.raises(DeviceError) as raised:
        backend.read(device, 1.0)
    assert raised.value.reason is Reason.GPU_IS_LOST


def test_a_card_that_fell_off_the_bus_under_its_driver_is_lost(machine, backend):
    card = machine.mi300x()
    card.write(config=b"\xff" * 64)
    card.remove("gpu_busy_percent", "mem_busy_percent")
    for file in (card.folder / "hwmon/hwmon5").iterdir():
        file.unlink()
    (device,) = backend.devices()
    with pytest.raises(DeviceError) as raised:
        backend.read(device, 1.0)
    assert raised.value.reason is Reason.GPU_IS_LOST


def test_a_machine_without_amd_is_said_with_advice(machine, backend):
    machine.card(0, "0000:03:00.0", "ast")
    with pytest.raises(DeviceError, match="lsmod"):
        backend.open()


def test_a_second_of_reading_opens_few_files(machine, backend):
    cards = [
        machine.mi300x(number, bus=0x10 * number, render=127 + number) for number in range(1, 9)
    ]
    for pid in range(100, 150):
        machine.process(pid)
    machine.computes(200, {128: GIB})
    devices = backend.devices()
    for at in (1.0, 2.0, 3.0):
        before = backend._open_files.opened
        for card, device in zip(cards, devices, strict=True):
            card.write(gpu_metrics=moment(at))
            backend.read(device, at)
    # power state, table, memory used and total; KFD's list, and one file of its one process
    assert max(backend.opened(device) for device in devices) <= 7
    # /proc, its kernel thread, and none of the processes whose files did not change
    assert backend._open_files.opened - before <= 2


def test_the_page_of_a_fixed_machine_equals_its_golden_file(tmp_path):
    hint = "to write it anew: python -m tests.exporter.golden_amd"
    assert golden_amd.page(tmp_path) == golden_amd.FILE.read_text("utf-8"), hint


# -- processes -------------------------------------------------------------------------------


def drawing(gfx_ns, number=7, **more):
    keys = {"engine_gfx": f"{gfx_ns} ns", "memory_vram": VRAM, **more}
    return client(number, pdev="0000:c1:00.0", **keys)


def test_a_drawing_process_has_its_share_of_time_and_memory(machine, backend):
    machine.mi300x()
    (device,) = backend.devices()

    def step(at):
        machine.opens(300, 128, drawing(int(at * 4e8), engine_enc=f"{int(at * 1e8)} ns"))

    found = seconds_of(backend, device, step)
    (process,) = found.processes
    assert process.pid == 300
    assert process.kernel == pytest.approx(0.4)
    assert process.encoder == pytest.approx(0.1)
    assert process.memory_used_bytes == 64 << 20
    assert found.process_utilization_known


def test_a_client_with_several_files_is_counted_once(machine, backend):
    machine.mi300x()
    (device,) = backend.devices()

    def step(at):
        for pid, file in ((300, 5), (300, 6), (301, 5)):
            machine.opens(pid, 128, drawing(int(at * 4e8)), file)

    found = seconds_of(backend, device, step)
    assert [(one.pid, one.kernel) for one in found.processes] == [(300, pytest.approx(0.4))]


def test_a_compute_process_holds_memory_and_its_time_is_unknown(machine, backend):
    machine.mi300x()
    (device,) = backend.devices()
    machine.computes(400, {128: 30 * GIB})
    machine.opens(400, 128, client(9, pdev="0000:c1:00.0", memory_vram="1024 KiB"))
    found = seconds_of(backend, device, lambda _: None)
    (process,) = found.processes
    assert process.memory_used_bytes == 30 * GIB
    assert process.kernel is None
    assert not found.process_utilization_known


def test_a_process_that_holds_nothing_of_a_card_does_not_use_it(machine, backend):
    machine.mi300x(1, bus=0xC1, render=128)
    machine.mi300x(2, bus=0xD1, render=129)
    first, second = backend.devices()
    machine.computes(400, {128: GIB, 129: 0})
    assert [one.pid for one in backend.read(first, 1.0).processes] == [400]
    assert backend.read(second, 1.0).processes == ()


def test_a_new_clients_work_since_the_last_reading_counts(machine, backend):
    machine.mi300x()
    (device,) = backend.devices()
    backend.read(device, 1.0)
    machine.opens(300, 128, drawing(int(3e8)))
    (process,) = backend.read(device, 2.0).processes
    assert process.kernel == pytest.approx(0.3)


def test_a_process_that_was_there_before_us_is_unknown_at_first(machine, backend):
    machine.mi300x()
    (device,) = backend.devices()
    machine.opens(300, 128, drawing(int(9e12)))
    (process,) = backend.read(device, 1.0).processes
    assert process.kernel is None


def test_busy_time_that_falls_back_waits_until_it_caught_up(machine, backend):
    machine.mi300x()
    (device,) = backend.devices()
    shares = []
    for at, spent in enumerate((1e9, 5e8, 1.2e9), start=1):
        machine.opens(300, 128, drawing(int(spent)))
        shares.append(backend.read(device, float(at)).processes[0].kernel)
    assert shares == [None, 0.0, pytest.approx(0.2)]


@pytest.mark.parametrize("hidden", ["no kernel thread is seen", "one process cannot be read"])
def test_processes_are_unknown_where_not_all_can_be_read(machine, backend, hidden, monkeypatch):
    machine.mi300x()
    machine.opens(300, 128, drawing(10**8))
    if hidden == "no kernel thread is seen":
        machine.ends(2)
    else:
        _refuse(monkeypatch, machine.proc / "300/fdinfo/5")
    (device,) = backend.devices()
    found = seconds_of(backend, device, lambda _: None)
    assert found.processes is None
    assert found.unavailable["processes"] is Reason.NO_PERMISSION
    assert not found.process_utilization_known


def _refuse(monkeypatch, path):
    def read(asked):
        if str(asked) == str(path):
            raise PermissionError(13, "Permission denied")
        return path.parent.joinpath(asked).read_bytes()

    monkeypatch.setattr(drm_clients, "read_file", read)


# -- partitions and the ids of device plugins ------------------------------------------------


def parted(machine, count=8):
    card = machine.mi300x(1, bus=0xC1, render=128)
    machine.partitions(card, 0xC1, count)
    return card


def test_partitions_are_devices_with_their_card_as_parent(machine, backend):
    parted(machine)
    parent, *parts = backend.devices()
    assert parent.mig_enabled
    assert len(parts) == 8
    assert {one.parent_uuid for one in parts} == {parent.uuid}
    assert {one.mig_profile for one in parts} == {"cpx_nps4"}
    assert len({one.uuid for one in parts}) == 8
    assert backend.expected() == 1


def test_each_partition_has_its_own_activity_and_memory_and_the_card_the_power(machine, backend):
    card = parted(machine)
    parent, *parts = backend.devices()
    machine.computes(400, {130: GIB})

    def step(at):
        ticks = round(at * 1000)
        busy = tuple((ticks * 10 * place,) for place in range(8))
        card.write(gpu_metrics=moment(at, partitions=busy))

    whole = seconds_of(backend, parent, step)
    assert whole.power_watts == 512
    assert whole.signals == {}
    for place, part in enumerate(parts):
        found = seconds_of(backend, part, step, (3.0, 4.0))
        assert found.signals[Signal.KERNEL].value == pytest.approx(place / 10)
        assert found.power_watts is None
        assert found.throttle_reasons is None
        assert found.memory == Memory(MI300X_BYTES // 8, GIB if place == 2 else 0)


def test_a_card_that_is_cut_while_running_shows_its_partitions(machine, backend):
    card = machine.mi300x(1, bus=0xC1, render=128)
    assert len(backend.devices()) == 1
    machine.partitions(card, 0xC1, 2)
    assert len(backend.devices()) == 3


@pytest.mark.parametrize(
    ("device_id", "uuid", "replica"),
    [
        ("0000:c1:00.0", "GPU-21b6d61638a800c1", ""),
        ("0000:c1:00.0-slice-2", "GPU-21b6d61638a800c1", "2"),
        ("gpu-1-128", "GPU-21b6d61638a800c1", ""),
    ],
)
def test_amds_device_plugin_means_the_card(machine, backend, device_id, uuid, replica):
    machine.mi300x()
    assert DeviceIndex(backend.devices()).resolve(device_id) == DeviceRef(uuid, replica)


def test_amds_device_plugin_means_the_partition(machine, backend):
    parted(machine)
    _, *parts = backend.devices()
    index = DeviceIndex(backend.devices())
    assert index.resolve("0000:c1:00.0") == DeviceRef(parts[0].uuid)
    assert index.resolve("amdgpu_xcp_0") == DeviceRef(parts[1].uuid)
    assert index.resolve("amdgpu_xcp_6") == DeviceRef(parts[7].uuid)
    assert index.resolve("amdgpu_xcp_7") is None
