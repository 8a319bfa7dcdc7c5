"""Nouns and verbs go with their numbers, in every sentence that there is."""

import ast
import re
from itertools import pairwise
from pathlib import Path
from string import Formatter

import pytest

import gputailor_agent
from gputailor_agent.model.judgement import Message
from gputailor_agent.reports.plurals import NOUNS, WORDS, agreed, counted, length
from gputailor_agent.reports.wording import messages, say

#: ``1`` before a plural, or before a verb of several; ``1 of 8 GPUs`` and ``-1 days`` are others.
WRONG = re.compile(
    r"(?<![\d.,:])1 (?:(?:completed|full|UTC|more|other|whole) )*"
    r"(?:(?!does)[A-Za-z]{2,}[^s\W]s\b|\w+ (?:were|are|have|draw|wait|work|hold)\b)"
)
HOUR, DAY = 3600, 86400


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("1 GPU(s) held", "1 GPU held"),
        ("0 run(s)", "0 runs"),
        ("11 GPU(s), 1.5 day(s)", "11 GPUs, 1.5 days"),
        ("no number of GPU(s)", "no number of GPU(s)"),
        ("1 GPU(s) were not observed", "1 GPU was not observed"),
        ("1 of 8 GPU(s) were never measured", "1 of 8 GPUs was never measured"),
        ("1 of 1 GPU(s) were never measured", "1 of 1 GPU was never measured"),
        ("8 of 8 GPU(s) were", "8 of 8 GPUs were"),
        ("21 GPUs are idle", "21 GPUs are idle"),
        ("1 completed runs, 1 full UTC days", "1 completed run, 1 full UTC day"),
        ("1.1 days, 0.1 runs", "1.1 days, 0.1 runs"),
        ("1 more cards hold it", "1 more card holds it"),
        ("GPU 1: 3 samples", "GPU 1: 3 samples"),
        ("1 pod without samples", "1 pod without samples"),
    ],
)
def test_words_follow_their_number(text, told):
    assert agreed(text) == told


def one_of_each(template: str) -> dict[str, float | str]:
    """Parameters for a template: all that is counted is one, the rest is something else."""
    fields = [(name, spec) for _, name, spec, _ in Formatter().parse(template) if name]
    return {name: 1 if spec == "count" else (2.5 if spec else "X") for name, spec in fields}


@pytest.mark.parametrize("key", sorted(messages()))
def test_no_sentence_says_one_of_many(key):
    text = say(Message(key=key, params=one_of_each(messages()[key])), strict=True)
    assert not WRONG.search(text), text


PARTS = (
    "api/*.py",
    "reports/**/*.py",
    *(f"cli/{name}.py" for name in ("demo", "joining", "preview")),
)
COUNTED = re.compile(rf"^ {WORDS}(?:{'|'.join(NOUNS)})\b")


@pytest.mark.parametrize("pattern", PARTS)
def test_whoever_writes_a_number_before_a_noun_has_it_agreed(pattern):
    wrong = []
    for path in Path(gputailor_agent.__file__).parent.glob(pattern):
        tree = ast.parse(path.read_text("utf-8"))
        calls = [one for one in ast.walk(tree) if isinstance(one, ast.Call)]
        named = [one for one in calls if getattr(one.func, "id", "") == "agreed"]
        agreeing = {id(part) for one in named for part in ast.walk(one)}
        for text in ast.walk(tree):
            if isinstance(text, ast.JoinedStr) and id(text) not in agreeing:
                wrong += [
                    f"{path.name}:{text.lineno}:{words.value}"
                    for number, words in pairwise(text.values)
                    if isinstance(number, ast.FormattedValue)
                    and isinstance(words, ast.Constant)
                    and COUNTED.match(str(words.value))
                ]
    assert wrong == []


def test_the_search_for_wrong_words_finds_them():
    for wrong in ("1 GPUs", "held 1 full UTC days", "1 GPU were", "1 runs", "1 card hold"):
        assert WRONG.search(wrong), wrong
    for right in ("1 GPU", "1 of 3 GPUs were", "21 days", "1 h", "1 across", "0.1 days"):
        assert not WRONG.search(right), right


def test_things_are_counted():
    told = [counted(number, "GPU") for number in (0, 1, 1.5, 8, 1200)]
    assert told == ["0 GPUs", "1 GPU", "1.5 GPUs", "8 GPUs", "1,200 GPUs"]


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (14 * DAY, "14 days"),
        (14 * DAY + 1200, "14 days"),
        (2 * DAY, "2 days"),
        (DAY, "1 day"),
        (1.5 * DAY, "36 hours"),
        (HOUR, "1 hour"),
        (2880, "48 minutes"),
        (60, "1 minute"),
        (1, "1 second"),
        (0, "0 seconds"),
    ],
)
def test_a_length_is_one_whole_number_and_one_word(seconds, told):
    assert length(seconds) == told
