"""Prices per GPU hour: list prices of instance types, and a user's own.

A list price is for the whole instance; all of it goes to the GPUs of the node. What a user writes
is read by ``own``, what OpenCost knows by ``opencost``.
"""

from typing import Final

import msgspec

#: A node may carry its own price: these labels (or annotations) of the node object.
PRICE_LABEL: Final = "gputailor.io/price-per-gpu-hour"
CURRENCY_LABEL: Final = "gputailor.io/price-currency"

_KINDS: Final = {
    "spot": ("spot",),
    "reserved": ("reserved_1y", "reserved_3y", "on_demand"),
    "reserved-1y": ("reserved_1y", "on_demand"),
    "reserved-3y": ("reserved_3y", "on_demand"),
}


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """What one GPU of one kind costs per hour. ``estimate``: a median over providers."""

    accelerator: str  # key in devices.csv, or '' where the model is not in it
    amount_per_gpu_hour: float
    currency: str
    kind: str  # "on_demand", "spot", "reserved_1y" or "reserved_3y"
    provider: str
    instance_type: str
    region: str
    as_of: str  # date of the snapshot, or ''
    source: str
    gpu_count: float
    own: bool = False
    estimate: bool = False


def kinds_of(capacity_type: str) -> tuple[str, ...]:
    """Kinds of price for a node's capacity type, best first.

    Reserved capacity without a known price costs what is listed on demand, since that is an upper
    bound; spot capacity without one has no price.
    """
    return _KINDS.get(capacity_type, ("on_demand",))


def list_prices(row: dict[str, str], accelerator: str) -> list[Price]:
    """On-demand and spot prices of one row of ``prices.csv``; none where it names no GPU."""
    columns = (("on_demand_usd_h", "on_demand"), ("spot_usd_h", "spot"))
    return [
        _listed(row, accelerator, float(row[column]), kind)
        for column, kind in columns
        if row[column] and float(row["gpu_count"] or 0) > 0
    ]


def reserved_price(row: dict[str, str], accelerator: str) -> Price:
    """The price of one row of ``reserved.csv``."""
    return _listed(row, accelerator, float(row["usd_h"]), f"reserved_{row['term_years']}y")


def _listed(row: dict[str, str], accelerator: str, amount: float, kind: str) -> Price:
    count = float(row["gpu_count"])
    return Price(
        accelerator=accelerator,
        amount_per_gpu_hour=amount / count,
        currency="USD",
        kind=kind,
        provider=row["provider"],
        instance_type=row["instance_type"],
        region=row["region"],
        as_of=row["snapshot_date"],
        source=row["source"],
        gpu_count=count,
    )


def labelled_price(labels: dict[str, str], accelerator: str) -> Price | None:
    """The price that a node's own labels or annotations tell; None where they tell none.

    ``gputailor.io/price-per-gpu-hour: "1.25"`` is for one whole GPU of the node, in the currency of
    ``gputailor.io/price-currency`` (USD). A label that is no number of 0 or more tells nothing.
    """
    try:
        amount = float(labels.get(PRICE_LABEL, ""))
    except ValueError:
        return None
    if not 0 <= amount < float("inf"):
        return None
    return Price(
        accelerator=accelerator,
        amount_per_gpu_hour=amount,
        currency=labels.get(CURRENCY_LABEL) or "USD",
        kind="on_demand",
        provider="own",
        instance_type="",
        region="",
        as_of="",
        source=f"label {PRICE_LABEL} of the node",
        gpu_count=1,
        own=True,
    )
