"""The ways out of the outbox: what carries a letter, by the name of its channel.

A way is opened for a round and carries its letters one after another. Adding one is a line in
``ways``; letters whose way the settings no longer have are told by ``gone``.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Final

from gputailor_agent.reports.delivery import channels, folder, mail, objects, webhook
from gputailor_agent.reports.delivery.content import Content
from gputailor_agent.reports.delivery.errors import DeliveryError
from gputailor_agent.reports.delivery.mail import SendError
from gputailor_agent.reports.delivery.settings import DeliverySettings
from gputailor_agent.store import Letter

MAIL: Final = "mail"
WEBHOOK: Final = "webhook"
CHAT: Final = "chat"
FOLDER: Final = "folder"
OBJECTS: Final = "objects"

Send = Callable[[Letter, Content], None]
#: Opens what carries messages: a mail server, a web address, a chat.
Way = Callable[[], AbstractContextManager[Send]]


def way_of(letter: Letter) -> str:
    """The name of the way a letter goes: each chat is one of its own."""
    return f"{CHAT}/{letter.recipient}" if letter.channel == CHAT else letter.channel


def ways(settings: DeliverySettings, clock: Callable[[], float]) -> dict[str, Way]:
    """Every way there is, by its name. Those that may wait long for each letter come last."""
    found: dict[str, Way] = {}
    if settings.folder is not None:
        found[FOLDER] = partial(_filing, settings)
    if settings.webhook_url:
        found[WEBHOOK] = partial(_calling, settings, clock)
    for name in settings.channels:
        found[f"{CHAT}/{name}"] = partial(_chatting, settings, name)
    if settings.objects is not None:
        found[OBJECTS] = partial(_storing, settings)
    if settings.server is not None:
        found[MAIL] = partial(_mailing, settings)
    return found


def gone(letter: Letter, settings: DeliverySettings) -> str:
    """Why a letter can reach its receiver no more; '' where it can."""
    if letter.channel == WEBHOOK and letter.recipient != settings.webhook_name:
        return "its web address is no longer in the settings"
    if letter.channel == CHAT and letter.recipient not in settings.channels:
        return "its channel is no longer in the settings"
    if letter.channel == FOLDER and letter.recipient != settings.folder_name:
        return "its folder is no longer in the settings"
    if letter.channel == OBJECTS and letter.recipient != settings.objects_name:
        return "its object store is no longer in the settings"
    return ""


@contextmanager
def _mailing(settings: DeliverySettings) -> Iterator[Send]:
    server = settings.server
    if server is None:
        raise SendError("no mail server is set", everyone=True)
    with mail.connected(server) as session:

        def send(letter: Letter, made: Content) -> None:
            built = mail.build(
                made,
                mail_from=settings.mail_from,
                recipient=letter.recipient,
                identity=letter.message_id,
            )
            mail.send(session, built, server)

        yield send


@contextmanager
def _calling(settings: DeliverySettings, clock: Callable[[], float]) -> Iterator[Send]:
    def send(letter: Letter, made: Content) -> None:
        secrets, at = settings.webhook_secrets, clock()
        url, name = settings.webhook_url, settings.webhook_name
        webhook.post(url, name, made, letter.message_id, secrets=secrets, at=at)

    yield send


@contextmanager
def _chatting(settings: DeliverySettings, name: str) -> Iterator[Send]:
    try:
        chat = channels.opened(name, settings.channels[name])
    except DeliveryError as error:
        raise SendError(str(error), everyone=True) from None

    def send(_letter: Letter, made: Content) -> None:
        channels.post(chat, name, made)

    yield send


@contextmanager
def _filing(settings: DeliverySettings) -> Iterator[Send]:
    place = settings.folder
    if place is None:
        raise SendError("no folder is set", everyone=True)

    def send(_letter: Letter, made: Content) -> None:
        folder.keep(place, made)

    yield send


@contextmanager
def _storing(settings: DeliverySettings) -> Iterator[Send]:
    place = settings.objects
    if place is None:
        raise SendError("no object store is set", everyone=True)
    put = objects.opened(place)

    def send(_letter: Letter, made: Content) -> None:
        put(made)

    yield send
