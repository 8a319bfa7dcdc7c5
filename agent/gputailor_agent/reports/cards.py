"""Cards that would hold a recorded run, and how much slower it could get on them.

The slowdown is the upper end of rule ``smaller_gpu``'s interval (``rules.slowdown``): a log tells
of no resource how much it was used, so all of them count as unknown and the lower end is always 1.
Cards of another architecture have the rule's margin on top (``rules.margins``). None where a card's
figures are not known.
"""

from collections import Counter
from typing import Final

import msgspec

from gputailor_agent.catalog import Catalogue, DeviceSpec, Price
from gputailor_agent.model.judgement import Money
from gputailor_agent.model.usage import NO_USE
from gputailor_agent.rules.margins import smaller_gpu_margins, widened_work
from gputailor_agent.rules.slowdown import smaller_gpu


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A card the run fits on. ``slowdown_at_most`` is None where a figure is not known.

    ``other_architecture``: it has the margin of ``strays``.
    """

    device: str
    usable_memory_bytes: int
    price_per_hour: Money
    estimate: bool
    price_source: str
    slowdown_at_most: float | None
    run_cost_at_most: Money | None
    is_current: bool
    other_architecture: bool = False

    @property
    def most_per_hour(self) -> float | None:
        """Price of the work that now takes an hour, slowdown included."""
        slowdown = self.slowdown_at_most
        return None if slowdown is None else self.price_per_hour.amount * slowdown


class Guess(msgspec.Struct, frozen=True, kw_only=True):
    """What the user knows about the run and the log may not say."""

    model: str = ""
    instance_type: str = ""


NO_GUESS: Final = Guess()


def candidates(
    *,
    need: int | None,
    spec: DeviceSpec | None,
    mean: float | None,
    hours: float,
    catalogue: Catalogue,
    guess: Guess,
) -> tuple[Candidate, ...]:
    """Cards of the same vendor that hold the run; what it costs at most there decides the order.

    Those whose slowdown is not known come after the others, by price; then other currencies.
    """
    if need is None:
        return ()
    vendor = spec.vendor if spec else "NVIDIA"  # nvidia-smi wrote the log
    found = []
    for device in catalogue.devices:
        same = spec is not None and device.key == spec.key
        price = catalogue.price(device, instance_type=guess.instance_type if same else "")
        usable = device.usable_memory_bytes
        if price is None or usable is None or usable < need or device.vendor != vendor:
            continue
        slowdown = 1.0 if same else slowdown_at_most(spec, device, mean)
        found.append(
            Candidate(
                device=device.key,
                usable_memory_bytes=usable,
                price_per_hour=Money(amount=price.amount_per_gpu_hour, currency=price.currency),
                estimate=price.estimate,
                price_source=price.source,
                slowdown_at_most=slowdown,
                run_cost_at_most=None if slowdown is None else cost(price, hours * slowdown),
                is_current=same,
                other_architecture=spec is not None and strays(spec, device),
            )
        )
    return _in_order(found)


def _in_order(found: list[Candidate]) -> tuple[Candidate, ...]:
    """Currencies cannot be compared: that of the card in use, else the usual one, comes first."""
    currencies = Counter(one.price_per_hour.currency for one in found)
    usual = max(currencies, key=lambda name: (currencies[name], name), default="")
    first = next((one.price_per_hour.currency for one in found if one.is_current), usual)

    def rank(one: Candidate) -> tuple[bool, str, bool, float, str]:
        price, most = one.price_per_hour, one.most_per_hour
        known = price.amount if most is None else most
        return (price.currency != first, price.currency, most is None, known, one.device)

    return tuple(sorted(found, key=rank))


def slowdown_at_most(
    now: DeviceSpec | None, then: DeviceSpec, kernel_mean: float | None
) -> float | None:
    """Upper bound of the slowdown from card to card; None where a figure is missing."""
    if now is None or kernel_mean is None:
        return None
    rhos = []
    for mine, other, missing in (
        (now.fp32_flops, then.fp32_flops, False),
        (now.bandwidth_bytes_per_second, then.bandwidth_bytes_per_second, False),
        (now.fp16_tensor_flops, then.fp16_tensor_flops, now.tensor_cores is False),
    ):
        if missing:
            continue  # the run cannot have used what its card has not
        if not mine or not other:
            return None
        rhos.append(mine / other)
    interval = smaller_gpu([(NO_USE, rho) for rho in rhos], kernel_mean)
    if not strays(now, then):
        return interval.high
    return widened_work(interval, smaller_gpu_margins(), kernel_mean, max(rhos)).high


def strays(now: DeviceSpec, then: DeviceSpec) -> bool:
    """Whether arithmetic alone is not to be trusted from card to card."""
    return then.compute_capability != now.compute_capability


def hourly(price: Price | None) -> Money | None:
    """What an hour of one GPU costs."""
    return cost(price, 1.0)


def cost(price: Price | None, hours: float) -> Money | None:
    """What hours of one GPU cost; None without a price."""
    if price is None:
        return None
    return Money(amount=price.amount_per_gpu_hour * hours, currency=price.currency)
