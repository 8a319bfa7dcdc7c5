"""Objects of the cluster are told once, again when it is another thing, and never of the unknown."""

from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputailor_agent.model.judgement import SilenceKind
from gputailor_agent.reports.delivery.kubernetes_writing import WriteError
from gputailor_agent.schedule.noticing import ANNOTATION as NOTIFY
from gputailor_agent.schedule.standing import ANNOTATION, COOL_DOWN_SECONDS, EVENT
from gputailor_agent.schedule.telling import GIVE_UP_SECONDS, lane
from gputailor_agent.store import Outbox, Store
from gputailor_agent.store.tasks import letters_by_state
from gputailor_agent.store.told import all_told
from tests.agent.reports.plans import (
    FEWER,
    IDLE,
    sample_plan,
    verdict,
    workload,
)
from tests.agent.schedule.telling_parts import (
    DAY,
    HOUR,
    ROOTS,
    T0,
    Agent,
    Cluster,
    idle,
    quiet,
    root,
)
from tests.agent.schedule.test_delivering import Kill


@pytest.fixture
def cluster():
    return Cluster()


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.open() as opened:
        yield opened


@pytest.fixture
def agent(store, cluster):
    return Agent(store, cluster)


def test_an_owner_is_told_once_however_many_plans_say_it(agent, cluster):
    assert agent.see(T0, idle()) == 2
    for later in (300, HOUR, 5 * DAY):
        assert agent.see(T0 + later, idle()) == 0
    assert cluster.told == [("old", "GpuIdle")]
    assert cluster.annotations["uid-old"]["rule"] == "idle"
    assert cluster.patches == 1


@pytest.mark.parametrize(
    "kind", [SilenceKind.FINE, SilenceKind.WATCHING, SilenceKind.NOT_APPLICABLE]
)
def test_the_annotation_goes_when_there_is_nothing_to_recommend_any_more(agent, cluster, kind):
    agent.see(T0, idle())
    agent.see(T0 + 300, quiet(kind))
    assert cluster.annotations == {}
    assert len(cluster.posted) == 1


def test_a_workload_that_opted_out_loses_its_annotation(agent, cluster):
    agent.see(T0, idle())
    agent.see(T0 + 300, quiet(SilenceKind.OPTED_OUT))
    assert cluster.annotations == {}


def test_a_workload_that_is_gone_from_the_plan_loses_its_annotation(agent, cluster):
    agent.see(T0, idle())
    agent.see(T0 + 300)
    assert cluster.annotations == {}


@pytest.mark.parametrize(
    "unclear", [quiet(SilenceKind.UNKNOWN), verdict(IDLE, "unknown"), idle(state="unknown")]
)
def test_what_a_plan_does_not_know_takes_nothing_back_and_tells_nothing(agent, cluster, unclear):
    agent.see(T0, unclear)
    assert (cluster.posted, cluster.annotations) == ([], {})
    agent.see(T0 + 300, idle())
    agent.see(T0 + 600, unclear)
    assert cluster.annotations["uid-old"]["rule"] == "idle"
    assert len(cluster.posted) == 1


def test_another_recommendation_is_told_but_not_more_often_than_once_an_hour(agent, cluster):
    agent.see(T0, idle())
    agent.see(T0 + 300, idle(rule="too_many_gpus"))
    assert cluster.told == [("old", "GpuIdle")]
    agent.see(T0 + COOL_DOWN_SECONDS, idle(rule="too_many_gpus"))
    assert cluster.told == [("old", "GpuIdle"), ("old", "GpuTooManyGpus")]
    assert cluster.annotations["uid-old"]["rule"] == "too_many_gpus"


def test_a_recommendation_that_is_back_is_the_next_of_its_series(agent, cluster):
    agent.see(T0, idle())
    agent.see(T0 + HOUR, quiet(SilenceKind.FINE))
    agent.see(T0 + HOUR + 300, idle())
    assert cluster.annotations == {}
    agent.see(T0 + 2 * HOUR, idle(510.0))
    (told,) = cluster.posted
    assert told["series"] == {"count": 2, "lastObservedTime": "2027-01-15T10:00:00.000000Z"}
    assert cluster.annotations["uid-old"]["saving"]["moneyPerMonth"] == 510.0


def test_a_saving_that_moves_a_little_changes_no_object(agent, cluster):
    for number in range(10):
        agent.see(T0 + number * HOUR, idle(500.0 + number))
    assert (len(cluster.posted), cluster.patches) == (1, 1)


