"""A user's own prices and hardware: a file or a folder of files, each known by its header.

Prices (``price_per_gpu_hour``), bare metal (``purchase_price``), hardware (``memory_gb`` and the
like), OpenCost's pricing CSV, and pages of OpenCost's exporter. ``catalogue check`` tells every
fault of a file, everything else refuses the file.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from gputailor_agent.catalog import opencost
from gputailor_agent.catalog.amortising import BareMetal, amortised
from gputailor_agent.catalog.devices import DeviceSpec, own_device
from gputailor_agent.catalog.prices import Price
from gputailor_agent.catalog.schemas import BARE_METAL, HARDWARE, OPENCOST, OWN, PRICES
from gputailor_agent.catalog.tables import (
    CatalogueError,
    Fault,
    Row,
    Schema,
    header_of,
    read_table,
)

#: Files of a folder that are read.
SUFFIXES: Final = (".csv", ".prom", ".txt")

#: Finds a device by the name a user wrote; None where there is none.
Finder = Callable[[str], DeviceSpec | None]


@dataclass(frozen=True, slots=True)
class Own:
    """What a user has: devices with their other names, and prices that lead to devices."""

    devices: tuple[tuple[DeviceSpec, tuple[str, ...], str], ...] = ()  # device, names, MIG card
    prices: tuple[Price, ...] = ()
    faults: tuple[Fault, ...] = ()


def own_files(path: Path) -> list[Path]:
    """The file, or the files of the folder that hold prices or hardware, by name.

    Raises ``CatalogueError`` where it cannot be listed.
    """
    try:
        if not path.is_dir():
            return [path]
        return sorted(
            one for one in path.iterdir() if one.is_file() and one.suffix.lower() in SUFFIXES
        )
    except OSError as error:
        raise CatalogueError(f"{path}: cannot read: {error.strerror}") from error


def read_text(path: Path) -> str:
    """A file's text; raises ``CatalogueError`` where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise CatalogueError(f"{path}: cannot read prices: {error}") from error


def schema_of(content: str) -> Schema:
    """The schema a text's header stands for; that of prices where it stands for none."""
    names = set(header_of(content.replace("EndTimeStamp", "EndTimestamp", 1)))
    if names >= set(PRICES.marks):
        return PRICES
    for schema in OWN:
        if names >= set(schema.marks):
            return schema
    figures = set(HARDWARE.by_name) - set(PRICES.by_name)
    return HARDWARE if "accelerator" in names and names & figures else PRICES


def read_devices_of(path: Path) -> tuple[list[Row], list[Fault]]:
    """Checked rows of own hardware in a file or folder."""
    rows: list[Row] = []
    faults: list[Fault] = []
    for file in own_files(path):
        content = read_text(file)
        if not opencost.is_page(content) and schema_of(content) is HARDWARE:
            checked = read_table(str(file), content, HARDWARE)
            rows += checked.rows
            faults += checked.faults
    return rows, faults


def read_prices_of(path: Path, find: Finder) -> tuple[list[Price], list[Fault]]:
    """Prices of a file or folder, with the device each is for; ``find`` knows own hardware too."""
    prices: list[Price] = []
    faults: list[Fault] = []
    for file in own_files(path):
        content = read_text(file)
        found, wrong = _file_prices(str(file), content, find)
        prices += found
        faults += wrong
    return prices, faults


def _file_prices(place: str, content: str, find: Finder) -> tuple[list[Price], list[Fault]]:
    if opencost.is_page(content):
        return opencost.page_prices(place, content)
    schema = schema_of(content)
    if schema is HARDWARE:
        return [], []
    if schema is OPENCOST:
        written, faults = opencost.table_prices(place, content)
        return [_placed(price, find(name)) for name, price in written], faults
    checked = read_table(place, content, schema)
    reader = _bare_metal_price if schema is BARE_METAL else _own_price
    prices: list[Price] = []
    faults = list(checked.faults)
    for row in checked.rows:
        answer = reader(row, find)
        if isinstance(answer, Fault):
            faults.append(answer)
        else:
            prices.append(answer)
    return prices, faults


def _placed(price: Price, device: DeviceSpec | None) -> Price:
    return msgspec.structs.replace(price, accelerator=device.key if device is not None else "")


def _device_of(row: Row, find: Finder) -> DeviceSpec | Fault | None:
    written = row["accelerator"]
    if not written:
        return None
    device = find(written)
    if device is not None:
        return device
    return row.fault(
        "accelerator",
        f"{written!r} is not known: use a name as nvidia-smi prints it or one of `gputailor "
        "catalogue list`, or describe it in a file of own hardware",
    )


def _own_price(row: Row, find: Finder) -> Price | Fault:
    device = _device_of(row, find)
    if isinstance(device, Fault):
        return device
    capacity = row["capacity_type"] or "on-demand"
    return Price(
        accelerator=device.key if device is not None else "",
        amount_per_gpu_hour=float(row["price_per_gpu_hour"]),
        currency=row["currency"] or "USD",
        kind=capacity.replace("-", "_"),
        provider="own",
        instance_type=row["instance_type"],
        region=row["region"],
        as_of=row["as_of"],
        source=row["source"] or row.place,
        gpu_count=1,
        own=True,
    )


def _bare_metal_price(row: Row, find: Finder) -> Price | Fault:
    device = _device_of(row, find)
    if isinstance(device, Fault) or device is None:
        return device or row.fault("accelerator", "must not be blank")
    watts = row.number("watts") or device.tdp_watts
    if watts is None:
        return row.fault("watts", f"must be given: the catalogue knows no TDP of {device.key}")
    try:
        cost = amortised(
            BareMetal(
                purchase_price=float(row["purchase_price"]),
                years=float(row["years"]),
                power_price_per_kwh=float(row["power_price_per_kwh"]),
                watts=watts,
                pue=float(row["pue"]),
                server_watts=row.number("server_watts") or 0.0,
                residual_price=row.number("residual_price") or 0.0,
                upkeep_per_year=row.number("upkeep_per_year") or 0.0,
            )
        )
    except ValueError as error:
        return row.fault("", str(error))
    parts = f"capital {cost.capital:.4f}, power {cost.power:.4f}, upkeep {cost.upkeep:.4f}"
    return Price(
        accelerator=device.key,
        amount_per_gpu_hour=cost.total,
        currency=row["currency"] or "USD",
        kind="on_demand",
        provider="own",
        instance_type="",
        region="",
        as_of=row["as_of"],
        source=f"bare metal, {row['source'] or row.place}: {parts}",
        gpu_count=1,
        own=True,
    )


def described(rows: list[Row], find: Finder) -> Iterator[tuple[DeviceSpec, tuple[str, ...], str]]:
    """Own devices with their other names and MIG card; figures left blank are the catalogue's."""
    for row in rows:
        names = tuple(name.strip() for name in row["names"].split(";") if name.strip())
        yield own_device(row, find(row["accelerator"])), names, row["mig_card"]
