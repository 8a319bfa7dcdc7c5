"""Turns the accounts of a node into samples of the contract's families.

What is unknown has no sample. Counters of a lost device stay, its gauges vanish.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate

from gputailor_exporter import metrics as m
from gputailor_exporter.accounting.counters import EnergyCounter
from gputailor_exporter.accounting.device import PCIE, DeviceAccount
from gputailor_exporter.accounting.holder import HolderAccount
from gputailor_exporter.accounting.signals import CONTAINER_PLACES, COUNT, PROCESS_PLACES, SIGNALS
from gputailor_exporter.accounting.snapshot import FamilySamples, SampleTable
from gputailor_exporter.devices.base import DeviceReading, DeviceState, Reason


@dataclass(frozen=True, slots=True)
class NodeView:
    """What is exported; ``xids`` maps (gpu_uuid, code) to count and last Unix time."""

    node: str
    devices: tuple[DeviceAccount, ...]
    holders: tuple[HolderAccount, ...]
    xids: Mapping[tuple[str, int], tuple[int, float]]
    present: int
    expected: int | None


def export(view: NodeView) -> tuple[FamilySamples, ...]:
    """Return the families of ``view`` in the contract's order."""
    table = SampleTable()
    for device in view.devices:
        _device(table, device)
        if device.reading is not None:
            _device_gauges(table, device, device.reading)
        _unattributed(table, device)
        _unavailable(table, device)
    _xids(table, view)
    for holder in view.holders:
        _holder(table, holder)
    if view.expected is not None:
        table.put(m.EXPORTER_DEVICES, ("expected",), view.expected)
    table.put(m.EXPORTER_DEVICES, ("present",), view.present)
    return table.families()


def _device(table: SampleTable, device: DeviceAccount) -> None:
    identity, labels = device.identity, device.labels
    info = (
        identity.vendor,
        identity.model,
        identity.architecture,
        identity.compute_capability,
        identity.mig_profile,
        identity.parent_uuid,
        identity.driver_version,
        identity.cuda_version,
        identity.pci_bus_id,
    )
    table.put(m.DEVICE_INFO, (*labels, *info), 1.0)
    if device.failure is not None or device.reading is not None:
        table.put(m.DEVICE_UP, labels, 1.0 if device.up else 0.0)
    rows = device.signal_rows
    for place in range(COUNT):
        if device.known[place]:
            table.put(m.DEVICE_ACTIVE_SECONDS, rows[place], device.active[place])
            table.put(m.DEVICE_OBSERVED_SECONDS, rows[place], device.observed[place])
    for place in device.read_now:
        table.put(m.DEVICE_ACTIVITY_RATIO, rows[place], device.values[place])
    _energy(table, device, device.energy)
    for (link, direction), counter in device.links.items():
        family = m.DEVICE_PCIE_BYTES if link == PCIE else m.DEVICE_NVLINK_BYTES
        table.put(family, (*labels, direction), counter.total)
    for reason, seconds in device.throttled.items():
        table.put(m.DEVICE_THROTTLED_SECONDS, (*labels, reason), seconds)
    for name, cycles in device.invalid_values.items():
        table.put(m.DEVICE_INVALID_VALUES, (*labels, name), cycles)


def _energy(table: SampleTable, device: DeviceAccount, energy: EnergyCounter) -> None:
    if energy.source is None:
        return
    node, _, uuid = device.labels
    table.put(m.DEVICE_ENERGY, device.labels, energy.total)
    table.put(m.DEVICE_ENERGY_SOURCE, (node, uuid, energy.source), 1.0)


def _device_gauges(table: SampleTable, device: DeviceAccount, reading: DeviceReading) -> None:
    labels = device.labels
    memory = reading.memory
    if memory is not None and not device.identity.mig_enabled:
        table.put(m.DEVICE_MEMORY_TOTAL, labels, memory.total_bytes)
        table.put(m.DEVICE_MEMORY_USED, labels, memory.used_bytes)
        if memory.reserved_bytes is not None:
            table.put(m.DEVICE_MEMORY_RESERVED, labels, memory.reserved_bytes)
    if reading.power_watts is not None:
        table.put(m.DEVICE_POWER, labels, reading.power_watts)
    if reading.power_limit_watts is not None:
        table.put(m.DEVICE_POWER_LIMIT, labels, reading.power_limit_watts)
    for family, values in (
        (m.DEVICE_TEMPERATURE, reading.temperatures_celsius),
        (m.DEVICE_CLOCK, reading.clocks_hertz),
        (m.DEVICE_CLOCK_MAX, reading.clocks_max_hertz),
        (m.DEVICE_ECC_ERRORS, reading.ecc_errors),
        (m.DEVICE_REMAPPED_ROWS, reading.remapped_rows),
    ):
        for name, value in values.items():
            table.put(family, (*labels, name), value)
    _state(table, labels, reading.state)
    link = reading.pcie_link
    if link is not None:
        for family, number in (
            (m.DEVICE_PCIE_GENERATION, link.generation),
            (m.DEVICE_PCIE_GENERATION_MAX, link.generation_max),
            (m.DEVICE_PCIE_WIDTH, link.width),
            (m.DEVICE_PCIE_WIDTH_MAX, link.width_max),
        ):
            if number is not None:
                table.put(family, labels, number)


