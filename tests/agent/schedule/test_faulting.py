"""Faults of devices are told once each, to owner and admin, and never from what is not known."""

import itertools
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputailor_agent.model.judgement import Change, Evidence, Message, Severity, SilenceKind
from gputailor_agent.reports.delivery.quiet import QuietHours
from gputailor_agent.reports.delivery.settings import Receivers
from gputailor_agent.rules.health import RULE
from gputailor_agent.schedule.faulting import FaultWatch, faults_of, follow_faults
from gputailor_agent.schedule.measuring import Holding
from gputailor_agent.schedule.noticing import ANNOTATION
from gputailor_agent.store import Store
from tests.agent.reports.plans import FINE, finding, sample_plan, silence, verdict, workload
from tests.agent.rules.advice_parts import judged
from tests.agent.rules.test_health import COOL, gpus
from tests.agent.schedule.test_delivering import delivery, letters, run
from tests.agent.schedule.test_delivering_channels import NOWHERE, chats
from tests.agent.schedule.test_noticing import T0, idle
from tests.fakes.hooks import Hook

HOUR, DAY = 3600.0, 86400.0
WORDS = {"79": "Xid 79: the GPU fell off the bus", "48": "Xid 48: double-bit ECC error"}


def broken(name=FINE, *, team="", notify="", **counts):
    """A workload of which ``xid79=1`` and the like were counted."""
    codes = {code.removeprefix("xid"): float(count) for code, count in counts.items()}
    found = finding(
        name,
        "health",
        None,
        message=Message(
            key="health.hardware",
            params={
                "gpus": 1, "all": 1, "nodes": "node-a",
                "errors": ", ".join(WORDS.get(code, code) for code in codes),
            },
        ),
        evidence=tuple(
            Evidence(name=f"Xid {code}", value=count, unit="count")
            for code, count in codes.items()
        ),
        change=Change(
            kind="repair_node", target="Node node-a", command="kubectl cordon node-a",
            params={"nodes": "node-a"},
        ),
    )  # fmt: skip
    own = workload(name, team=team, annotations={ANNOTATION: notify} if notify else {})
    made = verdict(name, "finding", alternatives=(found,))
    return msgspec.structs.replace(made, workload=own)


def hot(name=FINE):
    found = finding(
        name,
        "health",
        None,
        severity=Severity.MEDIUM,
        message=Message(
            key="health.throttled",
            params={"gpus": 1, "all": 1, "reason": "heat", "share": 0.3, "nodes": "node-a"},
        ),
        evidence=(Evidence(name="Xid 13", value=4.0, unit="count"),),
        change=Change(kind="repair_node", target="Node node-a", params={"nodes": "node-a"}),
    )
    return verdict(name, "finding", primary=found)


def silent(kind, name=FINE):
    return verdict(name, "ok", silences=(silence(name, "health", kind),))


class Course:
    """Plans one after another; keeps what is known of faults as the store does."""

    def __init__(self, cool_down=DAY):
        self.known, self.cool_down = {}, cool_down

    def see(self, at, *verdicts, whole=True):
        plan = sample_plan(made_at=at, verdicts=verdicts)
        changed, notices = follow_faults(plan, self.known, self.cool_down, whole=whole)
        self.known |= {(one.workload_id, one.fault): one for one in changed}
        return [fault for notice in notices for fault in notice.faults]


def test_a_fault_is_told_once_however_many_plans_find_it():
    course = Course()
    assert course.see(T0, broken(xid79=1)) == ["xid/79"]
    for later in (300, 2 * DAY, 9 * DAY):
        assert course.see(T0 + later, broken(xid79=1)) == []


def test_another_fault_of_the_workload_does_not_wait_for_the_cool_down_of_the_first():
    course = Course()
    assert course.see(T0, hot()) == ["throttled"]
    assert course.see(T0 + 300, broken(xid79=1)) == ["xid/79"]
    assert course.see(T0 + 600, broken(xid79=1, xid48=2)) == ["xid/48"]


def test_more_errors_of_a_code_are_told_after_the_cool_down():
    course = Course()
    course.see(T0, broken(xid48=1))
    assert course.see(T0 + HOUR, broken(xid48=3)) == []
    assert course.see(T0 + DAY, broken(xid48=3)) == ["xid/48"]
    assert course.see(T0 + 2 * DAY, broken(xid48=3)) == []


def test_errors_that_left_the_window_make_room_for_new_ones_to_be_told():
    course = Course()
    course.see(T0, broken(xid48=3))
    assert course.see(T0 + 14 * DAY, broken(xid48=1)) == []
    assert course.see(T0 + 15 * DAY, broken(xid48=2)) == ["xid/48"]


