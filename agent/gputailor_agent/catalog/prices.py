"""Prices per GPU hour: list prices of instance types, and a user's own.

A list price is for the whole instance; all of it goes to the GPUs of the node. Own prices are a
CSV with the columns ``accelerator`` and/or ``instance_type``, ``price_per_gpu_hour``, and, if
wanted, ``currency`` (USD), ``capacity_type`` (on-demand) and ``region``.
"""

import csv
import io
from pathlib import Path
from typing import Final

import msgspec

OWN_COLUMNS: Final = ("accelerator", "instance_type", "price_per_gpu_hour")


class CatalogueError(Exception):
    """A prices file cannot be used; the text says which line and what was expected."""


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """What one GPU of one kind costs per hour. ``estimate``: a median over providers."""

    accelerator: str  # key in devices.csv, or '' where the model is not in it
    amount_per_gpu_hour: float
    currency: str
    kind: str  # "on_demand" or "spot"
    provider: str
    instance_type: str
    region: str
    as_of: str  # date of the snapshot, or ''
    source: str
    gpu_count: float
    own: bool = False
    estimate: bool = False


def list_prices(row: dict[str, str], accelerator: str) -> list[Price]:
    """On-demand and spot prices of one row of ``prices.csv``; none where it names no GPU."""
    count = float(row["gpu_count"] or 0)
    if count <= 0:
        return []
    return [
        Price(
            accelerator=accelerator,
            amount_per_gpu_hour=float(row[column]) / count,
            currency="USD",
            kind=kind,
            provider=row["provider"],
            instance_type=row["instance_type"],
            region=row["region"],
            as_of=row["snapshot_date"],
            source=row["source"],
            gpu_count=count,
        )
        for column, kind in (("on_demand_usd_h", "on_demand"), ("spot_usd_h", "spot"))
        if row[column]
    ]


def read_own_prices(path: Path) -> list[tuple[str, Price]]:
    """Return (accelerator as written, price) of each line of a user's prices file.

    Raises ``CatalogueError`` for a file that cannot be read or a line that makes no sense.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise CatalogueError(f"{path}: cannot read prices: {error}") from error
    reader = csv.DictReader(io.StringIO(text))
    known = {(name or "").strip() for name in reader.fieldnames or ()}
    if "price_per_gpu_hour" not in known or not known & {"accelerator", "instance_type"}:
        raise CatalogueError(
            f"{path}:1: expected a CSV header with price_per_gpu_hour and accelerator or "
            f"instance_type, found: {', '.join(sorted(known)) or 'nothing'}"
        )
    return [_own_price(path, reader.line_num, row) for row in reader]


def _own_price(path: Path, line: int, row: dict[str, str]) -> tuple[str, Price]:
    cells = {(key or "").strip(): (value or "").strip() for key, value in row.items() if key}
    try:
        amount = float(cells["price_per_gpu_hour"])
    except ValueError as error:
        found = cells["price_per_gpu_hour"]
        raise CatalogueError(
            f"{path}:{line}: price_per_gpu_hour must be a number such as 1.25, found {found!r}"
        ) from error
    if not 0 <= amount < float("inf"):
        raise CatalogueError(f"{path}:{line}: price_per_gpu_hour must be 0 or more: {amount}")
    accelerator, instance_type = cells.get("accelerator", ""), cells.get("instance_type", "")
    if not accelerator and not instance_type:
        raise CatalogueError(f"{path}:{line}: name an accelerator or an instance_type")
    capacity = cells.get("capacity_type") or "on-demand"
    if capacity not in {"on-demand", "spot"}:
        raise CatalogueError(f"{path}:{line}: capacity_type must be on-demand or spot: {capacity}")
    return accelerator, Price(
        accelerator=accelerator,
        amount_per_gpu_hour=amount,
        currency=cells.get("currency") or "USD",
        kind=capacity.replace("-", "_"),
        provider="own",
        instance_type=instance_type,
        region=cells.get("region", ""),
        as_of="",
        source=str(path),
        gpu_count=1,
        own=True,
    )