def test_who_does_not_want_to_be_told_is_not(agent, cluster):
    agent.see(T0, idle())
    silent = workload(IDLE, annotations={NOTIFY: "none"})
    agent.see(T0 + 300, idle(workload=silent))
    assert cluster.annotations == {}
    agent.see(T0 + DAY, idle(600.0, workload=silent))
    assert len(cluster.posted) == 1


def test_an_owner_that_was_not_seen_is_not_told(agent, cluster):
    assert agent.see(T0, idle(), roots={}) == 0
    assert cluster.posted == []


def test_an_object_that_was_made_anew_is_told_again(agent, cluster):
    agent.see(T0, idle())
    agent.see(T0 + 300, idle(), roots={IDLE: root(IDLE, "uid-new")})
    assert [one["regarding"]["uid"] for one in cluster.posted] == ["uid-old", "uid-new"]
    assert list(cluster.annotations) == ["uid-new"]


def test_a_bare_pod_has_an_event_and_no_annotation(agent, cluster):
    identity = "team-a/Pod/alone/main"
    agent.see(T0, idle(identity=identity), roots={identity: root(identity)})
    assert cluster.told == [("alone", "GpuIdle")]
    assert cluster.annotations == {}


def test_of_two_containers_each_has_its_event_and_the_larger_saving_the_annotation(agent, cluster):
    small, large = "team-a/Deployment/old/side", IDLE
    roots = {small: root(small), large: root(large)}
    agent.see(T0, idle(10.0, identity=small), idle(500.0, identity=large), roots=roots)
    assert cluster.told == [("old", "GpuIdle")] * 2
    assert cluster.annotations["uid-old"]["container"] == "main"


def test_a_workload_that_was_split_is_told_at_the_object_it_was_split_from(agent, cluster):
    found = idle()
    part = msgspec.structs.replace(found.workload, id=f"{IDLE}#low")
    agent.see(T0, msgspec.structs.replace(found, workload=part))
    assert cluster.told == [("old", "GpuIdle")]


@pytest.mark.parametrize(("channel", "told"), [(EVENT, (1, 0)), (ANNOTATION, (0, 1))])
def test_each_channel_stands_alone(store, cluster, channel, told):
    Agent(store, cluster, [channel]).see(T0, idle())
    assert (len(cluster.posted), len(cluster.annotations)) == told


@pytest.mark.parametrize("kill", ["before", "after"])
def test_an_agent_that_is_killed_twice_while_it_tells_tells_once(store, cluster, kill):
    cluster.kill = kill
    for number in range(2):
        with pytest.raises(Kill):
            Agent(store, cluster).see(T0 + number * 60, idle())
    cluster.kill = ""
    last = Agent(store, cluster)
    last.see(T0 + 120, idle())
    last.again(T0 + 180)
    assert cluster.told == [("old", "GpuIdle")]
    assert list(cluster.annotations) == ["uid-old"]
    with store.transaction() as tx:
        assert letters_by_state(tx, lane("test")) == {"sent": 2}


def test_without_the_right_nothing_is_kept_and_it_is_told_once_it_is_given(agent, store, cluster):
    cluster.lacking = {"kubernetes_events": "create on events.events.k8s.io is not granted"}
    agent.see(T0, idle())
    assert agent.telling.trouble == (
        "kubernetes_events: create on events.events.k8s.io is not granted"
    )
    assert cluster.posted == []
    assert list(cluster.annotations) == ["uid-old"]
    cluster.lacking = {}
    agent.see(T0 + 300, idle())
    assert cluster.told == [("old", "GpuIdle")]
    assert agent.telling.trouble == ""
    with store.transaction() as tx:
        assert len(Outbox(tx).letters(lane("test"))) == 2


def test_a_cluster_that_does_not_answer_is_asked_again_later(agent, cluster):
    cluster.refuse = WriteError("no answer", everyone=True)
    assert agent.see(T0, idle()) == 0
    assert agent.telling.trouble == "no answer"
    assert agent.counted == [("tell", "failed")]
    cluster.refuse = None
    assert agent.again(T0 + 30) == 1  # the other one was not tried in that round
    assert agent.again(T0 + 60) == 1


def test_the_newest_of_several_annotations_overtakes_those_that_wait(agent, store, cluster):
    cluster.refuse = WriteError("no")
    agent.see(T0, idle())
    agent.see(T0 + HOUR, idle(rule="too_many_gpus"))
    cluster.refuse = None
    agent.again(T0 + DAY)
    assert cluster.annotations["uid-old"]["rule"] == "too_many_gpus"
    assert cluster.patches == 1
    with store.transaction() as tx:
        assert letters_by_state(tx, lane("test")) == {"sent": 4}


