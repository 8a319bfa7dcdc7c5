"""What a report says of having been made late, in the language spoken."""

from collections.abc import Sequence
from typing import Final

from gputailor_agent.reports import units
from gputailor_agent.reports.catalogues import _
from gputailor_agent.reports.plurals import length

#: A report made longer after its time is told to be late.
LATE_SECONDS: Final = 3600.0
_NAMED: Final = 5  # of those that were skipped


def lateness(fire: float, now: float, skipped: Sequence[str]) -> str:
    """'' for a report due at ``fire`` that is in time at ``now`` (both Unix seconds).

    ``skipped`` are periods before it of which no report was made.
    """
    if now - fire <= LATE_SECONDS:
        return ""
    due = units.utc(fire)
    if not skipped:
        return _(
            "this report was due at {due} and was made {length} late",
            due=due,
            length=length(now - fire),
        )
    return _(
        "this report was due at {due} and was made {length} late; of the reports due before it "
        "these were not made: {periods}",
        due=due,
        length=length(now - fire),
        periods=_(", ").join(skipped[:_NAMED]) + (_(", …") if len(skipped) > _NAMED else ""),
    )
