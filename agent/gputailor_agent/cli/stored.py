"""Which part of an agent's store a command line asks for."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gputailor_agent.cli.errors import CommandError
from gputailor_agent.cli.windows import check_data, whole_hours, window_of
from gputailor_agent.model.nearest import meant_or_known
from gputailor_agent.model.profile import Window
from gputailor_agent.model.usage import HOUR_SECONDS

if TYPE_CHECKING:
    from gputailor_agent.store import Store


def reading(url: str) -> "Store":
    """An agent's store to read, which is left as it is to the byte; raises ``StoreError``."""
    from gputailor_agent.store import Store  # noqa: PLC0415 - half a second that help does not need

    return Store.open(url, reading=True)


def writing(url: str) -> "Store":
    """An agent's store to change something in; raises ``StoreError`` where there is none yet."""
    reading(url).close()
    from gputailor_agent.store import Store  # noqa: PLC0415 - see above

    return Store.open(url)


def chosen_clusters(store: "Store", wanted: Sequence[str] | None) -> list[str]:
    """The clusters named, or all; raises ``CommandError`` for one that the store does not have."""
    known = store.clusters()
    for name in wanted or ():
        if name not in known:
            hint = meant_or_known(name, known)
            raise CommandError(f"--cluster: the store has nothing of {name!r}{hint}")
    return list(dict.fromkeys(wanted or known))


def stored_window(
    store: "Store", cluster: str, since: str | None, until: str | None, now: float
) -> Window:
    """The window asked for, else the last 14 days up to the newest hour, as far as there is data.

    Raises ``CommandError`` where the store has no row of the cluster in it.
    """
    span = store.usage_span(cluster)
    if span is None:
        raise CommandError(
            f"the store holds no usage of cluster {cluster!r}; is --cluster right, has the agent "
            "run?"
        )
    first, last = float(span[0]), min(now, float(span[1] + HOUR_SECONDS))
    window = whole_hours(window_of(since, until, first_data=first, last_data=last, now=now))
    check_data(window, first, last)
    if next(store.usage(cluster, window.start, window.end), None) is None:
        check_data(window, None, None)
    return window
