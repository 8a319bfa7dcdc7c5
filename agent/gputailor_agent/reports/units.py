"""How numbers are written for people: one place, so that 0 and unknown never look alike.

Every function takes ``None`` for unknown and answers the word ``unknown``; zero is a measurement
and is written as a number. Values travel in base units (ratios, bytes, seconds, joules, Unix
seconds) and only become percent, GiB or a date here: in the language that is spoken (see
``catalogues``), by the marks, currency signs and dates of its locale as Babel knows them. English
has the SI's blank before the percent sign, currency codes, and dates that sort.
"""

import math
from datetime import UTC, datetime
from functools import cache
from typing import Final

from babel import Locale
from babel.dates import format_date, format_datetime
from babel.numbers import get_currency_symbol, get_decimal_symbol, get_group_symbol

from gputailor_agent.model.judgement import Money, Scalar
from gputailor_agent.reports.catalogues import _, spoken

#: The English word; what is written says ``unknown()``.
UNKNOWN: Final = "unknown"

_BINARY: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_WITH_DECIMALS: Final = 3  # from GiB on
_DECIMALS: Final = 1
_MINUTE: Final = 60
_HOUR: Final = 3600
_DAY: Final = 86400
_JOULES_PER_KWH: Final = 3.6e6
_LEAST_KWH: Final = 0.01  # the last digit shown
_SMALL_MONEY: Final = 100  # below it cents matter
_CENTS: Final = 2
_KIBI: Final = 1024.0
_LEAST_PERCENT: Final = 0.1  # the last digit shown
_FEW_PERCENT: Final = 10  # below it, and near the top, whole percents mislead
_NEARLY_ALL: Final = 99
_ALL: Final = 100


def unknown() -> str:
    """The word for what is not known, in the language spoken."""
    return _("unknown")


@cache
def _marks(locale: Locale) -> dict[int, str]:
    """What stands for the comma and the point of an English number."""
    return str.maketrans({",": get_group_symbol(locale), ".": get_decimal_symbol(locale)})


def digits(value: float, places: int = 0) -> str:
    """A number with so many decimals, its marks by the locale."""
    return f"{value:,.{places}f}".translate(_marks(spoken().locale))


def is_known(value: float | None) -> bool:
    """True when there is a finite number."""
    return value is not None and math.isfinite(value)


def ratio(value: float | None) -> str:
    """A 0..1 ratio as percent; a trace is never rounded to 0 % nor a near-full one to 100 %."""
    if value is None or not math.isfinite(value):
        return unknown()
    percent = value * 100
    if percent == 0:
        return _percent("0")
    if 0 < percent < _LEAST_PERCENT:
        return _percent(f"<{digits(_LEAST_PERCENT, 1)}")
    if 0 < percent < _FEW_PERCENT:
        return _percent(digits(percent, 1))
    if _NEARLY_ALL < percent < _ALL:
        return _percent(digits(min(percent, _ALL - _LEAST_PERCENT), 1))
    return _percent(digits(percent))


def _percent(number: str) -> str:
    return _("{number} %", number=number)


def size(value: float | None) -> str:
    """Bytes in binary units, three digits at most before the point."""
    if value is None or not math.isfinite(value):
        return unknown()
    amount, unit = float(value), 0
    while round(abs(amount)) >= _KIBI and unit < len(_BINARY) - 1:
        amount /= _KIBI
        unit += 1
    return f"{digits(amount, _DECIMALS if unit >= _WITH_DECIMALS else 0)} {_BINARY[unit]}"


def count(value: float | None) -> str:
    """A number of things: thousands separated, at most two decimals, no trailing zeros."""
    if value is None or not math.isfinite(value):
        return unknown()
    text = f"{value:,.2f}".rstrip("0").rstrip(".")
    return "0" if text in {"-0", ""} else text.translate(_marks(spoken().locale))


def amount(value: float | None, currency: str = "USD", *, per: str = "") -> str:
    """An amount with its currency in front, cents only where they matter."""
    if value is None or not math.isfinite(value):
        return unknown()
    number = digits(abs(value), 0 if abs(value) >= _SMALL_MONEY or value == 0 else _CENTS)
    sign = "-" if value < 0 else ""
    text = f"{currency} {sign}{number}" if spoken().english else f"{sign}{_sign(currency)}{number}"
    return f"{text}/{_(per)}" if per else text


