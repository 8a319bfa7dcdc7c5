"""The catalogue: find a device by the name a driver or a node label gives it, and its price."""

import re
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Final

from msgspec.structs import replace

from gputailor_agent.catalog.devices import (
    GIB,
    DeviceSpec,
    MigProfile,
    read_aliases,
    read_devices,
    read_mig_profiles,
    read_price_rows,
    read_reserved_rows,
)
from gputailor_agent.catalog.own import described, read_devices_of, read_prices_of
from gputailor_agent.catalog.physics import contradictions
from gputailor_agent.catalog.prices import (
    Price,
    kinds_of,
    labelled_price,
    list_prices,
    reserved_price,
)
from gputailor_agent.catalog.tables import Fault, Row, raise_faults

#: Two memory sizes are the same card's when they differ by less than this: drivers report a few
#: percent less than the name says, and the nearest two variants of one name differ by 17 %.
_MEMORY_TOLERANCE: Final = 0.12
_NOISE: Final = re.compile(r"\b(nvidia|geforce|corporation|graphics|device|gpu|amd|instinct|oam)\b")
_SUFFIX: Final = re.compile(r"[\s-]+(shared|mig[\s-].*)$", re.IGNORECASE)


def normalise(name: str) -> str:
    """Driver, label and list spellings of one model made equal: ``NVIDIA-L4`` -> ``l4``."""
    text = _SUFFIX.sub("", name.strip())
    text = re.sub(r"[-_/]+", " ", text.lower())
    return " ".join(_NOISE.sub(" ", text).split())


def _may_hold(device: DeviceSpec, memory_bytes: int | None) -> bool:
    """Whether a device that reports ``memory_bytes`` may be this one; unknown sizes may."""
    if memory_bytes is None or device.memory_bytes is None:
        return True
    return abs(memory_bytes - device.memory_bytes) <= _MEMORY_TOLERANCE * device.memory_bytes


class Catalogue:
    """Devices and prices. Build it with ``load_catalogue``."""

    def __init__(
        self,
        devices: tuple[DeviceSpec, ...],
        aliases: list[dict[str, str]],
        prices: list[Price],
    ) -> None:
        """Index devices by every name they go by, prices by device and instance type."""
        self.devices = devices
        self._by_key = {device.key: device for device in devices}
        self._names: dict[str, list[tuple[float | None, DeviceSpec]]] = defaultdict(list)
        for device in devices:
            self._names[normalise(device.key)].append((None, device))
        for row in aliases:
            gib = float(row["memory_gib"]) if row["memory_gib"] else None
            entry = (gib, self._by_key[row["accelerator"]])
            if entry not in self._names[row["name"]]:
                self._names[row["name"]].append(entry)
        self._prices = prices
        self._by_instance = {
            price.instance_type: self._by_key[price.accelerator]
            for price in reversed(prices)  # own prices come first and win
            if price.instance_type and price.accelerator
        }

    @property
    def prices(self) -> tuple[Price, ...]:
        """Every price, own prices first."""
        return tuple(self._prices)

    def find(self, model: str, memory_bytes: int | None = None) -> DeviceSpec | None:
        """Return the device of an NVML, GFD or price-list name; None when it is not known.

        ``memory_bytes`` decides between variants of one name (an "A100" of 40 or 80 GB), and a
        device of clearly another size is not the one meant (an RTX 3080 of 12 GB).
        """
        entries = self._names.get(normalise(model))
        if not entries:
            return None
        if memory_bytes is not None:
            near = [
                (abs(memory_bytes / GIB - gib), device)
                for gib, device in entries
                if gib is not None and abs(memory_bytes / GIB - gib) <= _MEMORY_TOLERANCE * gib
            ]
            if near:
                return min(near, key=lambda pair: pair[0])[1]
        plain = [device for gib, device in entries if gib is None]
        keys = {device.key for _, device in entries}
        found = plain[0] if plain else entries[0][1] if len(keys) == 1 else None
        return found if found is not None and _may_hold(found, memory_bytes) else None

    def of_instance(self, instance_type: str) -> DeviceSpec | None:
        """Return the device of a cloud's instance type by its price list; None where unknown."""
        return self._by_instance.get(instance_type)

    def price(
        self,
        spec: DeviceSpec,
        *,
        instance_type: str = "",
        region: str = "",
        capacity_type: str = "on-demand",
        labels: dict[str, str] | None = None,
    ) -> Price | None:
        """Price of one GPU hour; None where nothing is known.

        Order: what the node's own ``labels`` tell, own price of the instance type, own price of the
        model, list price of the instance type (same region first), then an estimate: the median
        over providers of each provider's cheapest price per GPU of that model. Reserved capacity
        takes a price of a commitment, else that on demand.
        """
        told = labelled_price(labels, spec.key) if labels else None
        if told is not None:
            return told
        kinds = kinds_of(capacity_type)
        found = (self._price_of_kind(spec, kind, instance_type, region) for kind in kinds)
        return next((price for price in found if price is not None), None)

    def _price_of_kind(
        self, spec: DeviceSpec, kind: str, instance_type: str, region: str
    ) -> Price | None:
        usable = [price for price in self._prices if price.kind == kind]
        own = [price for price in usable if price.own]
        listed = [price for price in usable if not price.own]
        for group in (
            [p for p in own if instance_type and p.instance_type == instance_type],
            [p for p in own if p.accelerator == spec.key and not p.instance_type],
            [p for p in listed if instance_type and p.instance_type == instance_type],
        ):
            if group:
                return max(group, key=lambda price: price.region == region)
        if kind.startswith("reserved") and instance_type:
            return None  # another instance's commitment says nothing about this one's
        return self._estimate([p for p in listed if p.accelerator == spec.key])

    def _estimate(self, prices: list[Price]) -> Price | None:
        cheapest: dict[str, Price] = {}
        for price in prices:
            best = cheapest.get(price.provider)
            whole = price.gpu_count >= 1
            if whole and (best is None or price.amount_per_gpu_hour < best.amount_per_gpu_hour):
                cheapest[price.provider] = price
        if not cheapest:
            return None
        chosen = list(cheapest.values())
        return replace(
            chosen[0],
            amount_per_gpu_hour=median(price.amount_per_gpu_hour for price in chosen),
            provider=" ".join(sorted(cheapest)),
            instance_type="",
            region="",
            as_of=max(price.as_of for price in chosen),
            source="median over providers of the cheapest list price per GPU",
            gpu_count=1,
            estimate=True,
        )


