"""Reading a scenario file strictly: every value checked, every error with its place.

A ``Section`` is a mapping of the document that knows its path. What nobody asked for is an error
too, because a misspelt key would otherwise silently change the simulated cluster.
"""

import difflib
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
_SECONDS: Final = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_BYTES = re.compile(r"^(\d+(?:\.\d+)?)\s*(B|[KMGT]iB?|[KMGT]B)?$")
_UNITS: Final = {
    "B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40,
}  # fmt: skip
_CLOCK = re.compile(r"^([01]\d|2[0-3]):([0-5]\d)$")
DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


class ScenarioError(Exception):
    """A scenario that cannot be used: file, place in the document, what was expected."""

    def __init__(self, file: str, path: str, text: str) -> None:
        """Compose the message from its three parts."""
        super().__init__(f"{file}: {path or 'document'}: {text}")


def parse_duration(value: object) -> float | None:
    """Return seconds of ``90``, ``"90s"``, ``"2h30m"``; None when it is no duration."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value) if 0 <= value < math.inf else None
    if not isinstance(value, str) or not value:
        return None
    seconds, at = 0.0, 0
    for match in _DURATION_PART.finditer(value):
        if match.start() != at:
            return None
        seconds += float(match[1]) * _SECONDS[match[2]]
        at = match.end()
    return seconds if at == len(value) else None


def parse_clock(value: object) -> float | None:
    """Return seconds after midnight of ``"HH:MM"``; None when it is no clock time."""
    match = _CLOCK.match(value) if isinstance(value, str) else None
    return int(match[1]) * 3600.0 + int(match[2]) * 60.0 if match else None


def parse_time(value: object, now: float) -> float | None:
    """Return Unix seconds of ``now``, ``-14d``, ``+2h``, ``-3d@09:00`` (UTC), ISO time or number.

    None when it is none of them.
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    if not isinstance(value, str):
        return None
    if value[:1] in {"-", "+", "n"}:
        return _relative_time(value, now)
    try:
        return parse_time(datetime.fromisoformat(value), now)
    except ValueError:
        return None


def _relative_time(value: str, now: float) -> float | None:
    text, _, clock = value.partition("@")
    offset = 0.0 if text == "now" else parse_duration(text[1:])
    if offset is None or (text[0] == "n" and text != "now"):
        return None
    at = now - offset if text[0] == "-" else now + offset
    if not clock:
        return at
    after_midnight = parse_clock(clock)
    return None if after_midnight is None else at // 86400 * 86400 + after_midnight


