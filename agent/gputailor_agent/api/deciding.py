"""Dismissing a finding by page or API: with a name, a reason and a mark that no other site has.

A form is believed by its mark (``sessions.Forms``). The API believes a bearer token or a trusted
proxy's word and asks for JSON, which no page of another site can send without being asked first; a
session's cookie is not enough there.
"""

from datetime import UTC, datetime
from typing import Final
from urllib.parse import parse_qs

import msgspec
from fastapi import HTTPException, Request
from starlette.requests import ClientDisconnect

from gputailor_agent.api.doors import Visitor
from gputailor_agent.ledger import ALL, DISMISSED
from gputailor_agent.model.ledger import Decision
from gputailor_agent.reports.catalogues import _
from gputailor_agent.rules import registry

LONGEST_REASON: Final = 500
#: A form or document of ours is far smaller.
LARGEST_BODY: Final = 16_384
_MOST_FIELDS: Final = 20
_DAY_CHARACTERS: Final = 10


class DecisionError(ValueError):
    """What was sent cannot be done; the text says what was expected."""


class NoFindingError(DecisionError):
    """There is nothing to decide about."""


class Asked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A dismissal as the API takes it.

    ``until``: a day or a time in UTC; None for good. ``anyway``: also of a finding that may come.
    """

    workload: str
    rule: str
    reason: str
    until: str | None = None
    anyway: bool = False


async def body(request: Request) -> bytes:
    """The body of a request; raises 413 for one that is larger than any of ours."""
    read = b""
    try:
        async for part in request.stream():
            read += part
            if len(read) > LARGEST_BODY:
                raise HTTPException(status_code=413, detail=_("The form is too large."))
    except ClientDisconnect as error:  # nobody hears it, and it is no fault of ours
        raise HTTPException(status_code=400, detail=_("The form ended early.")) from error
    return read


async def form(request: Request) -> dict[str, str]:
    """A form's fields, the first value of each; raises 400 for what is no form."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise HTTPException(status_code=415, detail=_("Expected a form."))
    try:
        read = parse_qs(
            (await body(request)).decode(), keep_blank_values=True, max_num_fields=_MOST_FIELDS
        )
    except (ValueError, UnicodeDecodeError) as error:
        raise HTTPException(status_code=400, detail=_("This form cannot be read.")) from error
    return {name: values[0] for name, values in read.items()}


def document(content: bytes, content_type: str) -> Asked:
    """A dismissal sent as JSON; raises ``DecisionError``."""
    if content_type.partition(";")[0].strip().lower() != "application/json":
        raise DecisionError("expected Content-Type: application/json")
    try:
        return msgspec.json.decode(content, type=Asked)
    except msgspec.DecodeError as error:
        raise DecisionError(
            f"expected workload, rule, reason, until and anyway: {error}"
        ) from error


def dismissal(asked: Asked, by: Visitor, now: float) -> Decision:
    """The decision that somebody asks for at ``now`` (Unix seconds); raises ``DecisionError``."""
    reason = " ".join(asked.reason.split())
    if not reason:
        raise DecisionError(_("Say why: whoever looks next will want to know."))
    if len(reason) > LONGEST_REASON or not reason.isprintable():
        raise DecisionError(
            _("The reason is longer than {most} signs or cannot be shown.", most=LONGEST_REASON)
        )
    return Decision(
        workload_id=asked.workload,
        rule=known_rule(asked.rule),
        kind=DISMISSED,
        reason=reason,
        decided_by=by.name,
        decided_at=now,
        until=_until(asked.until, now),
    )


def known_rule(text: str) -> str:
    """A rule's id; raises ``DecisionError``."""
    if text not in {ALL, *(rule.id for rule in registry())}:
        raise DecisionError(_("There is no rule {rule!r}.", rule=text[:100]))
    return text


def check_there(rule: str, found: frozenset[str]) -> None:
    """Raise ``NoFindingError`` unless ``rule`` is all or one with something to decide about."""
    if rule in {ALL, *found}:
        return
    if not found:
        raise NoFindingError(_("This workload has no finding to decide about."))
    raise NoFindingError(
        _(
            "This workload has no finding of {rule}; there are: {found}.",
            rule=rule,
            found=", ".join(sorted(found)),
        )
    )


def _until(text: str | None, now: float) -> float | None:
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
        at = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError) as error:
        raise DecisionError(
            _("Expected a day such as 2027-06-30, found {text!r}.", text=text[:40])
        ) from error
    if at <= now:
        raise DecisionError(_("{day} is over.", day=text[:_DAY_CHARACTERS]))
    return at
