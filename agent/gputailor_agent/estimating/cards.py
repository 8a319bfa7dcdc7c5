"""Which cards and MIG slices hold an estimate, and what they cost by the hour."""

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from gputailor_agent.catalog import Catalogue, DeviceSpec, Price
from gputailor_agent.estimating.amounts import Amount

#: ``fits``: even the high end does; ``tight``: the expected value does; ``unlikely``: only the low
#: end does; ``no``: not even that.
Verdict = Literal["fits", "tight", "unlikely", "no"]

_VOLTA: Final = (7, 0)


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """A whole card (``mig`` '') or a slice of one. ``price`` is that of the whole card."""

    device: DeviceSpec
    mig: str
    usable_bytes: int
    share: float
    price: Price | None

    @property
    def name(self) -> str:
        """The catalogue's name with the slice."""
        return f"{self.device.key} {self.mig}".strip()

    def hourly(self, gpus: int = 1) -> float | None:
        """Price per hour of so many of them, in ``price.currency``; None where nobody says."""
        return None if self.price is None else self.price.amount_per_gpu_hour * self.share * gpus


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """A card held against a need."""

    card: Card
    verdict: Verdict
    gpus: int
    price_per_hour: float | None

    @property
    def currency(self) -> str:
        """Of the price; '' without one."""
        return "" if self.card.price is None else self.card.price.currency


def cards_of(
    catalogue: Catalogue, *, vendor: str = "", slices: bool = True, half: bool = True
) -> list[Card]:
    """Cards with a known memory, and their slices if wanted.

    ``half``: the job computes in 16 bits, so NVIDIA cards before Volta are left out.
    """
    found: list[Card] = []
    for device in catalogue.devices:
        usable = device.usable_memory_bytes
        if usable is None or vendor.casefold() not in device.vendor.casefold():
            continue
        if half and _before_volta(device):
            continue
        price = catalogue.price(device)
        found.append(Card(device=device, mig="", usable_bytes=usable, share=1.0, price=price))
        if slices:
            found += [
                Card(
                    device=device,
                    mig=profile.name,
                    usable_bytes=profile.usable_memory_bytes,
                    share=profile.card_share,
                    price=price,
                )
                for profile in device.mig
                if profile.card_share < 1
            ]
    return found


def _before_volta(device: DeviceSpec) -> bool:
    major, _, minor = device.compute_capability.partition(".")
    return bool(major) and (int(major), int(minor or 0)) < _VOLTA


def verdict_of(need: Amount, usable_bytes: float) -> Verdict:
    """Whether a need fits into so many bytes."""
    if need.high <= usable_bytes:
        return "fits"
    if need.expected <= usable_bytes:
        return "tight"
    return "unlikely" if need.low <= usable_bytes else "no"


def fits(need: Amount, cards: Iterable[Card], gpus: int = 1) -> list[Fit]:
    """Every card held against the need, the cheapest first, then those without a price.

    Nothing converts currencies: those of own prices come before the list prices' dollars.

    Slices are left out for several GPUs: instances of MIG cannot exchange data directly (NVIDIA MIG
    user guide: no peer-to-peer between instances).
    """
    found = [
        Fit(
            card=card,
            verdict=verdict_of(need, card.usable_bytes),
            gpus=gpus,
            price_per_hour=card.hourly(gpus),
        )
        for card in cards
        if gpus == 1 or not card.mig
    ]
    own = {fit.currency for fit in found if fit.card.price is not None and fit.card.price.own}
    return sorted(found, key=lambda fit: (bool(own) and fit.currency not in own, *_order(fit)))


def _order(fit: Fit) -> tuple[float, int, str]:
    price = float("inf") if fit.price_per_hour is None else fit.price_per_hour
    return (price, fit.card.usable_bytes, fit.card.name)


def currencies(found: Iterable[Fit]) -> tuple[str, ...]:
    """Currencies of the prices, in order; several of them cannot be compared."""
    return tuple(dict.fromkeys(fit.currency for fit in found if fit.currency))


def next_smaller(found: Iterable[Fit]) -> Fit | None:
    """The card to aim for: of those that do not fit for sure, the largest below any that does.

    One with a price that is less than that of the cheapest fit comes first, since a smaller card
    that costs more is no aim. None where every card fits.
    """
    listed = list(found)
    fitting = [fit for fit in listed if fit.verdict == "fits"]
    others = [fit for fit in listed if fit.verdict != "fits"]
    if fitting:
        least = min(fit.card.usable_bytes for fit in fitting)
        others = [fit for fit in others if fit.card.usable_bytes < least]
    known = [fit for fit in fitting if fit.price_per_hour is not None]
    if known:
        cheapest = min(known, key=_order)
        others = [fit for fit in others if _cheaper(fit, cheapest)] or others
    return max(others, key=_size, default=None)


def _cheaper(fit: Fit, other: Fit) -> bool:
    """Whether both have a price in one currency, and this one's is lower."""
    if fit.price_per_hour is None or other.price_per_hour is None:
        return False
    return fit.currency == other.currency and fit.price_per_hour < other.price_per_hour


def _size(fit: Fit) -> tuple[int, bool, str]:
    """By memory; of two that are alike the whole card, since it needs no partition."""
    return (fit.card.usable_bytes, not fit.card.mig, fit.card.name)