def test_a_plan_that_looks_back_less_neither_ends_a_fault_nor_forgets_errors():
    course = Course()
    course.see(T0, broken(xid48=3))
    course.see(T0 + 2 * DAY, broken(xid48=1), whole=False)
    course.see(T0 + 4 * DAY, silent(SilenceKind.FINE), whole=False)
    assert course.see(T0 + 5 * DAY, broken(xid48=3)) == []


def test_a_fault_that_was_gone_for_a_day_is_told_anew():
    course = Course(cool_down=HOUR)
    course.see(T0, hot())
    course.see(T0 + 6 * HOUR, silent(SilenceKind.FINE))
    assert course.see(T0 + 7 * HOUR, hot()) == []  # the same heat, not a new one
    course.see(T0 + 2 * DAY, silent(SilenceKind.FINE))
    assert course.see(T0 + 2 * DAY + HOUR, hot()) == ["throttled"]


@pytest.mark.parametrize("kind", [SilenceKind.UNKNOWN, SilenceKind.OPTED_OUT])
def test_what_is_not_known_neither_begins_nor_ends_a_fault(kind):
    course = Course(cool_down=0.0)
    assert course.see(T0, silent(kind)) == []
    assert course.known == {}
    course.see(T0, hot())
    course.see(T0 + 3 * DAY, silent(kind))
    course.see(T0 + 4 * DAY)  # a plan without the workload
    assert course.see(T0 + 5 * DAY, hot()) == []


def test_errors_of_the_program_are_no_fault():
    found = broken(xid79=1, xid13=9, xid31=2).alternatives[0]
    assert faults_of(found) == {"xid/79": 1.0}


def test_what_the_rule_finds_is_known_by_its_codes():
    """By the rule itself: a name that it gives to a number is one that notices know."""
    told = ({**COOL, "xid/79": 1.0}, {**COOL, "ecc/uncorrected": 2.0, "xid/13": 5.0})
    assert set(faults_of(judged(RULE, *gpus(*told)))) == {"xid/79", "ecc/uncorrected"}
    assert faults_of(judged(RULE, *gpus({**COOL, "fault/row_remap_failed": 9.0}))) == {
        "hardware": 0.0
    }
    heat = {**COOL, "throttled/hw_thermal_slowdown": 0.3}
    assert faults_of(judged(RULE, *gpus(heat))) == {"throttled": 0.0}


@given(
    st.lists(
        st.tuples(st.integers(1, 4 * 86400), st.integers(0, 4), st.booleans()),
        min_size=1,
        max_size=30,
    )
)
def test_no_fault_is_told_twice_within_its_cool_down(course):
    seen, now, told = Course(), T0, []
    for after, count, whole in course:
        now += after
        shown = broken(xid79=count) if count else silent(SilenceKind.FINE)
        told += [now] * len(seen.see(now, shown, whole=whole))
    assert all(later - first >= DAY for first, later in itertools.pairwise(told))
    assert bool(told) == any(count for _after, count, _whole in course)


def holding(at, uuid="GPU-1", pod="p", **counters):
    device = {name.replace("_", "/", 1): float(value) for name, value in counters.items()}
    return Holding("team", pod, "u", "main", None, gpu_uuid=uuid, at=at, device=device)


def looks(*rounds):
    watch, found = FaultWatch(), None
    for one in rounds:
        found = watch.look(one)
    return found


def test_a_device_whose_counters_rose_is_looked_at():
    found = looks(
        [holding(0, xid_79=0), holding(0, "GPU-2", "q", xid_79=0)],
        [holding(300, xid_79=1), holding(300, "GPU-2", "q", xid_79=0)],
    )
    assert (found.broken, found.hot) == ({("team", "p")}, frozenset())


def test_the_first_error_of_a_code_counts_although_its_series_was_not_there():
    assert looks([holding(0, xid_13=1)], [holding(300, xid_13=1, xid_48=1)]).broken


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([], [holding(300, xid_79=3)]),  # seen for the first time: that may be old
        ([holding(0, xid_79=3)], [holding(300)]),  # the exporter no longer tells
        ([holding(0, xid_79=3)], [holding(0, xid_79=3)]),  # silent: the same page again
        ([holding(0, xid_79=3)], [holding(300, xid_13=1)]),  # restarted: its counters began anew
        ([holding(0, xid_13=3, xid_31=1)], [holding(300, xid_13=9, xid_31=8)]),  # a program's
    ],
)
def test_what_is_missing_old_or_of_a_program_is_no_fault(first, second):
    found = looks(first, second)
    assert not found.broken
    assert not found.hot


def test_errors_since_a_restart_of_the_exporter_count():
    assert looks([holding(0, xid_79=3)], [holding(300, xid_79=1)]).broken


