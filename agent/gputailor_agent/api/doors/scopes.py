"""What a name may see and change: everything, or the workloads of some teams.

The mapping file is YAML; a name is that of a token or of a user::

    ops: all
    alice@example.org: [team-a, namespace:lab]
    dashboard: {teams: all, write: false}
    "*": []        # everybody else who is let in: nothing

Without the file everybody who is let in by a name sees everything. A workload belongs to the team
that its labels name; ``namespace:NAME`` adds those of a namespace, whatever team they name.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
import yaml

from gputailor_agent.model.inventory import Workload

_ALL: Final = "all"
_OTHERS: Final = "*"
_NAMESPACE: Final = "namespace:"
_KEYS: Final = frozenset({"teams", "write"})


class AccessError(ValueError):
    """A file about access cannot be used; the text says which, where and what was expected."""


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """Whose workloads are seen. ``teams`` None: everybody's, and what is of the whole cluster."""

    teams: frozenset[str] | None = None
    namespaces: frozenset[str] = frozenset()

    @property
    def everything(self) -> bool:
        """Whether nothing is hidden."""
        return self.teams is None

    def holds(self, workload: Workload) -> bool:
        """Whether a workload is seen."""
        return self.place(workload.namespace, workload.team)

    def place(self, namespace: str, team: str) -> bool:
        """Whether something of a namespace and a team ('' unknown) is seen."""
        if self.teams is None:
            return True
        return bool(team and team in self.teams) or namespace in self.namespaces


EVERYTHING: Final = Scope()


class Visitor(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks. ``name`` '': nobody gave a name. ``by``: "nobody", "token", "session", "proxy"."""

    name: str = ""
    by: str = "nobody"
    scope: Scope = EVERYTHING
    write: bool = False


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """What one name may."""

    scope: Scope = EVERYTHING
    write: bool = True


class AccessFile(msgspec.Struct, frozen=True, kw_only=True):
    """The mapping file as read."""

    names: Mapping[str, Access]

    def of(self, name: str) -> Access | None:
        """What a name may; None: it is not let in."""
        return self.names.get(name, self.names.get(_OTHERS))


#: Nobody may anything.
NOBODY: Final = AccessFile(names={})


def read_access(text: str, where: str) -> AccessFile:
    """The mapping file; raises ``AccessError`` with the name that is wrong."""
    try:
        read = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise AccessError(f"{where} is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(read, dict) or not all(isinstance(name, str) and name for name in read):
        raise AccessError(
            f'{where}: expected names with "all" or a list of teams, e.g. alice: [team-a]'
        )
    return AccessFile(
        names={name: _access(given, f"{where}: {name}") for name, given in read.items()}
    )


def _access(given: Any, where: str) -> Access:
    if not isinstance(given, dict):
        return Access(scope=_scope(given, where))
    if "teams" not in given or not given.keys() <= _KEYS:
        raise AccessError(f"{where}: expected teams and write, found {', '.join(map(str, given))}")
    write = given.get("write", True)
    if not isinstance(write, bool):
        raise AccessError(f"{where}: write: expected true or false, found {write!r}")
    return Access(scope=_scope(given["teams"], f"{where}: teams"), write=write)


def _scope(given: Any, where: str) -> Scope:
    if given == _ALL:
        return EVERYTHING
    if not isinstance(given, list) or not all(isinstance(team, str) and team for team in given):
        raise AccessError(f'{where}: expected "all" or a list of teams, found {given!r}')
    spaces = {team.removeprefix(_NAMESPACE) for team in given if team.startswith(_NAMESPACE)}
    teams = {team for team in given if not team.startswith(_NAMESPACE)}
    return Scope(teams=frozenset(teams), namespaces=frozenset(spaces))
