"""What numbers are called in another language, where a rule puts the name together.

Most names are literal text in the rules and are found there (``reports.extracting``). Those below
are made of a pattern and a signal, card or count, or stand in a table of a rule. A name that is in
neither reads in English.
"""

import re
from functools import cache
from typing import Final

from gputailor_agent.reports.catalogues import _, spoken

#: Whole names that stand in tables of rules.
NAMES: Final = (
    "CPU used of its limit",
    "stalled on I/O",
    "samples at zero inside active minutes",
    "throttled CPU periods",
    "least mean power while idle",
    "stay idle for another hour",
    "idle within the next 24 h, mean",
    "idle within the next 24 h, least month",
    "idle within the next 24 h, most month",
    "least cost of the present one",
    "most cost of the present one",
    "recorded pairs with one 10 % slower or more",
    "slowdown of recorded pairs, median",
    "slowdown of recorded pairs, 95 of 100",
)
#: Names with something in them, the more special first.
PATTERNS: Final = (
    "mean {signal} while it runs",
    "mean {signal}",
    "p98 of {signal}",
    "{signal} active",
    "{name} not believed",
    "rho of {resource}",
    "price of {card}",
    "overlap of {number}",
    "hours with {number} GPU(s) at work",
    "sum of p95({signal}), most of any pod",
    "time left {end}",
)


def named(name: str) -> str:
    """A number's name in the language spoken."""
    if spoken().english or spoken().get(name) != name:
        return _(name)
    for pattern, shape in _shapes():
        found = shape.fullmatch(name)
        if found:
            return _(pattern, **found.groupdict())
    return name


@cache
def _shapes() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Each pattern with the expression that its names fit."""
    made = []
    for pattern in PATTERNS:
        parts = re.split(r"\{(\w+)\}", pattern)
        kept = [
            re.escape(part) if at % 2 == 0 else f"(?P<{part}>.+)" for at, part in enumerate(parts)
        ]
        made.append((pattern, re.compile("".join(kept))))
    return tuple(made)
