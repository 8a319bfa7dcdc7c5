"""The rights that the chart gives the agent: each is used, none is missing, each is missed.

What was used is read from the API server's audit log, after the agent's own code read a cluster in
which every kind of owner stands above pods: once alone, so that it is read by its name, and twenty
times in one namespace, so that all are listed at once.
"""

import contextlib
import time

import pytest

from gputailor_agent.cli.cluster_checks import WRITING, cluster_checks
from gputailor_agent.cli.clusters import ClusterAccess
from gputailor_agent.cli.discovered import find_prometheus
from gputailor_agent.cli.errors import CommandError
from gputailor_agent.cli.histories import PrometheusAccess
from gputailor_agent.inventory.live import (
    LiveInventory,
    LiveSettings,
    connect,
    missing_permissions,
    read_live_inventory,
    rules,
)
from gputailor_agent.inventory.live.writing_rights import (
    ANNOTATIONS,
    FEATURES,
    missing_to_write,
    writing_rules,
)
from gputailor_agent.reports.delivery import kubernetes_words as words
from gputailor_agent.reports.delivery.kubernetes_writing import ObjectWriter, WriteError
from tests.helm.conftest import chart, values_file
from tests.system.pod_makers import Poster
from tests.testbed import objects
from tests.testbed.control_plane import ControlPlane
from tests.testbed.fixtures import helm
from tests.testbed.servers import eventually

__all__ = ["chart", "helm", "values_file"]

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

PLACE = "gpus"
ACCOUNT = f"system:serviceaccount:{PLACE}:gt-gputailor-agent"
ROLE = f"{PLACE}-gt-gputailor-agent"
#: Of a release whose agent may write: an account of its own, so that the audit log tells them apart.
WRITER = f"system:serviceaccount:{PLACE}:gw-gputailor-agent"
WRITER_ROLE = f"{PLACE}-gw-gputailor-agent"
WRITING_ON = ("--set", ",".join(f"agent.settings.{one}=true" for one in FEATURES))
#: As many owners of one kind in a namespace as make the agent list them all at once.
MANY = 20
#: Owners above each other that are followed: fewer than the ten that the agent climbs.
HIGH = 9
BUILT_IN = ("", "apps", "batch", "resource.k8s.io")
TEMPLATE = {
    "metadata": {"labels": {"app": "none"}},
    "spec": {"containers": [{"name": "main", "image": "none"}], "restartPolicy": "Always"},
}
JOB = {"suspend": True, "template": {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}}
CHOSEN = {"selector": {"matchLabels": {"app": "none"}}, "template": TEMPLATE}
#: Specs of owners that a controller acts on: so that it makes no pod of its own.
SPECS = {
    "Deployment": {**CHOSEN, "replicas": 0},
    "ReplicaSet": {**CHOSEN, "replicas": 0},
    "StatefulSet": {**CHOSEN, "replicas": 0, "serviceName": "none"},
    "DaemonSet": {
        **CHOSEN,
        "template": {**TEMPLATE, "spec": {**TEMPLATE["spec"], "nodeSelector": {"no": "node"}}},
    },
    "ReplicationController": {"selector": {"app": "none"}, "template": TEMPLATE, "replicas": 0},
    "CronJob": {"schedule": "0 0 1 1 *", "suspend": True, "jobTemplate": {"spec": JOB}},
}
WORKLOADS = {
    "apps": ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"),
    "batch": ("CronJob", "Job"),
}


