"""Bearer tokens from a file: one a line, with a name before it or without one.

A token is compared by its SHA-256 digest, with every token of the file and in constant time
(``hmac.compare_digest``), so that the time of an answer tells nothing of how much was right.
"""

import hashlib
import hmac
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from gputailor_agent.api.doors.files import Followed
from gputailor_agent.api.doors.scopes import AccessError

#: Name of a token that has none in the file.
UNNAMED: Final = "token"
#: Fewer characters could be guessed: 16 of ``openssl rand -hex`` are 64 bits.
LEAST_CHARACTERS: Final = 16
SETTING: Final = "web_token_file"
_WORDS: Final = 2


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """A token of the file; the text itself is not kept."""

    name: str
    digest: bytes


def digest_of(text: str) -> bytes:
    """The digest by which tokens are compared."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()


def read_tokens(text: str, where: str) -> tuple[Token, ...]:
    """The tokens of a file: lines ``TOKEN`` or ``NAME TOKEN``, ``#`` begins a remark.

    Raises ``AccessError`` with the line that is wrong; the token itself is never told.
    """
    found: dict[bytes, Token] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) > _WORDS:
            raise AccessError(
                f"{where}, line {number}: expected TOKEN or NAME TOKEN, found {len(words)} words"
            )
        if len(words[-1]) < LEAST_CHARACTERS:
            raise AccessError(
                f"{where}, line {number}: a token has at least {LEAST_CHARACTERS} characters; "
                "make one by: openssl rand -hex 24"
            )
        name = words[0] if len(words) == _WORDS else UNNAMED
        digest = digest_of(words[-1])
        if digest in found:
            raise AccessError(f"{where}, line {number}: the same token stands there twice")
        found[digest] = Token(name=name, digest=digest)
    if not found:
        raise AccessError(f"{where} holds no token; make one by: openssl rand -hex 24")
    return tuple(found.values())


def matching(given: str, tokens: Iterable[Token]) -> Token | None:
    """The token that was given; all are compared, whichever it is."""
    digest = digest_of(given)
    found: Token | None = None
    for token in tokens:
        if hmac.compare_digest(digest, token.digest):
            found = token
    return found


class TokenFile(Followed[tuple[Token, ...]]):
    """The tokens of a file as it is now."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, read_tokens, (), SETTING)
