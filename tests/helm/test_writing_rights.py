"""The chart grants what the agent writes where its settings ask for it, and nowhere else."""

import pytest

from gputailor_agent.inventory.live import rules
from gputailor_agent.inventory.live.writing_rights import FEATURES, writing_rules

pytestmark = pytest.mark.system

CHOICES = [(), FEATURES[:1], FEATURES[1:], FEATURES]


def roles(objects, kind):
    return [one for one in objects if one["kind"] == kind]


def chosen(features):
    return {"agent": {"settings": dict.fromkeys(features, True)}}


def ordered(found):
    return sorted(found, key=str)


@pytest.mark.parametrize("features", CHOICES)
def test_the_whole_cluster_is_granted_what_the_settings_need(render, features):
    (role,) = roles(render(chosen(features)), "ClusterRole")
    assert ordered(role["rules"]) == ordered([*rules(), *writing_rules(features)])


@pytest.mark.parametrize("features", CHOICES)
def test_where_namespaces_are_named_it_is_granted_in_them_only(render, features):
    objects = render({**chosen(features), "namespaces": ["red", "blue"]})
    wanted = [*rules(namespaced=True), *writing_rules(features)]
    found = roles(objects, "Role")
    assert [one["metadata"]["namespace"] for one in found] == ["red", "blue"]
    assert all(ordered(one["rules"]) == ordered(wanted) for one in found)
    (wide,) = roles(objects, "ClusterRole")
    assert [rule["resources"] for rule in wide["rules"]] == [["nodes"], ["deviceclasses"]]


def test_a_setting_that_is_off_grants_nothing(render):
    values = {"agent": {"settings": dict.fromkeys(FEATURES, False)}}
    (role,) = roles(render(values), "ClusterRole")
    assert ordered(role["rules"]) == ordered(rules())
