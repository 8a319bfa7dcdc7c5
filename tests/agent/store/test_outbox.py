"""The outbox: each letter once, one sender at a time, nothing forgotten."""

import pytest

from gputailor_agent.store import FaultSpell, Letter, Outbox, Spell

NOW = 1_800_000_000.0


def letter(recipient="a@x.org", **more):
    given = {
        "period": "2027-01-11T07:00",
        "scope": "c1/report",
        "channel": "mail",
        "recipient": recipient,
        "cluster": "c1",
        "settings_hash": "h",
        "message_id": f"<{recipient}>",
        "made_at": NOW,
    }
    return Letter(**(given | more))


def put(store, *letters, body=b"one"):
    with store.transaction() as tx:
        return Outbox(tx).put(letters, body)


def do(store, name, *given, **more):
    with store.transaction() as tx:
        return getattr(Outbox(tx), name)(*given, **more)


def hold(store, holder="me", now=NOW, seconds=60.0, gone=lambda _: False):
    return do(store, "hold", "c1", holder, now=now, until=now + seconds, gone=gone)


def claim(store, one, token, now=NOW):
    return do(store, "claim", one, token, now=now, next_try=now)


def test_case_34_the_same_period_and_recipient_is_put_once_whatever_changed_since(store):
    assert put(store, letter()) == 1
    assert put(store, letter(settings_hash="other", message_id="<2>"), body=b"two") == 0
    (kept,) = do(store, "due", "c1", NOW)
    assert (kept.settings_hash, kept.message_id) == ("h", "<a@x.org>")
    assert do(store, "body", kept) == b"one"


@pytest.mark.parametrize(
    "other", [{"period": "p"}, {"scope": "s"}, {"channel": "webhook"}, {"recipient": "b@x.org"}]
)
def test_every_part_of_the_key_counts(store, other):
    assert put(store, letter(), letter(**other)) == 2


def test_what_was_put_in_a_transaction_that_failed_is_not_there(store):
    with pytest.raises(RuntimeError), store.transaction() as tx:  # noqa: PT012
        Outbox(tx).put([letter()], b"one")
        raise RuntimeError
    assert do(store, "letters", "c1") == []


def test_a_letter_that_was_sent_is_never_due_again_and_its_content_goes(store):
    put(store, letter(), letter("b@x.org"))
    token = hold(store)
    first, second = do(store, "due", "c1", NOW)
    for one, body in ((first, b"one"), (second, None)):
        assert claim(store, one, token)
        do(store, "sent", one, NOW)
        assert do(store, "body", one) == body
    assert do(store, "due", "c1", NOW + 1e6) == []
    assert put(store, letter(), letter("b@x.org")) == 0


def test_a_letter_whose_sender_died_is_due_again(store):
    put(store, letter())
    assert claim(store, letter(), hold(store))
    (again,) = do(store, "due", "c1", NOW)
    assert (again.state, again.attempts) == ("sending", 1)


def test_a_failed_letter_waits_and_remembers_why(store):
    put(store, letter())
    token = hold(store)
    claim(store, letter(), token)
    do(store, "failed", letter(), token, now=NOW, next_try=NOW + 60, why="no server")
    assert do(store, "due", "c1", NOW + 59) == []
    (again,) = do(store, "due", "c1", NOW + 60)
    assert (again.state, again.attempts, again.reason) == ("waiting", 1, "no server")


def test_only_one_agent_at_a_time_may_send(store):
    assert hold(store, "me") == 1
    assert hold(store, "other", NOW + 59) is None
    assert do(store, "holder", "c1") == "me"
    assert hold(store, "me", NOW + 30) == 1
    assert hold(store, "other", NOW + 89) is None
    assert hold(store, "other", NOW + 91) == 2
    assert hold(store, "me", NOW + 92) is None


def test_a_holder_that_is_certainly_gone_is_followed_at_once(store):
    hold(store, "me")
    assert hold(store, "other", NOW + 1, gone=lambda name: name == "me") == 2


