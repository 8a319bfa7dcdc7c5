"""Names of the periods that jobs are kept by: UTC hours and days, in ISO 8601."""

from datetime import UTC, datetime

from gputailor_agent.model.packed import DAY_SECONDS


def hour_name(at: float) -> str:
    """Return the UTC hour that holds Unix time ``at``, e.g. ``2026-01-05T10``."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H")


def day_name(at: float) -> str:
    """Return the UTC day that holds Unix time ``at``, e.g. ``2026-01-05``."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d")


def day_of(at: float) -> int:
    """Return the start (Unix seconds) of the UTC day that holds ``at``."""
    return int(at // DAY_SECONDS) * DAY_SECONDS
