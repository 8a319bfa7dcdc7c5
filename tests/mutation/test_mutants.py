"""Which places are mutated, that a sample stays itself, and that survivors are told."""

import ast

import pytest

from tests.mutation.__main__ import share, table
from tests.mutation.mutants import Mutant, mutants, mutated, sampled
from tests.mutation.running import KILLED, LATE, SURVIVED, UNTOUCHED, module_name

SOURCE = '''\
"""What it is 7."""

from dataclasses import dataclass

Pair = tuple[int, int]
LIMIT = 3


@dataclass(frozen=True)
class Thing:
    """A thing | of 5."""

    value: int | None = None


def fits(thing: Thing | None, most: int = 4) -> bool | None:
    """Whether it fits."""
    if thing is None or thing.value is None:
        return None
    return thing.value + 1 < most * LIMIT


RULE = dict(order=84, title="a rule")
'''
MODULE = "agent/gputailor_agent/rules/thing.py"


def lines(found):
    return {one.line for one in found}


def test_only_places_that_a_behaviour_shows_are_mutated():
    """LIMIT, the default of ``most``, and the three lines of ``fits`` that decide."""
    assert lines(mutants(MODULE, SOURCE)) == {6, 16, 18, 20}


@pytest.mark.parametrize("mutant", mutants(MODULE, SOURCE), ids=lambda one: one.name)
def test_a_mutant_is_another_program_than_the_module(mutant):
    text = mutated(SOURCE, mutant)
    assert ast.dump(ast.parse(text)) != ast.dump(ast.parse(SOURCE))


@pytest.mark.parametrize(
    ("compared", "others"),
    [
        ("seconds > 0", {"Eq", "GtE", "Lt", "LtE"}),
        ("seconds <= 0.0", {"Gt", "GtE", "Lt", "NotEq"}),
        ("seconds == 0", {"Gt", "GtE", "Lt", "NotEq"}),
        ("seconds > 1", {"Eq", "GtE", "Lt", "LtE", "NotEq"}),
        ("0 < seconds", {"Eq", "NotEq", "Gt", "GtE", "LtE"}),
        ("kind == 'Pod'", {"NotEq"}),
        ("run.outcome != Outcome.FAILED", {"Eq"}),
        ("parts == ['a', 'b']", {"NotEq"}),
        ("window == self.window", {"Gt", "GtE", "Lt", "LtE", "NotEq"}),
    ],
)
def test_comparisons_that_no_input_can_tell_apart_are_left_out(compared, others):
    """Nothing that is measured lies below zero, and words have no order."""
    found = mutants(
        MODULE, f"def asked(seconds, kind, run, parts, window, self):\n    return {compared}\n"
    )
    pairs = [one.operator.split("_")[1:] for one in found if "Comparison" in one.operator]
    assert {new for _, new in pairs} == others


def test_no_mutant_is_made_twice():
    texts = [mutated(SOURCE, one) for one in mutants(MODULE, SOURCE)]
    assert len(texts) > 15
    assert len(set(texts)) == len(texts)


def test_a_sample_is_the_same_each_time_and_a_larger_one_holds_it():
    every = mutants(MODULE, SOURCE)
    small = sampled(MODULE, SOURCE, 3, seed=1)
    assert small == sampled(MODULE, SOURCE, 3, seed=1)
    assert small == sampled(MODULE, SOURCE, 9, seed=1)[:3]
    assert small != sampled(MODULE, SOURCE, 3, seed=2)
    assert sorted(sampled(MODULE, SOURCE, None, 1), key=str) == sorted(every, key=str)


def test_a_place_that_is_not_there_is_an_error():
    with pytest.raises(ValueError, match="no such place"):
        mutated(SOURCE, Mutant(MODULE, "core/ReplaceTrueWithFalse", 99, 1, 0))


def test_modules_are_named_as_they_are_imported():
    assert module_name(MODULE) == "gputailor_agent.rules.thing"
    assert module_name("agent/gputailor_agent/rules/__init__.py") == "gputailor_agent.rules"


def test_the_table_counts_by_module_and_names_each_survivor_s_place():
    one, two, three, four = mutants(MODULE, SOURCE)[:4]
    results = [(one, KILLED, ""), (two, SURVIVED, ""), (three, UNTOUCHED, ""), (four, LATE, "")]
    text = table(results)
    assert "| `rules/thing.py` | 4 | 2 | 1 | 1 |" in text
    assert f"- survived: {two.name}" in text
    assert f"- survived: {three.name}" in text
    assert "4 mutants, 50.0% killed, 1 of them by time." in text
    assert share(results) == 0.5


def test_a_star_that_multiplies_nothing_is_no_operator():
    source = "def f(*, a, b):\n    rest = [*a, a * b]\n    return {**rest, 'c': a**b}\n"
    found = [one for one in mutants(MODULE, source) if "BinaryOperator" in one.operator]
    assert {(one.line, one.column) for one in found} == {(2, 18), (3, 26)}
    assert len(found) == 2
