"""What a job is."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gputailor_agent.schedule.due import Due
from gputailor_agent.schedule.parts import Parts
from gputailor_agent.schedule.settings import ServiceSettings

if TYPE_CHECKING:
    from apscheduler.triggers.base import BaseTrigger

#: Work that is due is found again at the next tick anyway, so a late start is better than none.
GRACE_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Job:
    """A job with a fixed name.

    ``due`` tells its periods at a time: what is done once per period, by the store. ``tick`` is
    what is done whenever it wakes, where there is no period. One of the two is given.
    """

    name: str
    meaning: str
    when: str  # in words, for docs and `gputailor tasks`
    trigger: "Callable[[ServiceSettings], BaseTrigger]"
    due: Callable[[Parts, float], Iterable[Due]] | None = None
    tick: Callable[[Parts, float], object] | None = None
    after: tuple[str, ...] = ()  # jobs that it builds on
    grace: Callable[[ServiceSettings], float] = lambda _settings: GRACE_SECONDS
    used: Callable[[Parts], bool] = lambda _parts: True  # whether this agent has it at all
