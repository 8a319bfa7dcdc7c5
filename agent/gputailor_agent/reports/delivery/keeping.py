"""Where kept reports lie: CLUSTER/PERIOD/report.html and its fellows, below a folder or a prefix.

A team's part lies in ``teams/TEAM`` beside them.

The names are made of the period alone, so that a report that is put again takes its own place and
earlier ones stay. Clusters are named by people: nothing of a name can lead elsewhere.
"""

import re
from collections.abc import Iterable
from itertools import chain, count


def place_of(cluster: str, period: str) -> tuple[str, str]:
    """The two folders that a report is kept in, e.g. ``("prod", "2026-01-05T07-00")``."""
    return plain(cluster), plain(period)


def team_folders(teams: Iterable[str]) -> dict[str, str]:
    """A folder of its own for each team's part, whatever characters its name has.

    Of names that look alike without these the first keeps the plain one: all teams are given, in
    one order, so that a team's folder is the same in each report.
    """
    found: dict[str, str] = {}
    for team in teams:
        names = chain([plain(team)], (f"{plain(team)}-{number}" for number in count(2)))
        found[team] = next(
            place for one in names if (place := f"teams/{one}/") not in found.values()
        )
    return found


def plain(text: str) -> str:
    """A name that is one folder everywhere: no separators, no colons, not hidden, not empty."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", text).lstrip(".")[:200] or "-"
