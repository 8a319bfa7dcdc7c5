"""``gputailor-exporter check``: what can be read on this node, and how to get the rest.

Reads each device twice, as the exporter would (many values need two readings), asks for the
allocations, and looks at the host's processes and mounts. Nothing is served and nothing is changed.
Exit codes: 0 everything readable that the devices have, 1 something is kept from us (no driver, no
device, a permission, a profiler, kubelet), 2 wrong usage.
"""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final, TypeVar

from gputailor_exporter.checking.node import NodeFinding, kubelet_finding, node_findings
from gputailor_exporter.checking.remedies import FAULTS, Advice, backend_advice, remedy
from gputailor_exporter.devices.base import DeviceError, DeviceIdentity, DeviceReading, Reason
from gputailor_exporter.lifecycle.assembly import Parts, StartError, assemble
from gputailor_exporter.metrics import Signal
from gputailor_exporter.options import Options, parse_options, parser
from gputailor_exporter.sampling.bounded import BoundedCalls

FINE: Final = 0
FAILED: Final = 1

#: A driver's first call may load firmware; a read takes milliseconds.
OPEN_SECONDS: Final = 30.0
READ_SECONDS: Final = 10.0

_GIB: Final = 1 << 30

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Value:
    """One value of one device: what it is now, or why it can't be read."""

    name: str
    readable: bool
    text: str  # the value, or the reason
    hint: str = ""  # what to do

    @property
    def fault(self) -> bool:
        """Whether the device has it and something keeps it from us."""
        return not self.readable and self.text in FAULTS


@dataclass(frozen=True, slots=True)
class DeviceFinding:
    """What can be read of one device; ``error`` where it does not answer at all."""

    gpu: str
    uuid: str
    model: str
    values: tuple[Value, ...] = ()
    error: str = ""
    hint: str = ""

    @property
    def fault(self) -> bool:
        """Whether something is kept from us."""
        return bool(self.error) or any(value.fault for value in self.values)

    def lacks(self, name: str) -> bool:
        """Whether ``name`` cannot be read."""
        return not any(value.readable for value in self.values if value.name == name)


@dataclass(frozen=True, slots=True)
class Outcome:
    """All that was found."""

    backend: str
    devices: tuple[DeviceFinding, ...]
    node: tuple[NodeFinding, ...]
    problem: str = ""  # why no device could be read

    @property
    def fault(self) -> bool:
        """Whether something the node has can't be read."""
        return bool(
            self.problem
            or any(device.fault for device in self.devices)
            or any(not finding.fine for finding in self.node)
        )

    @property
    def silent_signals(self) -> tuple[str, ...]:
        """Signals that no device gives: the agent's rules that need them say nothing."""
        return tuple(
            signal for signal in Signal if all(device.lacks(signal) for device in self.devices)
        )


