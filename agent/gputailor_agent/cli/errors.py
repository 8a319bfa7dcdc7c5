"""A user's mistake or a broken input, told in one line instead of a traceback."""

import sys
from typing import Final

from gputailor_agent.catalog import CatalogueError
from gputailor_agent.reports.explain import UnknownWorkloadError
from gputailor_agent.rules import SettingsError

FAILED: Final = 1
WRONG_USAGE: Final = 2
THRESHOLD_EXCEEDED: Final = 3


class CommandError(Exception):
    """Something the user can mend; the text says what, where and what to do."""

    exit_code = FAILED


class UsageError(CommandError):
    """The command line itself is wrong."""

    exit_code = WRONG_USAGE


#: Errors of the parts whose text is already written for people.
_TOLD: Final[tuple[type[Exception], ...]] = (
    CommandError,
    CatalogueError,
    SettingsError,
    UnknownWorkloadError,
)


def is_told(error: Exception) -> bool:
    """Whether the error's text is written for people; any other is a fault of ours.

    Errors of the store, live clusters and Prometheus are known only where those were used:
    importing them takes a second.
    """
    store = sys.modules.get("gputailor_agent.store")
    live = sys.modules.get("gputailor_agent.inventory.live.errors")
    prometheus = sys.modules.get("gputailor_agent.sources.prometheus.client")
    more = [store.StoreError] if store is not None else []
    more += [live.ClusterError] if live is not None else []
    more += [prometheus.PrometheusError] if prometheus is not None else []
    return isinstance(error, (*_TOLD, *more))


def exit_code_of(error: Exception) -> int:
    """The exit code of a told error."""
    return error.exit_code if isinstance(error, CommandError) else FAILED
