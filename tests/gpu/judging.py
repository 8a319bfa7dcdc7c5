"""What the exporter must say of a known load, and how near it has to come.

Sources: NVML's documentation of ``nvmlUtilization_t`` ("some kernel was executing") and of
``nvmlGpmMetricId_t``: tensor operations are apart from FP32 and FP16 math, "SM util" is the share of
multiprocessors that were busy. The bounds besides:

- *kernel* to 0.05: the driver's whole per cents, a burst cut at the window's edges, what a card
  takes to begin and end.
- *sm*, *tensor*, *fp32*, *dram* are judged by which of them work at all: how far an instruction
  mix fills a pipe differs by generation (``mma.sync`` reaches about six tenths of Hopper's peak).
- *PCIe bytes* may be a quarter above what was copied, and 5 % below: counters see packets with their
  headers (DCGM's field documentation: "including both protocol headers and data payloads"; at most
  28 bytes to a payload of 128 or 256), and requests of the other direction.
- *nvidia-smi* is asked at the same moments but not in the same microsecond; it has whole MiB and MHz,
  and the exporter reads clocks every five seconds. Power and the SM clock are compared while a load
  holds still: inside bursts of 0.2 s both are a matter of the moment.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from gputailor_exporter.metrics import Signal
from tests.gpu.comparing import Observation
from tests.gpu.kernels import Kind

#: How near a load must keep to its own duty for it to count as known.
HELD_WITHIN: Final = 0.03
KERNEL_WITHIN: Final = 0.05
#: What a pipe may show that a load does not use.
RESTING: Final = 0.05
#: Of the duty: at least so much of a pipe that the load fills.
WORKING: Final = 0.2
#: Device memory's least share of its peak while a kernel streams.
STREAMING: Final = 0.5
SM_WORKING: Final = 0.7
LINK_LEAST, LINK_MOST = 0.95, 1.25
#: PCIe 5.0 x16 has 63 GB/s each way; copies alone move less than this of any card's memory peak.
DRAM_OF_COPIES: Final = 0.15

#: Signal -> the kinds of load that work with it; all others have to leave it at rest.
PIPES: Final[Mapping[Signal, frozenset[Kind]]] = {
    Signal.TENSOR: frozenset({Kind.TF32, Kind.FP16}),
    Signal.FP32: frozenset({Kind.FP32}),
    Signal.FP16: frozenset(),  # FP16 math outside of tensor cores
    Signal.FP64: frozenset(),
}

#: Figure -> relative and absolute distance that nvidia-smi may have.
SMI_WITHIN: Final[Mapping[str, tuple[float, float]]] = {
    "memory_used_bytes": (0.01, 64 * 2**20),
    "power_watts": (0.10, 5.0),
    "clock_sm_hertz": (0.05, 45e6),
    "clock_memory_hertz": (0.05, 45e6),
    "temperature_celsius": (0.0, 3.0),
}
#: Those that hold still only while the load does: a burst is shorter than a sample of either.
STEADY: Final = frozenset({"power_watts", "clock_sm_hertz"})


@dataclass(frozen=True)
class Verdict:
    """One figure and its bounds. ``measured`` None: it cannot be read, and ``why``."""

    what: str
    least: float
    most: float
    measured: float | None
    why: str = ""

    @property
    def kept(self) -> bool | None:
        """Whether the figure keeps to its bounds; None where there is none."""
        return None if self.measured is None else self.least <= self.measured <= self.most

    def __str__(self) -> str:
        """For an assertion that fails and for the table."""
        if self.measured is None:
            return f"{self.what}: cannot be read ({self.why})"
        bounds = f"{self.least:.4g} to {self.most:.4g}"
        return f"{self.what}: {self.measured:.4g}, expected {bounds}"


def judge(seen: Observation) -> list[Verdict]:
    """Hold a single load's observation against what was done."""
    kind, duty = seen.loads[0].kind, float(seen.done[0]["held"])
    held = Verdict("load", seen.loads[0].duty - HELD_WITHIN, seen.loads[0].duty + HELD_WITHIN, duty)
    return [held, *_signals(seen, kind, duty), *_link(seen, kind), *judge_smi(seen)]


