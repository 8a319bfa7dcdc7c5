import pytest

from gputailor_agent.inventory.identity import resolve
from gputailor_agent.inventory.live.choosing import NamespaceChoice
from gputailor_agent.inventory.live.naming import NamespaceMemory
from gputailor_agent.inventory.live.reading import read_from
from tests.agent.inventory.live.api_server import Fault, status
from tests.agent.inventory.live.objects import AT
from tests.agent.inventory.objects import pod


def _namespaces(found):
    return {one.namespace for one in found.pods}


@pytest.mark.parametrize(
    ("names", "taken"),
    [
        ([], {"red", "red-test", "blue"}),
        (["red"], {"red"}),
        (["red*"], {"red", "red-test"}),
        (["!*-test"], {"red", "blue"}),
        (["red*", "!*-test"], {"red"}),
        (["red", "!red"], set()),
    ],
)
def test_names_and_patterns_choose(api, client, names, taken):
    api.put(*(pod(f"in-{one}", namespace=one) for one in ("red", "red-test", "blue")))
    choice = NamespaceChoice.of(names)
    assert _namespaces(read_from(client, "lab", choice, at=AT)) == taken


def test_a_pattern_needs_all_namespaces_and_a_name_does_not():
    assert NamespaceChoice.of(["red", "blue", "red"]).places == ("red", "blue")
    assert NamespaceChoice.of(["team-*"]).places == ("",)
    assert NamespaceChoice.of(["!kube-*"]).places == ("",)


def test_what_is_excluded_stays_out_while_following(api, follow):
    live = follow(namespaces=("!blue",))
    api.put(pod("a", namespace="red"), pod("b", namespace="blue"))
    assert _namespaces(live.snapshot(AT)) <= {"red"}
    api.put(pod("c", namespace="blue"), pod("d", namespace="red"))
    while {one.name for one in live.snapshot(AT).pods} != {"a", "d"}:
        pass


def _space(name, **labels):
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def test_labels_of_a_namespace_name_the_team(api, client):
    api.put(_space("red", team="vision"), pod("a", namespace="red"))
    (workload,) = resolve(read_from(client, "lab", at=AT)).workloads
    assert workload.team == "vision"


def test_with_a_role_only_the_named_namespaces_are_read_by_name(api, client):
    api.put(_space("red", team="vision"), pod("a", namespace="red"))
    found = read_from(client, "lab", NamespaceChoice.of(["red"]), at=AT)
    assert found.namespaces == {"red": {"team": "vision"}}
    asked = [one.path for one in api.requests if "namespaces" in one.path.rsplit("/", 2)[-2:]]
    assert "/api/v1/namespaces" not in asked


def test_labels_that_may_not_be_read_are_no_problem(api, client):
    api.put(pod("a", namespace="red"))
    api.fail("/api/v1/namespaces*", *[Fault(status=403, body=status(403))] * 3)
    found = read_from(client, "lab", at=AT)
    assert (found.namespaces, found.problems) == ({}, ())


def test_labels_are_read_once_and_again_when_they_are_stale(api, client):
    api.put(_space("red", team="vision"), pod("a", namespace="red"))
    memory = NamespaceMemory(client, fresh_seconds=60)
    for at in (0.0, 10.0, 59.0):
        assert memory.labels(["red"], at) == {"red": {"team": "vision"}}
    assert len([one for one in api.requests if one.path == "/api/v1/namespaces"]) == 1
    api.put(_space("red", team="speech"))
    assert memory.labels(["red"], 61.0) == {"red": {"team": "speech"}}


def test_one_namespace_that_may_not_be_read_hides_no_other(api, client):
    api.put(_space("red", team="vision"), pod("a", namespace="red"), pod("b", namespace="blue"))
    api.fail("/api/v1/namespaces/blue?", Fault(status=403, body=status(403)))
    found = read_from(client, "lab", NamespaceChoice.of(["blue", "red"]), at=AT)
    assert found.namespaces == {"red": {"team": "vision"}}


def test_a_namespace_that_is_not_there_is_told_by_a_reading_and_by_an_agent(api, client, follow):
    api.put(_space("red"), _space("blue"), pod("a", namespace="red"))
    said = ("namespace 'read' is not there; check --namespace (kubectl get namespaces)",)
    names = ["red", "blue", "read"]
    assert read_from(client, "lab", NamespaceChoice.of(names), at=AT).problems == said
    assert follow(namespaces=tuple(names)).snapshot(AT).problems == said