def run(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Check the node and print what was found; returns the exit code."""
    made = parser()
    made.prog = "gputailor-exporter check"
    made.description = "Says what can be read on this node and what is missing for the rest."
    made.epilog = "exit codes: 0 all readable, 1 something is kept from us, 2 wrong usage."
    made.add_argument("--output", choices=("table", "json"), help="default: table")
    options = parse_options(arguments, environment, made)
    outcome = check(options)
    if getattr(made.parse_args(arguments), "output", "table") == "json":
        import json  # noqa: PLC0415 - only here

        found = {**asdict(outcome), "silent_signals": outcome.silent_signals}
        sys.stdout.write(json.dumps(found, indent=2) + "\n")
    else:
        sys.stdout.write("\n".join(lines(outcome)) + "\n")
    return FAILED if outcome.fault else FINE


def check(options: Options, pause: Callable[[float], None] = time.sleep) -> Outcome:
    """Read what the options ask for; a driver or socket that hangs is a finding."""
    calls, advice = BoundedCalls("check"), backend_advice(options.backend)
    try:
        parts = _ask(calls, lambda: assemble(options), OPEN_SECONDS)
        _ask(calls, parts.backend.open, OPEN_SECONDS)
    except (StartError, DeviceError, TimeoutError) as error:
        return Outcome(options.backend, (), node_findings(options), _why(error, advice))
    try:
        identities = _ask(calls, parts.backend.devices, OPEN_SECONDS)
        devices = _read_all(parts, identities, options.interval, pause)
        node = (*node_findings(options), *kubelet_finding(parts.allocations, identities))
        problem = "" if identities else f"the driver lists no device. What to do: {advice.unlisted}"
        expected = _ask(calls, parts.backend.expected, READ_SECONDS)
        missing = _missing(expected, identities, advice)
        return Outcome(options.backend, devices, node, problem or missing)
    except (DeviceError, TimeoutError) as error:
        return Outcome(options.backend, (), node_findings(options), _why(error, advice))
    finally:
        try:
            _ask(calls, parts.backend.close, READ_SECONDS)
        except (DeviceError, TimeoutError) as error:
            sys.stderr.write(f"gputailor-exporter: the driver was not released: {error}\n")


def _ask(calls: BoundedCalls, function: Callable[[], Answer], seconds: float) -> Answer:
    try:
        return calls.ask(function, seconds)
    except TimeoutError:
        raise TimeoutError(f"the driver has not answered for {seconds:g} s") from None


def _why(error: Exception, advice: Advice) -> str:
    """What stands in the way; other errors say themselves what to do."""
    return (
        f"{error}. What to do: {advice.faulty}" if isinstance(error, TimeoutError) else str(error)
    )


def _missing(expected: int | None, identities: Iterable[DeviceIdentity], advice: Advice) -> str:
    present = sum(1 for one in identities if not one.parent_uuid)
    if expected is None or present >= expected:
        return ""
    return f"{present} of {expected} GPUs answer. What to do: {advice.faulty}"


# -- devices ---------------------------------------------------------------------------------------


def _read_all(
    parts: Parts,
    identities: Sequence[DeviceIdentity],
    interval: float,
    pause: Callable[[float], None],
) -> tuple[DeviceFinding, ...]:
    """Two readings of each device with a pause between; a device that hangs harms only itself."""
    threads = {one.uuid: BoundedCalls(f"check {one.uuid}") for one in identities}
    last: dict[str, DeviceReading | DeviceError | TimeoutError] = {}
    for turn in range(2):
        if turn:
            pause(interval)
        for one in identities:
            if not isinstance(last.get(one.uuid), TimeoutError):
                last[one.uuid] = _read(parts, one, threads[one.uuid])
    return tuple(_finding(one, last[one.uuid]) for one in identities)


def _read(
    parts: Parts, device: DeviceIdentity, calls: BoundedCalls
) -> DeviceReading | DeviceError | TimeoutError:
    try:
        return calls.ask(lambda: parts.backend.read(device, time.monotonic()), READ_SECONDS)
    except (DeviceError, TimeoutError) as error:
        return error


def _finding(
    device: DeviceIdentity, outcome: DeviceReading | DeviceError | TimeoutError
) -> DeviceFinding:
    model = " ".join(part for part in (device.model, device.mig_profile) if part)
    if isinstance(outcome, DeviceReading):
        return DeviceFinding(device.index, device.uuid, model, tuple(_values(device, outcome)))
    reason = outcome.reason if isinstance(outcome, DeviceError) else Reason.TIMEOUT
    hint = remedy(device, "", reason)
    return DeviceFinding(device.index, device.uuid, model, (), f"{reason}: {outcome}", hint)


def _values(device: DeviceIdentity, reading: DeviceReading) -> Iterator[Value]:
    """Signals first, in the contract's order, then the rest; then what is missing of the rest."""
    seen = set()
    for name, text in _readable(reading):
        seen.add(name)
        yield Value(name, readable=True, text=text)
    names = [*Signal, *sorted(set(reading.unavailable) - set(Signal))]
    for name in names:
        reason = reading.unavailable.get(name)
        if reason is not None and name not in seen:
            yield Value(name, False, str(reason), remedy(device, name, reason))  # noqa: FBT003


def _readable(reading: DeviceReading) -> Iterator[tuple[str, str]]:
    for signal in Signal:
        if signal in reading.signals:
            yield signal, f"{reading.signals[signal].value:.2f}"
    if reading.memory is not None:
        used, total = reading.memory.used_bytes / _GIB, reading.memory.total_bytes / _GIB
        yield "memory", f"{used:.1f} of {total:.1f} GiB"
    for name, number, unit in (
        ("power", reading.power_watts, "W"),
        ("power_limit", reading.power_limit_watts, "W"),
        ("energy", reading.energy_joules, "J"),
    ):
        if number is not None:
            yield name, f"{number:.0f} {unit}"
    for name, found in (
        ("temperature", reading.temperatures_celsius),
        ("clock", reading.clocks_hertz),
        ("pcie_bytes", reading.pcie_bytes),
        ("nvlink_bytes", reading.nvlink_bytes),
        ("ecc_errors", reading.ecc_errors),
        ("remapped_rows", reading.remapped_rows),
    ):
        if found:
            yield name, ", ".join(f"{key} {number:g}" for key, number in sorted(found.items()))
    if reading.throttle_reasons is not None:
        yield "throttle_reasons", ", ".join(sorted(reading.throttle_reasons)) or "none"
    if reading.processes is not None:
        known = "with" if reading.process_utilization_known else "without"
        yield "processes", f"{len(reading.processes)}, {known} their utilisation"


# -- words -----------------------------------------------------------------------------------------


def lines(outcome: Outcome) -> Iterator[str]:
    """The text that people read."""
    yield f"back end {outcome.backend}: {len(outcome.devices)} devices"
    if outcome.problem:
        yield f"PROBLEM {outcome.problem}"
    for device in outcome.devices:
        yield ""
        yield f"GPU {device.gpu}  {device.model or 'unknown model'}  {device.uuid}"
        if device.error:
            yield f"  DOES NOT ANSWER  {device.error}. What to do: {device.hint}"
        width = max((len(value.name) for value in device.values), default=0)
        for value in device.values:
            state = "ok" if value.readable else "MISSING" if value.fault else "-"
            said = f"{value.text}: {value.hint}" if value.hint else value.text
            yield f"  {value.name:{width}}  {state:7}  {said}"
    yield ""
    yield "node"
    width = max((len(one.name) for one in outcome.node), default=0)
    for one in outcome.node:
        said = one.text if one.fine else f"{one.text}. What to do: {one.hint}"
        yield f"  {one.name:{width}}  {'ok' if one.fine else 'MISSING':7}  {said}"
    if outcome.devices and outcome.silent_signals:
        yield ""
        yield (
            f"No device gives {', '.join(outcome.silent_signals)}: the agent's rules that need "
            "them stay silent or less sure (docs/rules.md)."
        )
