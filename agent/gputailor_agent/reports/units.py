"""How numbers are written for people: one place, so that 0 and unknown never look alike.

Every function takes ``None`` for unknown and answers the word ``unknown``; zero is a measurement
and is written as a number. Values travel in base units (ratios, bytes, seconds, joules, Unix
seconds) and only become percent, GiB or a date here.
"""

import math
from datetime import UTC, datetime
from typing import Final

from gputailor_agent.model.judgement import Money, Scalar

UNKNOWN: Final = "unknown"

_BINARY: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_MINUTE: Final = 60
_HOUR: Final = 3600
_DAY: Final = 86400
_JOULES_PER_KWH: Final = 3.6e6
_SMALL_MONEY: Final = 100  # below it cents matter
_KIBI: Final = 1024.0
_LEAST_PERCENT: Final = 0.1  # the last digit shown
_FEW_PERCENT: Final = 10  # below it, and near the top, whole percents mislead
_NEARLY_ALL: Final = 99
_ALL: Final = 100


def is_known(value: float | None) -> bool:
    """True when there is a finite number."""
    return value is not None and math.isfinite(value)


def ratio(value: float | None) -> str:
    """A 0..1 ratio as percent; a trace is never rounded to 0 % nor a near-full one to 100 %."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    percent = value * 100
    if percent == 0:
        return "0 %"
    if 0 < percent < _LEAST_PERCENT:
        return f"<{_LEAST_PERCENT:g} %"
    if 0 < percent < _FEW_PERCENT:
        return f"{percent:.1f} %"
    if _NEARLY_ALL < percent < _ALL:
        return f"{min(percent, _ALL - _LEAST_PERCENT):.1f} %"
    return f"{percent:.0f} %"


def size(value: float | None) -> str:
    """Bytes in binary units, three digits at most before the point."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    amount, unit = float(value), 0
    while round(abs(amount)) >= _KIBI and unit < len(_BINARY) - 1:
        amount /= _KIBI
        unit += 1
    return f"{amount:.0f} {_BINARY[unit]}" if unit < 3 else f"{amount:.1f} {_BINARY[unit]}"  # noqa: PLR2004 - below GiB no decimals


def count(value: float | None) -> str:
    """A number of things: thousands separated, at most two decimals, no trailing zeros."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    text = f"{value:,.2f}".rstrip("0").rstrip(".")
    return "0" if text in {"-0", ""} else text


def amount(value: float | None, currency: str = "USD", *, per: str = "") -> str:
    """An amount with its currency in front, cents only where they matter."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    digits = f"{value:,.0f}" if abs(value) >= _SMALL_MONEY or value == 0 else f"{value:,.2f}"
    return f"{currency} {digits}{'/' + per if per else ''}"


def money(value: Money | None, *, per: str = "") -> str:
    """As ``amount``, for a ``Money``."""
    return UNKNOWN if value is None else amount(value.amount, value.currency, per=per)


def duration(seconds: float | None) -> str:
    """A length of time in its two largest units, e.g. ``3 h 20 min``."""
    if seconds is None or not math.isfinite(seconds):
        return UNKNOWN
    if 0 < abs(seconds) < 1:
        return f"{seconds:.2f} s"
    whole = round(seconds)
    if abs(whole) < _MINUTE:
        return f"{whole} s"
    for unit, name, below, lower in (
        (_DAY, "d", _HOUR, "h"),
        (_HOUR, "h", _MINUTE, "min"),
        (_MINUTE, "min", 1, "s"),
    ):
        if abs(whole) >= unit:
            rest = (abs(whole) % unit) // below
            text = f"{'-' if whole < 0 else ''}{abs(whole) // unit} {name}"
            return f"{text} {rest} {lower}" if rest else text
    return f"{whole} s"


def utc(at: float | None) -> str:
    """Unix seconds as a UTC time to the minute, with its zone."""
    if at is None or not math.isfinite(at):
        return UNKNOWN
    return datetime.fromtimestamp(at, tz=UTC).strftime("%Y-%m-%d %H:%M UTC")


def iso(at: float | None) -> str | None:
    """Unix seconds as RFC 3339 in UTC, for machines; None stays None."""
    if at is None or not math.isfinite(at):
        return None
    return datetime.fromtimestamp(at, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def watts(value: float | None) -> str:
    """Power in watts."""
    return UNKNOWN if value is None else f"{value:,.0f} W"


def energy(joules: float | None) -> str:
    """Energy in kWh, or joules where that would read 0.00."""
    if joules is None or not math.isfinite(joules):
        return UNKNOWN
    kwh = joules / _JOULES_PER_KWH
    return f"{kwh:,.2f} kWh" if kwh >= 0.01 or joules == 0 else f"{joules:,.0f} J"  # noqa: PLR2004 - the last digit shown


def factor(value: float | None) -> str:
    """A multiple, e.g. a slowdown of ``1.25x``."""
    return UNKNOWN if value is None or not math.isfinite(value) else f"{value:.2f}x"


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
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else _number(value, unit)


def _number(value: float, unit: str) -> str:
    if unit in _BY_UNIT:
        return _BY_UNIT[unit](value)
    if unit.endswith(("_per_hour", "_per_month", "_per_gpu_hour")):
        currency, _, per = unit.partition("_per_")
        return amount(value, currency.upper(), per=per.replace("_", "-"))
    if unit == "usd":
        return amount(value)
    return f"{count(value)} {unit.replace('_', ' ')}".strip()


#: Unit names that ``quantity`` writes in a way of their own.
UNITS: Final = frozenset(_BY_UNIT) | {"usd"}