def _sign(currency: str) -> str:
    """The sign of a currency; its code, with a blank, where the locale knows none."""
    sign = get_currency_symbol(currency, spoken().locale)
    return f"{sign} " if sign == currency else sign


def money(value: Money | None, *, per: str = "") -> str:
    """As ``amount``, for a ``Money``."""
    return unknown() if value is None else amount(value.amount, value.currency, per=per)


def duration(seconds: float | None) -> str:
    """A length of time in its two largest units, e.g. ``3 h 20 min``."""
    if seconds is None or not math.isfinite(seconds):
        return unknown()
    if 0 < abs(seconds) < 1:
        return _("{number} s", number=digits(seconds, 2))
    whole = round(seconds)
    sign = "-" if whole < 0 else ""
    for unit, below in ((_DAY, _HOUR), (_HOUR, _MINUTE), (_MINUTE, 1)):
        if abs(whole) >= unit:
            rest = (abs(whole) % unit) // below
            text = sign + _of_unit(abs(whole) // unit, unit)
            return f"{text} {_of_unit(rest, below)}" if rest else text
    return sign + _of_unit(abs(whole), 1)


def _of_unit(number: int, seconds: int) -> str:
    """So many of a unit of time."""
    if seconds == _DAY:
        return _("{number} d", number=number)
    if seconds == _HOUR:
        return _("{number} h", number=number)
    if seconds == _MINUTE:
        return _("{number} min", number=number)
    return _("{number} s", number=number)


def utc(at: float | None) -> str:
    """Unix seconds as a UTC time to the minute, with its zone."""
    if at is None or not math.isfinite(at):
        return unknown()
    moment = datetime.fromtimestamp(at, tz=UTC)
    if spoken().english:
        return moment.strftime("%Y-%m-%d %H:%M UTC")
    return _dated(moment, _("yyyy-MM-dd HH:mm 'UTC'"), spoken().locale)


def day(at: float | None) -> str:
    """Unix seconds as a UTC day."""
    if at is None or not math.isfinite(at):
        return unknown()
    moment = datetime.fromtimestamp(at, tz=UTC)
    if spoken().english:
        return moment.strftime("%Y-%m-%d")
    return _dated(moment, "medium", spoken().locale)


def _dated(moment: datetime, pattern: str, locale: Locale) -> str:
    if pattern == "medium":
        return str(format_date(moment, pattern, locale=locale))
    return str(format_datetime(moment, pattern, locale=locale))


def iso(at: float | None) -> str | None:
    """Unix seconds as RFC 3339 in UTC, for machines; None stays None."""
    if at is None or not math.isfinite(at):
        return None
    return datetime.fromtimestamp(at, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def watts(value: float | None) -> str:
    """Power in watts."""
    return unknown() if value is None else f"{digits(value)} W"


def energy(joules: float | None) -> str:
    """Energy in kWh, or joules where that would read 0.00."""
    if joules is None or not math.isfinite(joules):
        return unknown()
    kwh = joules / _JOULES_PER_KWH
    if kwh >= _LEAST_KWH or joules == 0:
        return f"{digits(kwh, 2)} kWh"
    return f"{digits(joules)} J"


def factor(value: float | None) -> str:
    """A multiple, e.g. a slowdown of ``1.25x``."""
    if value is None or not math.isfinite(value):
        return unknown()
    return _("{factor}x", factor=digits(value, 2))


_BY_UNIT: Final = {
    "ratio": ratio,
    "percent": ratio,
    "bytes": size,
    "seconds": duration,
    "count": count,
    "gpus": count,
    "watts": watts,
    "joules": energy,
    "factor": factor,
    "time": utc,
    "unix_seconds": utc,
}


def quantity(value: Scalar, unit: str = "") -> str:
    """An evidence value in its unit (``ratio``, ``bytes``, ``seconds``, ``usd_per_hour``, …)."""
    if value is None:
        return unknown()
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    return value if isinstance(value, str) else _number(value, unit)


def _number(value: float, unit: str) -> str:
    if unit in _BY_UNIT:
        return _BY_UNIT[unit](value)
    if unit.endswith(("_per_hour", "_per_month", "_per_gpu_hour")):
        currency, _sep, per = unit.partition("_per_")
        return amount(value, currency.upper(), per=per.replace("_", "-"))
    if unit == "usd":
        return amount(value)
    return f"{count(value)} {_(unit.replace('_', ' '))}".strip()


#: Unit names that ``quantity`` writes in a way of their own.
UNITS: Final = frozenset(_BY_UNIT) | {"usd"}
