"""Helm 3 makes of values what Helm 4 makes of them, and refuses what Helm 4 refuses."""

import pytest
import yaml

from tests.helm.value_sets import VALUE_SETS
from tests.helm.wrong_values import CONTRADICTIONS, WRONG_VALUES
from tests.testbed.servers import CommandFailed

pytestmark = pytest.mark.system


@pytest.mark.parametrize("name", VALUE_SETS)
def test_both_make_the_same_objects(helm3, chart, values_file, render, name):
    file = values_file(VALUE_SETS[name])
    text = helm3("template", "gt", str(chart), "-n", "gpus", "-f", file)

    def named(objects):
        return {(one["kind"], one["metadata"]["name"]): one for one in objects if one}

    made = named(yaml.load_all(text, yaml.CSafeLoader))
    assert made == named(render(VALUE_SETS[name]))


def test_wrong_values_and_contradictions_are_refused_by_both(helm3, chart, values_file):
    for name, (values, _) in (WRONG_VALUES | CONTRADICTIONS).items():
        with pytest.raises(CommandFailed) as refused:
            helm3("template", "gt", str(chart), "-f", values_file(values))
        assert refused.value.said, name
