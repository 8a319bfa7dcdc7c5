"""Events and the annotation on a real API server: right, once, and nothing else is touched."""

import contextlib
import itertools
import json
import time

import pytest
import yaml

from gputailor_agent.cli.cluster_checks import WRITING, cluster_checks
from gputailor_agent.cli.clusters import ClusterAccess
from gputailor_agent.inventory.identity import resolve
from gputailor_agent.inventory.live import connect, read_live_inventory
from gputailor_agent.inventory.live.writing_rights import (
    ANNOTATIONS,
    EVENTS,
    FEATURES,
    missing_to_write,
    writing_rules,
)
from gputailor_agent.model.judgement import Message, SilenceKind
from gputailor_agent.reports.delivery.kubernetes_words import RECOMMENDATION
from gputailor_agent.reports.delivery.kubernetes_writing import ObjectWriter
from gputailor_agent.schedule.standing import ANNOTATION, EVENT
from gputailor_agent.schedule.telling import Telling
from gputailor_agent.store import Store
from tests.agent.reports.plans import finding, sample_plan, silence, verdict
from tests.agent.schedule.test_delivering import Kill
from tests.system.live_parts import NAME, grant
from tests.testbed import objects
from tests.testbed.fixtures import control_plane, namespace, nodes
from tests.testbed.servers import eventually

__all__ = ["control_plane", "namespace", "nodes"]

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

HOUR = 3600.0
REVISION = "deployment.kubernetes.io/revision"
WHOLE = "deployment chat --show-managed-fields"
CUSTOM = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "bert"}}


class Place:
    """A namespace with workloads of every kind of owner, and an agent that tells them."""

    def __init__(self, plane, namespace):
        self.plane, self.namespace = plane, namespace
        self.store = Store.open()
        self.kubeconfig = None
        self.closing = contextlib.ExitStack()

    def fill(self):
        stateful = objects.deployment("kv", replicas=1)
        stateful |= {"kind": "StatefulSet"}
        stateful["spec"]["serviceName"] = "kv"
        daemons = objects.deployment("probe")
        daemons |= {"kind": "DaemonSet"}
        del daemons["spec"]["replicas"]
        daemons["spec"]["template"]["spec"]["nodeName"] = "telling-a"
        made = [
            objects.deployment("chat", replicas=1),
            stateful,
            daemons,
            objects.job("train"),
            objects.cron_job("nightly"),
            objects.custom_definition("PyTorchJob"),
            {**CUSTOM, "spec": {}},
            objects.pod("alone"),
        ]
        self.plane.apply(made, self.namespace)
        run = ("create", "job", "--from=cronjob/nightly", "nightly-1", "-n", self.namespace)
        self.plane.kubectl(*run)
        owner = self.plane.get("pytorchjob bert", self.namespace)
        self.plane.apply(objects.pod("bert-worker-0", owner=owner), self.namespace)
        eventually(lambda: len(self.read().pods) == 7, "the pods are there")
        return self

    def grant(self, *features):
        more = writing_rules(features)
        self.kubeconfig, _ = grant(self.plane, self.namespace, namespaced=True, more=more)
        with contextlib.closing(connect(self.kubeconfig)) as client:
            eventually(
                lambda: missing_to_write(client, features, [self.namespace]) == (),
                "the rights are in force",
            )
        return self

    def read(self):
        return read_live_inventory(
            "lab",
            kubeconfig=self.plane.kubeconfig,
            namespaces=[self.namespace],
            at=time.time(),
        )

    def agent(self, *channels, change=lambda writer: writer):
        client = self.closing.enter_context(contextlib.closing(connect(self.kubeconfig)))
        writer = change(ObjectWriter(client))
        return Telling(channels or (EVENT, ANNOTATION), self.store, "lab", writer, clock=time.time)

    def tell(self, agent, at, *verdicts, public_url=""):
        """What an agent does with a plan; how much was taken."""
        plan = sample_plan(made_at=at, verdicts=verdicts)
        return agent.run(plan, lambda: resolve(self.read()).roots, public_url, at)

    def workload(self, kind):
        (found,) = [one for one in resolve(self.read()).workloads if one.kind == kind]
        return found

    def idle(self, kind="Deployment", money=500.0, **more):
        told = self.workload(kind)
        words = Message(key="idle.from_start", params={"gpus": 1, "idle": 7200.0})
        found = finding(told.id, "idle", money, message=words, **more)
        return verdict(f"{self.namespace}/x/x/x", "finding", primary=found, workload=told)

    def fine(self, kind="Deployment"):
        told = self.workload(kind)
        quiet = (silence(told.id, "idle", SilenceKind.FINE),)
        return verdict(f"{self.namespace}/x/x/x", "ok", silences=quiet, workload=told)

    def get(self, what):
        return self.plane.get(what, self.namespace)

    def events(self):
        """Those that we wrote."""
        found = self.get("events.events.k8s.io")
        return [one for one in found if one.get("reportingController") == "gputailor.io/agent"]


