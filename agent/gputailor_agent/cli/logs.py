"""Logs of the agent: lines for people, or one JSON object a line for log stores.

Whatever a library writes into a message or a trace, no address in it shows a password or token.
"""

import json
import logging
import traceback
from datetime import UTC, datetime
from typing import Final

from gputailor_agent.cli.errors import UsageError
from gputailor_agent.model.addresses import without_secrets

_TEXT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_LEVELS: Final = frozenset({"DEBUG", "INFO", "WARNING", "ERROR"})
_NOISY: Final = ("httpx", "httpcore", "apscheduler", "alembic")


class Lines(logging.Formatter):
    """Lines for people, with their traces."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as text in which no address shows a password or token."""
        return without_secrets(super().format(record))


class JsonLines(logging.Formatter):
    """One object a line: time (RFC 3339, UTC), level, logger, message, thread, exception."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON without line breaks."""
        moment = datetime.fromtimestamp(record.created, UTC)
        told = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "thread": record.threadName,
        }
        if record.exc_info and record.exc_info[0] is not None:
            told["exception"] = "".join(traceback.format_exception(*record.exc_info)).rstrip()
        shown = {name: without_secrets(str(text)) for name, text in told.items()}
        return json.dumps(shown, ensure_ascii=False)


def set_up(level: str, shape: str) -> None:
    """Log to standard error from now on; raises ``UsageError`` for a level that there is not."""
    if level.upper() not in _LEVELS:
        raise UsageError(f"--log-level: expected debug, info, warning or error, found {level!r}")
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if shape == "json" else Lines(_TEXT))
    logging.basicConfig(level=level.upper(), handlers=[handler])
    for name in _NOISY:
        logging.getLogger(name).setLevel(logging.WARNING)
    # runs that are skipped or late are counted in the metrics, every second if need be
    logging.getLogger("apscheduler.scheduler").setLevel(logging.ERROR)
