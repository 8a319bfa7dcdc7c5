"""Who gets what of a report: the whole cluster's for some, a team's own part for its people.

A mapping file says it, by the team's name as reports show it::

    vision: [vision@example.org, vision-chat]
    speech: speech@example.org
    default: gpu-team@example.org

An entry with an ``@`` is an address, any other the name of a channel. ``default`` gets the part of
all who have no line of their own. A channel that a line names gets those parts only.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gputailor_agent.model.inventory import Workload
from gputailor_agent.model.judgement import Plan
from gputailor_agent.reports.beside import Beside, scoped_beside
from gputailor_agent.reports.delivery.errors import DeliveryError
from gputailor_agent.reports.delivery.keeping import team_folders
from gputailor_agent.reports.delivery.settings import (
    DEFAULT_TEAM,
    DeliverySettings,
    Receivers,
    receivers,
)
from gputailor_agent.reports.scoping import Scope, only


def team_receivers(
    lines: Mapping[Any, Any], setting: str, channels: Mapping[str, str]
) -> dict[str, Receivers]:
    """What the lines of a mapping file say, checked; raises ``DeliveryError`` naming the line."""
    return {
        str(team): _line(given, f"{setting}, {team}", channels) for team, given in lines.items()
    }


def _line(given: Any, where: str, channels: Mapping[str, str]) -> Receivers:
    several = given.split(",") if isinstance(given, str) else given
    if not isinstance(several, list) or not all(isinstance(one, str) for one in several):
        raise DeliveryError(f"{where}: expected addresses and channels, found {given!r}")
    return receivers(several, where, channels)


@dataclass(frozen=True, slots=True)
class Part:
    """A report for some receivers; ``about`` names it within its period, '' for the whole.

    ``place``: the folder that its files lie in beside those of the whole, ``teams/TEAM/``.
    """

    plan: Plan
    beside: Beside
    receivers: Receivers
    about: str = ""
    place: str = ""


def parts(plan: Plan, beside: Beside, settings: DeliverySettings) -> Iterator[Part]:
    """The whole report and every team's part of it; a team without workloads gets none."""
    yield Part(plan, beside, settings.whole)
    places = team_folders(settings.teams)
    for team, told_to in settings.teams.items():

        def holds(workload: Workload, team: str = team) -> bool:
            return settings.line_of(workload.team) == team

        own = only(plan, holds)
        if own.verdicts:
            ids = [one.workload.id for one in own.verdicts]
            told = Scope(teams=(team,)).text()
            about = DEFAULT_TEAM if team == DEFAULT_TEAM else f"team {team}"
            around = scoped_beside(beside, ids, told)
            yield Part(own, around, told_to, about, places[team])