@pytest.fixture
def place(control_plane, namespace, nodes):
    nodes(objects.gpu_node("telling-a", 8))
    made = Place(control_plane, namespace)
    with made.closing:
        yield made.fill()
    made.store.close()


def managed(one, manager="gputailor"):
    return [each for each in one["metadata"]["managedFields"] if each["manager"] == manager]


def told(one):
    return json.loads(one["metadata"].get("annotations", {}).get(RECOMMENDATION, "null"))


def test_the_owner_has_an_event_that_kubectl_shows_and_an_annotation_of_one_key(place):
    place.grant(*FEATURES)
    before, now = place.get("deployment chat"), time.time()
    pods = {one["metadata"]["uid"] for one in place.get("pods")}
    assert place.tell(place.agent(), now, place.idle(), public_url="https://gpu.example.org") == 2
    (event,) = place.events()
    assert (event["reason"], event["type"], event["action"]) == ("GpuIdle", "Warning", "Recommend")
    assert event["regarding"]["uid"] == before["metadata"]["uid"]
    identity = f"{place.namespace}/Deployment/chat/main"
    assert event["note"] == (
        "1 GPU held for 2 h and never used: release them. Saving: USD 500/month; confidence: high. "
        f"gputailor explain {identity}"
    )
    shown = place.plane.kubectl("describe", "deployment/chat", "-n", place.namespace)
    assert "GpuIdle" in shown
    assert "1 GPU held for 2 h" in shown
    after = place.get(WHOLE)
    assert {name: told(after)[name] for name in ("rule", "confidence", "link")} == {
        "rule": "idle",
        "confidence": "high",
        "link": f"https://gpu.example.org/workloads/{identity}",
    }
    assert told(after)["saving"]["moneyPerMonth"] == 500.0
    # metadata alone has changed: no new revision, no new pod
    assert after["spec"] == before["spec"]

    def settled():
        # a Deployment counts changed annotations as a generation; its controller sees nothing to do
        found = place.get("deployment chat")
        return found["status"]["observedGeneration"] == found["metadata"]["generation"]

    eventually(settled, "the controller has seen it")
    assert place.get("deployment chat")["metadata"]["annotations"][REVISION] == "1"
    assert len(place.get("replicasets")) == 1
    assert {one["metadata"]["uid"] for one in place.get("pods")} == pods
    (ours,) = managed(after)
    assert ours["operation"] == "Apply"
    assert ours["fieldsV1"] == {"f:metadata": {"f:annotations": {f"f:{RECOMMENDATION}": {}}}}


def test_what_we_wrote_changes_nothing_of_what_we_read(place):
    """The Deployment's controller copies annotations to ReplicaSets: they are no news, either."""
    place.grant(*FEATURES)
    reads = [None, resolve(place.read())]

    def settled():
        reads.append(resolve(place.read()))
        return reads[-1] == reads[-2]

    eventually(settled, "the controllers have come to rest", pause_seconds=2.0)
    before, now = reads[-1], time.time()
    place.tell(place.agent(), now, place.idle())

    def copied():
        (below,) = place.get("replicasets")
        return told(below)

    eventually(copied, "the controller has copied it")
    assert resolve(place.read()) == before


