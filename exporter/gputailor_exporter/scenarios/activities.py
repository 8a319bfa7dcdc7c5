"""From the document's ``activities`` to values."""

from collections.abc import Callable
from typing import Final

from gputailor_exporter.metrics import Signal
from gputailor_exporter.scenarios.document import Section
from gputailor_exporter.scenarios.shapes import (
    Burst,
    Constant,
    Hours,
    Noisy,
    OnOff,
    Ramp,
    Shape,
    Warmup,
    diurnal,
)
from gputailor_exporter.scenarios.values import Activity, MemoryCurve

#: Share of the power range each signal draws when no ``power`` is given; a plain guess.
_POWER_WEIGHTS: Final = {
    Signal.KERNEL: 0.15,
    Signal.SM: 0.35,
    Signal.TENSOR: 0.25,
    Signal.DRAM: 0.25,
}
NOTHING: Final = Activity(
    name="none",
    shape=Constant(0.0),
    levels={},
    memory=MemoryCurve(0, 0, 0, 0.0, 0.0, 0.0),
    power=0.0,
    pcie_bytes_per_second=(0.0, 0.0),
    nvlink_bytes_per_second=(0.0, 0.0),
)


def _on_off(section: Section) -> Shape:
    return OnOff(
        section.duration("period"),
        section.number("duty", 0, 1),
        section.number("on", 0, 1, 1.0),
        section.number("off", 0, 1, 0.0),
    )


def _ramp(section: Section) -> Shape:
    return Ramp(
        section.duration("duration"), section.number("from", 0, 1), section.number("to", 0, 1)
    )


def _diurnal(section: Section) -> Shape:
    day, night = section.number("day", 0, 1), section.number("night", 0, 1)
    weekend = section.number("weekend", 0, 1, day)
    return diurnal(day, night, weekend, section.number("peak_hour", 0, 24, 14.0))


def _burst(section: Section) -> Shape:
    every, length = section.duration("every"), section.duration("length")
    if length > every:
        raise section.fail("length", "expected at most the duration of every")
    return Burst(
        every,
        length,
        section.number("level", 0, 1, 1.0),
        section.number("base", 0, 1, 0.0),
        section.whole("seed", 0, 0),
    )


def _warmup(section: Section) -> Shape:
    return Warmup(
        section.duration("duration"),
        section.number("level", 0, 1),
        read_shape(section.section("then")),
    )


def _hours(section: Section) -> Shape:
    begin, end = section.clock("from"), section.clock("to")
    if end <= begin:
        raise section.fail("to", "expected a time of day after from")
    return Hours(
        section.days("days"),
        begin / 3600,
        end / 3600,
        read_shape(section.section("inside")),
        read_shape(section.section("outside")),
    )


_KINDS: Final[dict[str, Callable[[Section], Shape]]] = {
    "constant": lambda section: Constant(section.number("level", 0, 1, 1.0)),
    "on_off": _on_off,
    "ramp": _ramp,
    "diurnal": _diurnal,
    "burst": _burst,
    "warmup": _warmup,
    "hours": _hours,
}


def read_shape(section: Section) -> Shape:
    """Return the shape a section describes."""
    shape = _KINDS[section.choice("kind", _KINDS)](section)
    section.finish()
    return shape


def _noisy(shape: Shape, section: Section) -> Shape:
    noise = Noisy(
        shape,
        section.number("amplitude", 0, 1),
        section.duration("cell", 60.0),
        section.whole("seed", 0, 0),
    )
    section.finish()
    return noise


def _levels(section: Section) -> dict[Signal, float]:
    levels: dict[Signal, float] = {}
    for key in section.values:
        signal = Signal(_signal_name(section, key))
        levels[signal] = section.number(key, 0, 1)
    if levels.get(Signal.KERNEL, 0.0) < levels.get(Signal.SM, 0.0):
        raise section.fail("sm", "expected at most the level of kernel: an SM works inside kernels")
    levels.setdefault(Signal.GRAPHICS, levels.get(Signal.KERNEL, 0.0))
    levels.setdefault(Signal.MEMCOPY, levels.get(Signal.DRAM, 0.0))
    return levels


def _signal_name(section: Section, key: str) -> str:
    probe = Section(section.file, section.path, {key: key}, section.now)
    return probe.choice(key, [signal.value for signal in Signal])


def _memory(section: Section) -> MemoryCurve:
    plateau = section.size("plateau")
    curve = MemoryCurve(
        start=section.size("start", plateau),
        plateau=plateau,
        peak=section.size("peak", plateau),
        warmup=section.duration("warmup", 60.0),
        peak_at=section.duration("peak_at", 600.0),
        peak_length=section.duration("peak_length", 120.0),
    )
    if curve.peak < max(curve.plateau, curve.start):
        raise section.fail("peak", "expected at least start and plateau")
    section.finish()
    return curve


def _rates(section: Section, key: str) -> tuple[float, float]:
    if not section.has(key):
        return (0.0, 0.0)
    child = section.section(key)
    rates = float(child.size("rx", 0)), float(child.size("tx", 0))
    child.finish()
    return rates


def read_activity(name: str, section: Section) -> Activity:
    """Return the activity a section describes."""
    shape = read_shape(section.section("shape")) if section.has("shape") else Constant()
    if section.has("noise"):
        shape = _noisy(shape, section.section("noise"))
    levels = _levels(section.section("signals")) if section.has("signals") else {}
    guess = sum(weight * levels.get(signal, 0.0) for signal, weight in _POWER_WEIGHTS.items())
    activity = Activity(
        name=name,
        shape=shape,
        levels=levels,
        memory=_memory(section.section("memory")) if section.has("memory") else NOTHING.memory,
        power=section.number("power", 0, 1, guess),
        pcie_bytes_per_second=_rates(section, "pcie"),
        nvlink_bytes_per_second=_rates(section, "nvlink"),
    )
    section.finish()
    return activity
