"""How old a price is. Dates are passed in; a price without a date has no known age."""

from datetime import date
from typing import Final

from gputailor_agent.catalog.prices import Price

#: Days after which a price is called old unless a setting says otherwise: clouds change list
#: prices a few times a year (AWS cut its P4 and P5 prices by a third and more in June 2025).
MAX_AGE_DAYS: Final = 180.0


def age_days(price: Price, today: date) -> float | None:
    """Days since the price was read; None where nobody wrote down when. Never negative."""
    if not price.as_of:
        return None
    return max(0.0, float((today - date.fromisoformat(price.as_of)).days))


def is_stale(price: Price, today: date, max_age_days: float = MAX_AGE_DAYS) -> bool:
    """Whether a price is older than that; one of unknown age is not called stale but says so."""
    age = age_days(price, today)
    return age is not None and age > max_age_days


def told_age(price: Price, today: date, max_age_days: float = MAX_AGE_DAYS) -> str:
    """The price's date for people, with its age where it is old: ``2026-01-05, 329 days old``."""
    age = age_days(price, today)
    if age is None:
        return "date unknown"
    if age <= max_age_days:
        return price.as_of
    return f"{price.as_of}, {age:.0f} days old"