@pytest.mark.parametrize(
    "kind", ["Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob", "PyTorchJob"]
)
def test_owners_of_every_kind_are_annotated_without_a_rollout(place, kind):
    place.grant(*FEATURES)
    name = {"Deployment": "chat", "StatefulSet": "kv", "DaemonSet": "probe", "Job": "train"}
    what = f"{kind.lower()} {name.get(kind) or ('nightly' if kind == 'CronJob' else 'bert')}"
    before, now = place.get(what), time.time()
    agent = place.agent()
    assert place.tell(agent, now, place.idle(kind)) == 2, agent.trouble
    after = place.get(what)
    assert told(after)["rule"] == "idle"
    assert after["spec"] == before["spec"]
    assert [one["regarding"]["kind"] for one in place.events()] == [kind]


def test_a_bare_pod_has_an_event_and_is_not_written_to(place):
    place.grant(*FEATURES)
    version, now = place.get("pod alone")["metadata"]["resourceVersion"], time.time()
    assert place.tell(place.agent(), now, place.idle("Pod")) == 1
    assert [one["regarding"]["name"] for one in place.events()] == ["alone"]
    assert place.get("pod alone")["metadata"]["resourceVersion"] == version


def test_it_goes_when_the_change_was_made_and_others_annotations_stay(place):
    place.grant(*FEATURES)
    where = ("-n", place.namespace)
    place.plane.kubectl("annotate", "deployment/chat", "team=vision", *where)
    agent, now = place.agent(), time.time()
    place.tell(agent, now, place.idle())
    # people's own manifests are applied over it, by either way, and leave it alone
    manifest = json.dumps(objects.deployment("chat", replicas=1))
    place.plane.kubectl("apply", "-f", "-", *where, text=manifest)
    by_server = ("apply", "--server-side", "--force-conflicts", "-f", "-", *where)
    place.plane.kubectl(*by_server, text=manifest)
    assert told(place.get("deployment chat"))["rule"] == "idle"
    later = now + 300
    place.tell(agent, later, place.fine())
    after = place.get(WHOLE)
    assert told(after) is None
    assert after["metadata"]["annotations"]["team"] == "vision"
    assert managed(after) == []


class Dying:
    """A writer whose agent is killed as soon as the API server has taken something."""

    def __init__(self, writer):
        self._writer = writer
        self.missing = writer.missing

    def put_event(self, made):
        self._writer.put_event(made)
        raise Kill

    def annotate(self, target, value):
        self._writer.annotate(target, value)
        raise Kill


def test_an_agent_that_is_killed_twice_while_it_tells_tells_once(place):
    place.grant(*FEATURES)
    now = time.time()
    for number in range(2):
        at = now + number
        with pytest.raises(Kill):
            place.tell(place.agent(change=Dying), at, place.idle())
    assert place.tell(place.agent(), now + 2, place.idle()) == 2
    (event,) = place.events()
    assert "series" not in event
    assert len(managed(place.get(WHOLE))) == 1


def test_a_recommendation_that_is_back_is_the_next_of_its_series(place):
    place.grant(*FEATURES)
    agent, now = place.agent(), time.time()
    for number, found in enumerate((place.idle(), place.fine(), place.idle())):
        at = now + number * HOUR
        place.tell(agent, at, found)
        assert agent.trouble == ""
    (event,) = place.events()
    assert event["series"]["count"] == 2
    # the API server forgets Events after an hour: the next one begins anew, and is the third
    name = event["metadata"]["name"]
    place.plane.kubectl("delete", "events.events.k8s.io", name, "-n", place.namespace)
    for number, found in enumerate((place.fine(), place.idle()), start=3):
        at = now + number * HOUR
        place.tell(agent, at, found)
        assert agent.trouble == ""
    (event,) = place.events()
    assert (event["series"]["count"], event["metadata"]["name"]) == (3, name)


