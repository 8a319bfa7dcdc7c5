"""Device specifications and MIG geometries: ``devices.csv``, ``throughput.csv``, ``mig.csv``.

A blank cell means unsourced or disputed and becomes None, never a guess; ``confirmed.csv`` holds
what a second place says of a figure, ``physics`` what figures owe each other. Nominal gigabytes are
marketing figures: ``memory_bytes`` takes them as GiB, ``usable_memory_bytes`` takes what a driver
reported where a source says so, else the decimal reading (10**9), which understates on purpose.
"""

import csv
from collections import defaultdict
from functools import cached_property
from importlib import resources
from typing import Final

import msgspec

from gputailor_agent.catalog.tables import Row

GIB: Final = 1024**3
MIB: Final = 1024**2
_SOURCED: Final = {
    "memory_bytes": "memory_source",
    "usable_memory_bytes": "usable_memory_source",
    "bandwidth_bytes_per_second": "bandwidth_source",
    "fp32_flops": "fp32_source",
    "fp16_tensor_flops": "tensor_source",
    "tdp_watts": "tdp_source",
    "interconnect_bytes_per_second": "interconnect_source",
    "sm_count": "sm_source",
    "tensor_cores": "tensor_cores_source",
    "compute_capability": "cc_source",
    "memory_type": "memory_type_source",
}

#: Its dense figure is that of FP16 on every card but MI100, where it is half of it.
_SAME_UNITS: Final = "bf16"

#: The cell behind each figure.
_CELLS: Final = {
    "memory_bytes": "memory_gb",
    "usable_memory_bytes": "usable_memory_mib",
    "bandwidth_bytes_per_second": "bandwidth_gb_s",
    "fp32_flops": "fp32_tflops",
    "fp16_tensor_flops": "fp16_tensor_dense_tflops",
    "tdp_watts": "tdp_w",
    "interconnect_bytes_per_second": "interconnect_gb_s_bidir",
    "sm_count": "sm_count",
    "tensor_cores": "tensor_cores",
    "compute_capability": "compute_capability",
}
_OWN_CELLS: Final = tuple(_CELLS.values())


class MigProfile(msgspec.Struct, frozen=True, kw_only=True):
    """One MIG instance profile of a card: ``compute_slices`` of 7 (4 on some cards)."""

    name: str  # "1g.10gb"
    card: str
    max_instances: int
    compute_slices: int
    memory_slices: int
    of_compute_slices: int
    of_memory_slices: int
    memory_bytes: int  # nominal, from the name
    usable_memory_bytes: int
    sm_count: int | None
    source: str
    unconfirmed: bool = False  # the row was not found again at its maker's or elsewhere

    @property
    def card_share(self) -> float:
        """What it takes from its card, 0..1: the larger of its compute and its memory slices."""
        return max(
            self.compute_slices / self.of_compute_slices,
            self.memory_slices / self.of_memory_slices,
        )


