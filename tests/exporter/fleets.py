"""Fixed snapshots for exposition and server tests and for benchmarks. Nothing here is random."""

from gputailor_exporter.accounting import FamilySamples, NodeAccounts, Snapshot
from gputailor_exporter.attribution.allocations import ContainerRef
from gputailor_exporter.devices.base import (
    DeviceIdentity,
    DeviceReading,
    Memory,
    PcieLink,
    ProcessReading,
    Reason,
    SignalReading,
    XidEvent,
)
from gputailor_exporter.metrics import Sharing, Signal
from gputailor_exporter.sampling.selfmetrics import SelfMetrics
from tests.exporter.machines import GIB, WALL, accounts, container, holds, sliced


def gpu(index: int, **more: str) -> DeviceIdentity:
    return DeviceIdentity(
        index=str(index),
        uuid=f"GPU-{index:08d}",
        model="NVIDIA H100 80GB HBM3",
        architecture="Hopper",
        compute_capability="9.0",
        driver_version="580.95.05",
        cuda_version="13.0",
        pci_bus_id=f"00000000:{index:02X}:00.0",
        **more,
    )


def cycle(at: float, place: int = 0, **more: object) -> DeviceReading:
    """Return a full reading whose values depend on time and place alone."""
    signals = {
        signal: SignalReading(((int(at) * 7 + number * 3 + place) % 11) / 10)
        for number, signal in enumerate(Signal)
    }
    given: dict[str, object] = {
        "signals": signals,
        "memory": Memory(80 * GIB, (3 + int(at) % 5) * GIB, GIB // 2),
        "power_watts": 300.0 + place,
        "power_limit_watts": 700.0,
        "energy_joules": 1e6 + at * (300.0 + place),
        "temperatures_celsius": {"gpu": 45.0, "memory": 51.0},
        "clocks_hertz": {"sm": 1.755e9, "memory": 2.619e9},
        "clocks_max_hertz": {"sm": 1.98e9, "memory": 2.619e9},
        "pcie_bytes": {"rx": int(at) * 12_345_678, "tx": int(at) * 1_234_567},
        "pcie_link": PcieLink(5, 5, 16, 16),
        "nvlink_bytes": {"rx": int(at) * 999, "tx": int(at) * 1001},
        "throttle_reasons": frozenset({"sw_power_cap"} if int(at) % 2 else ()),
        "ecc_errors": {"corrected": 2, "uncorrected": 0},
        "remapped_rows": {"corrected": 0, "uncorrected": 0},
    }
    return DeviceReading(at=at, **{**given, **more})  # type: ignore[arg-type]


def whole(made: NodeAccounts) -> Snapshot:
    return made.snapshot(WALL).with_families(own())


def own() -> tuple[FamilySamples, ...]:
    mine = SelfMetrics(started_wall=WALL - 60.0, version="0.0.0")
    mine.take_cycle("GPU-00000000", 0.012)
    mine.succeed("nvml", WALL)
    mine.count_error("kubelet", "unavailable")
    return mine.families()


def exclusive_node() -> Snapshot:
    """Two H100, one held whole by a training, one free with Xids."""
    devices = [gpu(0), gpu(1)]
    made = accounts(devices, [holds("train-0", devices[0])])
    for at in range(65):
        for place, device in enumerate(devices):
            made.advance(device, cycle(float(at), place), None, WALL + at)
    made.add_xid(XidEvent(devices[1].uuid, 31, WALL + 3))
    return whole(made)


def mig_node() -> Snapshot:
    """One H100 cut in two: the parent keeps power, one slice is held and cannot tell kernel."""
    parent = DeviceIdentity("0", "GPU-00000000", model="NVIDIA H100 80GB HBM3", mig_enabled=True)
    slices = [
        DeviceIdentity("0", f"MIG-{n}", mig_profile="1g.10gb", parent_uuid=parent.uuid)
        for n in range(2)
    ]
    made = accounts([parent, *slices], [holds("notebook", slices[0], sharing=Sharing.MIG)])
    for at in range(3):
        made.advance(parent, cycle(float(at)), None, WALL + at)
        for one in slices:
            made.advance(one, _slice_cycle(float(at)), None, WALL + at)
    return whole(made)


def _slice_cycle(at: float) -> DeviceReading:
    return DeviceReading(
        at=at,
        signals={Signal.GRAPHICS: SignalReading(0.5), Signal.SM: SignalReading(0.25)},
        memory=Memory(10 * GIB, 2 * GIB),
        unavailable={"kernel": Reason.NOT_SUPPORTED, "power": Reason.NOT_SUPPORTED},
    )


def shared_node() -> Snapshot:
    """One time-sliced H100: two pods with processes, a stranger, and a pod that just ended."""
    device = gpu(0)
    made = accounts([device], [sliced("a", device), sliced("b", device), sliced("old", device)])

    def owner(pid: int) -> ContainerRef | None:
        return {1: container("a"), 2: container("b")}.get(pid)

    processes = tuple(ProcessReading(pid, GIB, 0.125, 0.0, 0.0) for pid in (1, 2, 3))
    for at in range(4):
        reading = cycle(float(at), processes=processes, process_utilization_known=True)
        made.advance(device, reading, owner, WALL + at)
    made.set_allocations([sliced("a", device), sliced("b", device)], 3.0)
    return whole(made)


def lost_node() -> Snapshot:
    """Eight expected, one fell off the bus, one hangs; label values that need escaping."""
    devices = [gpu(0), gpu(1, mig_profile='odd "profile" \\ with\nlines')]
    made = accounts(devices, [holds("train-0", devices[0])])
    for at in range(3):
        for device in devices:
            made.advance(device, cycle(float(at)), None, WALL + at)
    made.fail(devices[0].uuid, Reason.TIMEOUT, 8.0)
    made.set_devices(devices[:1], 8)
    return whole(made)


def empty_node() -> Snapshot:
    """A node without any device."""
    return whole(accounts(()))


def big_node(step: int = 0) -> Snapshot:
    """Eight devices, each held: about 1,300 series, every value as after an hour."""
    return big_accounts(step).snapshot(WALL)


def big_accounts(step: int = 0) -> NodeAccounts:
    devices = [gpu(index) for index in range(8)]
    made = accounts(devices, [holds(f"train-{n}", device) for n, device in enumerate(devices)])
    for at in range(64 + step):
        for place, device in enumerate(devices):
            made.advance(device, cycle(at * 1.001, place), None, WALL + at)
    return made


NODES = {
    "exclusive": exclusive_node,
    "mig": mig_node,
    "shared": shared_node,
    "lost": lost_node,
    "empty": empty_node,
}
