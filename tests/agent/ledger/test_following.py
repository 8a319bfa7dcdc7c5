"""Each finding's life, moved on plan by plan."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputailor_agent.ledger import ACKNOWLEDGED, DISMISSED, follow, records
from gputailor_agent.model.inventory import Outcome
from gputailor_agent.model.judgement import Interval
from gputailor_agent.model.ledger import Decision, Result, State
from tests.agent.ledger.worlds import DAY, HOUR, MONTH, T0, WEB, Seen, finding, plan, run

KEY = (WEB, "too_many_replicas")
JOB = "team-a/Job/train/main"


class Book:
    """Entries as the store keeps them, moved on by plans."""

    def __init__(self) -> None:
        self.known, self.all, self.decisions = {}, {}, []

    def see(self, now, *seen):
        made, profiles = plan(now, *seen)
        for entry in follow(self.known, made, profiles, self.decisions):
            self.known[entry.key] = entry
            self.all[entry.key, entry.number] = entry
        return self.known.get(KEY)

    def course(self, start, end, seen, step=HOUR):
        at = start
        while at <= end:
            entry = self.see(at, *seen(at)) if callable(seen) else self.see(at, seen)
            at += step
        return entry

    def decide(self, kind, reason="because", until=None, rule=KEY[1]):
        self.decisions = [
            Decision(
                workload_id=WEB,
                rule=rule,
                kind=kind,
                reason=reason,
                decided_by="ann",
                decided_at=T0,
                until=until,
            )
        ]


@pytest.fixture
def book():
    return Book()


def test_a_finding_is_new_for_a_day_and_open_then(book):
    entry = book.see(T0, Seen(finding()))
    assert (entry.state, entry.opened_at, entry.prediction.gpu_hours_per_month) == (
        State.NEW,
        T0,
        MONTH,
    )
    assert book.see(T0 + DAY - 1, Seen(finding())).state == State.NEW
    assert book.see(T0 + DAY, Seen(finding())).state == State.OPEN


def test_the_prediction_is_that_of_the_last_plan_before_the_change(book):
    book.see(T0, Seen(finding()))
    book.see(T0 + 2 * HOUR, Seen(finding(hours=500.0), pods=3))
    entry = book.see(T0 + 4 * HOUR, Seen(pods=1))
    assert entry.state == State.APPLIED
    assert (entry.prediction.gpu_hours_per_month, entry.before.setup.pods) == (500.0, 3)


def test_a_finding_that_is_gone_for_a_week_without_the_change_expires(book):
    book.see(T0, Seen(finding()))
    assert book.see(T0 + DAY, Seen()).state == State.NEW
    assert book.see(T0 + 7 * DAY, Seen()).state == State.NEW
    entry = book.see(T0 + 8 * DAY, Seen())
    assert (entry.state, entry.reason) == (State.EXPIRED, "it is not found any more")


def test_a_workload_that_is_gone_lets_its_findings_expire(book):
    book.see(T0, Seen(finding()))
    book.see(T0 + DAY)
    entry = book.see(T0 + 8 * DAY)
    assert (entry.state, entry.reason) == (State.EXPIRED, "the workload is gone")


def test_what_is_not_known_changes_nothing(book):
    before = book.see(T0, Seen(finding()))
    unknown = Seen(pods=0, state="unknown")
    assert book.course(T0 + HOUR, T0 + 20 * DAY, unknown, step=DAY) == before


def test_a_finding_that_flickers_does_not_expire(book):
    book.see(T0, Seen(finding()))
    for day in range(1, 20):
        entry = book.see(T0 + day * DAY, Seen(finding() if day % 5 == 0 else None))
    assert entry.state == State.OPEN


def test_a_finding_that_comes_again_after_it_expired_begins_a_new_life(book):
    book.see(T0, Seen(finding()))
    book.see(T0 + DAY, Seen())
    book.see(T0 + 9 * DAY, Seen())
    entry = book.see(T0 + 10 * DAY, Seen(finding()))
    assert (entry.number, entry.state) == (2, State.NEW)
    assert book.all[KEY, 1].state == State.EXPIRED


def test_a_dismissal_holds_until_its_end_and_keeps_its_reason(book):
    book.see(T0, Seen(finding()))
    book.decide(DISMISSED, "on call", until=T0 + 30 * DAY)
    entry = book.course(T0 + HOUR, T0 + 29 * DAY, Seen(), step=DAY)
    assert (entry.state, entry.reason, entry.until) == (
        State.DISMISSED,
        "on call",
        T0 + 30 * DAY,
    )
    entry = book.see(T0 + 31 * DAY, Seen(finding()))
    assert (entry.state, entry.reason, entry.until) == (State.OPEN, "", None)


def test_a_dismissal_that_is_taken_back_opens_the_finding_again(book):
    book.see(T0, Seen(finding()))
    book.decide(DISMISSED)
    book.see(T0 + HOUR, Seen())
    book.decisions = []
    assert book.see(T0 + 2 * HOUR, Seen(finding())).state == State.OPEN


def test_a_dismissal_of_all_rules_counts_for_each(book):
    book.see(T0, Seen(finding()))
    book.decide(DISMISSED, rule="all")
    assert book.see(T0 + HOUR, Seen()).state == State.DISMISSED


def test_an_annotation_of_the_owner_dismisses_with_its_reason(book):
    book.see(T0, Seen(finding()))
    entry = book.see(T0 + HOUR, Seen(opted_out="bought for two years"))
    assert (entry.state, entry.reason) == (
        State.DISMISSED,
        "by annotation: bought for two years",
    )
    assert book.see(T0 + DAY, Seen(opted_out="bought for two years")) == entry


def test_an_acknowledged_finding_goes_on_and_can_be_applied(book):
    book.see(T0, Seen(finding()))
    book.decide(ACKNOWLEDGED, "next sprint")
    entry = book.see(T0 + 2 * HOUR, Seen(finding()))
    assert (entry.state, entry.reason) == (State.ACKNOWLEDGED, "next sprint")
    assert book.see(T0 + 4 * HOUR, Seen(pods=1)).state == State.APPLIED


def test_a_saving_is_real_when_the_gpus_were_really_given_back(book):
    book.see(T0, Seen(finding(), pods=2, price=2.0))
    entry = book.see(T0 + HOUR, Seen(pods=1, price=2.0))
    assert (entry.state, entry.in_full, entry.applied_at) == (State.APPLIED, True, T0 + HOUR)
    entry = book.course(T0 + 2 * HOUR, T0 + 6 * DAY, Seen(pods=1, price=2.0))
    assert entry.result == Result.WAITING
    entry = book.course(T0 + 6 * DAY + HOUR, T0 + 9 * DAY, Seen(pods=1, price=2.0))
    assert entry.result == Result.REAL
    assert entry.realised_gpu_hours_per_month == pytest.approx(MONTH)
    assert entry.realised_money_per_month.amount == pytest.approx(2 * MONTH)
    (record,) = records(book.all.values())
    assert (record.judged, record.real, record.precision) == (1, 1, 1.0)
    assert record.realised_gpu_hours_per_month == pytest.approx(MONTH)


def test_a_change_that_was_taken_back_saved_nothing(book):
    book.see(T0, Seen(finding(), pods=2))
    book.see(T0 + HOUR, Seen(pods=1))
    entry = book.course(T0 + 2 * HOUR, T0 + 9 * DAY, Seen(pods=2))
    assert entry.result == Result.NONE
    (record,) = records(book.all.values())
    assert record.precision == 0.0


def test_a_part_of_the_change_is_a_part_of_the_saving(book):
    book.see(T0, Seen(finding(replicas=1, hours=9 * MONTH), pods=10))
    entry = book.see(T0 + HOUR, Seen(pods=8))
    assert (entry.state, entry.in_full) == (State.APPLIED, False)
    entry = book.course(T0 + 2 * HOUR, T0 + 9 * DAY, Seen(pods=8))
    assert entry.result == Result.PARTLY
    assert entry.realised_gpu_hours_per_month == pytest.approx(2 * MONTH)


def test_hours_in_which_the_agent_was_down_are_not_followed(book):
    book.see(T0, Seen(finding(), pods=2))
    book.see(T0 + HOUR, Seen(pods=1))
    entry = book.see(T0 + 10 * DAY, Seen(pods=1))
    assert (entry.result, entry.after.followed_seconds) == (Result.WAITING, 0.0)


def test_a_replica_set_that_went_to_zero_is_not_what_was_asked_for(book):
    book.see(T0, Seen(finding(replicas=1)))
    assert book.see(T0 + HOUR, Seen(pods=0)).state == State.NEW


def jobs(start, count, *, gpus, hours, every=DAY / 2, outcome=Outcome.SUCCEEDED):
    return tuple(
        run(
            f"run-{gpus}-{start}-{number}",
            start + number * every,
            seconds=hours * HOUR,
            gpus=gpus,
            outcome=outcome,
        )
        for number in range(count)
    )


def fewer_gpus(book, *, hours_after=2.0, slowdown=None, outcome=Outcome.SUCCEEDED, after=5):
    """Runs of 8 GPUs and two hours twice a day; from T0 on they ask for 4."""
    before = jobs(T0 - 10 * DAY, 20, gpus=8, hours=2)
    told = finding(
        "set_gpus",
        id_=JOB,
        rule="too_many_gpus",
        hours=500.0,
        slowdown=slowdown,
        gpus=4,
    )
    book.see(T0, Seen(told, id_=JOB, pods=0, per_pod=8, runs=before))
    new = jobs(T0 + HOUR, after, gpus=4, hours=hours_after, outcome=outcome)
    now = T0 + HOUR + after * DAY / 2
    old = Seen(id_=JOB, pods=0, per_pod=8, runs=before)
    changed = Seen(id_=f"{JOB}#4xgpu", pods=0, per_pod=4, runs=new)
    book.see(now, old, changed)
    book.see(now + 2 * HOUR, old, changed)
    return book.known[JOB, "too_many_gpus"]


def test_runs_of_the_new_shape_show_the_change_and_are_compared_run_by_run(book):
    entry = fewer_gpus(book)
    assert (entry.state, entry.in_full, entry.result) == (State.APPLIED, True, Result.REAL)
    rate = 20 / (10 * DAY / HOUR) * MONTH
    assert entry.realised_gpu_hours_per_month == pytest.approx(8 * rate, rel=0.05)
    assert entry.slowdown == pytest.approx(1.0)


def test_fewer_runs_are_no_saving(book):
    assert fewer_gpus(book, after=3).realised_gpu_hours_per_month == pytest.approx(
        fewer_gpus(Book(), after=9).realised_gpu_hours_per_month
    )


def test_runs_that_take_twice_as_long_saved_nothing_and_are_told_to_be_slower(book):
    entry = fewer_gpus(book, hours_after=4.0)
    assert (entry.result, entry.slowdown) == (Result.SLOWER, pytest.approx(2.0))
    assert entry.realised_gpu_hours_per_month == pytest.approx(0.0)


def test_a_slowdown_that_was_foretold_is_no_fault(book):
    told = Interval(low=1.0, high=1.6)
    entry = fewer_gpus(book, hours_after=3.0, slowdown=told)
    assert entry.result in {Result.REAL, Result.PARTLY}
    assert entry.slowdown == pytest.approx(1.5)


def test_runs_that_fail_after_the_change_are_told(book):
    entry = fewer_gpus(book, outcome=Outcome.FAILED)
    assert entry.result == Result.FAILED
    (record,) = records(book.all.values())
    assert record.precision == 0.0


def test_a_run_that_came_to_its_own_end_released_nothing(book):
    told = finding("release", id_=JOB, rule="idle", recreate=False)
    live = run("run-1", T0 - DAY, seconds=2 * DAY)
    book.see(T0, Seen(told, id_=JOB, pods=1, runs=(live,)))
    book.see(T0 + 2 * DAY, Seen(id_=JOB, pods=0, runs=(live,)))
    assert book.known[JOB, "idle"].state == State.NEW
    book.see(T0 + 10 * DAY, Seen(id_=JOB, pods=0, runs=(live,)))
    assert book.known[JOB, "idle"].state == State.EXPIRED


def test_a_notebook_that_was_deleted_was_released(book):
    told = finding("release", id_=JOB, rule="idle", recreate=False)
    live = run("run-1", T0 - DAY, outcome=Outcome.RUNNING)
    gone = run("run-1", T0 - DAY, seconds=DAY + HOUR, outcome=Outcome.UNKNOWN)
    book.see(T0, Seen(told, id_=JOB, pods=1, runs=(live,)))
    book.see(T0 + 2 * HOUR, Seen(id_=JOB, pods=0, runs=(gone,)))
    assert book.known[JOB, "idle"].state == State.APPLIED


@pytest.mark.parametrize(
    ("params", "seen", "in_full"),
    [
        ({"model": "L4", "mig_profile": ""}, {"models": ("NVIDIA L4",)}, True),
        ({"model": "L4", "mig_profile": ""}, {"models": ("NVIDIA T4",)}, False),
        (
            {"model": "A100", "mig_profile": "1g.10gb"},
            {"resource": "nvidia.com/mig-1g.10gb", "gpus": 2 / 7},
            True,
        ),
    ],
)
def test_another_card_or_a_slice_is_seen_in_what_is_asked_for(book, params, seen, in_full):
    told = finding("set_gpu_type", rule="smaller_gpu", hours=None, money=900.0, **params)
    book.see(T0, Seen(told, price=2.0))
    book.see(T0 + 2 * HOUR, Seen(price=0.5, **seen))
    entry = book.known[WEB, "smaller_gpu"]
    assert (entry.state, entry.in_full) == (State.APPLIED, in_full)
    book.course(T0 + 3 * HOUR, T0 + 9 * DAY, Seen(price=0.5, **seen))
    entry = book.known[WEB, "smaller_gpu"]
    assert entry.result == Result.REAL  # by money: the hours stayed, or are of a slice
    assert entry.realised_money_per_month.amount > 0.5 * 900


def test_without_a_price_the_money_is_unknown_and_not_zero(book):
    book.see(T0, Seen(finding(), pods=2))
    book.see(T0 + HOUR, Seen(pods=1))
    entry = book.course(T0 + 2 * HOUR, T0 + 9 * DAY, Seen(pods=1))
    assert entry.realised_money_per_month is None


def test_a_change_that_nobody_can_see_from_outside_expires(book):
    told = finding("amp", rule="amp", hours=None)
    book.see(T0, Seen(told))
    book.course(T0 + DAY, T0 + 9 * DAY, Seen(), step=DAY)
    assert book.known[WEB, "amp"].state == State.EXPIRED
    (record,) = records(book.all.values())
    assert (record.judged, record.precision) == (0, None)


def test_a_finding_made_again_after_its_change_was_judged_begins_a_new_life(book):
    book.see(T0, Seen(finding(replicas=2), pods=4))
    book.course(T0 + HOUR, T0 + 9 * DAY, Seen(pods=2))
    entry = book.see(T0 + 10 * DAY, Seen(finding(replicas=1), pods=2))
    assert (entry.number, entry.state) == (2, State.NEW)


steps = st.lists(
    st.tuples(
        st.sampled_from([300.0, HOUR, DAY, 3 * DAY]),
        st.booleans(),  # found
        st.integers(0, 3),  # pods
        st.sampled_from(["", "unknown"]),
        st.sampled_from(["", DISMISSED, ACKNOWLEDGED]),
    ),
    max_size=30,
)


@given(steps)
def test_whatever_happens_lives_are_whole(course):
    """Numbers rise one by one, no time lies ahead, only an applied entry has a result."""
    book, now = Book(), T0
    for wait, found, pods, state, word in course:
        now += wait
        book.decisions = []
        if word:
            book.decide(word)
        silenced = word == DISMISSED
        told = finding() if found and not silenced else None
        book.see(now, Seen(told, pods=pods, state=state if told is None else ""))
        numbers = sorted(number for _, number in book.all)
        assert numbers == list(range(1, len(numbers) + 1))
        for entry in book.all.values():
            assert entry.opened_at <= entry.changed_at <= entry.updated_at <= now
            assert entry.result is None or entry.state == State.APPLIED
            assert (entry.applied_at is not None) == (entry.state == State.APPLIED)
