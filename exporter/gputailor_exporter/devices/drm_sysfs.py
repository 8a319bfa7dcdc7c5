"""The kernel's small files of one device: a value, or the reason why there is none.

Sysfs needs no privileges for most of what is read here. What a device does not have is remembered
for ten minutes, so that it is asked for once and not each second; opens are counted, because a
reading at 1 s must stay cheap.
"""

import errno
import os
from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import Final, Generic, TypeVar

from gputailor_exporter.devices.base import Reason

_REASONS: Final = {
    errno.ENOENT: Reason.NOT_SUPPORTED,
    errno.ENOTDIR: Reason.NOT_SUPPORTED,
    errno.EINVAL: Reason.NOT_SUPPORTED,
    errno.EOPNOTSUPP: Reason.NOT_SUPPORTED,
    errno.EACCES: Reason.NO_PERMISSION,
    errno.EPERM: Reason.NO_PERMISSION,
    errno.ENODEV: Reason.GPU_IS_LOST,
    errno.ENXIO: Reason.GPU_IS_LOST,
    errno.EBUSY: Reason.NO_SAMPLES,
    errno.EAGAIN: Reason.NO_SAMPLES,
    errno.ETIME: Reason.TIMEOUT,
    errno.ETIMEDOUT: Reason.TIMEOUT,
}

#: Answers that stay while the device stays as it is.
_LASTING: Final = frozenset({Reason.NOT_SUPPORTED, Reason.NO_PERMISSION})

#: After this long, what was refused is asked for again.
ROUND_SECONDS: Final = 600.0

#: The largest file read here is AMD's table of metrics (under 5 KiB); an fdinfo has about 2 KiB.
_MOST_BYTES: Final = 65536

Value = TypeVar("Value")


def reason_of(error: OSError) -> Reason:
    """Return why a file of the kernel could not be read."""
    return _REASONS.get(error.errno or 0, Reason.DRIVER_ERROR)


def read_file(path: str | Path) -> bytes:
    """Return a whole small file by one read, as sysfs renders it; raises ``OSError``."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(file, _MOST_BYTES)
    finally:
        os.close(file)


def read_text(path: str | Path) -> str:
    """Return a file's text without surrounding blanks; '' where it cannot be read."""
    try:
        return read_file(path).decode("utf-8", "replace").strip()
    except OSError:
        return ""


def names_in(folder: str | Path) -> tuple[str, ...]:
    """Return the names in a folder, sorted; empty where it cannot be read."""
    try:
        return tuple(sorted(os.listdir(folder)))  # noqa: PTH208 - names are all that is wanted
    except OSError:
        return ()


class DeviceFiles:
    """Reads files below one folder; ``reasons`` says why values of this reading are missing.

    Not safe for several threads: each device has one reader.
    """

    def __init__(self, folder: Path) -> None:
        """``folder``: the device's folder in sysfs."""
        self.folder = folder
        self.reasons: dict[str, Reason] = {}
        self.opened = 0  # files, since the reading began
        self._root = str(folder)
        self._refused: dict[str, Reason] = {}
        self._since: float | None = None

    def begin(self, at: float) -> None:
        """Start a reading at monotonic time ``at``."""
        self.reasons = {}
        self.opened = 0
        if self._since is None or at - self._since >= ROUND_SECONDS:
            self._since = at
            self._refused = {}

    def content(self, value: str, file: str) -> bytes | None:
        """Return the bytes of ``file``; None, with the reason under ``value``, without them."""
        refused = self._refused.get(file)
        if refused is not None:
            self.reasons[value] = refused
            return None
        self.opened += 1
        try:
            found = read_file(f"{self._root}/{file}")
        except OSError as error:
            reason = reason_of(error)
            if reason in _LASTING:
                self._refused[file] = reason
            self.reasons[value] = reason
            return None
        self.reasons.pop(value, None)
        return found

    def text(self, value: str, file: str) -> str | None:
        """Return the text of ``file`` without surrounding blanks, or leave a reason."""
        found = self.content(value, file)
        return None if found is None else found.decode("utf-8", "replace").strip()

    def number(
        self, value: str, file: str, *, unit: float = 1.0, low: float = 0.0, high: float = inf
    ) -> float | None:
        """Return the number in ``file`` times ``unit``, within limits, or leave a reason."""
        text = self.text(value, file)
        if text is None:
            return None
        try:
            found = float(text) * unit
        except ValueError:
            found = inf
        if not low <= found <= high or found == inf:
            self.reasons[value] = Reason.INVALID_VALUE
            return None
        return found


class Slowly(Generic[Value]):
    """Keeps a value that changes slowly, so that its files are not read each second."""

    def __init__(
        self, seconds: float, read: Callable[[], Value], files: DeviceFiles | None = None
    ) -> None:
        """``read`` is called again when ``seconds`` have passed since its last call.

        ``files``: what it reads; the reasons it leaves there are kept as long as the value.
        """
        self._seconds = seconds
        self._read = read
        self._files = files
        self._kept: tuple[float, Value] | None = None
        self._reasons: dict[str, Reason] = {}

    def get(self, at: float) -> Value:
        """Return the value of monotonic time ``at``, at most ``seconds`` old."""
        if self._kept is not None and at - self._kept[0] < self._seconds:
            if self._files is not None:
                self._files.reasons.update(self._reasons)
            return self._kept[1]
        before = {} if self._files is None else dict(self._files.reasons)
        value = self._read()
        if self._files is not None:
            self._reasons = dict(self._files.reasons.items() - before.items())
        self._kept = (at, value)
        return value
