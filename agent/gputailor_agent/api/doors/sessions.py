"""How a browser keeps being who it said it was, without anything being kept here.

A session is a cookie ``name|expires|signature``, signed with the digest of the very token that was
given: it ends when its time is over or when the token leaves the file. A form carries a signature
of its own, by a key that lives as long as the process and the visitor's name.
"""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Iterable
from typing import Final

from gputailor_agent.api.doors.tokens import Token

COOKIE: Final = "gputailor_session"
SESSION_SECONDS: Final = 12 * 3600
_PARTS: Final = 3
_LONGEST: Final = 1024


def _signed(key: bytes, *words: str) -> str:
    text = "\x00".join(words).encode("utf-8", "surrogateescape")
    return hmac.new(key, text, hashlib.sha256).hexdigest()


def begin(token: Token, now: float) -> str:
    """The cookie of a session that begins ``now`` (Unix seconds)."""
    expires = str(int(now) + SESSION_SECONDS)
    name = base64.urlsafe_b64encode(token.name.encode()).decode().rstrip("=")
    return f"{name}.{expires}.{_signed(token.digest, 'session', name, expires)}"


def token_of(cookie: str, tokens: Iterable[Token], now: float) -> Token | None:
    """Whose session a cookie is; None for one that is over, forged or of a token that is gone."""
    parts = cookie.split(".")
    if len(cookie) > _LONGEST or len(parts) != _PARTS or not parts[1].isdecimal():
        return None
    name, expires, given = parts
    found: Token | None = None
    for token in tokens:
        if hmac.compare_digest(_signed(token.digest, "session", name, expires), given):
            found = token
    return found if found is not None and now < int(expires) else None


class Forms:
    """Signatures of forms; a new key with each process."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def mark(self, visitor: str) -> str:
        """What a form of this visitor carries."""
        return _signed(self._key, "form", visitor)

    def holds(self, visitor: str, given: str) -> bool:
        """Whether a form was made for this visitor by this process."""
        return hmac.compare_digest(self.mark(visitor).encode(), given.encode("utf-8", "replace"))
