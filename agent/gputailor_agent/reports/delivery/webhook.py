"""Web calls: the message as JSON, by POST, to one address.

Redirects are not followed (they could lead a report elsewhere), and the address is never told: its
path is often the only secret a chat server asks for. With a secret of ours the call is signed.
"""

import json
from collections.abc import Sequence
from typing import Final

import httpx

from gputailor_agent.reports.delivery import signing
from gputailor_agent.reports.delivery.content import Content, payload
from gputailor_agent.reports.delivery.mail import SendError

TIMEOUT_SECONDS: Final = 15.0


def post(
    url: str,
    name: str,
    content: Content,
    identity: str,
    *,
    secrets: Sequence[bytes] = (),
    at: float = 0.0,
) -> None:
    """Post one message; returns on 2xx, raises ``SendError``. ``name`` stands for the address.

    ``identity`` is the same however often it is tried; receivers can drop repetitions by it. It is
    signed with each of ``secrets`` at ``at`` (Unix seconds).
    """
    key = identity.strip("<>")
    body = json.dumps(payload(content, key)).encode()
    signed = signing.headers(secrets, key, at, body)
    try:
        answer = httpx.post(
            url,
            content=body,
            headers={
                "Content-Type": "application/json",
                "Idempotency-Key": key,
                "User-Agent": "gputailor",
                **signed,
            },
            timeout=TIMEOUT_SECONDS,
            follow_redirects=False,
        )
    except httpx.TimeoutException:
        raise SendError(f"{name} did not answer in time", everyone=True) from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise SendError(
            f"{name} cannot be reached ({type(error).__name__})", everyone=True
        ) from None
    if not answer.is_success:
        raise SendError(f"{name} answered {answer.status_code}", everyone=True)
