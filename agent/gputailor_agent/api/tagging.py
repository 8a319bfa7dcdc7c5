"""ETags: an answer that has not changed is not sent again.

The tag is a digest of the very bytes, so that it is right whatever made them. A question that
cannot be read as tags simply gets the whole answer.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Final

from fastapi import Request, Response

#: Asked again each time, kept by nobody on the way: what is seen depends on who asks.
KEEPING: Final = {"Cache-Control": "private, no-cache", "Vary": "Authorization, Cookie"}
_TAG: Final = re.compile(r'(?:W/)?"([\x21\x23-\x7e]*)"')
#: More than any client has of one address.
_LONGEST: Final = 4096


def tagged(
    request: Request,
    body: str | bytes,
    media_type: str = "application/json",
    headers: Mapping[str, str] | None = None,
) -> Response:
    """The body with its tag, or 304 where the client has it already."""
    content = body.encode() if isinstance(body, str) else body
    tag = hashlib.sha256(content).hexdigest()[:32]
    more = {"ETag": f'"{tag}"', **KEEPING, **(headers or {})}
    if has(request.headers.get("if-none-match", ""), tag):
        return Response(status_code=304, headers=more)
    return Response(content, media_type=media_type, headers=more)


def has(asked: str, tag: str) -> bool:
    """Whether an ``If-None-Match`` header names the tag."""
    if asked.strip() == "*":
        return True
    return len(asked) <= _LONGEST and tag in _TAG.findall(asked)