def triples(found):
    """(verb, group, resource) of each right that rules give."""
    return {
        (verb, group, resource)
        for rule in found
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def custom_kinds():
    """Definitions of all custom resources that the rules name, whoever has them."""
    return [
        objects.custom_definition(resource[:-1].capitalize(), group, plural=resource)
        for rule in rules()
        for group in rule["apiGroups"]
        if group not in BUILT_IN
        for resource in rule["resources"]
    ]


def owner_kinds(definitions):
    """API version, kind and spec of all that may stand above a pod."""
    custom = [
        (f"{one['spec']['group']}/v1", one["spec"]["names"]["kind"], {}) for one in definitions
    ]
    known = [
        (f"{group}/v1", kind, SPECS.get(kind, JOB))
        for group, kinds in WORKLOADS.items()
        for kind in kinds
    ]
    known.append(("v1", "ReplicationController", SPECS["ReplicationController"]))
    # Never a controller's kind under another one, or under a pod: it would act on what it owns.
    return [one for both in zip(custom, known, strict=False) for one in both] + custom[len(known) :]


def towers(kinds):
    """The kinds in chains that are not too high, a custom one at the bottom of each."""
    return [kinds[start : start + HIGH - 1] for start in range(0, len(kinds), HIGH - 1)]


def build(poster, tower, name, namespace):
    """Owners above each other, and a pod that waits for a GPU under the lowest one."""
    above = None
    for version, kind, spec in reversed(tower):
        owned = {"ownerReferences": [objects.owner_reference(above)]} if above else {}
        body = {"apiVersion": version, "kind": kind, "metadata": {"name": name, **owned}}
        above = poster.create({**body, "spec": spec}, namespace)
    poster.create(objects.pod(name, owner=above), namespace)


def fill(plane, namespaces):
    """Every kind of owner once in the first namespace, and twenty times in the second."""
    definitions = custom_kinds()
    plane.apply(definitions)
    few, many = namespaces
    with contextlib.closing(Poster(plane)) as poster:
        for number, tower in enumerate(towers(owner_kinds(definitions))):
            build(poster, tower, f"t{number}", few)
            for each in range(MANY):
                build(poster, tower, f"t{number}-{each}", many)
        claimed = objects.pod("claimed")
        claimed["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "gpu"}]
        poster.create(claimed, few)
        # It waits, and only its class could tell what for.
        wanted = [{"name": "gpu", "exactly": {"deviceClassName": "own-cards"}}]
        claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
        spec = {"devices": {"requests": wanted}}
        poster.create({**claim, "metadata": {"name": "gpu"}, "spec": spec}, few)
        # Spark's executors are owned by their driver's pod.
        driver = poster.create(objects.pod("driver"), few)
        poster.create(objects.pod("executor", owner=driver), few)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A control plane of this module's own: with all these kinds it is no place for others."""
    plane = ControlPlane.start(tmp_path_factory.mktemp("rights"))
    try:
        for name in (PLACE, "few", "many"):
            plane.create_namespace(name)
        fill(plane, ("few", "many"))
        yield plane
    finally:
        plane.stop()


@contextlib.contextmanager
def installed(cluster, helm, chart, name, *flags, features=()):
    """The chart is installed; a kubeconfig with its agent's token."""
    where = ("-n", PLACE)
    helm("install", name, str(chart), *where, *flags, cluster=cluster)
    config = cluster.kubeconfig_with(cluster.token(f"{name}-gputailor-agent", PLACE))

    def in_force():
        missing = missing_permissions(client) + missing_to_write(client, features)
        return missing == ()

    with contextlib.closing(connect(config)) as client:
        eventually(in_force, "the rights are in force")
    yield config
    helm("uninstall", name, *where, cluster=cluster)


@pytest.fixture
def kubeconfig(cluster, helm, chart):
    """Of the chart as it is."""
    with installed(cluster, helm, chart, "gt") as config:
        yield config


@pytest.fixture
def writing(cluster, helm, chart):
    """Of the chart with Events and annotations switched on."""
    with installed(cluster, helm, chart, "gw", *WRITING_ON, features=FEATURES) as config:
        yield config


def used(cluster, account=ACCOUNT):
    """(verb, group, resource) of what the agent's account asked for, and what was refused."""
    asked, refused = set(), []
    for event in cluster.audit(account):
        about = event.get("objectRef") or {}
        if about.get("resource") and about["resource"] != "selfsubjectaccessreviews":
            asked.add((event["verb"], about.get("apiGroup", ""), about["resource"]))
            if event["responseStatus"]["code"] == 403:
                refused.append(event["requestURI"])
    return asked, refused


def test_no_right_is_missing_and_none_is_given_for_nothing(cluster, kubeconfig):
    now = time.time()
    with LiveInventory("lab", LiveSettings(kubeconfig=kubeconfig)) as live:
        found = live.snapshot(now)
    assert found.problems == ()
    made = [*cluster.get("pods", "few"), *cluster.get("pods", "many")]
    assert len(found.pods) == len(made)
    # Where only some namespaces are looked at, each is read by its name.
    some = read_live_inventory("lab", kubeconfig=kubeconfig, namespaces=["few"], at=now)
    assert some.problems == ()
    with contextlib.suppress(CommandError):  # there is no Prometheus in this cluster
        find_prometheus(PrometheusAccess(), ClusterAccess(kubeconfig=kubeconfig), now=now)
    asked, refused = used(cluster)
    assert not refused
    assert asked - triples(rules()) == set()
    assert triples(rules()) - asked == set()


def target_of(owner):
    return words.Target(
        api_version=owner.api_version,
        kind=owner.kind,
        namespace=owner.namespace,
        name=owner.name,
        uid=owner.uid,
    )


def one_of_each_kind(kubeconfig):
    """An owner of every kind that stands above pods."""
    found = read_live_inventory("lab", kubeconfig=kubeconfig, namespaces=["few"], at=time.time())
    return {(one.api_version, one.kind): target_of(one) for one in found.owners}


def test_no_right_to_write_is_missing_and_none_is_given_for_nothing(cluster, writing):
    targets = one_of_each_kind(writing)
    said = words.Recommendation(
        workload_id="few/x/y/main",
        container="main",
        rule="idle",
        words="Idle.",
        todo="release",
        change="",
        command="",
        confidence="high",
        urgent=True,
        saving="",
        gpu_hours_per_month=None,
        money_per_month=None,
        at=time.time(),
    )
    with contextlib.closing(connect(writing)) as client:
        writer = ObjectWriter(client)
        for target in targets.values():
            if target.kind != "Pod":
                assert writer.missing(ANNOTATIONS, target, said.at) == ""
                writer.annotate(target, "{}")
                writer.annotate(target, None)
            for count in (1, 2):
                series = words.Series(began=said.at, count=count)
                writer.put_event(words.event(target, said, series, cluster="lab"))
    asked, refused = used(cluster, WRITER)
    assert not refused
    wrote = {one for one in asked if one[0] not in {"get", "list", "watch"}}
    assert wrote == triples(writing_rules(FEATURES))
    told = {
        one["regarding"]["kind"]
        for one in cluster.get("events.events.k8s.io", "few")
        if one.get("reportingController") == words.REPORTER
    }
    assert told == {kind for _, kind in targets}


def test_without_the_settings_the_chart_grants_no_right_to_write(cluster, kubeconfig):
    with contextlib.closing(connect(kubeconfig)) as client:
        missing = missing_to_write(client, FEATURES)
        named = {(one.verbs, one.resource) for one in missing}
        assert named == {
            (tuple(rule["verbs"]), name) for rule in writing_rules(FEATURES) for name in names(rule)
        }
        (target, *_) = one_of_each_kind(kubeconfig).values()
        with pytest.raises(WriteError, match="403"):
            ObjectWriter(client).annotate(target, "{}")
    assert [one.standing for one in doctor(kubeconfig)] == ["ok"]


def test_doctor_names_every_right_to_write_that_is_taken_away(cluster, writing):
    wide = cluster.get(f"clusterrole {WRITER_ROLE}")["rules"]
    assert triples(wide) == triples([*rules(), *writing_rules(FEATURES)])
    path = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{WRITER_ROLE}"
    assert [one.standing for one in doctor(writing, FEATURES)] == ["ok", "ok"]
    for rule in writing_rules(FEATURES):
        left = [one for one in wide if one != rule]
        assert len(left) == len(wide) - 1
        assert cluster.request("PATCH", path, body={"rules": left}).is_success
        missed = {(", ".join(rule["verbs"]), name) for name in names(rule)}

        def told(missed=missed):
            found = doctor(writing, FEATURES)
            assert not_granted([one for one in found if one.name == WRITING]) == missed
            assert [one.standing for one in found] == ["ok", *["problem"] * (len(found) - 1)]
            return True

        eventually(told, f"doctor misses {names(rule)}", seconds=20)


def doctor(kubeconfig, features=()):
    """What doctor says of permissions."""
    access = ClusterAccess(kubeconfig=kubeconfig)
    found = cluster_checks(access, features)
    return [one for one in found if one.name in {"permissions", WRITING}]


def names(rule):
    """The rule's resources as kubectl names them."""
    return {
        f"{one}.{group}".rstrip(".") for group in rule["apiGroups"] for one in rule["resources"]
    }


def not_granted(checks):
    """Verbs, and each resource, of what doctor says is not granted."""
    told = [one.found.partition(" not granted")[0].partition(" on ") for one in checks]
    return {(verbs, name) for verbs, _, listed in told for name in listed.split(", ")}


def test_doctor_names_every_rule_that_is_taken_away(cluster, kubeconfig):
    role = cluster.get(f"clusterrole {ROLE}")
    wide = role["rules"]
    assert triples(wide) == triples(rules())
    path = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{ROLE}"
    assert [one.standing for one in doctor(kubeconfig)] == ["ok"]
    for rule in wide:
        left = [one for one in wide if one is not rule]
        assert cluster.request("PATCH", path, body={"rules": left}).is_success
        missed = {(", ".join(rule["verbs"]), name) for name in names(rule)}

        def told(missed=missed):
            assert not_granted(doctor(kubeconfig)) == missed
            return True

        eventually(told, f"doctor misses {names(rule)}", seconds=20)


def test_what_is_taken_away_is_missing_in_what_is_read(cluster, kubeconfig):
    """Without the right to an owner's kind the reading says so, and goes on."""
    path = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{ROLE}"
    wide = cluster.get(f"clusterrole {ROLE}")["rules"]
    kept = [one for one in wide if {"pods", "nodes"} & set(one["resources"])]
    assert cluster.request("PATCH", path, body={"rules": kept}).is_success

    def all_told():
        found = read_live_inventory("lab", kubeconfig=kubeconfig, at=time.time())
        words = " ".join(found.problems)
        # Only the lowest of each chain is named by something that may be read.
        assert all(f"{name} may not be read" in words for name in lowest())
        assert "resourceclaims.resource.k8s.io cannot be read" in words
        return len(found.pods)

    assert eventually(all_told, "what is missing is told") > 100


def lowest():
    """Names of the kinds that pods are owned by themselves."""
    plural = {one["spec"]["names"]["kind"]: one["metadata"]["name"] for one in custom_kinds()}
    return {plural[tower[0][1]] for tower in towers(owner_kinds(custom_kinds()))}
