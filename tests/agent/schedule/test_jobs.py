"""Jobs: one a file, in the order they build on each other; late reports; what people decided."""

import pytest

from gputailor_agent import metrics
from gputailor_agent.model.ledger import Decision, State
from gputailor_agent.rollup import CounterRollup
from gputailor_agent.schedule import ServiceSettings
from gputailor_agent.schedule.jobs import before, jobs
from gputailor_agent.schedule.jobs.idle import watch
from gputailor_agent.schedule.noticing import finding_of
from gputailor_agent.sources.prometheus.lately import Lately
from gputailor_agent.store.ledger import Ledger
from gputailor_agent.store.tasks import kept_tasks
from tests.agent.rollup.exporter_model import Exporter, Job
from tests.agent.schedule.fakes import T0, ExporterSource, service_of

DAY, HOUR = 86_400, 3600
MONDAY = T0 + 3 * DAY + 7 * HOUR  # 2027-01-18 07:00 UTC


def test_every_job_comes_after_those_that_it_builds_on():
    names = [job.name for job in jobs()]
    assert len(set(names)) == len(names)
    for job in jobs():
        assert all(names.index(other) < names.index(job.name) for other in job.after)
        assert (job.due is None) != (job.tick is None)
        assert job.meaning
        assert job.when


def test_every_job_is_documented(repository):
    page = (repository / "docs" / "agent.md").read_text("utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `") and line.count("|") == 4]
    assert rows[: len(jobs())] == [f"| `{j.name}` | {j.meaning} | {j.when} |" for j in jobs()]


def test_a_job_that_wakes_does_what_it_builds_on_first_and_nothing_else(store, exporter):
    service = service_of(store, exporter, T0)
    assert before("recommend") == {"recommend", "rollup", "history"}
    assert service.run_due(T0 + 600, upto="recommend") == ["rollup", "recommend"]
    assert service.run_due(T0 + 600, upto="ledger") == ["ledger"]


def test_case_35_every_job_has_a_fixed_id_and_its_grace_is_stated(store, exporter):
    service = service_of(store, exporter, T0, settings=ServiceSettings("c1", scrape_seconds=15))
    wakes = {name: grace for name, _, grace, _ in service._wakes()}
    assert wakes["scrape"] == 15
    assert wakes["report"] == DAY
    assert min(grace for name, grace in wakes.items() if name != "scrape") >= HOUR
    assert {"start", "tick", "heartbeat", "rollup", "recommend", "report", "compact"} <= set(wakes)


def problems_of_the_newest_report(store):
    import json  # noqa: PLC0415

    newest = store.reports("c1")[0]
    return newest.period, json.loads(store.report("c1", newest.period)[0])["plan"]["problems"]


def test_a_report_in_time_says_nothing_of_being_late(store, exporter):
    service = service_of(store, exporter, T0)
    service.run_due(MONDAY + 60)
    assert problems_of_the_newest_report(store) == ("2027-01-18T07:00", [])


def test_a_report_that_was_missed_is_made_late_once_and_says_so(store, exporter):
    service_of(store, exporter, T0)
    service = service_of(store, exporter, MONDAY + 2 * DAY)
    service.run_due(MONDAY + 2 * DAY)
    assert "report" not in service.run_due(MONDAY + 3 * DAY)
    period, (told,) = problems_of_the_newest_report(store)
    assert period == "2027-01-18T07:00"
    assert told == "this report was due at 2027-01-18 07:00 UTC and was made 2 days late"


def test_of_several_that_were_missed_the_last_is_made_and_names_the_others(store, exporter):
    service_of(store, exporter, T0)
    late = MONDAY + 21 * DAY + 5 * HOUR
    service_of(store, exporter, late).run_due(late)
    period, (told,) = problems_of_the_newest_report(store)
    assert period == "2027-02-08T07:00"
    assert told.endswith("not made: 2027-02-01T07:00, 2027-01-25T07:00, 2027-01-18T07:00")
    assert [kept.period for kept in store.reports("c1")] == [period]
    skipped = store.period("c1/report", "2027-01-25T07:00")
    assert (skipped.state, skipped.reason) == ("skipped", f"overtaken by the report of {period}")


