"""What a rule is, what it may look at, and how it declares its thresholds and messages.

Templates are ``str.format`` templates whose format may name a unit (``{idle:seconds}``,
``{need:bytes}``, ``{mean:ratio}``); the reports know how to write them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final, Protocol

from gputailor_agent.catalog import DeviceSpec, Price
from gputailor_agent.model.inventory import Inventory, Node, OwnerReference
from gputailor_agent.model.judgement import (
    Evidence,
    Finding,
    Message,
    Scalar,
    Silence,
    SilenceKind,
)
from gputailor_agent.model.profile import Profile
from gputailor_agent.profiles import Holdings

#: Hours in a month: 365 x 24 / 12.
HOURS_PER_MONTH: Final = 730.0


class SettingsError(ValueError):
    """A setting of the rules makes no sense; the text says which and what there is."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """A number a rule holds measurements against; ``unit`` as in ``Evidence``."""

    name: str
    default: float
    unit: str
    meaning: str


@dataclass(frozen=True, slots=True)
class RuleSettings:
    """A user's thresholds by rule and name; what is not here has its default."""

    thresholds: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


class Catalogue(Protocol):
    """What the rules ask of a catalogue of devices and prices."""

    @property
    def devices(self) -> tuple[DeviceSpec, ...]:
        """Every device."""
        ...

    def find(self, model: str, memory_bytes: int | None = None) -> DeviceSpec | None:
        """Return the device of a driver's or a label's name."""
        ...

    def of_instance(self, instance_type: str) -> DeviceSpec | None:
        """Return the device of a cloud's instance type."""
        ...

    def price(
        self,
        spec: DeviceSpec,
        *,
        instance_type: str = "",
        region: str = "",
        capacity_type: str = "on-demand",
        labels: dict[str, str] | None = None,
    ) -> Price | None:
        """Price of one GPU hour; what the node's own ``labels`` tell comes first."""
        ...


@dataclass(frozen=True)
class Context:
    """Everything beside the profile. ``now`` in Unix seconds is the only clock there is.

    ``measured_since``: when anybody began to look (None: before the window).
    """

    now: float
    catalogue: Catalogue
    inventory: Inventory
    settings: RuleSettings = field(default_factory=RuleSettings)
    hours_per_month: float = HOURS_PER_MONTH
    measured_since: float | None = None

    @cached_property
    def holdings(self) -> Holdings:
        """Pods of the inventory by key and name."""
        return Holdings(self.inventory)

    @cached_property
    def nodes(self) -> Mapping[str, Node]:
        """Nodes of the inventory by name."""
        return MappingProxyType({node.name: node for node in self.inventory.nodes})

    @cached_property
    def owners(self) -> Mapping[str, tuple[OwnerReference, ...]]:
        """What owns the inventory's owners, by the UID of each."""
        return MappingProxyType(
            {owner.uid: owner.owners for owner in self.inventory.owners if owner.uid}
        )

    @cached_property
    def remembered(self) -> dict[Any, Any]:
        """Answers that were asked for before (prices, candidates), and ``about`` one profile."""
        return {}

    def about(self, profile: Profile) -> dict[Any, Any]:
        """Facts of a profile that several rules ask for: kept until another profile is asked about.

        Rules are asked about one profile after another, so no more than one's facts are needed.
        """
        known = self.remembered.get("about")
        if known is None or known[0] is not profile:
            known = self.remembered["about"] = (profile, {})
        facts: dict[Any, Any] = known[1]
        return facts


class Limited(Protocol):
    """What has thresholds: a rule about workloads, or one about the cluster."""

    @property
    def id(self) -> str:
        """Name by which settings know it."""
        ...

    @property
    def thresholds(self) -> tuple[Threshold, ...]:
        """Its thresholds with their defaults."""
        ...


class Limits(dict[str, float]):
    """A rule's thresholds with the user's settings on top; ``KeyError`` for one it has not."""

    def __init__(self, rule: Limited, settings: RuleSettings) -> None:
        """Take each threshold's value from the settings, else its default."""
        own = settings.thresholds.get(rule.id, {})
        super().__init__((t.name, own.get(t.name, t.default)) for t in rule.thresholds)


Answer = Finding | Silence


@dataclass(frozen=True, slots=True)
class Rule:
    """One recommendation. ``signals``: what it reads, the one it cannot do without first."""

    id: str
    title: str
    summary: str
    signals: tuple[str, ...]
    thresholds: tuple[Threshold, ...]
    messages: Mapping[str, str]
    evaluate: Callable[[Profile, Context], Answer]
    order: int = 100

    def limits(self, context: Context) -> Limits:
        """Thresholds in force; remembered."""
        key = ("limits", self.id)
        known: tuple[Rule, Limits] | None = context.remembered.get(key)
        if known is None or known[0] is not self:
            known = context.remembered[key] = (self, Limits(self, context.settings))
        return known[1]


def message(key: str, **params: Scalar) -> Message:
    """Return a message with its parameters."""
    return Message(key=key, params=params)


def silence(
    rule: str,
    profile: Profile,
    kind: SilenceKind,
    why: Message,
    evidence: tuple[Evidence, ...] = (),
    *,
    ready_at: float | None = None,
    missing_signals: tuple[str, ...] = (),
    not_chosen: tuple[Message, ...] = (),
) -> Silence:
    """Return a rule's reason to say nothing about the profile."""
    return Silence(
        rule=rule,
        workload_id=profile.workload.id,
        kind=kind,
        message=why,
        evidence=evidence,
        ready_at=ready_at,
        missing_signals=missing_signals,
        not_chosen=not_chosen,
    )


def finding_id(profile: Profile, rule: str) -> str:
    """Return the stable id of a finding: cluster, workload, rule."""
    return f"{profile.workload.cluster}/{profile.workload.id}/{rule}"


_COMPARE: Final[Mapping[str, Callable[[float, float], bool]]] = MappingProxyType(
    {
        "<": lambda value, limit: value < limit,
        "<=": lambda value, limit: value <= limit,
        ">": lambda value, limit: value > limit,
        ">=": lambda value, limit: value >= limit,
        "==": lambda value, limit: value == limit,
    }
)


def held_against(
    name: str,
    value: float | None,
    comparison: str,
    threshold: float,
    *,
    unit: str = "",
    profile: Profile,
    signal: str = "",
    formula: str,
) -> Evidence:
    """Return a number with its threshold; an unknown value never passes."""
    return Evidence(
        name=name,
        value=value,
        unit=unit,
        comparison=comparison,
        threshold=threshold,
        passed=value is not None and _COMPARE[comparison](value, threshold),
        window=profile.window,
        samples=profile.samples,
        coverage=profile.coverage(signal) if signal else None,
        formula=formula,
    )


def noted(
    name: str,
    value: Scalar,
    *,
    unit: str = "",
    profile: Profile,
    signal: str = "",
    formula: str,
) -> Evidence:
    """Return a number that only informs."""
    return Evidence(
        name=name,
        value=value,
        unit=unit,
        window=profile.window,
        samples=profile.samples,
        coverage=profile.coverage(signal) if signal else None,
        formula=formula,
    )
