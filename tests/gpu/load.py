"""A load on a GPU that is known beforehand, as a process of its own.

    python -m tests.gpu.load --kind tf32 --duty 0.25 --seconds 20

prints two lines of JSON: one when the work begins (the card is found, the kernel compiled, its
length measured), one when it has ended, with the seconds that the card was busy by its own clock and
what it did in them. Needs ``libcuda.so.1`` and nothing else.
"""

import argparse
import ctypes
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from tests.gpu.driver import Context, CudaError, Library
from tests.gpu.kernels import KERNELS, THREADS, VECTOR_BYTES, Kernel, Kind
from tests.gpu.pacing import PERIOD_SECONDS, Stopwatch, Tally, Unit, calibrate, hold

MIB: Final = 1024 * 1024
#: Of each of the two buffers of a memory load: no cache holds both (the largest has 126 MB, B200).
STREAM_BYTES: Final = 256 * MIB
#: Of a copy in each direction.
COPY_BYTES: Final = 16 * MIB


@dataclass(frozen=True)
class Beginning:
    """What is known when the work begins."""

    state: str  # "running"
    pid: int
    kind: str
    duty: float
    device: str
    uuid: str  # without the kind before it
    processors: int
    capability: str
    cuda: str


@dataclass(frozen=True)
class Result:
    """What was done. ``bytes_to_…`` count from the process's start, the rest from "running"."""

    state: str  # "done"
    kind: str
    duty: float
    held: float  # busy_seconds / wall_seconds
    busy_seconds: float
    wall_seconds: float
    units: int
    operations_per_busy_second: float
    bytes_per_busy_second: float  # in device memory, or over the link
    bytes_to_device: int
    bytes_to_host: int


@dataclass(frozen=True)
class Prepared:
    """A unit, and the units' worth that was spent to measure it."""

    unit: Unit
    spent: int = 0


def prepare(card: Context, kind: Kind) -> Prepared:
    """Compile and measure what ``kind`` does; ``CudaError`` where the card cannot."""
    if kind is Kind.COPY:
        return _copying(card)
    kernel = KERNELS[kind]
    if card.capability < kernel.capability:
        needed, has = (".".join(map(str, one)) for one in (kernel.capability, card.capability))
        raise CudaError(f"{kind} needs compute capability {needed}, and {card.name} has {has}")
    function = card.function(kernel.ptx, kernel.entry)
    blocks = kernel.blocks_per_processor * card.processors
    arguments = _streams(card) if kind is Kind.MEMORY else _result(card, blocks)

    def enqueue(turns: int) -> None:
        card.launch(function, blocks, THREADS, [*arguments, ctypes.c_uint(turns)])

    turns, seconds = calibrate(card, enqueue)
    return Prepared(_kernel_unit(kernel, blocks, turns, seconds, enqueue))


def _result(card: Context, blocks: int) -> list[ctypes.c_uint64]:
    return [ctypes.c_uint64(card.allocate(blocks * THREADS * ctypes.sizeof(ctypes.c_float)))]


def _streams(card: Context) -> list[ctypes.c_uint64 | ctypes.c_uint]:
    buffers = [ctypes.c_uint64(card.allocate(STREAM_BYTES)) for _ in range(2)]
    return [*buffers, ctypes.c_uint(STREAM_BYTES // VECTOR_BYTES)]


def _kernel_unit(
    kernel: Kernel, blocks: int, turns: int, seconds: float, enqueue: Callable[[int], None]
) -> Unit:
    streams = kernel.entry == KERNELS[Kind.MEMORY].entry
    return Unit(
        lambda: enqueue(turns),
        seconds,
        operations=kernel.operations_per_thread * blocks * THREADS * turns,
        bytes_moved=2 * STREAM_BYTES * turns if streams else 0,
    )


def _copying(card: Context) -> Prepared:
    """Copies of pinned memory to the card and back, one after the other."""
    device = card.allocate(COPY_BYTES)
    host = card.allocate_host(COPY_BYTES)

    def enqueue() -> None:
        card.copy_to_device(device, host, COPY_BYTES)
        card.copy_to_host(host, device, COPY_BYTES)

    watch, trials = Stopwatch(card), 8
    watch.enqueue(enqueue, trials)
    seconds = watch.wait() / trials
    unit = Unit(enqueue, seconds, bytes_to_device=COPY_BYTES, bytes_to_host=COPY_BYTES)
    return Prepared(unit, trials)


def result(kind: Kind, duty: float, prepared: Prepared, tally: Tally) -> Result:
    """Put together what was done."""
    unit, busy = prepared.unit, tally.busy_seconds
    moved = unit.bytes_moved + unit.bytes_to_device + unit.bytes_to_host
    copied = tally.units + prepared.spent
    return Result(
        state="done",
        kind=kind,
        duty=duty,
        held=tally.held,
        busy_seconds=busy,
        wall_seconds=tally.wall_seconds,
        units=tally.units,
        operations_per_busy_second=unit.operations * tally.units / busy if busy else 0.0,
        bytes_per_busy_second=moved * tally.units / busy if busy else 0.0,
        bytes_to_device=unit.bytes_to_device * copied,
        bytes_to_host=unit.bytes_to_host * copied,
    )


def run(given: argparse.Namespace, tell: Callable[[Beginning | Result], None]) -> None:
    """Do what was asked; ``CudaError`` where the driver refuses."""
    library = Library()
    kind = Kind(given.kind)
    with Context(library, given.device) as card:
        if given.hold_mib:
            card.allocate(given.hold_mib * MIB)
        prepared = prepare(card, kind)
        capability = ".".join(map(str, card.capability))
        about = (card.name, card.uuid, card.processors, capability, library.version())
        tell(Beginning("running", os.getpid(), kind, given.duty, *about))
        tally = hold(
            card, prepared.unit, duty=given.duty, seconds=given.seconds, period=given.period
        )
    tell(result(kind, given.duty, prepared, tally))


def _tell(said: Beginning | Result) -> None:
    sys.stdout.write(f"{json.dumps(asdict(said))}\n")
    sys.stdout.flush()


def _between(least: float, most: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = float("nan")
        if not least <= number <= most:
            raise argparse.ArgumentTypeError(f"expected {least:g} to {most:g}, not {text!r}")
        return number

    return parse


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(
        prog="python -m tests.gpu.load", description=__doc__.partition("\n")[0]
    )
    made.add_argument("--kind", required=True, choices=[str(one) for one in Kind])
    made.add_argument("--duty", type=_between(0.0, 1.0), default=1.0, help="share of time")
    made.add_argument("--seconds", type=_between(0.1, 86400.0), default=20.0)
    made.add_argument("--period", type=_between(0.02, 10.0), default=PERIOD_SECONDS)
    made.add_argument("--device", type=int, default=0, help="as CUDA counts")
    made.add_argument("--hold-mib", type=int, default=0, help="device memory to hold besides")
    made.add_argument("--name", help="command name to go by (15 characters)")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; 1 where the driver refuses, in its words."""
    given = parser().parse_args(arguments)
    if given.name:
        Path("/proc/self/comm").write_text(given.name, "utf-8")
    try:
        run(given, _tell)
    except CudaError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