def test_a_holder_that_gave_back_is_followed_at_once(store):
    do(store, "release", "c1", hold(store, "me"))
    assert hold(store, "other", NOW + 1) == 2


def test_an_older_token_can_neither_claim_nor_postpone_nor_release(store):
    put(store, letter())
    old = hold(store, "me")
    new = hold(store, "other", NOW + 61)
    assert not claim(store, letter(), old, NOW + 62)
    assert claim(store, letter(), new, NOW + 62)
    do(store, "failed", letter(), old, now=NOW + 63, next_try=NOW + 999, why="late")
    do(store, "release", "c1", old)
    (still,) = do(store, "letters", "c1")
    assert (still.state, still.reason) == ("sending", "")
    assert hold(store, "third", NOW + 64) is None


def test_a_lease_that_ended_can_not_claim(store):
    put(store, letter())
    token = hold(store)
    assert not claim(store, letter(), token, NOW + 60)


def test_that_the_receiver_has_it_counts_whoever_holds_the_lease(store):
    put(store, letter())
    claim(store, letter(), hold(store, "me"))
    hold(store, "other", NOW + 61)
    do(store, "sent", letter(), NOW + 62)
    assert do(store, "due", "c1", NOW + 1e6) == []


def test_clusters_have_senders_and_letters_of_their_own(store):
    put(store, letter(), letter(cluster="c2", scope="c2/report"))
    assert hold(store) == 1
    assert do(store, "hold", "c2", "other", now=NOW, until=NOW + 9, gone=lambda _: False) == 1
    assert [one.cluster for one in do(store, "due", "c2", NOW)] == ["c2"]


def test_what_is_given_up_is_kept_with_its_reason(store):
    put(store, letter())
    do(store, "give_up", letter(), now=NOW, why="a week")
    (kept,) = do(store, "letters", "c1")
    assert (kept.state, kept.reason) == ("given_up", "a week")
    assert do(store, "due", "c1", NOW + 1e6) == []
    assert do(store, "body", kept) is None


def test_letters_go_with_the_reports_they_told_of(store):
    put(store, letter())
    do(store, "drop_old", "c1", NOW + 399 * 86400)
    assert len(do(store, "letters", "c1")) == 1
    do(store, "drop_old", "c1", NOW + 401 * 86400)
    assert do(store, "letters", "c1") == []


def test_a_workloads_newest_spell_replaces_the_former(store):
    spell = Spell(workload_id="w", since=1.0, lasting=True, told=False, told_at=None, seen_at=2.0)
    later = Spell(workload_id="w", since=5.0, lasting=True, told=True, told_at=9.0, seen_at=9.0)
    for one in (spell, later):
        do(store, "put_spells", "c1", [one])
    assert do(store, "spells", "c1") == {"w": later}
    assert do(store, "spells", "c2") == {}


def fault(name="xid/79", **more):
    given = {
        "workload_id": "team/Job/train/main", "fault": name, "since": NOW, "lasting": True,
        "level": 1.0, "told_at": NOW, "seen_at": NOW,
    }  # fmt: skip
    return FaultSpell(**(given | more))


def test_faults_are_known_by_workload_and_fault_and_written_over(store):
    do(store, "put_faults", "c1", [fault(), fault("throttled", level=0.0, told_at=None)])
    do(store, "put_faults", "c1", [fault(level=3.0, lasting=False)])
    do(store, "put_faults", "other", [fault(level=9.0)])
    known = do(store, "faults", "c1")
    place = "team/Job/train/main"
    assert known == {
        (place, "xid/79"): fault(level=3.0, lasting=False),
        (place, "throttled"): fault("throttled", level=0.0, told_at=None),
    }


def test_faults_not_seen_for_as_long_as_reports_are_kept_are_forgotten(store):
    do(store, "put_faults", "c1", [fault(), fault("xid/48", seen_at=NOW + 86400.0)])
    do(store, "drop_old", "c1", NOW + 400.5 * 86400.0)
    assert [one.fault for one in do(store, "faults", "c1").values()] == ["xid/48"]