def _state(table: SampleTable, labels: tuple[str, ...], state: DeviceState) -> None:
    """What changes seldom; one label where a family tells several values apart."""
    for family, number in (
        (m.DEVICE_POWER_LIMIT_DEFAULT, state.power_limit_default_watts),
        (m.DEVICE_POWER_LIMIT_MAX, state.power_limit_max_watts),
        (m.DEVICE_FAN_SPEED, state.fan_speed_ratio),
        (m.DEVICE_NVLINK_CAPACITY, state.nvlink_bytes_per_second),
        (m.DEVICE_REMAPPED_ROWS_PENDING, state.remapped_rows_pending),
        (m.DEVICE_REMAPPED_ROWS_FAILED, state.remapped_rows_failed),
        (m.DEVICE_RETIRED_PAGES_PENDING, state.retired_pages_pending),
    ):
        if number is not None:
            table.put(family, labels, float(number))
    for family, values in (
        (m.DEVICE_TEMPERATURE_LIMIT, state.temperature_limits_celsius),
        (m.DEVICE_NVLINK_UP, state.nvlinks_up),
        (m.DEVICE_NVLINK_ERRORS, state.nvlink_errors),
        (m.DEVICE_RETIRED_PAGES, state.retired_pages),
        (m.DEVICE_MODE_ENABLED, state.modes),
        (m.DEVICE_MODE_ENABLED_PENDING, state.modes_pending),
    ):
        for name, value in values.items():
            table.put(family, (*labels, name), float(value))
    if state.compute_mode:
        table.put(m.DEVICE_COMPUTE_MODE, (*labels, state.compute_mode), 1.0)
    if state.fabric is not None:
        fabric = state.fabric
        row = (*labels, fabric.state, fabric.status, fabric.health)
        table.put(m.DEVICE_FABRIC, row, 1.0)
    if state.serial:
        table.put(m.DEVICE_SERIAL, (*labels, state.serial), 1.0)


def _unattributed(table: SampleTable, device: DeviceAccount) -> None:
    for place in range(COUNT):
        if device.unattributed_known[place]:
            row = device.signal_rows[place]
            seconds = device.unattributed_active[place]
            table.put(m.DEVICE_UNATTRIBUTED_ACTIVE_SECONDS, row, seconds)
    if device.unattributed_memory is not None:
        table.put(m.DEVICE_UNATTRIBUTED_MEMORY, device.labels, device.unattributed_memory)
    if device.unattributed_energy is not None:
        table.put(m.DEVICE_UNATTRIBUTED_ENERGY, device.labels, device.unattributed_energy)


def _unavailable(table: SampleTable, device: DeviceAccount) -> None:
    """One reason per signal; a lost device has its own reason for all it ever had."""
    reasons: dict[str, Reason] = {}
    reading = device.reading
    if device.failure is not None:
        for place in range(COUNT):
            if device.known[place]:
                reasons[SIGNALS[place]] = device.failure
    elif reading is not None:
        if device.shared:
            _not_attributable(device, reading, reasons)
        for place in device.invalid:
            reasons[SIGNALS[place]] = Reason.INVALID_VALUE
        for name, reason in reading.unavailable.items():
            reasons[str(name)] = reason
    for name, reason in reasons.items():
        row = (device.identity.uuid, str(name), str(reason))
        table.put(m.EXPORTER_SIGNAL_UNAVAILABLE, row, 1.0)


def _not_attributable(
    device: DeviceAccount, reading: DeviceReading, reasons: dict[str, Reason]
) -> None:
    told = reading.processes is not None and reading.process_utilization_known
    for place in device.read_now:
        if place in CONTAINER_PLACES and not (told and place in PROCESS_PLACES):
            reasons[SIGNALS[place]] = Reason.NOT_ATTRIBUTABLE


def _xids(table: SampleTable, view: NodeView) -> None:
    labels = {device.identity.uuid: device.labels for device in view.devices}
    for (uuid, xid), (count, last) in view.xids.items():
        row = (*labels.get(uuid, (view.node, "", uuid)), str(xid))
        table.put(m.DEVICE_XID_ERRORS, row, count)
        table.put(m.DEVICE_XID_LAST, row, last)


def _holder(table: SampleTable, holder: HolderAccount) -> None:
    labels = holder.labels
    if holder.live:
        row = (*labels, str(holder.allocation.sharing))
        table.put(m.CONTAINER_ALLOCATED, row, 1.0)
        table.put(m.CONTAINER_ALLOCATED_SHARE, labels, holder.allocation.share)
    table.put(m.CONTAINER_ALLOCATED_SECONDS, labels, holder.allocated_seconds)
    rows = holder.signal_rows
    for place in CONTAINER_PLACES:
        if holder.known[place]:
            table.put(m.CONTAINER_ACTIVE_SECONDS, rows[place], holder.active[place])
            table.put(m.CONTAINER_OBSERVED_SECONDS, rows[place], holder.observed[place])
    _histograms(table, holder)
    for condition, seconds in holder.conditions.items():
        table.put(m.CONTAINER_CONDITION_SECONDS, (*labels, str(condition)), seconds)
    for (link, direction), count in holder.links.items():
        table.put(m.CONTAINER_LINK_BYTES, (*labels, link, direction), count)
    if holder.memory_used is not None:
        table.put(m.CONTAINER_MEMORY_USED, labels, holder.memory_used)
    if holder.memory_peak is not None:
        table.put(m.CONTAINER_MEMORY_PEAK, labels, holder.memory_peak)
    if holder.energy_known:
        table.put(m.CONTAINER_ENERGY, labels, holder.energy)
    if holder.last_active is not None:
        table.put(m.CONTAINER_LAST_ACTIVE, labels, holder.last_active)


def _histograms(table: SampleTable, holder: HolderAccount) -> None:
    rows, values = table.columns(m.CONTAINER_ACTIVITY)
    for name, histogram in holder.histograms.items():
        if not holder.knows_histogram(name):
            continue
        rows.append(holder.histogram_rows[name])
        values.extend(accumulate(histogram.buckets))
        values.append(histogram.total)
