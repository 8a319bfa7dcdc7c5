"""One notice per workload and idle spell, to the right people, never from missing data."""

import json

import msgspec
import pytest

from gputailor_agent.inventory.files import read_inventory
from gputailor_agent.inventory.identity import resolve
from gputailor_agent.model.judgement import Confidence, Message, SilenceKind
from gputailor_agent.model.profile import Window
from gputailor_agent.reports.delivery.settings import delivery_settings
from gputailor_agent.schedule.noticing import ANNOTATION, follow_spells, route
from tests.agent.reports.plans import IDLE, finding, sample_plan, silence, verdict, workload

HOUR, DAY = 3600.0, 86400.0
T0 = 1_800_000_000.0


def idle(at, since, **more):
    found = finding(
        IDLE,
        "idle",
        100.0,
        message=Message(key="idle.from_start", params={"gpus": 1, "idle": at - since}),
        **more,
    )
    found = msgspec.structs.replace(found, window=Window(start=at - 14 * DAY, end=at))
    return verdict(IDLE, "finding", primary=found)


def quiet(kind):
    return verdict(IDLE, "ok", silences=(silence(IDLE, "idle", kind),))


class Course:
    """Plans one after another; keeps the spells between them as the store does."""

    def __init__(self, cool_down=DAY):
        self.spells, self.cool_down = {}, cool_down

    def see(self, at, *verdicts):
        plan = sample_plan(made_at=at, verdicts=verdicts)
        changed, notices = follow_spells(plan, self.spells, self.cool_down)
        self.spells |= {spell.workload_id: spell for spell in changed}
        return [notice.spell.since for notice in notices]


def test_a_spell_is_told_once_however_many_plans_find_it():
    course = Course()
    assert course.see(T0, idle(T0, T0 - 2 * HOUR)) == [T0 - 2 * HOUR]
    for later in (300, 600, 5 * DAY):
        assert course.see(T0 + later, idle(T0 + later, T0 - 2 * HOUR)) == []


def test_the_notice_is_named_by_the_minute_since_when_nothing_ran():
    plan = sample_plan(made_at=T0, verdicts=(idle(T0, T0 - 7261),))
    (notice,) = follow_spells(plan, {}, DAY)[1]
    assert notice.period == "2027-01-15T05:58"


@pytest.mark.parametrize(
    "kind", [SilenceKind.FINE, SilenceKind.WATCHING, SilenceKind.NOT_APPLICABLE]
)
def test_a_new_spell_after_the_cool_down_is_told_again(kind):
    course = Course()
    course.see(T0, idle(T0, T0 - 2 * HOUR))
    assert course.see(T0 + DAY, quiet(kind)) == []
    since = T0 + DAY + HOUR
    assert course.see(T0 + 2 * DAY, idle(T0 + 2 * DAY, since)) == [since]


def test_a_new_spell_within_the_cool_down_waits_and_is_told_if_it_lasts():
    course = Course()
    course.see(T0, idle(T0, T0 - 2 * HOUR))
    course.see(T0 + HOUR, quiet(SilenceKind.FINE))
    since = T0 + 2 * HOUR
    assert course.see(T0 + 6 * HOUR, idle(T0 + 6 * HOUR, since)) == []
    assert course.see(T0 + DAY - 1, idle(T0 + DAY - 1, since)) == []
    assert course.see(T0 + DAY, idle(T0 + DAY, since)) == [since]
    assert course.see(T0 + DAY + 300, idle(T0 + DAY + 300, since)) == []


@pytest.mark.parametrize("kind", [SilenceKind.UNKNOWN, SilenceKind.OPTED_OUT])
def test_what_is_not_known_neither_begins_nor_ends_a_spell(kind):
    course = Course(cool_down=0.0)
    assert course.see(T0, quiet(kind)) == []
    assert course.spells == {}
    course.see(T0, idle(T0, T0 - 2 * HOUR))
    course.see(T0 + 300, quiet(kind))
    course.see(T0 + 600)  # a plan without the workload
    assert course.see(T0 + 900, idle(T0 + 900, T0 + 100)) == []


def test_the_owner_is_told_at_once_and_not_again_when_it_is_sure():
    course = Course()
    unsure = idle(T0, T0 - 2 * HOUR, confidence=Confidence.LOW)
    assert course.see(T0, unsure) == [T0 - 2 * HOUR]
    assert course.see(T0 + 5 * HOUR, idle(T0 + 5 * HOUR, T0 - 2 * HOUR)) == []


def test_a_finding_that_does_not_say_since_when_is_not_told():
    found = finding(IDLE, "idle", 1.0)
    assert Course().see(T0, verdict(IDLE, "finding", primary=found)) == []


def test_another_rules_finding_is_no_idle_spell():
    found = finding(IDLE, "smaller_gpu", 1.0, message=Message(key="x", params={"idle": 9e9}))
    assert Course().see(T0, verdict(IDLE, "finding", primary=found)) == []