def load_catalogue(own: Path | None = None) -> Catalogue:
    """Read the data files and, if given, a user's own file or folder of prices and hardware.

    Raises ``CatalogueError`` with every fault of the own files when they cannot be used.
    """
    catalogue, faults = load_with_faults(own)
    raise_faults(faults)
    return catalogue


def load_with_faults(own: Path | None) -> tuple[Catalogue, tuple[Fault, ...]]:
    """The catalogue as far as own files are sound, and all that is wrong with them.

    Raises ``CatalogueError`` only where a file cannot be read at all.
    """
    devices, aliases, mig = _packaged()
    if own is None:
        return Catalogue(devices, aliases, _list_prices(Catalogue(devices, aliases, []))), ()
    rows, faults = read_devices_of(own)
    for row in rows:
        if row["mig_card"] and row["mig_card"] not in mig:
            told = f"must be a card of MIG profiles: {', '.join(sorted(mig))}"
            faults.append(row.fault("mig_card", told))
    devices, aliases = _with_own(devices, aliases, mig, rows)
    bare = Catalogue(devices, aliases, [])
    faults += [fault for row in rows for fault in _impossible(row, bare.find(row["accelerator"]))]
    prices, wrong = read_prices_of(own, bare.find)
    catalogue = Catalogue(devices, aliases, [*prices, *_list_prices(bare)])
    return catalogue, (*faults, *wrong)


def _impossible(row: Row, device: DeviceSpec | None) -> list[Fault]:
    """What a row of own hardware claims beyond what its kind can do; less is a user's to know."""
    found = () if device is None else contradictions(device)
    return [row.fault(one.figure, one.told) for one in found if one.over and row[one.figure]]


def _packaged() -> tuple[
    tuple[DeviceSpec, ...], list[dict[str, str]], dict[str, tuple[MigProfile, ...]]
]:
    aliases, mig = read_aliases(), read_mig_profiles()
    mig_by_accelerator = {
        row["accelerator"]: mig[row["mig_card"]] for row in aliases if row["mig_card"]
    }
    return read_devices(mig_by_accelerator), aliases, mig


def _with_own(
    devices: tuple[DeviceSpec, ...],
    aliases: list[dict[str, str]],
    mig: dict[str, tuple[MigProfile, ...]],
    rows: list[Row],
) -> tuple[tuple[DeviceSpec, ...], list[dict[str, str]]]:
    """Devices and aliases with own hardware: of one name, the own one stands in its place."""
    known = {device.key: device for device in devices}
    names = [*aliases]
    for device, others, card in described(rows, Catalogue(devices, aliases, []).find):
        known[device.key] = replace(device, mig=mig.get(card, device.mig))
        names += [
            {"name": normalise(name), "memory_gib": "", "accelerator": device.key, "mig_card": ""}
            for name in others
        ]
    return tuple(known.values()), names


def _list_prices(bare: Catalogue) -> list[Price]:
    """Our own snapshots of list prices."""
    prices: list[Price] = []
    for row in read_price_rows():
        memory = row["gpu_memory_gib_each"]
        # Parts of a card (a sixth of an A10) are listed with their part of its memory.
        spec = bare.find(row["gpu_model"], int(float(memory) * GIB) if memory else None)
        if spec is None and float(row["gpu_count"] or 0) < 1:
            spec = bare.find(row["gpu_model"])
        prices.extend(list_prices(row, spec.key if spec else ""))
    for row in read_reserved_rows():
        spec = bare.find(row["gpu_model"], int(float(row["gpu_memory_gib_each"]) * GIB))
        prices.append(reserved_price(row, spec.key if spec else ""))
    return prices
