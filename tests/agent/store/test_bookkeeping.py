"""What is kept of jobs: whether their periods were done, and the reports that came of them."""

from gputailor_agent.model.profile import Window

HOUR = 1_799_971_200


def test_a_period_remembers_how_often_it_was_tried(store):
    for at, state in ((10.0, "failed"), (20.0, "failed"), (30.0, "done")):
        with store.transaction() as tx:
            tx.mark_period("report", "2027-W02", at=at, state=state, reason=state)
        assert store.period_done("report", "2027-W02") is (state == "done")
    period = store.period("report", "2027-W02")
    assert (period.attempts, period.changed_at) == (3, 30.0)
    assert store.period("report", "2027-W03") is None


def test_a_failure_after_success_is_a_first_attempt_again(store):
    for at, state in ((10.0, "failed"), (20.0, "done"), (30.0, "failed")):
        with store.transaction() as tx:
            tx.mark_period("recommend", "2027-01-15T00", at=at, state=state)
    assert store.period("recommend", "2027-01-15T00").attempts == 1


def put_report(store, period, made_at, text="{}"):
    window = Window(start=made_at - 86400, end=made_at)
    with store.transaction() as tx:
        tx.put_report("c1", period, made_at=made_at, window=window, document=text, markdown="# ü")


def test_reports_are_kept_by_their_period_and_for_400_days(store):
    put_report(store, "2027-01-11T07:00", HOUR - 86400)
    put_report(store, "2027-01-18T07:00", HOUR, '{"a": 1}')
    put_report(store, "2027-01-18T07:00", HOUR + 60, '{"a": 2}')
    assert [(kept.period, kept.made_at) for kept in store.reports("c1")] == [
        ("2027-01-18T07:00", HOUR + 60),
        ("2027-01-11T07:00", HOUR - 86400),
    ]
    assert store.report("c1", "2027-01-18T07:00") == ('{"a": 2}', "# ü")
    assert store.report("c2", "2027-01-18T07:00") is None
    put_report(store, "2028-02-21T07:00", HOUR + 401 * 86400)
    assert [kept.period for kept in store.reports("c1")] == ["2028-02-21T07:00"]
