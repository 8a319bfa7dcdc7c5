"""From usage and inventory to a plan: the whole chain of judgement, pure, in one call.

Where the rows came from (an archive, logs, the store) makes no difference here.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

from gputailor_agent.inventory.identity import IdentitySettings, resolve
from gputailor_agent.inventory.naming import placed
from gputailor_agent.ledger import NOTHING_ASKED, Asked, asked_of, set_aside
from gputailor_agent.model.collecting import rare_collections
from gputailor_agent.model.inventory import Inventory, Resolution
from gputailor_agent.model.judgement import Plan
from gputailor_agent.model.ledger import Decision
from gputailor_agent.model.packed import PlacedPart
from gputailor_agent.model.profile import Profile, Window
from gputailor_agent.model.usage import Device, UsageRow
from gputailor_agent.planner import make_plan
from gputailor_agent.profiles.attributing import Attribution, pod_of
from gputailor_agent.profiles.building import build_profiles, profiles_among
from gputailor_agent.profiles.edges import moved, snapped
from gputailor_agent.profiles.outlining import outline
from gputailor_agent.profiles.sharding import Shard, shards
from gputailor_agent.profiles.surroundings import Surroundings, beginning
from gputailor_agent.rules.base import Catalogue, Context, RuleSettings

if TYPE_CHECKING:
    from gputailor_agent.store import Store  # a second that files do not need
    from gputailor_agent.store.usage import UsageReading


@dataclass(frozen=True, slots=True)
class AssessmentSettings:
    """How runs join to workloads, and the user's thresholds of rules."""

    identity: IdentitySettings = field(default_factory=IdentitySettings)
    rules: RuleSettings = field(default_factory=RuleSettings)
    hourly_days: float = 8.0  # older days are read whole, see ``profiles.edges``
    shard_pods: int = 2000  # pods that are judged together; changes memory, never the plan


@dataclass(frozen=True, slots=True)
class Assessment:
    """A plan with what it was made from; of a store's profiles the outlines are kept."""

    plan: Plan
    profiles: list[Profile]
    resolution: Resolution
    asked: Asked = NOTHING_ASKED


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
        rows,
        tuple(placed(devices, inventory)),
        inventory,
        resolution,
        window,
        measured_since=measured_since,
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
    return Assessment(
        plan=plan,
        profiles=profiles,
        resolution=resolution,
        asked=asked_of(profiles, inventory, context.holdings),
    )


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
    strangers: bool = True,
) -> Assessment:
    """Judge what the store holds of ``cluster``, like ``assess``; the store is only read.

    It is read and judged shard by shard: beside the inventory no more of the cluster is in memory
    than one shard's use. Edges of the window that lie in days which are read whole move to those
    days' edges, and the plan says so. Without ``strangers`` pods that the inventory does not know
    are left out.
    """
    asked, window = window, snapped(window, now, settings.hourly_days)
    told = (*problems, *moved(asked, window, settings.hourly_days), *inventory.problems)
    outlines: list[Profile] = []
    devices = tuple(placed(store.devices(cluster), inventory))
    with rare_collections(), store.reading_usage(cluster) as usage:
        resolution = resolve(inventory, settings.identity)
        attribution = Attribution(devices, inventory)
        began = beginning(usage.parts, attribution, window)
        context = Context(
            now=now,
            catalogue=catalogue,
            inventory=inventory,
            settings=settings.rules,
            measured_since=None if began is None else began.hour,
        )
        around = Surroundings.of(
            inventory,
            devices,
            window,
            measured_since=measured_since,
            began=began,
            holdings=context.holdings,
        )
        del devices
        used = usage.pods(around.window.start, window.end)
        reading = _Reading(usage, around, attribution, nameless=("", "") in used)
        cut = shards(inventory, resolution, used, settings.shard_pods, strangers=strangers)
        built = (set_aside(reading.profiles(shard), decisions, now) for shard in cut)
        plan = make_plan(
            _outlined(chain.from_iterable(built), outlines),
            context,
            window=window,
            made_at=now,
            problems=told,
            sources=tuple(sources),
        )
    outlines.sort(key=lambda one: one.workload.id)
    return Assessment(
        plan=plan,
        profiles=outlines,
        resolution=resolution,
        asked=asked_of(outlines, inventory, context.holdings),
    )


@dataclass(frozen=True, slots=True)
class _Reading:
    """Profiles out of a store; ``nameless``: there is use that its source gave to no pod."""

    usage: "UsageReading"
    around: Surroundings
    attribution: Attribution
    nameless: bool

    def profiles(self, shard: Shard) -> list[Profile]:
        """Profiles of one shard; use without a pod is looked for on its pods' nodes."""
        window = self.around.window
        devices = tuple(self.attribution.devices_on(shard.nodes)) if self.nameless else ()
        read = self.usage.parts(window.start, window.end, shard.names, devices)
        rows: Iterable[UsageRow | PlacedPart] = self.attribution.attributed(read)
        if devices:
            names = set(shard.names)
            rows = (row for row in rows if pod_of(row) in names)
        return profiles_among(rows, self.around, shard.pods, shard.resolution)


def _outlined(profiles: Iterable[Profile], kept: list[Profile]) -> Iterator[Profile]:
    """Hand profiles on, and keep their outlines."""
    for profile in profiles:
        kept.append(outline(profile))
        yield profile
