"""Which letters of the outbox go together: one by one, but many notices to a receiver as one."""

from collections.abc import Callable, Iterable, Sequence

import msgspec

from gputailor_agent.reports.delivery import content, mail
from gputailor_agent.reports.delivery.content import NOTICES, Content
from gputailor_agent.reports.delivery.digest import digest
from gputailor_agent.reports.delivery.settings import DeliverySettings
from gputailor_agent.store import Letter, Outbox

#: What goes out as one message to one receiver.
Bundle = tuple[Letter, ...]
#: Says what cannot be sent, and why.
Complain = Callable[[Letter, str], None]


def bundled(letters: Iterable[Letter], at_once: int) -> list[Bundle]:
    """Letters as messages, in their order; more than ``at_once`` notices to a receiver as one.

    Notices of one kind only: what is idle is not told among what is broken.
    """
    notices: dict[tuple[str, str, str], list[Letter]] = {}
    several = list(letters)
    for letter in several:
        if _notice(letter):
            notices.setdefault(_together(letter), []).append(letter)
    bundles: dict[Bundle, None] = {}
    for letter in several:
        own = notices.get(_together(letter), [])
        together = _notice(letter) and len(own) > at_once
        bundles[tuple(own) if together else (letter,)] = None
    return list(bundles)


def _together(letter: Letter) -> tuple[str, str, str]:
    return letter.channel, letter.recipient, _notice(letter)


def _notice(letter: Letter) -> str:
    """The kind of notice that a letter is; '' for anything else."""
    kinds = (one for one in NOTICES if letter.scope.startswith(f"{letter.cluster}/{one}/"))
    return next(kinds, "")


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
