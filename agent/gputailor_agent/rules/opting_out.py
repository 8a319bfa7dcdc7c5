"""Opt-outs: what the annotations of a workload ask rules not to say, and until when.

The words for it are those of the gates (``gates.GATE_MESSAGES``), which every rule has.
"""

from datetime import UTC, date, datetime
from typing import Final

from gputailor_agent.model.judgement import Silence, SilenceKind
from gputailor_agent.model.profile import Profile
from gputailor_agent.rules.base import Context, message, silence

IGNORE: Final = "gputailor.io/ignore"
IGNORE_UNTIL: Final = "gputailor.io/ignore-until"
REASON: Final = "gputailor.io/reason"


def opted_out(profile: Profile, context: Context, rule: str) -> Silence | None:
    """Return the silence that the workload's annotations ask for, if they do.

    ``gputailor.io/ignore`` names rules (comma-separated) or ``all``; ``ignore-until`` a UTC date or
    time after which it no longer counts, and alone means ``all``. A time that cannot be read leaves
    the opt-out in force.
    """
    annotations = profile.workload.annotations
    until = annotations.get(IGNORE_UNTIL, "")
    named = annotations.get(IGNORE, "all" if until else "")
    if not named:
        return None
    rules = {name.strip().replace("-", "_") for name in named.split(",")}
    if not rules & {"all", rule}:
        return None
    ends = _moment(until)
    if ends is not None and ends <= context.now:
        return None
    return silence(
        rule,
        profile,
        SilenceKind.OPTED_OUT,
        message(
            "gate.opted_out_until" if until else "gate.opted_out",
            annotation=f"{IGNORE}={named}",
            reason=annotations.get(REASON) or "-",
            until=until,
        ),
        ready_at=ends,
    )


def _moment(text: str) -> float | None:
    """Unix seconds of a date (its first second) or time in UTC; None for anything else."""
    try:
        if len(text) <= len("2026-01-01"):
            day = date.fromisoformat(text)
            return datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