def parse_bytes(value: object) -> int | None:
    """Return bytes of ``1073741824``, ``"61GiB"``, ``"512Mi"``, ``"9GB"``; None if none of them."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value if value >= 0 else None
    match = _BYTES.match(value) if isinstance(value, str) else None
    if match is None:
        return None
    unit = match[2] or "B"
    return int(float(match[1]) * _UNITS[unit.removesuffix("B") if "i" in unit else unit])


@dataclass(slots=True)
class Section:
    """A mapping of the document at ``path``; each accessor checks type and range."""

    file: str
    path: str
    values: Mapping[str, Any]
    now: float
    asked: set[str] = field(default_factory=set)

    def fail(self, key: str, text: str) -> ScenarioError:
        """Return the error for ``key`` of this section."""
        return ScenarioError(self.file, f"{self.path}.{key}".strip(".") if key else self.path, text)

    def _get(self, key: str) -> Any:
        self.asked.add(key)
        return self.values.get(key)

    def has(self, key: str) -> bool:
        """Tell whether the key is there and not null."""
        return self._get(key) is not None

    def raw(self, key: str) -> Any:
        """Return the value as YAML gave it; None when absent."""
        return self._get(key)

    def text(self, key: str, default: str | None = None) -> str:
        """Return a non-empty string; an integer is taken as its digits."""
        value = self._get(key)
        if value is None and default is not None:
            return default
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str) or not value:
            raise self.fail(key, f"expected a text, found {value!r}")
        return value

    def choice(self, key: str, allowed: Iterable[str], default: str | None = None) -> str:
        """Return one of the allowed words."""
        value, words = self.text(key, default), sorted(allowed)
        if value not in words:
            found = f"{value!r}{_meant(value, words)}"
            raise self.fail(key, f"expected one of {', '.join(words)}, found {found}")
        return value

    def number(
        self, key: str, low: float, high: float = float("inf"), default: float | None = None
    ) -> float:
        """Return a number of [low, high]."""
        value = self._get(key)
        if value is None and default is not None:
            return default
        if (
            not isinstance(value, (int, float))
            or isinstance(value, bool)
            or not math.isfinite(value)
            or not low <= value <= high
        ):
            raise self.fail(key, f"expected a number from {low:g} to {high:g}, found {value!r}")
        return float(value)

    def whole(self, key: str, low: int, default: int | None = None) -> int:
        """Return a whole number of at least ``low``."""
        value = self._get(key)
        if value is None and default is not None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or value < low:
            raise self.fail(key, f"expected a whole number of at least {low}, found {value!r}")
        return value

    def duration(self, key: str, default: float | None = None) -> float:
        """Return seconds, above 0."""
        value = self._get(key)
        if value is None and default is not None:
            return default
        seconds = parse_duration(value)
        if seconds is None or seconds <= 0:
            raise self.fail(key, f"expected a duration as 90s, 5m or 2h30m, found {value!r}")
        return seconds

    def clock(self, key: str, default: str | None = None) -> float:
        """Return seconds after midnight UTC."""
        value = self.text(key, default)
        seconds = parse_clock(value)
        if seconds is None:
            raise self.fail(key, f'expected a time of day as "02:30", found {value!r}')
        return seconds

    def time(self, key: str, default: float | None = None) -> float:
        """Return Unix seconds."""
        value = self._get(key)
        if value is None and default is not None:
            return default
        seconds = parse_time(value, self.now)
        if seconds is None:
            raise self.fail(key, f"expected a time as -14d, now, +2h or -3d@09:00, found {value!r}")
        return seconds

    def size(self, key: str, default: int | None = None) -> int:
        """Return bytes."""
        value = self._get(key)
        if value is None and default is not None:
            return default
        size = parse_bytes(value)
        if size is None:
            raise self.fail(key, f"expected a size as 61GiB or 512MiB, found {value!r}")
        return size

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of strings; empty when absent."""
        value = self._get(key)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(item, (str, int)) for item in value):
            raise self.fail(key, f"expected a list of texts, found {value!r}")
        return tuple(str(item) for item in value)

    def mapping(self, key: str) -> dict[str, str]:
        """Return a mapping of texts (labels, environment); empty when absent."""
        value = self._get(key)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self.fail(key, f"expected a mapping, found {value!r}")
        return {str(name): str(text) for name, text in value.items()}

    def days(self, key: str) -> frozenset[int]:
        """Return weekdays, 0 = Monday; all when absent."""
        words = self.texts(key) or DAYS
        for word in words:
            if word not in DAYS:
                raise self.fail(key, f"expected weekdays of {', '.join(DAYS)}, found {word!r}")
        return frozenset(DAYS.index(word) for word in words)

    def section(self, key: str) -> "Section":
        """Return the mapping below ``key``."""
        return self._child(key, self._get(key))

    def sections(self, key: str, *, required: bool = False) -> list["Section"]:
        """Return the mappings of the list below ``key``."""
        value = self._get(key)
        if value is None and not required:
            return []
        if not isinstance(value, list) or not value:
            raise self.fail(key, f"expected a list with at least one entry, found {value!r}")
        return [self._child(f"{key}[{index}]", item) for index, item in enumerate(value)]

    def named_sections(self, key: str) -> dict[str, "Section"]:
        """Return the mappings below ``key`` by their names; empty when absent."""
        value = self._get(key)
        if value is None:
            return {}
        parent = self._child(key, value)
        return {name: parent.section(name) for name in parent.values}

    def _child(self, key: str, value: object) -> "Section":
        if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
            raise self.fail(key, f"expected a mapping, found {value!r}")
        return Section(self.file, f"{self.path}.{key}".strip("."), value, self.now)

    def finish(self) -> None:
        """Complain about keys nobody asked for."""
        for key in self.values:
            if key not in self.asked:
                known = sorted(self.asked)
                hint = _meant(key, known)
                raise self.fail(key, f"unknown key{hint} (known here: {', '.join(known)})")


def _meant(word: str, known: list[str]) -> str:
    """What a word that there is not may have meant; '' where nothing is like it."""
    near = difflib.get_close_matches(word, known, 1)
    return f"; did you mean {near[0]!r}?" if near else ""
