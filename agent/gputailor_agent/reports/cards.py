"""Cards that would hold a recorded run, and how much slower it could get on them.

The slowdown is at most ``1 - G + G max(1, max rho)``, ``G`` the mean kernel activity (the share of
time in which some kernel ran) and ``rho`` the ratios of FP32, tensor and memory bandwidth now to
then: as if all active time were bound by the resource that shrinks most (the upper bound of rule
``smaller_gpu``). None where a card's figures are not known.
"""

from typing import Final

import msgspec

from gputailor_agent.catalog import Catalogue, DeviceSpec, Price
from gputailor_agent.model.judgement import Money


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A card the run fits on. ``slowdown_at_most`` is None where a figure is not known."""

    device: str
    usable_memory_bytes: int
    price_per_hour: Money
    estimate: bool
    price_source: str
    slowdown_at_most: float | None
    run_cost_at_most: Money | None
    is_current: bool


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
    """Cards of the same vendor that hold the run, the cheapest per hour first."""
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
            )
        )
    return tuple(sorted(found, key=lambda one: (one.price_per_hour.amount, one.device)))


def slowdown_at_most(
    now: DeviceSpec | None, then: DeviceSpec, kernel_mean: float | None
) -> float | None:
    """Upper bound of the slowdown from card to card; None where a figure is missing."""
    if now is None or kernel_mean is None:
        return None
    worst = 1.0
    for mine, other in (
        (now.fp32_flops, then.fp32_flops),
        (now.bandwidth_bytes_per_second, then.bandwidth_bytes_per_second),
        (now.fp16_tensor_flops, then.fp16_tensor_flops if then.tensor_cores is not False else 0.0),
    ):
        if mine is None:
            continue
        if not other:
            return None
        worst = max(worst, mine / other)
    return 1 - kernel_mean + kernel_mean * worst


def hourly(price: Price | None) -> Money | None:
    """What an hour of one GPU costs."""
    return cost(price, 1.0)


def cost(price: Price | None, hours: float) -> Money | None:
    """What hours of one GPU cost; None without a price."""
    if price is None:
        return None
    return Money(amount=price.amount_per_gpu_hour * hours, currency=price.currency)