def test_a_report_is_made_at_the_time_of_day_of_its_time_zone(store, exporter):
    settings = ServiceSettings(cluster="c1", report_time_zone="Asia/Tokyo")
    service = service_of(store, exporter, T0, settings=settings)
    assert "report" in service.run_due(T0 + 3 * DAY - 2 * HOUR)  # Sunday 22:00 UTC
    assert store.reports("c1")[0].period == "2027-01-17T22:00"


def test_jitter_lets_a_report_wait_for_its_clusters_place(store, exporter):
    settings = ServiceSettings(cluster="c1", jitter_seconds=3600)
    service = service_of(store, exporter, T0, settings=settings)
    tried = [
        second for second in range(0, 3700, 60) if "report" in service.run_due(MONDAY + second)
    ]
    assert len(tried) == 1
    assert tried[0] > 0
    assert store.reports("c1")[0].period == "2027-01-18T07:00"


def test_how_jobs_went_outlives_the_agent(store, exporter):
    service = service_of(store, exporter, T0)
    service.tick_scrape(T0 + 60)
    service.run_due(T0 + 60)
    service.stop()
    with store.transaction() as tx:
        kept = {task.job: task for task in kept_tasks(tx, "c1")}
    assert (kept["recommend"].outcome, kept["recommend"].done_at) == ("done", T0 + 60)
    again = service_of(store, exporter, T0 + HOUR)
    names = {task.job: task for task in again.tasks()}
    assert names["recommend"].done_at == T0 + 60
    assert "flush" not in names


def test_a_job_that_fails_is_counted_by_reason_and_told_until_it_goes_well(
    store, exporter, monkeypatch
):
    service = service_of(store, exporter, T0)
    with monkeypatch.context() as patched:
        patched.setattr(service.parts.judging, "assess", lambda *_: 1 / 0)
        service.run_due(T0 + 60)
    (told,) = service.troubles()
    assert told.startswith("failing: recommend: division by zero (since 2027-01-15 00:01")
    labels = {"job": "recommend", "reason": "ZeroDivisionError"}
    assert service.registry.get_sample_value(metrics.JOB_ERRORS.name, labels) == 1
    service.run_due(T0 + 300)
    assert service.troubles() == []


def idle_plan(service, exporter, end):
    for now in range(T0, end, 60):
        service.tick_scrape(now)
    return service.recommend(end)


def dismissal(workload):
    return Decision(
        workload_id=workload,
        rule="idle",
        kind="dismissed",
        reason="kept for the fair",
        decided_by="ann",
        decided_at=T0,
    )


def test_a_dismissed_finding_is_not_made_again_and_its_reason_is_kept(store):
    exporter = Exporter([Job(lambda _: 0.0, T0 + 5)], T0)
    service = service_of(store, exporter, T0, source=ExporterSource(exporter))
    (verdict,) = idle_plan(service, exporter, T0 + 3 * HOUR).verdicts
    assert verdict.primary.rule == "idle"
    service.run_due(T0 + 3 * HOUR + 60, upto="ledger")
    with store.transaction() as tx:
        Ledger(tx).decide("c1", dismissal(verdict.workload.id))
    (verdict,) = service.recommend(T0 + 3 * HOUR + 300).verdicts
    assert verdict.primary is None
    service.run_due(T0 + 4 * HOUR + 60, upto="ledger")
    entries, records = service.ledger()
    entry = next(one for one in entries if one.rule == "idle")
    assert (entry.state, entry.reason) == (State.DISMISSED, "kept for the fair")
    assert next(one for one in records if one.rule == "idle").states["dismissed"] == 1
    labels = {"rule": "idle", "state": "dismissed"}
    assert service.registry.get_sample_value(metrics.LEDGER.name, labels) == 1


class Notices:
    """A delivery that only hears of plans."""

    def __init__(self) -> None:
        self.plans = []

    def keep_notices(self, _tx, plan):
        self.plans.append(plan)


def idle_at(heard):
    """Times of the plans by which somebody is told of being idle."""
    return [
        plan.made_at
        for plan in heard.plans
        for verdict in plan.verdicts
        if finding_of(verdict, "idle") is not None
    ]


