"""Asking for many series of one time without one answer that is too large, for the server or us.

Where all metrics together are too much, each is asked for by itself; where one is, the series of
half of the devices, and so on: halves are told by the last signs of the devices' UUIDs.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from gputailor_agent.sources.prometheus.access import TooMuchError
from gputailor_agent.sources.prometheus.answers import Sample, Series
from gputailor_agent.sources.prometheus.client import PrometheusClient

#: Makes a selector of metric names and matchers.
Select = Callable[..., str]

_AT_ONCE: Final = 20_000  # series in one answer: some 6 MB
_MOST_HALVINGS: Final = 8


class Splitting:
    """Reads one cluster's series; remembers that they are too many for one answer."""

    def __init__(self, client: PrometheusClient, select: Select) -> None:
        self._client = client
        self._select = select
        self._apart = False

    def whole(self, names: Sequence[str], at: float) -> list[Sample]:
        """Every series of these metrics at one time."""
        found: list[Sample] = []
        if not self._apart:
            try:
                found = self._client.query(self._select(names), at).result
            except TooMuchError:
                self._apart = True
        if self._apart:
            parts = self._client.each(lambda name: list(self._halves(name, at)), names)
            found = [sample for part in parts for sample in part]
        self._apart = self._apart or len(found) > _AT_ONCE
        return found

    def of(self, names: Sequence[str], at: float, *matchers: str) -> list[Sample]:
        """Those that the matchers leave; asks one thing after another."""
        try:
            return self._client.query(self._select(names, *matchers), at).result
        except TooMuchError:
            return [one for name in names for one in self._halves(name, at, *matchers)]

    def raw(self, names: Sequence[str], seconds: float, at: float, matcher: str) -> list[Series]:
        """Raw samples of those that the matcher leaves; asks one thing after another."""
        try:
            return self._client.samples(self._select(names, matcher), seconds, at).result
        except TooMuchError:
            if len(names) == 1:
                raise
        return [one for name in names for one in self.raw((name,), seconds, at, matcher)]

    def _halves(self, name: str, at: float, *matchers: str, depth: int = 0) -> Iterator[Sample]:
        try:
            yield from self._client.query(self._select((name,), *matchers), at).result
        except TooMuchError:
            if depth >= _MOST_HALVINGS:
                raise
        else:
            return
        for sign in "=!":
            half = f'gpu_uuid{sign}~".*[0-7].{{{depth}}}"'
            yield from self._halves(name, at, *matchers, half, depth=depth + 1)
