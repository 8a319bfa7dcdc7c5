"""Quiet hours: when a notice is kept back, and until when.

Hours are of the clock on the wall of a time zone, so a night in which the clocks change is an hour
shorter or longer; a time that a change skips is read as the same moment after it.
"""

import re
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Final, Self
from zoneinfo import ZoneInfo

from gputailor_agent.reports.delivery.errors import DeliveryError

_HOURS: Final = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)")


@dataclass(frozen=True, slots=True)
class QuietHours:
    """From ``begin`` to ``end`` of each day, over midnight where ``end`` is the earlier one."""

    begin: time
    end: time
    zone: ZoneInfo

    @classmethod
    def read(cls, text: str, zone: str) -> Self:
        """Hours such as ``22:00-07:00`` in an IANA time zone; raises ``DeliveryError``."""
        found = _HOURS.fullmatch(text.strip())
        if found is None or found.group(1, 2) == found.group(3, 4):
            raise DeliveryError(f"quiet_hours: expected hours such as 22:00-07:00, found {text!r}")
        first, second, third, fourth = map(int, found.groups())
        return cls(time(first, second), time(third, fourth), ZoneInfo(zone))

    def held_until(self, now: float) -> float | None:
        """When the quiet that holds at ``now`` ends, both Unix seconds; None outside of it."""
        here = datetime.fromtimestamp(now, self.zone)
        clock = here.time()
        over_midnight = self.end < self.begin
        if over_midnight:
            quiet = clock >= self.begin or clock < self.end
        else:
            quiet = self.begin <= clock < self.end
        if not quiet:
            return None
        day = here.date()
        if over_midnight and clock >= self.begin:
            day += timedelta(days=1)
        return datetime.combine(day, self.end, self.zone).timestamp()
