"""The ledger in the store: entries by number, what people decided, and what is forgotten."""

import pytest

from gputailor_agent.ledger import decidable, follow
from gputailor_agent.model.ledger import Decision, State
from gputailor_agent.store import Store
from gputailor_agent.store.ledger import KEEP_SECONDS, Ledger
from tests.agent.ledger.worlds import DAY, T0, WEB, Seen, finding, plan


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path / "g.db") as opened:
        yield opened


def see(store, now, *seen):
    made, profiles = plan(now, *seen)
    with store.transaction() as tx:
        book = Ledger(tx)
        book.put(follow(book.newest("c1"), made, profiles, book.decisions("c1")))
        book.drop_old("c1", now)
        return book.entries("c1")


def test_entries_come_back_as_they_were_and_lives_stand_side_by_side(store):
    (first,) = see(store, T0, Seen(finding(), price=2.0))
    assert (first.state, first.prediction.params) == (State.NEW, {"replicas": 1})
    see(store, T0 + DAY, Seen())
    see(store, T0 + 9 * DAY, Seen())
    entries = see(store, T0 + 10 * DAY, Seen(finding()))
    assert [(one.number, one.state) for one in entries] == [(1, State.EXPIRED), (2, State.NEW)]
    with store.transaction() as tx:
        assert Ledger(tx).newest("c1")[WEB, "too_many_replicas"].number == 2
        assert Ledger(tx).entries("c2") == []


def test_what_has_not_changed_for_as_long_as_reports_are_kept_is_forgotten(store):
    see(store, T0, Seen(finding()))
    see(store, T0 + DAY)
    see(store, T0 + 9 * DAY)
    assert see(store, T0 + 9 * DAY + KEEP_SECONDS + 1) == []


def test_a_decision_replaces_the_former_one_and_can_be_taken_back(store):
    for reason in ("first", "second"):
        with store.transaction() as tx:
            word = Decision(
                workload_id=WEB,
                rule="idle",
                kind="dismissed",
                reason=reason,
                decided_by="ann",
                decided_at=T0,
                until=T0 + DAY,
            )
            Ledger(tx).decide("c1", word)
    with store.transaction() as tx:
        (kept,) = Ledger(tx).decisions("c1")
        assert kept == word
        assert kept.holds(T0)
        assert not kept.holds(T0 + DAY)
        assert Ledger(tx).withdraw("c1", WEB, "idle")
        assert not Ledger(tx).withdraw("c1", WEB, "idle")


def test_a_finding_can_be_decided_about_while_the_plan_or_the_ledger_has_it(store):
    made, _ = plan(T0, Seen(finding()))
    (found,) = made.verdicts
    gone, _ = plan(T0 + DAY, Seen())
    (silent,) = gone.verdicts
    assert decidable(found, (), ()) == {"too_many_replicas"}
    assert decidable(silent, (), ()) == set()
    alive = see(store, T0, Seen(finding()))
    assert decidable(silent, alive, ()) == {"too_many_replicas"}
    see(store, T0 + DAY, Seen())
    ended = see(store, T0 + 9 * DAY, Seen())
    assert ended[0].state == State.EXPIRED
    assert decidable(silent, ended, ()) == set()


def test_entries_and_decisions_of_other_workloads_are_not_meant(store):
    see(store, T0, Seen(finding()))
    made, _ = plan(T0, Seen())
    (verdict,) = made.verdicts
    other = Decision(
        workload_id=f"{WEB}-2",
        rule="idle",
        kind="dismissed",
        reason="x",
        decided_by="ann",
        decided_at=T0,
    )
    assert decidable(verdict, (), [other]) == set()
    with store.transaction() as tx:
        assert [one.rule for one in Ledger(tx).entries("c1", WEB)] == ["too_many_replicas"]
        assert Ledger(tx).entries("c1", f"{WEB}-2") == []
        assert list(Ledger(tx).newest("c1", WEB)) == [(WEB, "too_many_replicas")]