def test_where_plans_are_rare_a_workload_that_stopped_is_found_between_them(store):
    exporter = Exporter([Job(lambda t: float(t < T0 + HOUR), T0 + 5)], T0)
    service = service_of(store, exporter, T0, source=ExporterSource(exporter))
    service.tick_scrape(T0)
    service.recommend(T0)
    heard = service.parts.delivery = Notices()
    for now in range(T0 + 60, T0 + 7 * HOUR, 60):
        service.tick_scrape(now)
        if now % 300 == 0:
            watch(service.parts, now)
    assert service.latest_plan().made_at == T0  # no other plan was made
    assert idle_at(heard)[0] <= T0 + 5 * HOUR + 600  # four hours after it stopped


def test_a_workload_at_work_is_not_judged_between_plans(store, exporter):
    service = service_of(store, exporter, T0, source=ExporterSource(exporter))
    service.tick_scrape(T0)
    service.recommend(T0)
    heard = service.parts.delivery = Notices()
    for now in range(T0 + 60, T0 + 2 * HOUR, 300):
        service.tick_scrape(now)
        watch(service.parts, now)
    assert heard.plans == []


class Server:
    """A metric server of which the agent keeps whole hours, and what it says between them."""

    def __init__(self, exporter):
        self.exporter, self.rollup, self.looks = exporter, CounterRollup("c1"), 0
        self.at = T0

    def look(self, now):
        for at in range(self.at, int(now) + 1, 60):
            self.exporter.advance(at)
            self.rollup.add(self.exporter.page())
        self.at = int(now) + 60

    def __call__(self, _start, end, store):
        whole = end // HOUR * HOUR
        self.look(whole)
        with store.transaction() as tx:
            tx.put_usage(row for row in self.rollup.take_rows() if row.key.hour < whole)
            tx.put_devices(self.rollup.devices())
        return []

    def holdings(self, now, _quiet_seconds):
        self.look(now)
        return [
            Lately(one.namespace, one.pod, one.pod_uid, one.container, one.last_active)
            for one in self.exporter.page().containers
        ]

    def rows(self, since, now):
        self.looks += 1
        self.look(now)
        kept = self.rollup.take_rows()
        self.rollup.give_back(kept)
        return [row for row in kept if row.key.hour >= since], self.rollup.devices()


@pytest.fixture
def asked(store):
    """A service that reads whole hours of a server, what it hears of idle ones, and the server."""

    def begin(kernel):
        server = Server(Exporter([Job(kernel, T0 + 5)], T0))
        service = service_of(store, server.exporter, T0, source=None, fill=server, live=server)
        service.parts.delivery = heard = Notices()
        service.parts.backfill.run(T0, T0 + HOUR + 180)
        service.recommend(T0 + HOUR + 180)
        heard.plans.clear()
        return service, heard, server

    return begin


def test_out_of_a_prometheus_who_stopped_is_found_before_the_hour_is_kept(asked):
    service, heard, server = asked(lambda t: float(t < T0 + HOUR // 2))
    for now in range(T0 + HOUR + 600, T0 + 5 * HOUR, 300):
        service.parts.backfill.run(T0, now // HOUR * HOUR + 180)
        watch(service.parts, now)
    found = idle_at(heard)
    # four hours after it stopped, within one look: not at the end of that hour
    assert T0 + 4.5 * HOUR <= found[0] <= T0 + 4.5 * HOUR + 600
    assert server.looks > 1


def test_a_server_is_not_asked_for_more_while_everybody_works(asked):
    service, heard, server = asked(lambda _: 0.5)
    for now in range(T0 + HOUR + 600, T0 + 3 * HOUR, 300):
        watch(service.parts, now)
    assert (server.looks, heard.plans) == (0, [])


def test_who_has_been_quiet_for_long_is_left_to_plans(asked):
    service, heard, server = asked(lambda t: float(t < T0 + 60))
    for now in range(T0 + 8 * HOUR, T0 + 9 * HOUR, 600):
        watch(service.parts, now)
    assert (server.looks, heard.plans) == (0, [])
