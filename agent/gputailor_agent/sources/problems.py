"""What could not be read, said so that a person can mend it: file, line, what, what was expected.

A source that goes on after a fault collects ``Problem`` values; at most ``KEPT`` are kept per
collection, the rest is counted (a broken file of a million lines is one problem, not a million).
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

KEPT: Final = 20
EXCERPT: Final = 80  # characters of a broken line that are shown


def shown(path: Path) -> str:
    """A path as text that any output can hold: names of files need not be UTF-8."""
    return os.fsencode(path).decode("utf-8", "replace")


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One fault. ``str()`` gives the sentence; ``line`` counts from 1."""

    file: str
    what: str
    line: int | None = None
    expected: str = ""
    advice: str = ""

    def __str__(self) -> str:
        """``file:line: what; expected …. advice``."""
        where = f"{self.file}:{self.line}" if self.line is not None else self.file
        sentence = f"{where}: {self.what}"
        if self.expected:
            sentence += f"; expected {self.expected}"
        return f"{sentence}. {self.advice}" if self.advice else sentence


class ProblemList:
    """Problems in the order found: the first ``KEPT`` of each file, and how many more."""

    def __init__(self) -> None:
        self._kept: list[Problem] = []
        self._counts: dict[str, int] = {}

    def add(self, problem: Problem) -> None:
        """Note a problem."""
        count = self._counts.get(problem.file, 0)
        self._counts[problem.file] = count + 1
        if count < KEPT:
            self._kept.append(problem)

    def __len__(self) -> int:
        """How many problems there were, kept or not."""
        return sum(self._counts.values())

    def __iter__(self) -> Iterator[Problem]:
        """The kept ones, then one for each file that had more."""
        yield from self._kept
        for file, count in self._counts.items():
            if count > KEPT:
                yield Problem(
                    file=file, what=f"{count - KEPT} more problems of this file not shown"
                )


def excerpt(text: str) -> str:
    """The beginning of a broken line, quoted, fit to print."""
    cut = text if len(text) <= EXCERPT else text[:EXCERPT] + "…"
    return repr(cut)
