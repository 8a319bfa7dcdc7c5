"""The rules by which somebody is let in: pure, from a request to a visitor or a refusal.

The order is that of how sure a claim is: a bearer token, then a trusted proxy's word, then a
session's cookie, then nobody. A wrong token is refused and never read as nobody.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from gputailor_agent.api.doors import sessions
from gputailor_agent.api.doors.proxies import Headers, Proxies, SmuggledError
from gputailor_agent.api.doors.scopes import EVERYTHING, Access, AccessFile, Visitor
from gputailor_agent.api.doors.tokens import Token, matching
from gputailor_agent.reports.catalogues import _

_BEARER: Final = "bearer "
#: Names by which a machine calls itself; a page of another site has another name.
_OWN_NAMES: Final = frozenset({"localhost", "127.0.0.1", "[::1]", "::1"})


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """Why somebody is not let in: an HTTP status, and words that say what to do."""

    status: int
    text: str


# Marked for translation here, translated where they are shown.
WRONG_TOKEN: Final = Refusal(status=401, text=_("This token is not known here."))
TWO_TOKENS: Final = Refusal(status=400, text=_("The Authorization header stands there twice."))
NO_BEARER: Final = Refusal(status=401, text=_("Expected the header Authorization: Bearer TOKEN."))
NO_NAME: Final = Refusal(
    status=401,
    text=_(
        "Who are you? Send a token (Authorization: Bearer TOKEN), sign in, or come through the "
        "proxy that is trusted."
    ),
)
LOCKED: Final = Refusal(
    status=401,
    text=_(
        "Nobody can sign in here yet: set web_token_file (tokens), or web_trusted_proxies (a proxy "
        "that knows its users), or web_anonymous: true (whoever reaches this address may read "
        "everything); in the chart by agent.secretFiles.web_token_file or agent.settings."
    ),
)
FOREIGN_HOST: Final = Refusal(
    status=421,
    text=_(
        "This agent listens for this machine only and is asked by another name: use "
        "http://localhost, or set web_token_file or web_trusted_proxies, or name it in web_hosts."
    ),
)


def _not_mapped(name: str) -> Refusal:
    return Refusal(status=403, text=_("{name} is not named in the access file.", name=name))


class Doors(msgspec.Struct, frozen=True, kw_only=True):
    """Who is let in. ``anonymous``: whoever comes may read everything; nobody may change anything.

    ``hosts``: names (lower case) by which the agent may be asked without a token, beside those of
    the machine itself; None: any name. It keeps pages of other sites, whose name an attacker lets
    point to 127.0.0.1, from reading what only this machine may.
    """

    anonymous: bool = True
    hosts: frozenset[str] | None = None
    tokens: Callable[[], tuple[Token, ...]] | None = None
    proxies: Proxies = Proxies()
    access: Callable[[], AccessFile] | None = None

    @property
    def can_sign_in(self) -> bool:
        """Whether there are tokens to sign in with."""
        return self.tokens is not None

    def visitor(self, peer: str, headers: Headers, now: float) -> Visitor | Refusal:
        """Who asks from ``peer`` at ``now`` (Unix seconds); names of headers are in lower case."""
        bearer = [value for name, value in headers if name == b"authorization"]
        if len(bearer) > 1:
            return TWO_TOKENS
        if bearer:
            return self._by_token(bearer[0].decode("latin-1"))
        try:
            user = self.proxies.user(peer, headers)
        except SmuggledError as error:
            return Refusal(status=400, text=str(error))
        if user:
            return self._named(user, "proxy")
        return self._by_session(headers, now) or self._nobody(headers)

    def signed_in(self, given: str) -> Token | None:
        """The token that somebody typed."""
        return None if self.tokens is None else matching(given.strip(), self.tokens())

    def _by_token(self, header: str) -> Visitor | Refusal:
        if not header.lower().startswith(_BEARER):
            return NO_BEARER
        token = self.signed_in(header[len(_BEARER) :])
        return WRONG_TOKEN if token is None else self._named(token.name, "token")

    def _by_session(self, headers: Headers, now: float) -> Visitor | Refusal | None:
        if self.tokens is None:
            return None
        for cookie in _cookies(headers):
            token = sessions.token_of(cookie, self.tokens(), now)
            if token is not None:
                return self._named(token.name, "session")
        return None

    def _named(self, name: str, by: str) -> Visitor | Refusal:
        found: Access | None = Access()
        if self.access is not None:
            found = self.access().of(name)
        if found is None:
            return _not_mapped(name)
        return Visitor(name=name, by=by, scope=found.scope, write=found.write)

    def _nobody(self, headers: Headers) -> Visitor | Refusal:
        if not self.anonymous:
            return NO_NAME if self.tokens or self.proxies.networks else LOCKED
        if self.hosts is not None and _host(headers) not in self.hosts | _OWN_NAMES:
            return FOREIGN_HOST
        return Visitor(scope=EVERYTHING)


def _cookies(headers: Headers) -> list[str]:
    """Values of our cookie; more than one where somebody set one beside ours."""
    found = []
    for name, value in headers:
        if name == b"cookie":
            for part in value.decode("latin-1").split(";"):
                key, _, text = part.strip().partition("=")
                if key == sessions.COOKIE:
                    found.append(text)
    return found


def _host(headers: Headers) -> str:
    """The name that was asked for, without its port; '' where there is none, or several."""
    given = [value.decode("latin-1") for name, value in headers if name == b"host"]
    if len(given) != 1:
        return ""
    host = given[0].strip().lower()
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]
