"""Names that come from others, made harmless for whoever reads them.

Names of pods, labels, trackers and log files are written by users of the cluster. What a terminal
would obey (escape sequences), what turns the direction of writing around (so that a line reads
otherwise than it is), and what cannot be seen at all is written out as its code instead. Letters of
any language stay as they are. JSON alone keeps the original, since machines compare it.
"""

import re
from typing import Any, Final

import msgspec

from gputailor_agent.reports.document import Document

#: Controls beside line breaks and tabs, marks of direction, and what has no width.
_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)
_ONE_BYTE: Final = 0x100


def shown(text: str) -> str:
    """The text with everything unseen written out: as a backslash and its code."""
    return text if text.isascii() and text.isprintable() else _UNSEEN.sub(_code, text)


def _code(found: re.Match[str]) -> str:
    code = ord(found.group())
    return f"\\x{code:02x}" if code < _ONE_BYTE else f"\\u{code:04x}"


#: Fields that are copied as they stand, with their line breaks.
_COPIED: Final = frozenset({("Code", "text"), ("Item", "code")})


def harmless(document: Document) -> Document:
    """The document with every name in it written out; a line break in a name is a blank."""
    cleaned: Document = _cleaned(document)
    return cleaned


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return shown(value).replace("\n", " ")
    if isinstance(value, tuple):
        return tuple(map(_cleaned, value))
    if not isinstance(value, msgspec.Struct):
        return value
    kind = type(value)
    fields = {
        name: shown(told) if (kind.__name__, name) in _COPIED else _cleaned(told)
        for name in value.__struct_fields__
        for told in (getattr(value, name),)
    }
    return kind(**fields)
