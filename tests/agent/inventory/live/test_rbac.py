import subprocess
import sys

import pytest
import yaml

from gputailor_agent.inventory.live import missing_permissions, reading_rules, rules
from gputailor_agent.inventory.live.owning import climbing
from gputailor_agent.inventory.live.rbac import role, rules_table
from gputailor_agent.inventory.live.writing_rights import (
    ANNOTATIONS,
    EVENTS,
    FEATURES,
    missing_to_write,
    writing_rules,
    writing_table,
)
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
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]},
        {"apiGroups": ["resource.k8s.io"], "resources": ["deviceclasses"], "verbs": ["list"]},
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
    assert [one.resource for one in missing if not one.namespace] == [
        "nodes",
        "deviceclasses.resource.k8s.io",
    ]
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


def test_events_are_created_and_refreshed_and_never_read_or_deleted():
    assert writing_rules([EVENTS]) == [
        {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]}
    ]


def test_owners_may_be_patched_and_nothing_else():
    made = writing_rules([ANNOTATIONS])
    assert {verb for rule in made for verb in rule["verbs"]} == {"patch"}
    named = {
        (group, name) for rule in made for group in rule["apiGroups"] for name in rule["resources"]
    }
    owners = {
        (group, name)
        for rule in reading_rules()
        if rule.owners
        for group in rule.groups
        for name in rule.resources
    }
    assert named == owners
    assert ("apps", "deployments") in named
    core = {name for group, name in named if group == ""}
    assert core == {"replicationcontrollers"}  # no pod, no node, no namespace


def test_where_nothing_is_to_be_written_no_right_to_write_is_asked_for(api, client):
    api.granted = lambda attributes: False
    assert missing_to_write(client, ()) == ()


def test_a_right_to_write_that_is_missing_is_told_with_the_setting_that_needs_it(api, client):
    api.granted = lambda attributes: attributes["resource"] != "events"
    (missing,) = missing_to_write(client, FEATURES, ["red"])
    assert (missing.resource, missing.verbs) == ("events.events.k8s.io", ("create", "patch"))
    assert missing.text.startswith(
        "create, patch on events.events.k8s.io is not granted in namespace red: kubernetes_events is "
        "on, but no Event is written"
    )
    assert not missing.optional


def test_the_documentation_shows_what_may_be_written(repository):
    page = (repository / "docs" / "kubernetes.md").read_text(encoding="utf-8")
    shown = page.partition("writing_table -->\n")[2].partition("<!-- end of writing -->")[0]
    assert shown == writing_table(), "copy the output of writing_table() between the marks"


@pytest.mark.parametrize(
    ("flags", "features"), [(["--events"], [EVENTS]), (["--annotations", "--events"], FEATURES)]
)
def test_the_role_is_printed_with_what_may_be_written(flags, features):
    command = [sys.executable, "-m", "gputailor_agent.inventory.live", *flags]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert yaml.safe_load(printed) == role(more=writing_rules(features))
