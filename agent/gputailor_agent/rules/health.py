"""Health: hardware errors that the driver reported, and clocks that heat or power held down.

Xid codes are the driver's own (NVIDIA, "XID errors"): those listed here are of the hardware or of
the driver; codes of programs (13, 31, 43, 45) are shown and decide nothing, and so does a power
cap, which every card reaches under full load. ECC errors show as Xid 48, 64, 92, 94, 95 and 140;
where an exporter tells but the latest Xid, which hides repeats, uncorrected ECC errors and a failed
remapping of rows count beside it. Corrected ones are shown and decide nothing.

Throttled seconds are counted while the clocks are held down, one reason beside another, so that of
several reasons the longest counts. How much slower the clocks were is not told: the time lost is at
most the time throttled, and no saving is counted.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from gputailor_agent.dialects import conditions as told
from gputailor_agent.model.judgement import (
    Confidence,
    Evidence,
    Finding,
    Interval,
    Message,
    Saving,
    Severity,
    Silence,
    SilenceKind,
)
from gputailor_agent.model.profile import GpuUse, Profile
from gputailor_agent.rules import changes
from gputailor_agent.rules.advising import Advice, found
from gputailor_agent.rules.base import (
    Context,
    Limits,
    Rule,
    Threshold,
    held_against,
    message,
    noted,
    silence,
)
from gputailor_agent.rules.gates import GATE_MESSAGES, never_held
from gputailor_agent.rules.pricing import node_of

_ID: Final = "health"
_HOUR: Final = 3600.0
_SHOWN: Final = 4
#: Half of a count: counts that were split over hours lie on a grid.
_HALF: Final = 0.5
_GRAVE: Final = 0.25
#: Reasons that are no setting and no ordinary limit -> what holds the clocks down.
_REASONS: Final = {
    told.HW_SLOWDOWN: "heat or power",
    told.HW_THERMAL: "heat",
    told.POWER_BRAKE: "the power supply",
    told.SW_THERMAL: "heat",
    told.THERMAL: "heat",
}
#: Xid codes of the hardware or the driver (NVIDIA, "XID errors", catalogue).
_HARDWARE: Final = {
    48: "double-bit ECC error",
    62: "the card's micro-controller halted",
    64: "a memory row could not be remapped",
    74: "NVLink error",
    79: "the GPU fell off the bus",
    92: "many single-bit ECC errors",
    94: "contained ECC error",
    95: "uncontained ECC error",
    119: "the GPU's system processor did not answer",
    120: "the GPU's system processor failed",
    140: "ECC error that could not be recovered",
}
#: Names of what decides, as a row's conditions have them; notices watch for these.
HARDWARE_ERRORS: Final = frozenset(
    {told.ECC_UNCORRECTED, *(f"{told.XID}{code}" for code in _HARDWARE)}
)
THROTTLING: Final = frozenset(_REASONS)
_LINKS: Final = (
    "https://docs.nvidia.com/deploy/xid-errors/index.html",
    "https://docs.nvidia.com/datacenter/dcgm/latest/user-guide/dcgm-diagnostics.html",
)
_LOOK: Final = """\
# on the node, once it is empty
dmesg | grep -i xid
nvidia-smi -q -d ECC,ROW_REMAPPER,PERFORMANCE,TEMPERATURE,POWER
dcgmi diag -r 3
"""
_ERRORS_FORMULA: Final = (
    f"Xid {', '.join(map(str, _HARDWARE))}, uncorrected ECC errors and failed remappings while it "
    "held the GPUs; at least, where an exporter tells but the latest Xid"
)
_FORMULA: Final = "1 - throttled seconds / seconds held of the worst GPU; at most 1"

_THRESHOLDS: Final = (
    Threshold(
        "coverage",
        0.98,
        "ratio",
        "least share of the held time whose throttling and errors were told",
    ),
    Threshold("hardware_errors", 1, "count", "errors of the hardware or the driver: act"),
    Threshold(
        "throttled_share",
        0.05,
        "ratio",
        "held time of a GPU with its clocks held down by heat or power; this project's own default",
    ),
    Threshold("least_seconds", 3600, "seconds", "a GPU held for less is not judged by throttling"),
)

_MESSAGES: Final = {
    **GATE_MESSAGES,
    "health.hardware": "{gpus:count} of its {all:count} GPU(s) reported errors of the hardware or "
    "the driver ({errors}; node {nodes}): let nothing new start there, and have it tested",
    "health.throttled": "the clocks of {gpus:count} of its {all:count} GPU(s) were held down by "
    "{reason} (worst: {share:ratio} of the time held; node {nodes}): have cooling and power looked "
    "at",
    "health.unquantified": "how much slower the clocks were is not told; the time lost is at most "
    "{hours:count} GPU-hours in the window",
    "health.repair": "what runs on a faulty GPU may fail or be wrong; that has no price here",
    "health.fine": "no error of the hardware was reported, and clocks were held down by heat or "
    "power for {share:ratio} of the time at most",
    "health.short": "too short to judge: no GPU was held for {needed:seconds}",
    "health.unknown": "unknown: of {told:ratio} of the time held is it known whether clocks were "
    "held down; the GPU Tailor exporter tells that and Xid errors, dcgm-exporter does with "
    "DCGM_FI_DEV_CLOCKS_EVENT_REASONS or DCGM_FI_DEV_THERMAL_VIOLATION among its counters",
    "health.unknown_errors": "unknown: of {told:ratio} of the time held is it known whether the "
    "hardware had errors; the GPU Tailor exporter tells Xid errors, dcgm-exporter does with "
    "DCGM_FI_DEV_XID_ERRORS or DCGM_FI_DEV_ECC_DBE_VOL_TOTAL among its counters",
    "health.risk_pods": "pods on the node go on; a drain would end them",
    "health.risk_capacity": "the node's other GPUs are out of use meanwhile",
    "health.risk_history": "the exporter counts Xid errors from its own start: earlier ones are "
    "not known; one that tells but the latest code hides repeats",
    "health.not_reset": "a reset of the GPU: pods on it would end, and a fault comes back",
    "health.not_power_cap": "a power cap: it is a setting, and ordinary under full load",
    "health.not_program": "Xid 13, 31, 43, 45: most are faults of the program, so they are shown "
    "and decide nothing",
}


@dataclass(frozen=True, slots=True)
class _Sick:
    """One device: what was told of it. ``throttled`` None: not told. ``ecc``: uncorrected.

    ``clocks`` and ``faults``: seconds held of which throttling was told, and errors.
    """

    use: GpuUse
    errors: dict[int, float]
    ecc: float
    remap_failed: bool
    throttled: float | None
    reason: str
    reasons: tuple[str, ...]
    clocks: float
    faults: float

    @property
    def share(self) -> float:
        """Throttled share of the time held, 0..1."""
        held = self.use.allocated_seconds
        return min(1.0, (self.throttled or 0.0) / held) if held > 0 else 0.0

    @property
    def hardware(self) -> float:
        """Errors of the hardware or the driver."""
        xids = sum(count for code, count in self.errors.items() if code in _HARDWARE)
        return xids + self.ecc + self.remap_failed


@dataclass(frozen=True, slots=True)
class _Known:
    """Shares of the held time (0..1) of which throttling was told, and errors."""

    clocks: float
    errors: float


def evaluate(profile: Profile, context: Context) -> Finding | Silence:
    """Say whether a GPU of the workload is faulty, or held down by heat or power."""
    limits = RULE.limits(context)
    silent = never_held(_ID, profile)
    if silent is not None:
        return silent
    devices = [_sick(use) for use in profile.gpus]
    broken = [one for one in devices if one.hardware > limits["hardware_errors"] - _HALF]
    long_enough = [
        one for one in devices
        if one.throttled is not None and one.use.allocated_seconds >= limits["least_seconds"]
    ]  # fmt: skip
    hot = [one for one in long_enough if one.share >= limits["throttled_share"]]
    known = _known(devices)
    evidence = _evidence(profile, devices, long_enough, known, limits)
    if broken:
        return _hardware(profile, context, broken, evidence)
    if hot:
        return _throttled(profile, context, hot, evidence)
    return _silence(profile, evidence, long_enough, known, limits)


def _sick(use: GpuUse) -> _Sick:
    of, held = use.conditions, use.allocated_seconds
    errors, clocks, known = dict[int, float](), False, False
    for name, amount in of.items():
        if name.startswith(told.OF_HEALTH):
            known = True
            clocks |= name.startswith(told.THROTTLED)
            code = name.removeprefix(told.XID)
            if amount > 0 and code.isdigit():
                errors[int(code)] = amount
    reasons = tuple(name for name in _REASONS if name in of)
    worst = max(reasons, key=lambda name: (of[name], name), default="")
    return _Sick(
        use,
        errors,
        of.get(told.ECC_UNCORRECTED, 0.0),
        of.get(told.ROW_REMAP_FAILED, 0.0) > 0,
        of.get(worst),
        worst,
        reasons,
        held - of.get(told.UNTOLD_THROTTLING, 0.0) if clocks else 0.0,
        held - of.get(told.UNTOLD_ERRORS, 0.0) if known else 0.0,
    )


def _known(devices: list[_Sick]) -> _Known:
    held = sum(one.use.allocated_seconds for one in devices)
    if held <= 0:
        return _Known(0.0, 0.0)
    clocks, errors = (sum(getattr(one, of) for one in devices) for of in ("clocks", "faults"))
    return _Known(max(0.0, clocks / held), max(0.0, errors / held))


def _evidence(
    profile: Profile,
    devices: list[_Sick],
    judged: list[_Sick],
    known: _Known,
    limits: Limits,
) -> tuple[Evidence, ...]:
    worst = max((one.share for one in judged), default=None)
    rows = [
        held_against("time of which throttling was told", known.clocks, ">=",
                     limits["coverage"], unit="ratio", profile=profile,
                     formula="held seconds of GPUs whose throttled seconds were counted / held"),
        held_against("time of which errors were told", known.errors, ">=",
                     limits["coverage"], unit="ratio", profile=profile,
                     formula="held seconds of GPUs whose errors were counted, or whose latest code "
                     "was told / held"),
        held_against("errors of the hardware", sum(one.hardware for one in devices), ">=",
                     limits["hardware_errors"], unit="count", profile=profile,
                     formula=_ERRORS_FORMULA),
        held_against("throttled by heat or power, worst GPU", worst, ">=",
                     limits["throttled_share"], unit="ratio", profile=profile,
                     formula=f"throttled / held seconds, longest of {_spoken(devices)}"),
    ]  # fmt: skip
    codes = sorted({code for one in devices for code in one.errors})
    rows += [
        noted(f"Xid {code}", sum(one.errors.get(code, 0.0) for one in devices), unit="count",
              profile=profile, formula=_HARDWARE.get(code, "see NVIDIA's list of Xid errors"))
        for code in codes
    ]  # fmt: skip
    for kind, word in ((told.ECC_UNCORRECTED, "uncorrected"), (told.ECC_CORRECTED, "corrected")):
        counted = [use.conditions[kind] for use in profile.gpus if kind in use.conditions]
        if counted:
            rose = "rise of the driver's counter while it held the GPUs"
            name = f"{word} ECC errors"
            rows.append(noted(name, sum(counted), unit="count", profile=profile, formula=rose))
    return tuple(rows)


def _spoken(devices: list[_Sick]) -> str:
    """The reasons that were told, by their names; all there are where none was."""
    names = {name for one in devices for name in one.reasons} or set(_REASONS)
    return ", ".join(name.removeprefix(told.THROTTLED) for name in _REASONS if name in names)


def _nodes(context: Context, sick: Iterable[_Sick]) -> tuple[str, ...]:
    names = set()
    for one in sick:
        node = node_of(context, one.use)
        device = one.use.device
        names.add(node.name if node is not None else device.node if device is not None else "")
    return tuple(sorted(names - {""}))


def _hardware(
    profile: Profile, context: Context, broken: list[_Sick], evidence: tuple[Evidence, ...]
) -> Finding:
    nodes = _nodes(context, broken)
    why = message(
        "health.hardware",
        gpus=len({one.use.gpu_uuid for one in broken}),
        all=_count(profile),
        errors=", ".join(_named(broken)),
        nodes=", ".join(nodes) or "not known",
    )
    advice = Advice(
        severity=Severity.HIGH,
        confidence=Confidence.HIGH,
        reason="the driver itself reported the errors while the workload held the GPUs",
        change=changes.cordon(nodes, _LOOK, _LINKS),
        saving=Saving(why=message("health.repair"), formula="not counted"),
        risks=_RISKS,
        not_chosen=_NOT_CHOSEN,
    )
    return found(_ID, profile, why, advice, evidence)


def _named(broken: list[_Sick]) -> list[str]:
    """The errors by their names, the first few codes."""
    codes = sorted({code for one in broken for code in one.errors if code in _HARDWARE})
    names = [f"Xid {code}: {_HARDWARE[code]}" for code in codes[:_SHOWN]]
    ecc = sum(one.ecc for one in broken)
    if ecc >= _HALF:
        names.append(f"{ecc:.0f} uncorrected ECC error{'s' * (ecc >= 1 + _HALF)}")
    if any(one.remap_failed for one in broken):
        names.append("a memory row that could not be remapped")
    return names


def _throttled(
    profile: Profile, context: Context, hot: list[_Sick], evidence: tuple[Evidence, ...]
) -> Finding:
    nodes, worst = _nodes(context, hot), max(hot, key=lambda one: one.share)
    hours = sum(one.throttled or 0.0 for one in hot) / _HOUR
    why = message(
        "health.throttled",
        gpus=len({one.use.gpu_uuid for one in hot}),
        all=_count(profile),
        reason=_REASONS[worst.reason],
        share=worst.share,
        nodes=", ".join(nodes) or "not known",
    )
    advice = Advice(
        severity=Severity.MEDIUM if worst.share >= _GRAVE else Severity.LOW,
        confidence=Confidence.MEDIUM,
        reason="throttled seconds were counted; how low the clocks were was not",
        change=changes.cordon(nodes, _LOOK, _LINKS[1:]),
        saving=Saving(why=message("health.unquantified", hours=hours), formula=_FORMULA),
        slowdown=Interval(low=1.0 - worst.share, high=1.0),
        risks=_RISKS,
        not_chosen=_NOT_CHOSEN,
    )
    lost = noted("GPU-hours with clocks held down", hours, unit="count", profile=profile,
                 formula="throttled seconds of the GPUs above the threshold / 3600")  # fmt: skip
    return found(_ID, profile, why, advice, (*evidence, lost))


def _count(profile: Profile) -> int:
    return len({use.gpu_uuid for use in profile.gpus})


def _silence(
    profile: Profile,
    evidence: tuple[Evidence, ...],
    judged: list[_Sick],
    known: _Known,
    limits: Limits,
) -> Silence:
    of_clocks, of_errors = known.clocks < limits["coverage"], known.errors < limits["coverage"]
    missing = ("throttled_seconds",) * of_clocks + ("xid_errors",) * of_errors
    if missing:
        why = message("health.unknown", told=known.clocks)
        if not of_clocks:
            why = message("health.unknown_errors", told=known.errors)
        return silence(_ID, profile, SilenceKind.UNKNOWN, why, evidence, missing_signals=missing)
    if not judged:
        why = message("health.short", needed=limits["least_seconds"])
        return silence(_ID, profile, SilenceKind.WATCHING, why, evidence)
    why = message("health.fine", share=max(one.share for one in judged))
    return silence(_ID, profile, SilenceKind.FINE, why, evidence)


_RISKS: Final[tuple[Message, ...]] = (
    message("health.risk_pods"),
    message("health.risk_capacity"),
    message("health.risk_history"),
)
_NOT_CHOSEN: Final = (
    message("health.not_reset"),
    message("health.not_power_cap"),
    message("health.not_program"),
)

RULE: Final = Rule(
    id=_ID,
    title="Faulty or throttled GPUs",
    summary="The driver reported errors of a GPU, or heat or power holds its clocks down.",
    signals=(),
    thresholds=_THRESHOLDS,
    messages=_MESSAGES,
    evaluate=evaluate,
    order=15,
)
