"""What ``gputailor catalogue`` shows: devices, MIG profiles and prices as tables and as values."""

from collections.abc import Iterable, Sequence
from datetime import date
from typing import Any, Final

import msgspec

from gputailor_agent.catalog import Catalogue, DeviceSpec, MigProfile, Price, age_days, told_age
from gputailor_agent.reports import units
from gputailor_agent.reports.document import Column, Document, Heading, Paragraph, Table
from gputailor_agent.reports.plurals import counted

_TERA: Final = 1e12
_GIGA: Final = 1e9
_KINDS: Final = {
    "on_demand": "on demand",
    "spot": "spot",
    "reserved_1y": "reserved 1 y",
    "reserved_3y": "reserved 3 y",
}


class DeviceLine(msgspec.Struct, frozen=True, kw_only=True):
    """A device and what one of it costs per hour on demand, if anybody says."""

    device: DeviceSpec
    price: Price | None
    price_age_days: float | None


class PriceLine(msgspec.Struct, frozen=True, kw_only=True):
    """A price and its age."""

    price: Price
    age_days: float | None


def of_vendor(devices: Iterable[DeviceSpec], vendor: str) -> list[DeviceSpec]:
    """Devices of a vendor whose name holds these letters; all of them for ''."""
    wanted = vendor.casefold()
    return [device for device in devices if wanted in device.vendor.casefold()]


def device_lines(
    catalogue: Catalogue, devices: Sequence[DeviceSpec], today: date
) -> list[DeviceLine]:
    """Devices with their price on demand."""
    lines = []
    for device in devices:
        price = catalogue.price(device)
        age = age_days(price, today) if price is not None else None
        lines.append(DeviceLine(device=device, price=price, price_age_days=age))
    return lines


def price_lines(
    prices: Iterable[Price], keys: frozenset[str], today: date, *, provider: str, region: str
) -> list[PriceLine]:
    """Prices of these devices, by provider and region where they are said."""
    return [
        PriceLine(price=price, age_days=age_days(price, today))
        for price in prices
        if price.accelerator in keys
        and provider.casefold() in price.provider.casefold()
        and region.casefold() in price.region.casefold()
    ]


def device_page(lines: Sequence[DeviceLine], today: date, max_age_days: float) -> Document:
    """Devices as a table."""
    columns = [
        *(Column(title="GPU"), Column(title="vendor"), Column(title="usable", numeric=True)),
        *(Column(title=name, numeric=True) for name in ("GB/s", "FP16", "FP8", "SMs", "W")),
        *(Column(title="CC"), Column(title="MIG", numeric=True)),
        *(Column(title="on demand", numeric=True), Column(title="price of")),
    ]
    rows = tuple(_device_row(line, today, max_age_days) for line in lines)
    notes = (
        "usable: memory as a driver reports it, where known, else the decimal reading of the "
        "name. FP16, FP8: dense tensor TFLOPS. on demand: per GPU hour, ~ for a median over "
        "providers. unknown: no public source, or sources that differ. ?: not found at a second "
        "place, so advice that rests on it is less sure. Sources: --output json."
    )
    return _page(counted(len(rows), "accelerator"), Table(columns=tuple(columns), rows=rows), notes)


def _page(title: str, table: Table, notes: str) -> Document:
    blocks = (Heading(text=title, level=1), table, Paragraph(text=notes, tone="muted"))
    return Document(title=title, blocks=blocks)


def _device_row(line: DeviceLine, today: date, max_age_days: float) -> tuple[str, ...]:
    device, price = line.device, line.price
    return (
        f"{device.key}{' (own)' if device.own else ''}",
        device.vendor or units.UNKNOWN,
        units.size(device.usable_memory_bytes),
        scaled(device.bandwidth_bytes_per_second, _GIGA),
        scaled(device.fp16_tensor_flops, _TERA) + ("?" if device.tensor_unconfirmed else ""),
        scaled(device.dense_flops.get("fp8"), _TERA) + ("?" if "fp8" in device.unconfirmed else ""),
        units.count(device.sm_count),
        units.count(device.tdp_watts),
        device.compute_capability or "-",
        str(len(device.mig)) if device.mig else "-",
        told_price(price),
        "-" if price is None else told_age(price, today, max_age_days),
    )


def told_price(price: Price | None) -> str:
    """A price per GPU hour, with ~ where it is a median over providers."""
    if price is None:
        return units.UNKNOWN
    sign = "~" if price.estimate else ""
    return f"{sign}{units.amount(price.amount_per_gpu_hour, price.currency)}"


def scaled(value: float | None, unit: float) -> str:
    """A figure in a larger unit, without decimals from 100 on."""
    if value is None:
        return units.UNKNOWN
    number = value / unit
    return f"{number:,.0f}" if number >= 100 else f"{number:.4g}"  # noqa: PLR2004 - three digits


def mig_page(devices: Sequence[DeviceSpec]) -> tuple[Document, list[MigProfile]]:
    """MIG profiles of the cards that have any, each card once."""
    cards = {profile.card: device for device in devices for profile in device.mig}
    profiles = [profile for device in cards.values() for profile in device.mig]
    columns = (
        *(Column(title="card"), Column(title="profile")),
        *(Column(title=name, numeric=True) for name in ("at most", "usable", "SMs")),
    )
    rows = tuple(
        (
            profile.card,
            profile.name + ("?" if profile.unconfirmed else ""),
            str(profile.max_instances),
            units.size(profile.usable_memory_bytes),
            units.count(profile.sm_count),
        )
        for profile in profiles
    )
    note = f"at most: instances of the profile on one card. {_sources(profiles)}"
    if any(profile.unconfirmed for profile in profiles):
        note += " ?: not found again at a second place."
    title = f"MIG profiles of {counted(len(cards), 'card')}"
    return _page(title, Table(columns=columns, rows=rows), note), profiles


def _sources(profiles: Sequence[MigProfile]) -> str:
    """Where the rows are from; of several sources with the cards that each is of."""
    cards: dict[str, dict[str, None]] = {}
    for profile in profiles:
        cards.setdefault(profile.source, {})[profile.card] = None
    if len(cards) < 2:  # noqa: PLR2004 - one needs no list
        return "".join(f"Source: {source}." for source in cards)
    told = (f"{source} ({', '.join(own)})" for source, own in cards.items())
    return f"Sources: {'; '.join(told)}."


def price_page(lines: Sequence[PriceLine], today: date, max_age_days: float) -> Document:
    """Prices as a table."""
    columns = (
        *(Column(title=name) for name in ("provider", "instance type", "region", "GPU")),
        Column(title="GPUs", numeric=True),
        Column(title="bought"),
        *(Column(title="per GPU hour", numeric=True), Column(title="read on")),
    )
    rows = tuple(
        (
            line.price.provider,
            line.price.instance_type or "-",
            line.price.region or "-",
            line.price.accelerator or units.UNKNOWN,
            units.count(line.price.gpu_count),
            _KINDS[line.price.kind],
            told_price(line.price),
            told_age(line.price, today, max_age_days),
        )
        for line in lines
    )
    note = "A list price is that of the whole instance over its GPUs. Sources: --output json."
    return _page(counted(len(rows), "price"), Table(columns=columns, rows=rows), note)


def values_of(lines: Any, today: date) -> dict[str, Any]:
    """What ``--output json`` holds."""
    return {"schema_version": "1.0", "today": today.isoformat(), "rows": lines}