class DeviceSpec(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One accelerator. ``sources`` names where each figure comes from.

    ``dense_flops`` by number type (``throughput.csv``): operations per second of the fastest units
    for that type, without structured sparsity; ``own``: a user's own hardware.
    """

    key: str
    vendor: str
    memory_bytes: int | None
    usable_memory_bytes: int | None
    bandwidth_bytes_per_second: float | None
    fp32_flops: float | None
    fp16_tensor_flops: float | None
    sm_count: int | None
    tensor_cores: bool | None
    compute_capability: str
    tdp_watts: float | None
    interconnect_bytes_per_second: float | None  # between cards, both directions; 0: PCIe alone
    memory_type: str = ""  # "HBM3", "GDDR6"; '' where unknown
    memory_bus_bits: int | None = None
    mig: tuple[MigProfile, ...]
    sources: dict[str, str]
    note: str
    dense_flops: dict[str, float] = msgspec.field(default_factory=dict)
    #: Number types of ``dense_flops`` whose figure was not found again at its maker's or elsewhere.
    unconfirmed: tuple[str, ...] = ()
    #: Fields with a figure of ``devices.csv`` that was not found again (``confirmed.csv``).
    unconfirmed_figures: tuple[str, ...] = ()
    own: bool = False

    @cached_property
    def tensor_unconfirmed(self) -> bool:
        """Whether the FP16 tensor figure (that of BF16, too) was not found again anywhere."""
        return bool({"fp16", _SAME_UNITS} & set(self.unconfirmed))

    @cached_property
    def mig_by_name(self) -> dict[str, MigProfile]:
        """MIG profiles by name, e.g. ``1g.10gb``."""
        return {profile.name: profile for profile in self.mig}


def _number(cell: str, factor: float = 1.0) -> float | None:
    return float(cell) * factor if cell else None


def _rows(name: str) -> list[dict[str, str]]:
    text = resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def read_mig_profiles() -> dict[str, tuple[MigProfile, ...]]:
    """MIG profiles by card name (``aliases.csv`` leads from a model to its card)."""
    by_card: dict[str, list[dict[str, str]]] = defaultdict(list)
    for row in _rows("mig.csv"):
        by_card[row["card"]].append(row)
    return {card: tuple(_mig_profile(row, rows) for row in rows) for card, rows in by_card.items()}


def _mig_profile(row: dict[str, str], card_rows: list[dict[str, str]]) -> MigProfile:
    nominal_gb = float(row["profile"].split(".")[1].removesuffix("gb"))
    usable = _number(row["usable_memory_gib"], GIB) or _unmeasured(row, card_rows, nominal_gb)
    return MigProfile(
        name=row["profile"],
        card=row["card"],
        max_instances=int(row["max_instances"]),
        compute_slices=int(row["compute_slices"]),
        memory_slices=int(row["memory_slices"]),
        of_compute_slices=max(int(other["compute_slices"]) for other in card_rows),
        of_memory_slices=max(int(other["memory_slices"]) for other in card_rows),
        memory_bytes=int(nominal_gb * GIB),
        usable_memory_bytes=int(usable),
        sm_count=int(row["sm_count"]) if row["sm_count"] else None,
        source=row["source"],
        unconfirmed=not row["confirmed_by"],
    )


def _unmeasured(row: dict[str, str], card_rows: list[dict[str, str]], nominal_gb: float) -> float:
    """Usable bytes of a slice that nobody measured, never more than its measured likes suggest.

    As much as a measured slice of the card with as many memory slices; else the decimal reading of
    its name, at most its memory slices times the least that was measured for one.
    """
    slices = int(row["memory_slices"])
    measured = [
        (int(other["memory_slices"]), float(other["usable_memory_gib"]) * GIB)
        for other in card_rows
        if other["usable_memory_gib"]
    ]
    alike = [size for of, size in measured if of == slices]
    if alike:
        return min(alike)
    return min([nominal_gb * 1e9, *(slices * size / of for of, size in measured)])


def read_devices(mig_by_accelerator: dict[str, tuple[MigProfile, ...]]) -> tuple[DeviceSpec, ...]:
    """Every accelerator of ``devices.csv`` with its MIG profiles."""
    throughput = _throughput()
    confirmed = {(row["accelerator"], row["figure"]) for row in _rows("confirmed.csv")}
    return tuple(
        msgspec.structs.replace(
            _device(row, mig_by_accelerator.get(row["accelerator"], ()), throughput),
            unconfirmed_figures=_unconfirmed(row, confirmed),
        )
        for row in _rows("devices.csv")
    )


def _unconfirmed(row: dict[str, str], confirmed: set[tuple[str, str]]) -> tuple[str, ...]:
    """Fields whose cell holds a figure that ``confirmed.csv`` has no second reading of."""
    key = row["accelerator"]
    return tuple(
        name for name, cell in _CELLS.items() if row[cell] and (key, cell) not in confirmed
    )


def _throughput() -> dict[str, list[dict[str, str]]]:
    """Rows of ``throughput.csv`` by accelerator."""
    by_accelerator: dict[str, list[dict[str, str]]] = defaultdict(list)
    for row in _rows("throughput.csv"):
        by_accelerator[row["accelerator"]].append(row)
    return by_accelerator


def own_device(row: Row, base: DeviceSpec | None) -> DeviceSpec:
    """The device of a row of own hardware; what it leaves blank is ``base``'s, else unknown."""
    source = row["source"] or row.place
    cells = {name: row[name] for name in (*_OWN_CELLS, "accelerator", "vendor", "note")}
    cells |= {_SOURCED[name]: source for name, cell in _CELLS.items() if row[cell]}
    if base is None:
        return msgspec.structs.replace(_device(cells, (), {}), own=True)
    told = _device({**cells, "accelerator": base.key}, base.mig, {})
    given = {name: getattr(told, name) for name, cell in _CELLS.items() if row[cell]}
    given["unconfirmed_figures"] = tuple(
        name for name in base.unconfirmed_figures if name not in given
    )
    if row["memory_gb"] and not row["usable_memory_mib"]:
        given["usable_memory_bytes"] = told.usable_memory_bytes
    if row["fp16_tensor_dense_tflops"]:
        given["dense_flops"] = {**base.dense_flops, **told.dense_flops}
        given["unconfirmed"] = tuple(
            one for one in base.unconfirmed if one not in {*told.dense_flops, _SAME_UNITS}
        )
    return msgspec.structs.replace(
        base,
        **given,
        vendor=row["vendor"] or base.vendor,
        note=row["note"] or base.note,
        sources={**base.sources, **told.sources},
        own=True,
    )


def _device(
    row: dict[str, str],
    mig: tuple[MigProfile, ...],
    throughput: dict[str, list[dict[str, str]]],
) -> DeviceSpec:
    memory_gb = _number(row["memory_gb"])
    tensor = _number(row["fp16_tensor_dense_tflops"], 1e12)
    typed = throughput.get(row["accelerator"], [])
    dense = {one["type"]: float(one["dense_tflops"]) * 1e12 for one in typed}
    if tensor is not None:
        dense.setdefault("fp16", tensor)
    usable = _number(row["usable_memory_mib"], MIB)
    if usable is None and memory_gb is not None:
        usable = memory_gb * 1e9
    return DeviceSpec(
        key=row["accelerator"],
        vendor=row["vendor"],
        memory_bytes=None if memory_gb is None else int(memory_gb * GIB),
        usable_memory_bytes=None if usable is None else int(usable),
        bandwidth_bytes_per_second=_number(row["bandwidth_gb_s"], 1e9),
        fp32_flops=_number(row["fp32_tflops"], 1e12),
        fp16_tensor_flops=tensor,
        sm_count=int(row["sm_count"]) if row["sm_count"] else None,
        tensor_cores={"yes": True, "no": False}.get(row["tensor_cores"]),
        compute_capability=row["compute_capability"],
        tdp_watts=_number(row["tdp_w"]),
        interconnect_bytes_per_second=_number(row["interconnect_gb_s_bidir"], 1e9),
        memory_type=row.get("memory_type", ""),
        memory_bus_bits=int(row["memory_bus_bits"]) if row.get("memory_bus_bits") else None,
        mig=mig,
        sources={name: row[column] for name, column in _SOURCED.items() if row.get(column)}
        | {one["type"]: one["source"] for one in typed},
        note=row["note"],
        dense_flops=dense,
        unconfirmed=tuple(one["type"] for one in typed if not one["confirmed_by"]),
    )


def read_aliases() -> list[dict[str, str]]:
    """Rows of ``aliases.csv``: name, memory_gib (may be blank), accelerator, mig_card."""
    return _rows("aliases.csv")


def read_price_rows() -> list[dict[str, str]]:
    """Rows of ``prices.csv`` as they stand."""
    return _rows("prices.csv")


def read_reserved_rows() -> list[dict[str, str]]:
    """Rows of ``reserved.csv`` as they stand."""
    return _rows("reserved.csv")
