import subprocess
import sys

import yaml

from gputailor_agent.inventory.live import missing_permissions, reading_rules, rules
from gputailor_agent.inventory.live.owning import climbing
from gputailor_agent.inventory.live.rbac import role, rules_table
from gputailor_agent.model.inventory import OwnerReference


def test_only_reading_verbs_and_no_wildcards_are_asked_for():
    for rule in rules():
        assert set(rule["verbs"]) <= {"get", "list", "watch"}
        assert "*" not in [*rule["apiGroups"], *rule["resources"]]


def test_secrets_and_config_maps_are_not_in_the_rules():
    resources = {name for rule in rules() for name in rule["resources"]}
    assert not resources & {"secrets", "configmaps", "serviceaccounts"}
    assert not [name for name in resources if "/" in name]


def test_a_role_holds_everything_but_what_is_cluster_wide():
    whole, part = rules(), rules(namespaced=True)
    assert [rule for rule in whole if rule not in part] == [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]}
    ]


def test_no_resource_stands_in_two_rules():
    pairs = [(g, r) for rule in reading_rules() for g in rule.groups for r in rule.resources]
    assert len(pairs) == len(set(pairs))


def test_nothing_is_missing_where_everything_is_granted(api, client):
    assert missing_permissions(client) == ()


def test_what_is_missing_is_told_with_its_cost_and_how_to_check(api, client):
    api.granted = lambda attributes: attributes["resource"] != "jobs"
    (missing,) = missing_permissions(client)
    assert missing.text == (
        "get, list on jobs.batch is not granted in all namespaces: runs of one CronJob or pipeline "
        "are joined by the stem of their names only; check with: kubectl auth can-i get jobs.batch "
        "-A"
    )
    assert not missing.optional


def test_one_missing_verb_is_named_alone(api, client):
    api.granted = lambda attributes: (
        (attributes["resource"], attributes["verb"])
        != (
            "pods",
            "watch",
        )
    )
    (missing,) = missing_permissions(client)
    assert missing.verbs == ("watch",)


def test_named_namespaces_are_asked_for_one_by_one_and_nodes_for_the_cluster(api, client):
    api.granted = lambda attributes: attributes.get("namespace") == "red"
    missing = missing_permissions(client, ["red", "blue"])
    assert {one.namespace for one in missing} == {"blue", ""}
    assert [one.resource for one in missing if not one.namespace] == ["nodes"]
    assert "kubectl auth can-i list nodes -A" in next(m.text for m in missing if not m.namespace)


def test_kinds_of_operators_that_are_not_installed_are_left_out(api, client):
    api.granted = lambda attributes: False
    groups = {one.resource.partition(".")[2] for one in missing_permissions(client)}
    assert groups == {"", "apps", "batch", "resource.k8s.io"}


def test_only_reviews_of_our_own_permissions_are_ever_posted(api, client):
    missing_permissions(client)
    posted = {one.path for one in api.requests if one.method != "GET"}
    assert posted == {"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"}


def _reference(api_version, kind):
    return OwnerReference(api_version=api_version, kind=kind, name="x", uid="u")


def test_a_knative_service_is_an_owner_and_a_core_service_is_none():
    assert climbing([_reference("serving.knative.dev/v1", "Service")])
    for kind in ("Service", "Secret", "ConfigMap", "Node"):
        assert climbing([_reference("v1", kind)]) == ()


def test_the_documentation_shows_the_rules_as_they_are(repository):
    page = (repository / "docs" / "kubernetes.md").read_text(encoding="utf-8")
    shown = page.partition("rules_table -->\n")[2].partition("<!-- end of rules -->")[0]
    assert shown == rules_table(), "copy the output of rules_table() between the marks"


def test_the_rules_are_printed_as_a_role_that_kubectl_takes(tmp_path):
    command = [sys.executable, "-m", "gputailor_agent.inventory.live", "--namespaced"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert yaml.safe_load(printed) == role(namespaced=True)
    assert role()["kind"] == "ClusterRole"
