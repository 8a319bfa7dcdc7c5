"""What every rule says, to the last number, in each of its worlds and under what circumstances.

The values are those of ``answers/<rule>.txt``: a change of a rule shows there in each place that
it touches, for people to read. How to write them anew is said in ``answers``.
"""

import pytest

from tests.agent.rules.answers import KINDS, changed_by, changes_of, in_world, of_pool, read
from tests.agent.rules.pool_parts import POOLS
from tests.agent.rules.worlds import WORLDS

WRITTEN = {rule: read(rule) for rule in WORLDS}
WITH = "with "
AGAIN = "meant so? python -m tests.agent.rules.answers, and read the difference"
CHANGES = [
    (rule, name.removeprefix(WITH))
    for rule, parts in WRITTEN.items()
    for name in parts
    if name.startswith(WITH)
]


def test_each_world_of_each_rule_is_written_down():
    for rule, parts in WRITTEN.items():
        assert {name for name in parts if not name.startswith(WITH)} == set(WORLDS[rule])


@pytest.mark.parametrize(
    ("rule", "name"), [(rule, name) for rule in WORLDS for name in WORLDS[rule]]
)
def test_an_answer_is_as_it_was_written_down(rule, name):
    assert in_world(rule, name) == WRITTEN[rule][name], AGAIN


@pytest.mark.parametrize(("rule", "circumstance"), CHANGES)
def test_a_circumstance_changes_an_answer_as_it_was_written_down(rule, circumstance):
    assert changed_by(rule, circumstance) == WRITTEN[rule][f"with {circumstance}"], AGAIN


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_owner_is_told_its_changes_as_they_were_written_down(kind):
    assert changes_of(kind) == read("changes")[kind], AGAIN


@pytest.mark.parametrize("name", POOLS)
def test_an_answer_about_a_pool_is_as_it_was_written_down(name):
    assert of_pool(name) == read("unallocated")[name], AGAIN
