"""From usage and inventory to a plan: the whole chain of judgement, pure, in one call.

Where the rows came from (an archive, logs, the store) makes no difference here.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gputailor_agent.inventory.identity import IdentitySettings, resolve
from gputailor_agent.ledger import set_aside
from gputailor_agent.model.inventory import Inventory, Resolution
from gputailor_agent.model.judgement import Plan
from gputailor_agent.model.ledger import Decision
from gputailor_agent.model.packed import PlacedPart
from gputailor_agent.model.profile import Profile, Window
from gputailor_agent.model.usage import Device, UsageRow
from gputailor_agent.planner import make_plan
from gputailor_agent.profiles import build_profiles
from gputailor_agent.profiles.collecting import rare_collections
from gputailor_agent.profiles.edges import moved, snapped
from gputailor_agent.rules.base import Catalogue, Context, RuleSettings

if TYPE_CHECKING:
    from gputailor_agent.store import Store  # a second that files do not need


@dataclass(frozen=True, slots=True)
class AssessmentSettings:
    """How runs join to workloads, and the user's thresholds of rules."""

    identity: IdentitySettings = field(default_factory=IdentitySettings)
    rules: RuleSettings = field(default_factory=RuleSettings)
    hourly_days: float = 8.0  # older days are read whole, see ``profiles.edges``


@dataclass(frozen=True, slots=True)
class Assessment:
    """A plan with what it was made from."""

    plan: Plan
    profiles: list[Profile]
    resolution: Resolution


DEFAULT_SETTINGS = AssessmentSettings()


def assess(
    rows: Iterable[UsageRow | PlacedPart],
    devices: Iterable[Device],
    inventory: Inventory,
    *,
    window: Window,
    now: float,
    catalogue: Catalogue,
    settings: AssessmentSettings = DEFAULT_SETTINGS,
    problems: Sequence[str] = (),
    sources: Sequence[str] = (),
    measured_since: float | None = None,
    decisions: Sequence[Decision] = (),
) -> Assessment:
    """Judge ``rows`` inside ``window`` (Unix seconds) as of ``now``.

    ``rows`` is read once and may be a stream. ``problems`` and those of the inventory are told in
    the plan. ``measured_since`` (Unix seconds): when measuring began, where that is known. Raises
    ``SettingsError`` for thresholds that no rule has.
    """
    resolution = resolve(inventory, settings.identity)
    profiles = build_profiles(
        rows, devices, inventory, resolution, window, measured_since=measured_since
    )
    profiles = set_aside(profiles, decisions, now)
    context = Context(now=now, catalogue=catalogue, inventory=inventory, settings=settings.rules)
    plan = make_plan(
        profiles,
        context,
        window=window,
        made_at=now,
        problems=(*problems, *inventory.problems),
        sources=tuple(sources),
    )
    return Assessment(plan=plan, profiles=profiles, resolution=resolution)


def assess_store(
    store: "Store",
    cluster: str,
    inventory: Inventory,
    window: Window,
    *,
    now: float,
    catalogue: Catalogue,
    settings: AssessmentSettings = DEFAULT_SETTINGS,
    problems: Sequence[str] = (),
    sources: Sequence[str] = (),
    measured_since: float | None = None,
    decisions: Sequence[Decision] = (),
) -> Assessment:
    """Judge what the store holds of ``cluster``, like ``assess``; the store is only read.

    Edges of the window that lie in days which are read whole move to those days' edges, and the
    plan says so.
    """
    asked, window = window, snapped(window, now, settings.hourly_days)
    with rare_collections():
        return assess(
            store.usage_parts(cluster, window.start, window.end),
            store.devices(cluster),
            inventory,
            window=window,
            now=now,
            catalogue=catalogue,
            settings=settings,
            problems=(*problems, *moved(asked, window, settings.hourly_days)),
            sources=sources,
            measured_since=measured_since,
            decisions=decisions,
        )
