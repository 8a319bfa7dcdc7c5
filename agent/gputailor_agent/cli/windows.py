"""Windows of time as people write them on a command line."""

import re
from datetime import UTC, datetime
from typing import Final

from gputailor_agent.cli.errors import CommandError, UsageError
from gputailor_agent.model.profile import Window
from gputailor_agent.model.usage import HOUR_SECONDS

DEFAULT_DAYS: Final = 14
_SECONDS: Final = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_LATEST: Final = 32_503_680_000.0  # the year 3000
_RELATIVE: Final = re.compile(r"(\d+(?:\.\d+)?)([mhdw])")


def parse_time(option: str, text: str, *, relative_to: float) -> float:
    """Unix seconds of ``14d`` (before ``relative_to``), ``now``, a date or an ISO time.

    A time without a zone is UTC. Raises ``UsageError`` for anything else.
    """
    if text == "now":
        return relative_to
    match = _RELATIVE.fullmatch(text)
    if match:
        found = relative_to - float(match[1]) * _SECONDS[match[2]]
    else:
        try:
            at = datetime.fromisoformat(text)
        except ValueError:
            raise UsageError(
                f"{option}: expected a length like 14d, 36h or 30m, or a time like "
                f"2026-11-01 or 2026-11-01T12:00Z, found {text!r}"
            ) from None
        found = (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    if not 0 <= found < _LATEST:
        raise UsageError(f"{option}: {text!r} is not between 1970 and 3000")
    return found


def window_of(
    since: str | None,
    until: str | None,
    *,
    first_data: float | None,
    last_data: float | None,
    now: float,
) -> Window:
    """The window asked for; without ``since`` the last 14 days, cut to where data begins.

    Raises ``UsageError`` when it would be empty.
    """
    latest = now if last_data is None else last_data
    end = latest if until is None else parse_time("--until", until, relative_to=now)
    if since is None:
        start = max(0.0, end - DEFAULT_DAYS * 86400)
        if first_data is not None and first_data < end:
            start = max(start, first_data)
    else:
        start = parse_time("--since", since, relative_to=end)
    if start >= end:
        raise UsageError(
            f"--since must lie before --until: {_iso(start)} is not before {_iso(end)}"
        )
    return Window(start=start, end=end)


def whole_hours(window: Window) -> Window:
    """The window with its start taken down to a whole hour, since usage is kept by hours."""
    start = window.start // HOUR_SECONDS * HOUR_SECONDS
    return Window(start=float(start), end=window.end)


def check_data(window: Window, first_data: float | None, last_data: float | None) -> None:
    """Raise ``CommandError`` for a window in which there is no data; it names the data's span.

    Both None: there is none inside, though there may be before and after it.
    """
    asked = f"there is no usage between {_iso(window.start)} and {_iso(window.end)}"
    if first_data is None or last_data is None:
        raise CommandError(f"{asked}; ask for another time (--since, --until)")
    if window.end <= first_data or window.start >= last_data:
        raise CommandError(
            f"{asked}: the data reach from {_iso(first_data)} to {_iso(last_data)}; ask for a part "
            "of that (--since, --until)"
        )


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, tz=UTC).isoformat(timespec="seconds")
