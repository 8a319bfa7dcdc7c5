"""The exporter against known loads on the GPU at hand, as a table in Markdown.

    python -m tests.gpu.table            # all of it, ten minutes; goes to docs/benchmarks.md

Every figure is the exporter's over a window in which a load of our own ran (tests/gpu/load.py), with
the bounds of tests/gpu/judging.py; nvidia-smi is asked at the same moments. Nothing else should
use the GPU meanwhile.
"""

import argparse
import datetime as dt
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

from gputailor_exporter import metrics
from tests.gpu.comparing import Exporter, Load, LoadError, Observation, exporter, observe
from tests.gpu.judging import SMI_WITHIN, Verdict, judge, judge_sharing
from tests.gpu.kernels import Kind
from tests.gpu.presence import missing_gpu

DUTIES: Final = (0.0, 0.25, 0.5, 0.75, 1.0)
SECONDS: Final = 20.0
MATRIX: Final = (
    *(Load(kind, duty) for kind in (Kind.FP32, Kind.TF32, Kind.FP16) for duty in DUTIES),
    *(Load(kind, duty) for kind in (Kind.MEMORY, Kind.COPY) for duty in (0.5, 1.0)),
)
SHARING: Final = (
    Load(Kind.FP32, name="sharer-one", hold_mib=256),
    Load(Kind.FP32, name="sharer-two", hold_mib=1280),
)
SIGNALS: Final = tuple(
    str(one)
    for one in (
        metrics.Signal.KERNEL,
        metrics.Signal.SM,
        metrics.Signal.TENSOR,
        metrics.Signal.FP32,
        metrics.Signal.FP16,
        metrics.Signal.DRAM,
        metrics.Signal.MEMCOPY,
    )
)
UNKNOWN: Final = "unknown"
_SIZES: Final = ((1e12, "T"), (1e9, "G"), (1e6, "M"))


def lines(seen: Sequence[Observation], shared: Observation | None) -> Iterator[str]:
    """The table, and below it everything that does not keep to its bounds or cannot be read."""
    head = ("load", "held duty", "did", *SIGNALS, "PCIe rx / tx of copied", "smi: kernel")
    about = ("smi: memory", "power", "SM clock", "bounds")
    yield _row((*head, *about))
    yield _row(["---"] * (len(head) + len(about)))
    verdicts = [(one, judge(one)) for one in seen]
    for one, judged in verdicts:
        yield _row(_cells(one, judged))
    remarks = [(_name(one), verdict) for one, judged in verdicts for verdict in judged]
    if shared is not None:
        yield ""
        yield "Two processes share the GPU, both at full duty:"
        yield ""
        yield from (f"- {_mark(one)}{one}" for one in judge_sharing(shared))
    yield ""
    yield from _remarks(remarks)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _name(one: Observation) -> str:
    return f"{one.loads[0].kind} {one.loads[0].duty:.0%}"


def _cells(one: Observation, judged: Sequence[Verdict]) -> list[str]:
    done = one.done[0]
    missed = sum(verdict.kept is False for verdict in judged)
    return [
        _name(one),
        f"{done['held']:.3f}",
        _did(done),
        *(_ratio(one.means.get(signal)) for signal in SIGNALS),
        _links(judged),
        _ratio(one.smi.get("kernel")),
        *(_both(one, name) for name in ("memory_used_bytes", "power_watts", "clock_sm_hertz")),
        f"{missed} missed" if missed else "kept",
    ]


def _ratio(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.3f}"


def _did(done: Mapping[str, float]) -> str:
    """Speed while busy."""
    for field, unit in (("operations", "FLOP/s"), ("bytes", "B/s")):
        speed = done[f"{field}_per_busy_second"]
        if speed:
            return f"{_sized(speed)}{unit}"
    return "nothing"


def _sized(number: float) -> str:
    for size, letter in _SIZES:
        if number >= size:
            return f"{number / size:.3g} {letter}"
    return f"{number:.3g} "


def _links(judged: Sequence[Verdict]) -> str:
    shares = [one.measured for one in judged if one.what.startswith("PCIe")]
    return " / ".join(_ratio(one) for one in shares) or "-"


def _both(one: Observation, name: str) -> str:
    """Ours against nvidia-smi's."""
    units = {"memory_used_bytes": (2**20, "MiB"), "power_watts": (1, "W")}
    size, unit = units.get(name, (1e6, "MHz"))
    told = [side.get(name) for side in (one.ours, one.smi)]
    shown = (UNKNOWN if value is None else f"{value / size:.0f}" for value in told)
    return f"{' / '.join(shown)} {unit}"


def _mark(one: Verdict) -> str:
    return "MISSED: " if one.kept is False else ""


def _remarks(remarks: Sequence[tuple[str, Verdict]]) -> Iterator[str]:
    """What missed its bounds, and once for all loads what could not be read."""
    yield from (f"- MISSED: {name}: {one}" for name, one in remarks if one.kept is False)
    silent = {f"{one.what} cannot be read: {one.why}" for _, one in remarks if one.kept is None}
    yield from (f"- {text}" for text in sorted(silent))
    if not any(one.what.startswith("smi ") for _, one in remarks):
        asked = ", ".join(SMI_WITHIN)
        yield f"- no nvidia-smi on this machine: nothing to hold {asked} against"


def title(one: Observation) -> str:
    """Machine, driver and day."""
    begun = one.begun[0]
    infos = one.closing.of(metrics.DEVICE_INFO.name, gpu_uuid=one.gpu_uuid)
    info = next((dict(key[1]) for key in infos), {})
    driver = info.get("driver_version", UNKNOWN)
    today = dt.datetime.now(tz=dt.UTC).date()
    return (
        f"{begun['device']}, compute capability {begun['capability']}, {begun['processors']} SMs; "
        f"driver {driver}, CUDA {begun['cuda']}; {today}; `python -m tests.gpu.table`"
    )


def measure(
    beside: Exporter, loads: Sequence[Load], seconds: float
) -> Iterator[Observation | LoadError]:
    """One window after the other; a load that this card cannot run gives its error."""
    for load in loads:
        sys.stderr.write(f"{load.kind} at {load.duty:.0%} …\n")
        try:
            yield observe(beside, [load], seconds)
        except LoadError as error:
            yield error


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 where there is no GPU, or nothing could be measured."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.gpu.table", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each window")
    parser.add_argument("--kinds", nargs="*", choices=[str(one) for one in Kind], help="only these")
    given = parser.parse_args(arguments)
    reason = missing_gpu()
    if reason:
        sys.stderr.write(f"error: {reason}\n")
        return 1
    loads = [one for one in MATRIX if not given.kinds or one.kind in given.kinds]
    try:
        with tempfile.TemporaryDirectory() as folder, exporter(Path(folder)) as beside:
            return report(beside, loads, given.seconds, share=not given.kinds)
    except (LoadError, pytest.fail.Exception) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1


def report(beside: Exporter, loads: Sequence[Load], seconds: float, *, share: bool) -> int:
    """Measure and print; 1 where nothing could be measured."""
    found = list(measure(beside, loads, seconds))
    seen = [one for one in found if isinstance(one, Observation)]
    failed = sorted({str(one) for one in found if isinstance(one, LoadError)})
    if not seen:
        sys.stderr.write("".join(f"{text}\n" for text in failed))
        return 1
    shared = observe(beside, SHARING, seconds) if share else None
    sys.stdout.write(f"{title(seen[0])}\n\n")
    sys.stdout.write("".join(f"{line}\n" for line in lines(seen, shared)))
    sys.stdout.write("".join(f"- not run: {text}\n" for text in failed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
