"""Makes half answers of kubelet whole from the last good one, for a bounded time.

Kubelet gives out devices for a pod's whole life: a pod that is still listed but without what it
held, or a node without any pod (this exporter's own is one), is an answer too early after a start.
Pure: time is passed in.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from gputailor_exporter.attribution.allocations import ContainerRef

#: As long as the last good map stands for a kubelet that does not answer at all.
KEEP_SECONDS: Final = 120.0

#: Reasons in ``problems``: an answer was made whole; it stayed so and was believed in the end.
HALF_ANSWER: Final = "half_answer"
HALF_ANSWER_BELIEVED: Final = "half_answer_believed"

#: Namespace and name.
PodName: TypeAlias = tuple[str, str]
Key: TypeAlias = tuple[ContainerRef, str]  # who, device's UUID


@dataclass(frozen=True, slots=True)
class Held:
    """Replicas ('' for the whole) that a container holds of a device, and by which resource."""

    resource: str
    replicas: frozenset[str]


class HalfAnswers:
    """Remembers the last answer and what has been missing since when."""

    def __init__(self, keep_seconds: float = KEEP_SECONDS) -> None:
        """``keep_seconds``: how long what is missing is still taken to be held."""
        self._keep = keep_seconds
        self._last: dict[Key, Held] = {}
        self._missing: dict[Key, float] = {}  # since this monotonic time
        self._some_listed = False
        self.problems: Counter[str] = Counter()

    def whole(
        self,
        held: Mapping[Key, Held],
        listed: Mapping[PodName, Mapping[str, frozenset[str]]],
        at: float,
    ) -> dict[Key, Held]:
        """Return ``held`` with what must be missing from it at monotonic time ``at``.

        ``listed``: containers of each pod in the answer, with the resources each has something of.
        """
        made = dict(held)
        for key, part in self._last.items():
            if key in made or not self._is_half(key[0], part, listed):
                self._missing.pop(key, None)
                continue
            since = self._missing.setdefault(key, at)
            if at - since <= self._keep:
                made[key] = part
            else:
                del self._missing[key]
                self.problems[HALF_ANSWER_BELIEVED] += 1
        self.problems[HALF_ANSWER] += bool(self._missing)
        self._last = made
        self._some_listed = bool(listed) or (self._some_listed and bool(made))
        return made

    def _is_half(
        self,
        holder: ContainerRef,
        part: Held,
        listed: Mapping[PodName, Mapping[str, frozenset[str]]],
    ) -> bool:
        if not listed:
            return self._some_listed
        pod = listed.get((holder.namespace, holder.pod))
        return pod is not None and part.resource not in pod.get(holder.container, frozenset())
