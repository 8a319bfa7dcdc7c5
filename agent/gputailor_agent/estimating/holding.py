"""Whether the card or slice that a container asks for holds the model that its arguments name.

The need is that of ``stated``: what is said, and the engine's default where nothing is. Where
memory is divided or moved in ways that this arithmetic does not follow, or the card is not known,
the answer is unknown with its reason, never a guess.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from gputailor_agent.catalog import Catalogue, DeviceSpec
from gputailor_agent.estimating.amounts import Amount, Part
from gputailor_agent.estimating.cards import Verdict, verdict_of
from gputailor_agent.estimating.stated import stated_estimate, stated_model
from gputailor_agent.model.inventory import ContainerSpec, Distribution, GpuRequest

_OFFLOADED: Final = re.compile(r"offload", re.IGNORECASE)
#: A compute instance inside a GPU instance has the memory of the latter.
_INSIDE: Final = re.compile(r"^\d+c\.(?=\d+g\.)")
#: Why it is not known whether a model fits.
WHY: Final = ("no_model", "divided", "offloaded", "clash", "part", "no_card")


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """One card or slice that may be meant. ``usable_bytes``: what the program may take of it."""

    name: str
    usable_bytes: int
    verdict: Verdict


class Holding(msgspec.Struct, frozen=True, kw_only=True):
    """The need of one GPU in bytes, held against what is asked for. ``why``: what is not known.

    ``said``: the arguments that told the model; ``gpus``: that share it by them; ``shared``: others
    use the same memory; ``utilisation``: share of the card that the engine takes, if it says.
    """

    model: str = ""
    task: str = ""
    said: tuple[str, ...] = ()
    gpus: int = 1
    parts: tuple[Part, ...] = ()
    total: Amount | None = None
    notes: tuple[str, ...] = ()
    utilisation: float | None = None
    shared: bool = False
    held: tuple[Held, ...] = ()
    why: str = ""

    @property
    def fits(self) -> bool | None:
        """False where no card that may be meant holds even the low end; None where not known."""
        if not self.held:
            return None
        return any(one.verdict != "no" for one in self.held)


def holding(
    container: ContainerSpec,
    spread: Distribution | None,
    names: Sequence[str],
    catalogue: Catalogue,
) -> Holding:
    """Hold a container's stated model against its request; ``names``: cards that may be meant."""
    arguments = (*container.command, *container.args)
    stated = stated_model(arguments, container.env, container.image)
    if stated is None:
        return Holding(why="no_model")
    estimate = stated_estimate(stated)
    settings = stated.serving or stated.training
    known = Holding(
        model=stated.model,
        task=stated.task,
        said=stated.evidence,
        gpus=1 if settings is None else settings.gpus,
        utilisation=stated.memory_utilisation,
    )
    if estimate is None:
        return msgspec.structs.replace(known, why="clash")
    why = _not_followed(arguments, spread)
    if why:
        return msgspec.structs.replace(known, why=why)
    known = msgspec.structs.replace(
        known, parts=estimate.parts, total=estimate.total, notes=estimate.notes
    )
    return _held(known, estimate.total, container.gpus, names, catalogue)


def _not_followed(arguments: Iterable[str], spread: Distribution | None) -> str:
    if spread is not None and ((spread.pipeline or 1) > 1 or spread.sharding):
        return "divided"
    return "offloaded" if any(_OFFLOADED.search(one) for one in arguments) else ""


def _held(
    known: Holding,
    need: Amount,
    asked: Sequence[GpuRequest],
    names: Sequence[str],
    catalogue: Catalogue,
) -> Holding:
    devices = [one for one in asked if one.kind != "other"]
    if not devices or any(one.kind == "fractional" for one in devices):
        return msgspec.structs.replace(known, why="part")
    named = [found for name in names if (found := catalogue.find(name)) is not None]
    share = known.utilisation or 1.0
    held: dict[str, Held] = {}
    for request in devices:
        for name, usable in _places(request, named, catalogue):
            most = int(usable * share)
            held[name] = Held(name=name, usable_bytes=most, verdict=verdict_of(need, most))
    return msgspec.structs.replace(
        known,
        held=tuple(held.values()),
        shared=any(one.kind == "shared" for one in devices),
        why="" if held else "no_card",
    )


def _places(
    request: GpuRequest, named: Sequence[DeviceSpec], catalogue: Catalogue
) -> list[tuple[str, int]]:
    """Cards or slices that a request may mean, with their usable bytes."""
    vendors = {_plain(one.vendor) for one in catalogue.devices}
    known = request.vendor in vendors  # some go by another name there
    ours = [one for one in named if not known or _plain(one.vendor) == request.vendor]
    if not request.mig_profile:
        return [
            (one.key, one.usable_memory_bytes)
            for one in ours
            if one.usable_memory_bytes is not None
        ]
    profile = _INSIDE.sub("", request.mig_profile)
    cut = [one for one in ours if profile in one.mig_by_name]
    if cut:
        return [(f"{one.key} {profile}", _slice_bytes(one, profile)) for one in cut]
    every = [one for one in catalogue.devices if profile in one.mig_by_name]
    sizes = {_slice_bytes(one, profile): one for one in reversed(every)}
    if len(sizes) == 1:
        return [(profile, usable) for usable in sizes]
    return [(f"{one.key} {profile}", usable) for usable, one in sorted(sizes.items())]


def _slice_bytes(card: DeviceSpec, profile: str) -> int:
    return card.mig_by_name[profile].usable_memory_bytes


def _plain(vendor: str) -> str:
    return vendor.casefold().replace(" ", "_")