def test_an_owner_that_is_gone_or_made_anew_is_not_made_by_us(place):
    place.grant(*FEATURES)
    agent, now = place.agent(), time.time()
    plan = sample_plan(made_at=now, verdicts=(place.idle(),))
    roots = resolve(place.read()).roots
    place.plane.kubectl("delete", "deployment/chat", "-n", place.namespace)
    agent.run(plan, lambda: roots, "", now)
    assert agent.trouble == ""
    assert not [one for one in place.get("deployments") if one["metadata"]["name"] == "chat"]
    place.plane.apply(objects.deployment("chat", replicas=0), place.namespace)
    place.tell(agent, now + 300, verdict(f"{place.namespace}/a/b/c", "ok"))
    assert told(place.get("deployment chat")) is None


@pytest.mark.parametrize(
    ("granted", "lacking", "verbs"),
    [
        (ANNOTATIONS, EVENTS, "create, patch on events.events.k8s.io"),
        (EVENTS, ANNOTATIONS, "patch on deployments.apps"),
    ],
)
def test_a_missing_right_is_named_by_the_agent_and_by_doctor_and_the_rest_goes_on(
    place, granted, lacking, verbs
):
    place.grant(granted)
    agent, now = place.agent(), time.time()
    assert place.tell(agent, now, place.idle()) == 1
    assert f"{lacking}: {verbs} is not granted in namespace {place.namespace}" in agent.trouble
    assert (len(place.events()) == 1) == (granted == EVENTS)
    assert (told(place.get("deployment chat")) is not None) == (granted == ANNOTATIONS)
    access = ClusterAccess(kubeconfig=place.kubeconfig, namespaces=(place.namespace,))
    found = [one for one in cluster_checks(access, FEATURES) if one.name == WRITING]
    assert {one.standing for one in found} == {"problem"}
    assert all(lacking in f"{one.found} {one.advice}" for one in found)
    resource = verbs.rpartition(" ")[2]
    assert any(resource in one.found and "not granted" in one.found for one in found)
    # once it is given, what stands is told
    place.grant(granted, lacking)
    later = now + 601
    assert place.tell(agent, later, place.idle()) == 1
    assert agent.trouble == ""


@pytest.fixture
def policy(place, repository):
    """The admission policy of docs/kubernetes.md, for the account of this place."""
    page = (repository / "docs" / "kubernetes.md").read_text("utf-8")
    text = page.partition("<!-- policy: applied by a test -->\n```yaml\n")[2].partition("```")[0]
    account = f"{place.namespace}:{NAME}"
    made = list(yaml.safe_load_all(text.replace("gputailor:gt-gputailor-agent", account)))
    place.plane.apply(made)
    yield
    place.plane.delete(made)


def test_the_policy_of_the_page_lets_the_agent_change_its_annotation_and_nothing_else(
    place, policy
):
    place.grant(*FEATURES)
    token = yaml.safe_load(place.kubeconfig.read_text("utf-8"))["users"][0]["user"]["token"]
    path = f"/apis/apps/v1/namespaces/{place.namespace}/deployments/chat"

    def refused(body):
        answer = place.plane.request("PATCH", path, token=token, body=body)
        return (
            answer.status_code == 422 and answer.json()["message"].partition("denied request: ")[2]
        )

    told_off = "the agent of GPU Tailor may not change a spec"
    tries = itertools.count(2)  # what takes effect before the policy is in force is no change twice

    def in_force():
        return refused({"spec": {"replicas": next(tries)}}) == told_off

    eventually(in_force, "the policy is in force", seconds=60)
    before = place.get("deployment chat")["spec"]
    assert refused({"metadata": {"labels": {"x": "y"}}}).endswith("may not change metadata")
    for others in ({"x": "y"}, {REVISION: None}):
        own_only = "may change its own annotation only"
        assert refused({"metadata": {"annotations": others}}).endswith(own_only)
    agent, now = place.agent(), time.time()
    for number, found in enumerate((place.idle(), place.fine(), place.idle())):
        at = now + number * HOUR
        place.tell(agent, at, found)
        assert agent.trouble == ""
        assert (told(place.get("deployment chat")) is not None) == (number != 1)
    (event,) = place.events()
    assert event["series"]["count"] == 2
    assert place.get("deployment chat")["spec"] == before
    for number, kind in enumerate(("PyTorchJob", "CronJob"), start=3):
        assert place.tell(agent, now + number * HOUR, place.idle(kind)) >= 2, agent.trouble
        assert agent.trouble == ""
