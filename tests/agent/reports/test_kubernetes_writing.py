"""How Events and the annotation reach an API server, and what of its answers means what."""

import json

import pytest

from gputailor_agent.inventory.live.writing_rights import ANNOTATIONS, EVENTS
from gputailor_agent.reports.delivery.kubernetes_words import RECOMMENDATION, Series, Target
from gputailor_agent.reports.delivery.kubernetes_writing import ObjectWriter, WriteError
from tests.agent.inventory.live.api_server import Fault, status
from tests.agent.inventory.live.conftest import api, client, kubeconfig, write_kubeconfig
from tests.agent.inventory.live.objects import deployment_of_two
from tests.agent.reports.test_kubernetes_words import T0, event, said

__all__ = ["api", "client", "kubeconfig", "write_kubeconfig"]

CHAT = Target(api_version="apps/v1", kind="Deployment", namespace="team-a", name="chat", uid="d1")
EVENT_PATH = "/apis/events.k8s.io/v1/namespaces/team-a/events"


@pytest.fixture
def writer(api, client):
    api.put(*deployment_of_two())
    return ObjectWriter(client)


def made(count=1):
    return event(CHAT, said(), Series(began=T0, count=count), cluster="blue")


def chat(api):
    (found,) = api.listing("apps/v1", "deployments", "team-a")
    return found


def test_an_event_that_is_sent_twice_is_there_once(api, writer):
    writer.put_event(made())
    writer.put_event(made())
    assert list(api.written.events.values()) == [made()]


def test_the_next_of_a_series_changes_the_one_that_is_there(api, writer):
    writer.put_event(made())
    writer.put_event(made(2))
    (found,) = api.written.events.values()
    assert found["series"]["count"] == 2


def test_a_series_whose_event_is_forgotten_begins_anew(api, writer):
    writer.put_event(made(3))
    (found,) = api.written.events.values()
    assert found == made(3)


def test_only_the_annotation_is_applied_and_by_a_manager_of_our_own(api, writer):
    writer.annotate(CHAT, "{}")
    (request,) = [one for one in api.requests if one.method == "PATCH"]
    assert request.path == "/apis/apps/v1/namespaces/team-a/deployments/chat"
    assert request.query == {"fieldManager": "gputailor", "force": "true"}
    assert request.headers["content-type"] == "application/apply-patch+yaml"
    assert json.loads(request.body) == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "chat",
            "namespace": "team-a",
            "uid": "d1",
            "annotations": {RECOMMENDATION: "{}"},
        },
    }


def test_an_annotation_goes_again_and_leaves_others_alone(api, writer):
    before = chat(api)["metadata"].get("annotations", {})
    writer.annotate(CHAT, "{}")
    assert chat(api)["metadata"]["annotations"] == {**before, RECOMMENDATION: "{}"}
    writer.annotate(CHAT, None)
    assert chat(api)["metadata"]["annotations"] == before


def test_an_object_that_was_made_anew_is_not_told_of_its_former_self(api, writer):
    writer.annotate(
        Target(api_version="apps/v1", kind="Deployment", namespace="team-a", name="chat", uid="d0"),
        "{}",
    )
    assert RECOMMENDATION not in chat(api)["metadata"].get("annotations", {})


def test_a_kind_that_is_no_longer_served_is_told_nothing(api, writer):
    gone = Target(api_version="gone.io/v1", kind="Old", namespace="team-a", name="x", uid="u")
    writer.annotate(gone, "{}")
    assert not [one for one in api.requests if one.method == "PATCH"]


@pytest.mark.parametrize(
    ("code", "everyone", "final"), [(403, False, False), (422, False, True), (500, False, False)]
)
def test_a_refusal_is_told_and_tried_again_unless_it_is_for_ever(
    api, writer, code, everyone, final
):
    api.fail(f"{EVENT_PATH}*", Fault(code, status(code, "no")))
    with pytest.raises(WriteError, match=f"{code}: no") as told:
        writer.put_event(made())
    assert (told.value.everyone, told.value.final) == (everyone, final)


def test_a_server_that_is_away_ends_it_for_everyone(api, writer):
    api.stop()
    with pytest.raises(WriteError) as told:
        writer.put_event(made())
    assert told.value.everyone


def test_a_right_that_is_missing_is_named(api, writer):
    api.granted = lambda asked: asked["verb"] != "create"
    why = "create on events.events.k8s.io is not granted in namespace team-a (docs/kubernetes.md)"
    assert writer.missing(EVENTS, CHAT, T0) == why
    assert writer.missing(ANNOTATIONS, CHAT, T0) == ""


def test_a_right_in_the_objects_own_namespace_is_enough(api, writer):
    api.granted = lambda asked: asked.get("namespace") == "team-a"
    assert writer.missing(EVENTS, CHAT, T0) == writer.missing(ANNOTATIONS, CHAT, T0) == ""


def test_rights_are_asked_for_again_after_ten_minutes(api, writer):
    api.granted = lambda _asked: False
    assert writer.missing(EVENTS, CHAT, T0)
    asked = len(api.requests)
    api.granted = lambda _asked: True
    assert writer.missing(EVENTS, CHAT, T0 + 599)
    assert len(api.requests) == asked
    assert writer.missing(EVENTS, CHAT, T0 + 600) == ""


def test_an_object_of_a_kind_that_is_not_served_cannot_be_annotated(api, writer):
    gone = Target(api_version="gone.io/v1", kind="Old", namespace="team-a", name="x", uid="u")
    assert writer.missing(ANNOTATIONS, gone, T0) == "the cluster serves no Old (gone.io/v1)"
