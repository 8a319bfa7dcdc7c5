"""Chats: Slack, Teams, Feishu, DingTalk, WeCom and whatever else the library ``apprise`` knows.

A channel is one of apprise's URLs, which mostly is the only secret a chat asks for. So it is never
told: apprise's own log, which names URLs, is kept quiet, and of what it says only the status of an
answer is repeated. Importing apprise takes a second; that is left to those who have a channel.

Texts are cut to what a service publishes as its limit. Apprise counts characters; some services
count bytes, and those of the text as it travels in JSON.
"""

import json
import logging
import re
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from gputailor_agent.reports.delivery.content import Content
from gputailor_agent.reports.delivery.errors import DeliveryError
from gputailor_agent.reports.delivery.mail import SendError

if TYPE_CHECKING:
    from apprise.plugins.base import NotifyBase

#: Chats cut long headings without a word.
_LONGEST_TITLE: Final = 150  # Slack's header block; the shortest of all
_SECTION: Final = (
    3000  # characters of a section in Slack's blocks, api.slack.com/reference/block-kit
)
_MARKS: Final = "…"
#: Some services read Markdown in headings too, where a name must make no link.
_HEADING: Final = str.maketrans({"[": "(", "]": ")", "<": "(", ">": ")"})
#: Services that call people by ``<at …>`` in any text, whatever stands before it.
_CALLING: Final = frozenset({"NotifyFeishu", "NotifyLark"})
_STATUS: Final = re.compile(r"(?:error=|failed: )(\d{3})\b")


def _utf8(text: str) -> int:
    return len(text.encode())


def _escaped(text: str) -> int:
    return len(json.dumps(text)) - 2


#: What a service counts in its limit, where that is not characters. WeCom's group robot: bytes of
#: UTF-8 (developer.work.weixin.qq.com/document/path/91770). Feishu, Lark (20 KB of request) and
#: DingTalk (20,000 bytes): the request, which apprise writes as UTF-8 for the first two.
_MEASURES: Final[Mapping[str, Callable[[str], int]]] = {
    "NotifyWeComBot": _utf8,
    "NotifyFeishu": _utf8,
    "NotifyLark": _utf8,
    "NotifyDingTalk": _escaped,
}
#: What else is in a request beside title and text (keys, at-lists, a card's frame), at most.
_FRAME_BYTES: Final = 512


class _Silence(logging.Filter):
    """Lets nothing of apprise's log through, and remembers the last status it told of."""

    def __init__(self) -> None:
        super().__init__()
        self.heard = threading.local()

    def filter(self, record: logging.LogRecord) -> bool:
        """Never: lines of apprise name addresses and tokens."""
        found = _STATUS.search(record.getMessage())
        if found:
            self.heard.status = found.group(1)
        return False


_SILENCE: Final = _Silence()
_PREPARED: Final = threading.Lock()


def opened(name: str, url: str) -> "NotifyBase":
    """The chat of a URL; raises ``DeliveryError`` naming the channel, never the URL."""
    apprise = _apprise()
    # no pictures: they would be loaded from apprise's own site
    asset = apprise.AppriseAsset(app_id="gputailor", image_url_mask="", image_url_logo="")
    plugin: NotifyBase | None = apprise.Apprise.instantiate(url, asset=asset)
    if plugin is None:
        raise DeliveryError(
            f"channels_file, {name}: expected the URL of a chat that apprise knows, such as "
            "slack://… or feishu://… (see docs/delivery.md)"
        )
    plugin.redirects = False  # they could lead a report elsewhere
    return plugin


def _apprise() -> Any:
    with _PREPARED:
        import apprise  # noqa: PLC0415 - a second, which only those with a channel wait for

        log = logging.getLogger("apprise")
        if _SILENCE not in log.filters:
            log.addFilter(_SILENCE)
        # requests tells whole addresses, with their secrets, where everything is logged
        for loud in ("urllib3", "requests"):
            if logging.getLogger(loud).getEffectiveLevel() < logging.WARNING:
                logging.getLogger(loud).setLevel(logging.WARNING)
    return apprise


class Posting(msgspec.Struct, frozen=True, kw_only=True):
    """What a chat is given to post; nothing of its address."""

    service: str
    markdown: bool
    title: str
    body: str


def composed(plugin: "NotifyBase", content: Content) -> Posting:
    """A message as a chat gets it.

    Markdown where the service reads it, plain text elsewhere; both cut to the service's limit.
    """
    markdown = reads_markdown(plugin)
    title = content.subject.translate(_HEADING)[:_LONGEST_TITLE]
    body = content.text if markdown else content.plain or content.text
    if type(plugin).__name__ in _CALLING:
        body = body.replace("\\<", "<").replace("<", "(")
    return Posting(
        service=str(plugin.service_name),
        markdown=markdown,
        title=title,
        body=fitting(plugin, title, body),
    )


def post(plugin: "NotifyBase", name: str, content: Content) -> None:
    """Post one message; returns once the chat took it, raises ``SendError`` otherwise."""
    from apprise import NotifyFormat, OverflowMode  # noqa: PLC0415 - as above

    made = composed(plugin, content)
    _SILENCE.heard.status = ""
    try:
        taken = plugin.notify(
            made.body,
            title=made.title,
            body_format=NotifyFormat.MARKDOWN if made.markdown else NotifyFormat.TEXT,
            overflow=OverflowMode.TRUNCATE,
        )
    except Exception as error:  # noqa: BLE001 - a hundred services: none may end the round
        raise SendError(f"{name} failed ({type(error).__name__})", everyone=True) from None
    if not taken:
        status = _SILENCE.heard.status
        told = f"answered {status}" if status else "cannot be reached or refused the message"
        raise SendError(f"{name} {told}", everyone=True)


def reads_markdown(plugin: "NotifyBase") -> bool:
    """Whether Markdown is among what a service shows."""
    formats: Any = plugin.notify_format
    several = formats if isinstance(formats, tuple) else (formats,)
    return "markdown" in {str(getattr(one, "value", one)) for one in several}


def fitting(plugin: "NotifyBase", title: str, body: str) -> str:
    """The text as far as the service takes it, to a whole line where one ends in its last part."""
    measure = _MEASURES.get(type(plugin).__name__)
    room = plugin.body_maxlen
    if measure is None:
        measure = len
        if getattr(plugin, "use_blocks", False):
            room = min(room, _SECTION)
    elif plugin.title_maxlen <= 0:  # the title is put before the text, with a line's end
        room -= measure(title) + 2 * len("\r\n")
    else:
        room -= measure(title) * 2 + _FRAME_BYTES  # DingTalk shows the title in the text again
    return _cut(body, room, measure)


def _cut(body: str, room: int, measure: Callable[[str], int]) -> str:
    if measure(body) <= room:
        return body
    room -= measure(f"\n{_MARKS}")
    least, most = 0, len(body)
    while least < most:  # the longest beginning that fits
        middle = (least + most + 1) // 2
        least, most = (middle, most) if measure(body[:middle]) <= room else (least, middle - 1)
    whole, line_end, _rest = body[:least].rpartition("\n")
    kept = whole if line_end and len(whole) > least // 2 else body[:least]
    return f"{kept}\n{_MARKS}"
