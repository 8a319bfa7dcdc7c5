"""Bytes of a file or a response as batches of whole lines, within bounded memory.

Gzip is recognised by its first bytes. A line longer than ``LONGEST`` is cut to its beginning, so a
file without line ends cannot fill the memory; the reader sees the length and says so.
"""

import codecs
import gzip
import io
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

LONGEST: Final = 1 << 16  # characters of one line; a line of our exporter has some 300
_CHUNK: Final = 1 << 18  # bytes
_GZIP: Final = b"\x1f\x8b"
_DAMAGE: Final = (EOFError, zlib.error, OSError)


class Batch(NamedTuple):
    """Lines without their line ends; ``first`` is the number of the first, from 1.

    ``cut`` is set on the last batch when its last line has no line end; ``damage`` says why the
    rest of a compressed or unreadable file could not be had.
    """

    first: int
    lines: list[str]
    cut: bool = False
    damage: str = ""


class _Counted(io.RawIOBase):
    """A binary file that tells ``told`` how many raw bytes were just read."""

    def __init__(self, raw: BinaryIO, told: Callable[[int], None]) -> None:
        super().__init__()
        self._raw = raw
        self._told = told

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        data = self._raw.read(size)
        self._told(len(data))
        return data


def chunks(raw: BinaryIO, told: Callable[[int], None] = lambda _count: None) -> Iterator[bytes]:
    """Pieces of the file, unpacked when it is gzip; ``told`` hears of raw bytes as they are read.

    Raises ``EOFError``, ``zlib.error`` or ``OSError`` where the file is damaged, after everything
    before the damage was given.
    """
    magic = raw.read(len(_GZIP))
    raw.seek(0)
    counted = _Counted(raw, told)
    if magic == _GZIP:
        with gzip.GzipFile(fileobj=counted, mode="rb") as unpacked:
            while data := unpacked.read1(_CHUNK):
                yield data
        return
    while data := counted.read(_CHUNK):
        yield data


def head_of(path: Path, size: int = LONGEST) -> bytes:
    """The first unpacked bytes of a file: fewer where it is shorter or damaged.

    Raises ``OSError`` when it cannot be opened.
    """
    found = bytearray()
    with path.open("rb") as raw:
        try:
            for chunk in chunks(raw):
                found += chunk
                if len(found) >= size:
                    break
        except _DAMAGE:
            pass  # whoever reads the whole file says what is wrong with it
    return bytes(found[:size])


def batches(
    pieces: Iterable[bytes], encoding: str = "utf-8", *, any_line_end: bool = False
) -> Iterator[Batch]:
    """Whole lines out of pieces of bytes; never raises.

    Bytes that are not UTF-8 become lone surrogates; halves of UTF-16 become U+FFFD. With
    ``any_line_end`` CR and CRLF end lines too (the exposition formats know LF only).
    """
    errors = "surrogateescape" if encoding.startswith("utf-8") else "replace"
    decoder = codecs.getincrementaldecoder(encoding)(errors)
    text = io.IncrementalNewlineDecoder(decoder, translate=True) if any_line_end else decoder
    source = iter(pieces)
    first, rest, damage = 1, "", ""
    while True:
        try:
            data = next(source, b"")
        except _DAMAGE as error:
            data, damage = b"", str(error) or type(error).__name__
        lines = (rest + text.decode(data, final=not data)).split("\n")
        rest = lines.pop()
        if len(rest) > LONGEST:
            rest = rest[: LONGEST + 1]
        if not data:
            yield Batch(first, [*lines, rest] if rest else lines, cut=bool(rest), damage=damage)
            return
        if lines:
            yield Batch(first, lines)
            first += len(lines)
