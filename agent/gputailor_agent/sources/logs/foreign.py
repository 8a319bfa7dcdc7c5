"""Files that are no log we read, recognised so that the error can say what they are."""

import re
from pathlib import Path
from typing import Final

from gputailor_agent.sources.logs.values import COMMAND, LogError

_MAGIC: Final[tuple[tuple[bytes, str], ...]] = (
    (b"\x89PNG", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"GIF8", "a GIF picture"),
    (b"PK\x03\x04", "a zip archive or a spreadsheet (.xlsx)"),
    (b"%PDF", "a PDF document"),
    (b"\x7fELF", "a program"),
    (b"SQLite format 3", "an SQLite database"),
    (b"\x28\xb5\x2f\xfd", "a zstd archive"),
    (b"BZh", "a bzip2 archive"),
    (b"\xfd7zXZ", "an xz archive"),
)
_TEXTS: Final[tuple[tuple[re.Pattern[str], str], ...]] = (
    (re.compile(r"NVSMI LOG"), "the long report of nvidia-smi -q"),
    (re.compile(r"<nvidia_smi_log"), "the XML report of nvidia-smi -x"),
    (re.compile(r"^[|+].*NVIDIA-SMI \d", re.MULTILINE), "the table of plain nvidia-smi"),
    (re.compile(r"^GPU \d+: .*\(UUID: ", re.MULTILINE), "the list of nvidia-smi -L"),
    (re.compile(r"\A\s*(<!DOCTYPE|<html)", re.IGNORECASE), "a web page"),
    (re.compile(r'\A\s*[{\[]\s*["{\[]'), "JSON"),
    (re.compile(r"^apiVersion: ", re.MULTILINE), "a Kubernetes manifest"),
)
_FAILED: Final = re.compile(
    r"^.*(NVIDIA-SMI has failed|No devices were found|Failed to initialize NVML"
    r"|nvidia-smi: (?:command )?not found|Unable to determine the device handle"
    r"|is not a valid field to query|Invalid combination of input arguments).*$",
    re.MULTILINE,
)
#: Zero bytes are not counted: crashes leave them, and shells append UTF-16 to other text.
_CONTROL: Final = frozenset(range(1, 32)) - {9, 10, 12, 13, 27}
_BINARY_SHARE: Final = 0.05
_RECORD: Final = f"Record a log that can be read with: {COMMAND}"


def encoding_of(path: Path, head: bytes) -> str:
    """Encoding of a text by its first bytes.

    Raises ``LogError`` when it is no text.
    """
    for magic, what in _MAGIC:
        if head.startswith(magic):
            raise LogError(path, f"this is {what}", advice=_RECORD)
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    pairs = head[: len(head) // 2 * 2]
    half = len(pairs) // 2
    if half and pairs[1::2].count(0) > half * 0.8 and pairs[0::2].count(0) < half * 0.1:
        return "utf-16-le"
    if half and pairs[0::2].count(0) > half * 0.8 and pairs[1::2].count(0) < half * 0.1:
        return "utf-16-be"
    if head and not head.strip(b"\0"):
        raise LogError(path, "the file begins with zero bytes only (a crashed disk?)")
    text = head.strip(b"\0")
    strange = sum(byte in _CONTROL for byte in text)
    if strange > len(text) * _BINARY_SHARE:
        raise LogError(path, "this is binary data", advice=_RECORD)
    return "utf-8-sig"


def refuse_foreign(path: Path, head: str) -> None:
    """Raise ``LogError`` when the text is known to be something else."""
    for pattern, what in _TEXTS:
        if pattern.search(head):
            raise LogError(path, f"this is {what}", advice=_RECORD)


def complaint_in(head: str) -> str:
    """What nvidia-smi complained of in its output, or ''."""
    match = _FAILED.search(head)
    return match[0].strip()[:200] if match else ""