@pytest.mark.parametrize(("seconds", "is_hot"), [(14.0, False), (15.0, True), (290.0, True)])
def test_clocks_held_down_for_a_share_of_the_time_are_looked_at(seconds, is_hot):
    before = holding(0, throttled_hw_thermal_slowdown=100)
    after = holding(300, throttled_hw_thermal_slowdown=100 + seconds)
    assert bool(looks([before], [after]).hot) is is_hot


def test_a_power_cap_is_no_fault():
    before, after = holding(0, throttled_sw_power_cap=0), holding(300, throttled_sw_power_cap=300)
    assert not looks([before], [after]).hot


@pytest.fixture
def store():
    with Store.open() as opened:
        yield opened


def told(store, agent, now, *verdicts):
    agent.at.now = now
    with store.transaction() as tx:
        agent.keep_notices(tx, sample_plan(made_at=now, verdicts=verdicts))
    return {letter.recipient for letter in letters(store)}


OWNED = {
    "mail_to": ["admin@example.org"],
    "notify": {"team-c": "owner@example.org"},
}


def test_owner_and_admin_are_told_and_only_once(store):
    agent = delivery(store, **OWNED)
    assert told(store, agent, T0, broken(xid79=1)) == {"owner@example.org", "admin@example.org"}
    assert len(letters(store)) == 2
    told(store, agent, T0 + 300, broken(xid79=1))
    assert len(letters(store)) == 2
    assert {letter.scope for letter in letters(store)} == {f"test/unhealthy/{FINE}/xid/79"}


def test_an_owner_who_wants_silence_has_it_and_the_admin_is_told(store):
    agent = delivery(store, **OWNED)
    assert told(store, agent, T0, broken(xid79=1, notify="none")) == {"admin@example.org"}


def test_team_and_admin_have_their_chats_told(store):
    hooks = {"vision": Hook(), "whole": Hook()}
    teams = {"vision": Receivers(channels=("vision",))}
    agent = delivery(store, **NOWHERE, channels=chats(**hooks), teams=teams)
    for hook in hooks.values():
        hook.server_close()
    assert told(store, agent, T0, broken(team="vision", xid79=1)) == {"vision", "whole"}


def test_no_notice_where_they_are_turned_off(store):
    assert told(store, delivery(store, **OWNED, notices=False), T0, broken(xid79=1)) == set()


def test_the_notice_says_which_gpus_which_error_where_and_what_to_do(store):
    with Hook() as hook:
        agent = delivery(store, **NOWHERE, webhook_url=hook.url)
        told(store, agent, T0, broken(xid79=1))
        assert run(agent, T0) == 1
    ((_headers, body),) = hook.got
    assert body["kind"] == "unhealthy"
    assert body["subject"] == "Unhealthy GPUs on test: team-c/good, seen 2027-01-15 08:00 UTC"
    text = body["text"].replace("\\", "")
    for words in ("79: the GPU fell off the bus", "node-a", "kubectl cordon node-a", "first seen"):
        assert words in text
    assert body["document"]["rule"] == "health"


def test_the_notice_is_written_in_the_language_of_the_settings(store):
    with Hook() as hook:
        agent = delivery(store, **NOWHERE, webhook_url=hook.url, language="zh")
        told(store, agent, T0, broken(xid79=1))
        run(agent, T0)
    ((_headers, body),) = hook.got
    assert "GPU 异常" in body["subject"]
    assert "Unhealthy" not in body["text"]
    assert "gputailor.io/ignore: health" in body["text"]


@pytest.mark.parametrize(
    ("severe", "shown", "passes"),
    [(False, broken(xid79=1), 0), (True, broken(xid79=1), 1), (True, hot(), 0)],
    ids=["held", "broken", "hot"],
)
def test_quiet_hours_hold_all_but_what_is_severe_where_that_is_set(store, severe, shown, passes):
    night = datetime(2027, 1, 15, 23, 0, tzinfo=UTC).timestamp()
    quiet = QuietHours.read("22:00-07:00", "UTC")
    with Hook() as hook:
        more = {"quiet": quiet, "severe_in_quiet_hours": severe, "webhook_url": hook.url}
        agent = delivery(store, **NOWHERE, **more)
        told(store, agent, night, shown)
        assert run(agent, night) == passes
        assert run(agent, night + 9 * HOUR) == 1 - passes


def test_many_faults_at_a_time_go_as_one_message_and_apart_from_what_is_idle(store):
    with Hook() as hook:
        agent = delivery(store, **NOWHERE, webhook_url=hook.url, notices_at_once=2)
        sick = [broken(f"team-c/Job/train-{n}/main", xid79=1) for n in range(3)]
        told(store, agent, T0, idle(T0, T0 - 7200), *sick)
        assert run(agent, T0) == 2
    kinds = {body["kind"]: body["subject"] for _headers, body in hook.got}
    assert set(kinds) == {"idle", "unhealthy"}
    assert "(+2)" in kinds["unhealthy"]