SETTINGS = delivery_settings(
    mail_to=["all@example.org"],
    mail_from="gpu@example.org",
    smtp_host="mail",
    notify={"team-b": "b@elsewhere.org", "team-a/Job/*": "jobs@example.org, more@example.org"},
)


def routed(identity, **annotations):
    given = {ANNOTATION: annotations["notify"]} if annotations else {}
    return route(workload(identity, annotations=given), SETTINGS)


def test_without_a_wish_the_general_recipients_are_told():
    assert routed("team-a/Deployment/x/main").mail_to == ("all@example.org",)


@pytest.mark.parametrize(
    ("identity", "told"),
    [
        ("team-b/Job/x/main", ("b@elsewhere.org",)),
        ("team-a/Job/x/main", ("jobs@example.org", "more@example.org")),
    ],
)
def test_a_setting_by_namespace_or_pattern_names_who_is_told(identity, told):
    assert routed(identity).mail_to == told


def test_the_annotation_wins_over_the_setting():
    asked = routed("team-b/Job/x/main", notify="me@example.org, you@example.org")
    assert asked.mail_to == ("me@example.org", "you@example.org")
    assert asked.webhook


@pytest.mark.parametrize("wish", ["none", "Off", "false"])
def test_the_annotation_can_ask_for_silence(wish):
    asked = routed("team-b/Job/x/main", notify=wish)
    assert (asked.mail_to, asked.webhook) == ((), False)


@pytest.mark.parametrize(
    "wish", ["spam@victim.com", "not an address", "x@example.org\r\nBcc: y@z.org"]
)
def test_a_wish_that_cannot_be_followed_is_said_and_others_are_told(wish):
    asked = routed("team-a/Deployment/x/main", notify=wish)
    assert asked.mail_to == ("all@example.org",)
    assert ANNOTATION in asked.problem


def test_of_several_addresses_the_allowed_ones_are_told():
    asked = routed("team-a/Deployment/x/main", notify="me@example.org,spam@victim.com")
    assert asked.mail_to == ("me@example.org",)
    assert "notify_domains" in asked.problem


CHANNELS = {"open-chat": "json://127.0.0.1/a", "shut-chat": "json://127.0.0.1/b"}
NAMING = delivery_settings(
    mail_to=["all@example.org"],
    mail_from="gpu@example.org",
    smtp_host="mail",
    channels=CHANNELS,
    open_channels=["open-chat"],
    notify={"team-b": "shut-chat, b@elsewhere.org"},
)


def named(identity, wish=""):
    annotations = {ANNOTATION: wish} if wish else {}
    return route(workload(identity, annotations=annotations), NAMING)


def test_an_annotation_may_name_a_channel_that_is_there_for_workloads():
    asked = named("team-a/Job/x/main", "open-chat, me@example.org")
    assert (asked.mail_to, asked.channels) == (("me@example.org",), ("open-chat",))
    assert not asked.problem


@pytest.mark.parametrize("wish", ["shut-chat", "no-such-chat", "open-chat,shut-chat"])
def test_no_annotation_reaches_a_channel_that_is_not_there_for_workloads(wish):
    asked = named("team-a/Job/x/main", wish)
    assert (asked.mail_to, asked.channels) == (("all@example.org",), ())
    assert ANNOTATION in asked.problem


def test_the_setting_may_name_any_channel():
    asked = named("team-b/Job/x/main")
    assert (asked.mail_to, asked.channels) == (("b@elsewhere.org",), ("shut-chat",))


def test_a_channel_of_workloads_gets_nothing_of_the_whole_cluster():
    assert NAMING.whole.channels == ("shut-chat",)


@pytest.mark.parametrize(
    ("labels", "annotations", "own", "told"),
    [
        ({ANNOTATION: "open-chat"}, {}, {}, "open-chat"),
        ({}, {ANNOTATION: "me@example.org"}, {}, "me@example.org"),
        ({ANNOTATION: "open-chat"}, {ANNOTATION: "none"}, {}, "none"),
        ({ANNOTATION: "open-chat"}, {}, {ANNOTATION: "other@example.org"}, "other@example.org"),
        ({"team": "x"}, {"example.org/secret": "s"}, {}, None),
    ],
)
def test_a_namespace_says_who_is_told_where_the_workload_does_not(
    tmp_path, labels, annotations, own, told
):
    metadata = {"name": "team-a", "labels": labels, "annotations": annotations}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    pod = {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "namespace": "team-a", "uid": "u", "annotations": own},
        "spec": {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
    }  # fmt: skip
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"kind": "List", "items": [namespace, pod]}))
    found = read_inventory([path], "c1", T0)
    (workload_of_it,) = resolve(found).workloads
    assert workload_of_it.annotations.get(ANNOTATION) == told
    assert "example.org/secret" not in str(found.namespaces)