def test_a_fault_of_ours_in_one_object_keeps_none_of_the_others(agent, cluster):
    class Odd(Cluster):
        def annotate(self, target, value):
            if target.uid == "uid-old":
                raise ValueError("odd")
            super().annotate(target, value)

    cluster.__class__ = Odd
    agent.see(T0, idle(), idle(identity=FEWER))
    assert list(cluster.annotations) == ["uid-train"]
    assert len(cluster.posted) == 2
    assert agent.telling.trouble == "ValueError: odd"


def test_a_second_agent_on_the_store_tells_nothing(store, cluster):
    with store.transaction() as tx:
        other = {"now": T0, "until": T0 + HOUR, "gone": lambda _holder: False}
        assert Outbox(tx).hold(lane("test"), "other", **other) is not None
    agent = Agent(store, cluster)
    assert agent.see(T0, idle()) == 0
    assert cluster.posted == []
    assert agent.again(T0 + HOUR) == 2


def test_a_cluster_that_cannot_be_asked_for_rights_is_asked_once_a_minute(agent, cluster):
    asked = []

    class Away(Cluster):
        def missing(self, feature, target, now):
            asked.append(now)
            raise WriteError("no answer", everyone=True)

    cluster.__class__ = Away
    agent.see(T0, idle())
    agent.again(T0 + 15)
    assert asked == [T0]
    cluster.__class__ = Cluster
    assert agent.see(T0 + 60, idle()) == 2


def test_what_is_refused_for_ever_is_not_tried_again(agent, store, cluster):
    cluster.refuse = WriteError("422: invalid", final=True)
    agent.see(T0, idle())
    cluster.refuse = None
    assert agent.again(T0 + DAY) == 0
    with store.transaction() as tx:
        assert letters_by_state(tx, lane("test")) == {"given_up": 2}


def test_what_could_not_be_written_for_a_week_is_left_to_a_later_plan(agent, store, cluster):
    cluster.refuse = WriteError("403: forbidden")
    agent.see(T0, idle())
    agent.again(T0 + GIVE_UP_SECONDS + 60)
    cluster.refuse = None
    agent.see(T0 + GIVE_UP_SECONDS + 300, idle())
    assert cluster.told == [("old", "GpuIdle")]


def test_what_was_taken_back_is_forgotten_after_a_month(agent, store):
    agent.see(T0, idle())
    agent.see(T0 + 300, quiet(SilenceKind.FINE))
    with store.transaction() as tx:
        assert len(all_told(tx, "test")) == 2
    agent.see(T0 + 31 * DAY)
    with store.transaction() as tx:
        assert all_told(tx, "test") == {}


def test_a_store_that_fails_is_told_and_raises_nothing(agent, store):
    store.close()
    assert agent.see(T0, idle()) == 0
    assert agent.telling.trouble
    assert agent.counted == [("tell", "failed")]


def test_an_old_plan_of_a_former_agent_is_not_told_of(agent, cluster):
    plan = sample_plan(made_at=T0, verdicts=(idle(),))
    agent.clock.now = T0 + 3601
    agent.telling.run(plan, lambda: ROOTS, "", T0 + 3601)
    assert cluster.posted == []
    agent.telling.run(plan, lambda: ROOTS, "", T0 + 3600)
    assert cluster.told == [("old", "GpuIdle")]


def test_nothing_is_begun_once_the_agent_stops(agent, cluster):
    agent.telling.stop()
    agent.see(T0, idle())
    assert cluster.posted == []


@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["idle", "other", "fine", "unknown", "nothing"]),
            st.sampled_from([60.0, 1800.0, HOUR, 3 * HOUR]),
            st.booleans(),
        ),
        max_size=12,
    )
)
def test_whatever_comes_an_annotation_is_what_was_last_known(course):
    """The rule that stands is one that a plan found, and the last to be withdrawn is gone."""
    cluster, now = Cluster(), T0
    found = {
        "idle": idle(),
        "other": idle(rule="too_many_gpus"),
        "fine": quiet(SilenceKind.FINE),
        "unknown": verdict(IDLE, "unknown"),
    }
    with Store.open() as store:
        agent = Agent(store, cluster)
        for what, pause, restarted in course:
            now += pause
            agent = Agent(store, cluster) if restarted else agent
            before = dict(cluster.annotations)
            agent.see(now, *([found[what]] if what in found else []))
            if what in {"fine", "nothing"}:
                assert cluster.annotations == {}
            elif what == "unknown":
                assert cluster.annotations == before
            elif cluster.annotations != before:
                wanted = "idle" if what == "idle" else "too_many_gpus"
                assert cluster.annotations["uid-old"]["rule"] == wanted
        names = [one["metadata"]["name"] for one in cluster.posted]
        assert len(set(names)) == len(names)
