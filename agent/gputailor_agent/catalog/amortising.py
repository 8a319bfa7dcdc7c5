"""Bare metal: what a GPU hour costs that was bought and not rented."""

from dataclasses import dataclass
from typing import Final

#: Hours of a year, leap years counted in (365.25 days).
HOURS_PER_YEAR: Final = 8766.0
_WATTS_PER_KILOWATT: Final = 1000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BareMetal:
    """A bought GPU. Money is in one currency; ``purchase_price`` has its share of server and racks.

    ``watts`` of the GPU and ``server_watts``, its share of CPUs, fans and network, at full load.
    ``pue`` is the power usage effectiveness of the room (ISO/IEC 30134-2): power of the whole site
    over power of its IT equipment, 1 or more.
    """

    purchase_price: float
    years: float
    power_price_per_kwh: float
    watts: float
    pue: float
    server_watts: float = 0.0
    residual_price: float = 0.0
    upkeep_per_year: float = 0.0


@dataclass(frozen=True, slots=True)
class HourlyCost:
    """Parts of a price per GPU hour."""

    capital: float
    power: float
    upkeep: float

    @property
    def total(self) -> float:
        """Their sum."""
        return self.capital + self.power + self.upkeep


def amortised(bought: BareMetal) -> HourlyCost:
    """Price of one GPU hour, whether it is used or not.

    ``capital = (purchase price - residual price) / (years x 8766 h)``, straight-line depreciation
    (IAS 16, paragraph 62); ``power = (watts + server watts) / 1000 x PUE x price of a kWh``;
    ``upkeep = upkeep per year / 8766 h``. This is the split of total cost of ownership in Barroso,
    Hölzle and Ranganathan, The Datacenter as a Computer (3rd edition, 2018), chapter 6, without
    interest. Power is that of full load: an idle GPU draws less, so this is an upper bound.

    Raises ``ValueError`` for a use of no time, a PUE below 1 or a residual above the purchase.
    """
    if bought.years <= 0:
        raise ValueError("years must be more than 0")
    if bought.pue < 1:
        raise ValueError("pue must be 1 or more")
    if bought.residual_price > bought.purchase_price:
        raise ValueError("residual_price must not be above purchase_price")
    kilowatts = (bought.watts + bought.server_watts) / _WATTS_PER_KILOWATT
    return HourlyCost(
        capital=(bought.purchase_price - bought.residual_price) / (bought.years * HOURS_PER_YEAR),
        power=kilowatts * bought.pue * bought.power_price_per_kwh,
        upkeep=bought.upkeep_per_year / HOURS_PER_YEAR,
    )
