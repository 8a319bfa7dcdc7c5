"""Sentences on how far a reading of history came, and why no further."""

from datetime import UTC, datetime


def ahead(seconds: float) -> str:
    """This machine's clock is so many seconds ahead of the server's."""
    return (
        f"this machine's clock is {seconds:.0f} s ahead of the server's: hours are taken to end by "
        "the server's; synchronise them (NTP)"
    )


def stopped(at: float, why: str) -> str:
    """It came to ``at`` (Unix seconds) and no further."""
    moment = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"history was read up to {moment} and then stopped: {why}; run again to go on"
