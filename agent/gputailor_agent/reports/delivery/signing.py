"""Signatures of web calls, by Standard Webhooks, so that verifiers which exist check them.

HMAC-SHA256 over "id.timestamp.body", in the header ``webhook-signature`` as ``v1,BASE64``; a file
with several secrets gives several, separated by blanks, so that a secret can be changed without a
gap. Source: https://github.com/standard-webhooks/standard-webhooks (specification, 1.0).
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence
from typing import Final

from gputailor_agent.reports.delivery.errors import DeliveryError

_PREFIX: Final = "whsec_"
#: Bytes of a secret, by the specification.
_LEAST, _MOST = 24, 64


def secrets_in(text: str, setting: str) -> tuple[bytes, ...]:
    """The secrets of a file, one a line, the newest first; raises ``DeliveryError``."""
    return tuple(_secret(line.strip(), setting) for line in text.splitlines() if line.strip())


def _secret(line: str, setting: str) -> bytes:
    try:
        key = base64.b64decode(line.removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not _LEAST <= len(key) <= _MOST:
        # the text is a secret, so it is not repeated
        raise DeliveryError(
            f"{setting}: expected {_LEAST} to {_MOST} bytes in base64 a line, as of "
            "'echo whsec_$(openssl rand -base64 32)'"
        )
    return key


def headers(secrets: Sequence[bytes], identity: str, at: float, body: bytes) -> dict[str, str]:
    """The three headers of a call at ``at`` (Unix seconds); none without a secret.

    ``identity`` is the message's own: its part before ``@`` is ``webhook-id``, since a full stop
    would be read as the end of it.
    """
    if not secrets:
        return {}
    name, moment = identity.partition("@")[0], str(int(at))
    signed = f"{name}.{moment}.".encode() + body
    marks = (hmac.new(secret, signed, hashlib.sha256).digest() for secret in secrets)
    return {
        "webhook-id": name,
        "webhook-timestamp": moment,
        "webhook-signature": " ".join(f"v1,{base64.b64encode(one).decode()}" for one in marks),
    }