def _signals(seen: Observation, kind: Kind, duty: float) -> Iterator[Verdict]:
    if kind is not Kind.COPY:  # whether copies count as a kernel differs by driver
        yield _signal(seen, Signal.KERNEL, duty - KERNEL_WITHIN, duty + KERNEL_WITHIN)
        yield _signal(seen, Signal.SM, duty * SM_WORKING - RESTING, duty + RESTING)
    for signal, kinds in PIPES.items():
        if kind in kinds and duty > 0.0:
            yield _signal(seen, signal, WORKING * duty, 1.0)
        else:
            yield _signal(seen, signal, 0.0, RESTING)
    if kind is Kind.MEMORY:
        yield _signal(seen, Signal.DRAM, STREAMING * duty, 1.0)
    else:
        yield _signal(seen, Signal.DRAM, 0.0, DRAM_OF_COPIES if kind is Kind.COPY else RESTING)


def _signal(seen: Observation, signal: Signal, least: float, most: float) -> Verdict:
    measured = seen.means.get(str(signal))
    return Verdict(str(signal), least, most, measured, seen.unreadable.get(str(signal), ""))


def _link(seen: Observation, kind: Kind) -> Iterator[Verdict]:
    """Bytes over PCIe, of each that was copied."""
    if kind is not Kind.COPY:
        return
    for direction, field in (("rx", "bytes_to_device"), ("tx", "bytes_to_host")):
        counted, copied = seen.link_bytes.get(direction), float(seen.done[0][field])
        share = None if counted is None else counted / copied
        why = _reason(seen, "pcie_bytes")
        yield Verdict(f"PCIe {direction} / copied", LINK_LEAST, LINK_MOST, share, why)


def _reason(seen: Observation, value: str) -> str:
    labels = {"gpu_uuid": seen.gpu_uuid, "signal": value}
    found = seen.closing.of("gputailor_exporter_signal_unavailable", **labels)
    return next((dict(key[1])["reason"] for key in found), "not told")


def judge_smi(seen: Observation) -> list[Verdict]:
    """Hold our gauges against nvidia-smi's; none where there is no nvidia-smi."""
    verdicts = []
    steady = all(load.duty in {0.0, 1.0} for load in seen.loads)
    for name, (relative, absolute) in SMI_WITHIN.items():
        theirs = seen.smi.get(name)
        if theirs is not None and (steady or name not in STEADY):
            room = max(abs(theirs) * relative, absolute)
            ours = seen.ours.get(name)
            verdicts.append(Verdict(f"smi {name}", theirs - room, theirs + room, ours, "not told"))
    return verdicts


def judge_sharing(seen: Observation) -> list[Verdict]:
    """Several loads on one GPU: all adds up, and each is told with what it has for itself."""
    return [*_sums(seen), *_sharers(seen)]


def _sums(seen: Observation) -> Iterator[Verdict]:
    """Sum over sharers and the rest against the device; exact but for rounding in the text."""
    kernel = {"signal": str(Signal.KERNEL)}
    counters: dict[str, dict[str, str]] = {
        "active_seconds_total": kernel,
        "energy_joules_total": {},
    }
    for name, labels in counters.items():
        whole = seen.rise(f"gputailor_device_{name}", **labels)
        parts = seen.rise(f"gputailor_container_gpu_{name}", **labels)
        rest = seen.rise(f"gputailor_device_unattributed_{name}", **labels)
        room = max(whole * 0.01, 1e-6)
        yield Verdict(f"sharers and rest, {name}", whole - room, whole + room, parts + rest)
    labels = {"gpu_uuid": seen.gpu_uuid}
    whole, parts, rest = (
        sum(seen.closing.of(f"gputailor_{name}_memory_used_bytes", **labels).values())
        for name in ("device", "container_gpu", "device_unattributed")
    )
    yield Verdict("sharers and rest, memory", whole - 1.0, whole + 1.0, parts + rest)


def _sharers(seen: Observation) -> Iterator[Verdict]:
    memory = []
    for load in seen.loads:
        labels = {"gpu_uuid": seen.gpu_uuid, "container": load.name}
        rows = seen.closing.of("gputailor_container_gpu_memory_used_bytes", **labels)
        memory.append(sum(rows.values()) if rows else None)
        active = seen.rise(
            "gputailor_container_gpu_active_seconds_total", signal="kernel", container=load.name
        )
        observed = seen.rise(
            "gputailor_container_gpu_observed_seconds_total", signal="kernel", container=load.name
        )
        share = active / observed if observed else None
        yield Verdict(f"kernel of {load.name}", 0.1, 1.0, share, "no such row")
    first, *others = zip(seen.loads, memory, strict=True)
    for load, bytes_used in others:
        more = float((load.hold_mib - first[0].hold_mib) * 2**20)
        known = None if bytes_used is None or first[1] is None else bytes_used - first[1]
        what = f"memory of {load.name} above that of {first[0].name}"
        yield Verdict(what, more - 2**25, more + 2**25, known, "no such row")
