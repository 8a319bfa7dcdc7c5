"""Which letters of the outbox go together: one by one, but many notices to a receiver as one."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from gputailor_agent.reports.delivery import content, mail
from gputailor_agent.reports.delivery.content import IDLE, Content
from gputailor_agent.reports.delivery.digest import digest
from gputailor_agent.reports.delivery.settings import DeliverySettings
from gputailor_agent.store import Letter, Outbox

MAIL: Final = "mail"
WEBHOOK: Final = "webhook"
CHAT: Final = "chat"

#: What goes out as one message to one receiver.
Bundle = tuple[Letter, ...]
#: Says what cannot be sent, and why.
Complain = Callable[[Letter, str], None]


def bundled(letters: Iterable[Letter], at_once: int) -> list[Bundle]:
    """Letters as messages, in their order; more than ``at_once`` notices to a receiver as one."""
    notices: dict[tuple[str, str], list[Letter]] = {}
    several = list(letters)
    for letter in several:
        if _is_notice(letter):
            notices.setdefault((letter.channel, letter.recipient), []).append(letter)
    bundles: dict[Bundle, None] = {}
    for letter in several:
        own = notices.get((letter.channel, letter.recipient), [])
        together = _is_notice(letter) and len(own) > at_once
        bundles[tuple(own) if together else (letter,)] = None
    return list(bundles)


def _is_notice(letter: Letter) -> bool:
    return letter.scope.startswith(f"{letter.cluster}/{IDLE}/")


def opened(
    outbox: Outbox, bundle: Sequence[Letter], complain: Complain
) -> list[tuple[Letter, Content]]:
    """What letters say; one that cannot be read is told to ``complain`` and left out."""
    read = []
    for letter in bundle:
        body = outbox.body(letter)
        if body is None:
            complain(letter, "what it said is gone from the store")
            continue
        try:
            read.append((letter, content.unpack(body)))
        except msgspec.DecodeError as error:
            complain(letter, f"its content cannot be read: {error}")
    return read


def message(
    read: Sequence[tuple[Letter, Content]], settings: DeliverySettings
) -> tuple[Letter, Content]:
    """Several letters to one receiver as one, with a Message-ID of its own; one as it is."""
    letter, made = read[0]
    if len(read) == 1:
        return letter, made
    ids = tuple(one.message_id for one, _made in read)
    identity = mail.message_id(("digest", *ids), settings.mail_from)
    told = digest([one for _letter, one in read], public_url=settings.public_url)
    return msgspec.structs.replace(letter, message_id=identity), told
