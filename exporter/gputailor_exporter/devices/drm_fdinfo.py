"""What a DRM driver tells about one open file: ``/proc/<pid>/fdinfo/<fd>``.

The format is the kernel's ``Documentation/gpu/drm-usage-stats.rst``: one ``key: value [unit]`` a
line; engine times in ns, or busy and total cycles (xe); memory by region in bytes, KiB or MiB.
Drivers differ in what they tell: nouveau has no engine times at all.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from gputailor_exporter.metrics import Signal

_UNITS: Final = {"": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}

#: Kinds of memory figures, the best first: what is resident, amdgpu's older name, what is reserved.
_KINDS: Final = ("drm-resident-", "drm-memory-", "drm-total-")

#: Regions on the device; the others (gtt, system, cpu) are the host's memory.
_DEVICE_REGIONS: Final = ("vram", "local")

#: Engines by the start of their names, as amdgpu, i915, xe and others call them. A video engine
#: that codes and decodes stands under the decoder, for such loads decode more often than not.
_ENGINES: Final[tuple[tuple[str, Signal | None], ...]] = (
    ("enc", Signal.ENCODER),
    ("dec", Signal.DECODER),
    ("jpeg", Signal.DECODER),
    ("video-enhance", None),
    ("video", Signal.DECODER),
    ("vcs", Signal.DECODER),
    ("vecs", None),
    ("vpe", None),
    ("copy", None),
    ("dma", None),
    ("bcs", None),
    ("tfu", None),
    ("cache_clean", None),
)


def signal_of(engine: str) -> Signal | None:
    """Return the signal an engine counts for: kernels, a codec, or none (it only moves data)."""
    for start, signal in _ENGINES:
        if engine.startswith(start):
            return signal
    return Signal.KERNEL


#: Drivers that leave out engines which have done nothing yet: silence is a zero there.
_SILENT_WHEN_IDLE: Final = frozenset({"amdgpu"})


@dataclass(frozen=True, slots=True)
class Usage:
    """One client's usage since it opened the device.

    ``busy``: engine -> busy time, and the clock it is measured against: None for nanoseconds, else
    the engine's total cycles; None altogether where the driver tells no times. ``memory_bytes``: on
    the device; for a device without memory of its own the host's; None where it is not told.
    """

    client: str
    driver: str = ""
    pdev: str = ""
    busy: Mapping[str, tuple[int, int | None]] | None = None
    capacity: Mapping[str, int] | None = None
    memory_bytes: int | None = None


def parse_fdinfo(text: str) -> Usage | None:
    """Return the usage of a DRM client; None for any other file. Odd lines are left out."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon and key.startswith("drm-"):
            found[key] = value.strip()
    client = found.get("drm-client-id")
    if not client:
        return None
    driver = found.get("drm-driver", "")
    return Usage(
        client=client,
        driver=driver,
        pdev=found.get("drm-pdev", "").lower(),
        busy=_busy(found) or ({} if driver in _SILENT_WHEN_IDLE else None),
        capacity=_capacity(found),
        memory_bytes=_memory(found),
    )


def _number(text: str) -> int | None:
    """Return a count with its unit applied; None for what is none."""
    digits, _, unit = text.partition(" ")
    scale = 1 if unit.strip() == "ns" else _UNITS.get(unit.strip())
    return int(digits) * scale if digits.isdecimal() and scale else None


def _by_suffix(found: Mapping[str, str], start: str) -> Iterable[tuple[str, int]]:
    for key, text in found.items():
        if key.startswith(start):
            value = _number(text)
            if value is not None:
                yield key[len(start) :], value


def _busy(found: Mapping[str, str]) -> dict[str, tuple[int, int | None]]:
    totals = dict(_by_suffix(found, "drm-total-cycles-"))
    busy: dict[str, tuple[int, int | None]] = {
        engine: (cycles, totals[engine])
        for engine, cycles in _by_suffix(found, "drm-cycles-")
        if engine in totals
    }
    for engine, nanoseconds in _by_suffix(found, "drm-engine-"):
        if not engine.startswith("capacity-"):
            busy[engine] = (nanoseconds, None)
    return busy


def _capacity(found: Mapping[str, str]) -> dict[str, int]:
    return {name: many for name, many in _by_suffix(found, "drm-engine-capacity-") if many > 0}


def _memory(found: Mapping[str, str]) -> int | None:
    for kind in _KINDS:
        regions = {
            name: size
            for name, size in _by_suffix(found, kind)
            if not name.startswith("cycles-")  # drm-total-cycles- is no memory
        }
        if regions:
            own = [size for name, size in regions.items() if name.startswith(_DEVICE_REGIONS)]
            return sum(own or regions.values())
    return None
