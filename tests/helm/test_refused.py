"""Values that Helm refuses, and what it says; nothing is made of them."""

import pytest

from tests.helm.value_sets import VALUE_SETS
from tests.helm.wrong_values import CONTRADICTIONS, WRONG_VALUES
from tests.testbed.servers import CommandFailed

pytestmark = pytest.mark.system


@pytest.mark.parametrize("name", WRONG_VALUES)
def test_wrong_values_are_refused_with_words(render, name):
    values, words = WRONG_VALUES[name]
    with pytest.raises(CommandFailed) as refused:
        render(values)
    assert refused.value.status != 0
    assert not [word for word in words if word not in refused.value.said]


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_values_that_contradict_each_other_are_refused_with_what_to_do(render, name):
    values, words = CONTRADICTIONS[name]
    with pytest.raises(CommandFailed) as refused:
        render(values)
    assert words in refused.value.said


@pytest.mark.parametrize("name", VALUE_SETS)
def test_lint_has_nothing_to_say(helm, chart, values_file, name):
    said = helm("lint", "--strict", str(chart), "-f", values_file(VALUE_SETS[name]))
    assert "0 chart(s) failed" in said
    assert "[ERROR]" not in said
    assert "[WARNING]" not in said
