"""Message keys become sentences; a key that no table knows is found here."""

import ast
from pathlib import Path
from string import Formatter

import pytest

import gputailor_agent
from gputailor_agent.model.judgement import Message
from gputailor_agent.reports import wording
from gputailor_agent.reports.wording import MissingMessageError, messages, say

SOURCES = sorted(Path(gputailor_agent.__file__).parent.rglob("*.py"))


def literal_keys() -> set[str]:
    """Every literal key of ``Message(key=...)`` and ``message("...")`` in the agent's source."""
    keys = set()
    for source in SOURCES:
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            given = [word.value for word in node.keywords if word.arg == "key"]
            if node.func.id == "message":
                given += node.args[:1]
            if node.func.id in {"Message", "message"}:
                keys |= {
                    one.value
                    for one in given
                    if isinstance(one, ast.Constant) and isinstance(one.value, str)
                }
    return keys


def test_every_key_that_the_source_names_has_a_template():
    keys = literal_keys()
    assert len(keys) > 20
    assert sorted(keys - set(messages())) == []


@pytest.mark.parametrize("key", sorted(messages()))
def test_every_template_can_be_filled_and_nothing_missing_reads_as_a_number(key):
    fields = {name for _, name, _, _ in Formatter().parse(messages()[key]) if name is not None}
    assert all(name.isidentifier() for name in fields)
    text = say(Message(key=key, params=dict.fromkeys(fields)), strict=True)
    assert "None" not in text
    assert text.count("unknown") >= len(fields)


def test_a_message_is_filled_with_units(monkeypatch):
    monkeypatch.setattr(
        wording,
        "messages",
        lambda: {"x": "{who} used {use:ratio} of {memory:bytes} at {price:usd_per_hour}, {n:d}"},
    )
    params = {"who": "web", "use": 0.25, "memory": 2**30, "price": 1.5, "n": 3}
    text = say(Message(key="x", params=params), strict=True)
    assert text == "web used 25 % of 1.0 GiB at USD 1.50/hour, 3"


def test_an_unknown_parameter_reads_unknown_whatever_its_format(monkeypatch):
    monkeypatch.setattr(wording, "messages", lambda: {"x": "{a:.2f} {b:ratio} {c}"})
    params = {"a": None, "b": None, "c": None}
    assert say(Message(key="x", params=params), strict=True) == "unknown unknown unknown"


def test_a_key_without_template_is_an_error_when_strict():
    with pytest.raises(MissingMessageError, match=r"no\.such"):
        say(Message(key="no.such"), strict=True)


def test_a_missing_parameter_is_an_error_when_strict(monkeypatch):
    monkeypatch.setattr(wording, "messages", lambda: {"x": "{a}"})
    with pytest.raises(MissingMessageError, match="x"):
        say(Message(key="x"), strict=True)


def test_a_key_without_template_still_shows_what_was_said():
    assert say(Message(key="no.such", params={"b": 2, "a": 1})) == "no.such (a=1, b=2)"


def test_braces_in_a_name_are_only_text(monkeypatch):
    monkeypatch.setattr(wording, "messages", lambda: {"x": "{name}"})
    assert say(Message(key="x", params={"name": "{0.__class__}"})) == "{0.__class__}"


def test_the_plural_follows_the_number(monkeypatch):
    monkeypatch.setattr(wording, "messages", lambda: {"some.key": "{gpus:count} GPU(s) were"})
    said = [say(Message(key="some.key", params={"gpus": number})) for number in (1, 8)]
    assert said == ["1 GPU was", "8 GPUs were"]
