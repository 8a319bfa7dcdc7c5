"""Who comes in by HTTP, what they may see, and what they may change.

``scopes`` says what a name may see, ``tokens`` and ``proxies`` find out who asks, ``sessions`` let
a browser keep being somebody, ``doorkeeper`` (which alone needs the web framework) asks them all
before any page does.
"""

from gputailor_agent.api.doors.doors import Doors, Refusal
from gputailor_agent.api.doors.files import Followed
from gputailor_agent.api.doors.scopes import (
    EVERYTHING,
    NOBODY,
    AccessError,
    AccessFile,
    Scope,
    Visitor,
    read_access,
)
from gputailor_agent.api.doors.tokens import TokenFile, read_tokens

__all__ = [
    "EVERYTHING",
    "NOBODY",
    "AccessError",
    "AccessFile",
    "Doors",
    "Followed",
    "Refusal",
    "Scope",
    "TokenFile",
    "Visitor",
    "read_access",
    "read_tokens",
]
