"""What a report tells beside its table: changes, what came of advice, trend, unknowns, groups."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputailor_agent.model.inventory import Resolution, Tracked
from gputailor_agent.model.judgement import Interval, Message, Money, SilenceKind
from gputailor_agent.model.ledger import Entry, Period, Prediction, Result, Setup, State
from gputailor_agent.reports import coverage_page, groups_page, overview
from gputailor_agent.reports.beside import (
    Beside,
    Former,
    FormerFinding,
    Week,
    course,
    scoped_beside,
)
from gputailor_agent.reports.changes_page import changes
from gputailor_agent.reports.document import sparkline
from gputailor_agent.reports.formats import render
from gputailor_agent.reports.remembering import of_store, read_former, read_week
from gputailor_agent.reports.scoping import Scope, persons, scoped
from gputailor_agent.store import Store
from gputailor_agent.store.ledger import Ledger
from tests.agent.reports.plans import (
    DAY,
    END,
    FEWER,
    FINE,
    IDLE,
    UNSEEN,
    WATCHED,
    WINDOW,
    finding,
    sample_plan,
    silence,
    verdict,
    workload,
)

WEEK_AGO = END - 7 * DAY


def entry(identity: str, rule: str, state: State, **more) -> Entry:
    settings = {
        "number": 1,
        "opened_at": WEEK_AGO - DAY,
        "changed_at": END - DAY,
        "seen_at": END - DAY,
        "updated_at": END,
        "prediction": Prediction(
            made_at=WEEK_AGO,
            confidence="high",
            gpu_hours_per_month=730.0,
            money_per_month=Money(amount=2000.0),
            slowdown=Interval(low=1.0, high=1.2),
            change="set_gpus",
        ),
        "before": Period(setup=Setup(gpus_per_pod=2, pods=1, gpus=2)),
    }
    return Entry(cluster="test", workload_id=identity, rule=rule, state=state, **(settings | more))


def former(**findings: tuple[str, float]) -> Former:
    """A report of a week ago: workload -> (rule, saving)."""
    return Former(
        made_at=WEEK_AGO,
        window=WINDOW,
        findings={
            name: FormerFinding(workload_id=name, rule=rule, saving=Money(amount=amount))
            for name, (rule, amount) in findings.items()
        },
    )


def test_without_a_former_report_nothing_is_said_of_changes():
    assert changes(sample_plan(), Beside()) is None
    assert "Since the report" not in render(sample_plan(), "markdown")


def test_findings_are_new_worse_fixed_expired_dismissed_or_gone():
    known = {
        IDLE: ("idle", 1000.0),  # now 2,000
        "a/Job/b/fixed": ("idle", 5.0),
        "a/Job/b/expired": ("idle", 5.0),
        "a/Job/b/dismissed": ("idle", 5.0),
        "a/Job/b/gone": ("idle", 5.0),
    }
    entries = (
        entry("a/Job/b/fixed", "idle", State.APPLIED),
        entry("a/Job/b/expired", "idle", State.EXPIRED),
        entry("a/Job/b/dismissed", "idle", State.DISMISSED),
        entry("a/Job/b/gone", "idle", State.EXPIRED, changed_at=WEEK_AGO - DAY),  # another life
    )
    found = changes(sample_plan(), Beside(former=former(**known), entries=entries))
    assert found.new == (FEWER,)
    assert found.worse == (IDLE,)
    assert found.fixed == ("a/Job/b/fixed",)
    assert found.expired == ("a/Job/b/expired",)
    assert found.dismissed == ("a/Job/b/dismissed",)
    assert found.gone == ("a/Job/b/gone",)


def test_advice_that_is_only_an_alternative_now_is_neither_gone_nor_fixed():
    known = former(**{IDLE: ("smaller_gpu", 1500.0), FEWER: ("too_many_gpus", 500.0)})
    found = changes(sample_plan(), Beside(former=known, entries=()))
    assert found.gone == ()
    assert found.new == (IDLE,)  # another rule comes first now
    assert found.worse == ()


def test_a_saving_that_moved_by_less_than_a_tenth_is_no_worse():
    known = former(**{IDLE: ("idle", 1900.0), FEWER: ("too_many_gpus", 499.0)})
    found = changes(sample_plan(), Beside(former=known))
    assert (found.worse, found.new) == ((), ())
    text = render(sample_plan(), "text", beside=Beside(former=known))
    assert "Since the report of 2025-11-24" in text
    assert "Nothing changed." in text


def test_what_came_of_advice_is_told_with_what_was_foretold():
    real = {
        "applied_at": END - 3 * DAY,
        "result": Result.REAL,
        "realised_gpu_hours_per_month": 650.0,
        "realised_money_per_month": Money(amount=1800.0),
        "slowdown": 1.1,
    }
    entries = (
        entry(IDLE, "idle", State.APPLIED, **real),
        entry(FEWER, "too_many_gpus", State.APPLIED, applied_at=END - DAY, result=Result.WAITING),
        entry(FINE, "idle", State.OPEN),
    )
    text = render(sample_plan(), "markdown", beside=Beside(entries=entries)).replace("\\", "")
    part = text[text.index("What came of advice that was followed") :]
    assert "changes made: **2**" in part
    assert "of these judged: **1**" in part
    assert "saved per month: **USD 1,800**" in part
    assert "| USD 2,000 | USD 1,800 | 1.10x | as foretold |" in part
    assert "| USD 2,000 | unknown | unknown | too little has run since |" in part
    document = json.loads(render(sample_plan(), "json", beside=Beside(entries=entries)))
    assert [one["workload_id"] for one in document["advice"]] == [IDLE, FEWER]


def test_savings_in_two_currencies_are_told_side_by_side():
    both = [
        entry(name, "idle", State.APPLIED, result=Result.REAL, applied_at=END,
              realised_money_per_month=Money(amount=5.0, currency=currency))
        for name, currency in ((IDLE, "USD"), (FEWER, "EUR"))
    ]  # fmt: skip
    text = render(sample_plan(), "text", beside=Beside(entries=tuple(both)))
    assert "EUR 5.00, USD 5.00" in text


def test_the_trend_has_this_report_last():
    week = Week(window=msgspec.structs.replace(WINDOW, end=WEEK_AGO), gpus=8, mean_kernel=0.1,
                observed_share=None, cost=Money(amount=7000.0), saving=None, findings=3)  # fmt: skip
    text = render(sample_plan(), "markdown", beside=Beside(weeks=(week,))).replace("\\", "")
    rows = text[text.index("From report to report") :].split("\n\n")[1].splitlines()
    assert rows[2] == "| 2025-11-24 | 8 | 10 % | unknown | USD 7,000 | unknown | 3 |"
    assert rows[3].startswith("| 2025-12-01 | 8 | 38 % | 80 % | USD 8,064 | USD 2,500 | 2 |")


def test_the_headline_has_money_gpu_hours_and_its_share_of_the_cost():
    text = " ".join(render(sample_plan(), "text").split())
    assert (
        "USD 2,500/month (1,460 GPU-hours) can be saved by changing 2 of 5 workloads: 14 % of the "
        "GPUs' cost." in text
    )
    nothing = sample_plan(verdicts=(verdict(FINE, "ok"),), saving_money_per_month=None)
    assert "can be saved by" not in render(nothing, "text")


def test_the_top_workloads_come_with_course_patch_risk_and_whose_they_are():
    own = finding(IDLE, "idle", 9.0, risks=(Message(key="scaling.fewer_left"), Message(key="x")))
    named = workload(IDLE, team="vision", queue="batch",
                     tracked=(Tracked(tracker="mlflow", experiment="segment", run="r1"),))  # fmt: skip
    plan = sample_plan(verdicts=(verdict(IDLE, "finding", primary=own, workload=named),))
    beside = Beside(courses={IDLE: (0.0, None, 0.5, 1.0)})
    text = render(plan, "text", beside=beside)
    for part in ("belongs to: vision · batch · mlflow segment r1", "_·▅█", "replicas: 0", "risk: "):
        assert part in text
    page = render(plan, "html", beside=beside)
    assert page.count("<rect") == 3  # nothing is drawn for what nobody saw
    assert page.count("<circle") == 1
    assert 'height="1"' in page
    assert "| vision · batch · mlflow segment r1 |" in render(plan, "markdown").replace("\\", "")


def test_the_terminals_first_screen_stays_short():
    assert "replicas: 0" not in render(sample_plan(), "table")


def test_unknown_is_told_by_reason_with_missing_signals_and_by_namespace():
    (told,) = coverage_page.unknowns(sample_plan())
    assert (told.workloads, told.gpu_hours, told.missing_signals) == (1, 336.0, ("kernel",))
    assert not told.not_yet
    places = {one.namespace: one for one in coverage_page.observed(sample_plan())}
    assert places["team-c"].observed_ratio == pytest.approx(0.5)
    assert places["team-c"].unknown == 1
    assert places["team-b"].unknown == 0


def test_what_is_not_measured_yet_is_a_reason_of_its_own():
    young = verdict(UNSEEN, "unknown", mean_kernel=None, coverage=0.0, gpu_hours=0.2,
                    silences=(silence(UNSEEN, "idle", SilenceKind.UNKNOWN),))  # fmt: skip
    plan = sample_plan(verdicts=(young,))
    (told,) = coverage_page.unknowns(plan)
    assert told.not_yet
    assert "Not measured yet: use is known an hour after" in " ".join(render(plan, "text").split())


def test_when_everything_is_known_that_is_said():
    plan = sample_plan(verdicts=(verdict(FINE, "ok"),))
    assert "The use of every workload is known." in render(plan, "text")


def test_groups_add_up_to_the_plan():
    found = groups_page.groups(sample_plan())
    for own in (found.teams, found.namespaces, found.queues):
        assert sum(one.workloads for one in own) == 5
        assert sum(one.gpu_hours for one in own) == pytest.approx(5 * 336)
        assert sum(one.saving_gpu_hours_per_month for one in own) == pytest.approx(1460)
    costs = {one.name: one.cost for one in found.namespaces}
    assert costs["team-c"] is None  # one of its two has no price: a part is not the whole
    assert costs["team-b"] == Money(amount=2000.0)


@pytest.mark.parametrize(
    ("scope", "left"),
    [
        (Scope(teams=("a",)), {IDLE}),
        (Scope(namespaces=("team-b",)), {FEWER, WATCHED}),
        (Scope(namespaces=("team-*", "!team-b")), {IDLE, UNSEEN, FINE}),
        (Scope(owners=("Ann@Example.org",)), {FINE}),
        (Scope(teams=("a",), namespaces=("team-b",)), set()),
        (Scope(owners=("ann",)), set()),
        (Scope(), {IDLE, FEWER, WATCHED, UNSEEN, FINE}),
    ],
)
def test_a_scope_holds_what_is_asked_and_nothing_else(scope, left):
    owned = {"gputailor.io/notify": "bob@example.org, ann@example.org"}
    verdicts = []
    for one in sample_plan().verdicts:
        more = {"team": "a"} if one.workload.id == IDLE else {}
        more |= {"annotations": owned} if one.workload.id == FINE else {}
        verdicts.append(msgspec.structs.replace(one, workload=workload(one.workload.id, **more)))
    plan = scoped(sample_plan(verdicts=tuple(verdicts)), scope)
    assert {one.workload.id for one in plan.verdicts} == left


def test_nobody_reads_of_others_in_a_report_of_their_own():
    plan = scoped(sample_plan(), Scope(namespaces=("team-a",)))
    beside = scoped_beside(
        Beside(
            former=former(**{IDLE: ("idle", 1.0), FEWER: ("idle", 1.0)}),
            entries=(entry(IDLE, "idle", State.APPLIED), entry(FEWER, "x", State.APPLIED)),
            courses={IDLE: (0.1,), FEWER: (0.2,)},
        ),
        [one.workload.id for one in plan.verdicts],
        "namespace team-a",
    )
    for kind in ("text", "html", "markdown", "csv", "json"):
        text = render(plan, kind, beside=beside).replace("\\", "")
        assert IDLE in text
        assert not [name for name in ("team-b", "team-c", "node-3") if name in text], kind
    assert plan.saving_money_per_month == Money(amount=2000.0)
    assert plan.saving_gpu_hours_per_month == 730.0
    assert "namespace team-a" in render(plan, "text", beside=beside)


def test_a_person_is_known_by_annotations_and_labels():
    one = workload(IDLE, labels={"user": "kim"}, annotations={"gputailor.io/owner": "Lee, Mo"})
    assert persons(one) == {"kim", "lee", "mo"}


HOURS = st.lists(st.tuples(st.integers(0, 335), st.floats(1, 3600), st.floats(0, 1)), max_size=60)


@given(HOURS)
def test_a_course_is_a_share_where_something_was_seen_and_unknown_elsewhere(hours):
    given_hours = [(int(WINDOW.start) + 3600 * at, seen, seen * part) for at, seen, part in hours]
    told = course(given_hours, WINDOW)
    assert len(told) == 28
    seen = {at // 12 for at, _seen, _part in hours}
    assert {place for place, share in enumerate(told) if share is not None} == seen
    assert all(share is None or 0 <= share <= 1 for share in told)


def test_a_sparkline_tells_zero_from_unknown():
    assert sparkline((0.0, None, 0.001, 0.49, 1.0)) == "_·▁▄█"


def test_a_kept_report_is_read_for_its_findings_and_totals():
    document = render(sample_plan(), "json")
    told = read_former(document)
    assert set(told.findings) == {IDLE, FEWER}
    assert told.findings[IDLE].saving == Money(amount=2000.0)
    assert read_week(document).findings == 2
    assert read_former("{}") is None
    assert read_week("no JSON") is None


def test_the_store_gives_former_reports_ledger_and_weeks(tmp_path):
    plan = sample_plan()
    with Store.open(tmp_path / "kept.db") as store:
        with store.transaction() as tx:
            for week in (2, 1):
                made = plan.made_at - week * 7 * DAY
                earlier = msgspec.structs.replace(plan, made_at=made)
                tx.put_report(plan.cluster, f"2025-11-{30 - 7 * week:02d}T07:00", made_at=made,
                              window=plan.window, document=render(earlier, "json"),
                              markdown="")  # fmt: skip
            Ledger(tx).put([entry(IDLE, "idle", State.APPLIED)])
        found = of_store(store, plan, Resolution(assignments=(), runs=()))
    assert found.former.made_at == plan.made_at - 7 * DAY
    assert len(found.weeks) == 2
    assert [one.workload_id for one in found.entries] == [IDLE]
    assert found.courses == {}


def test_a_long_plan_keeps_in_json_what_tells_why_and_says_so(monkeypatch):
    monkeypatch.setattr("gputailor_agent.reports.json_report.WHOLE", 4)
    document = json.loads(render(sample_plan(), "json"))
    assert document["shortened"] is True
    verdicts = {one["workload"]["id"]: one for one in document["plan"]["verdicts"]}
    assert [one["rule"] for one in verdicts[UNSEEN]["silences"]] == ["idle"]
    assert verdicts[IDLE]["primary"]["evidence"]
    assert verdicts[IDLE]["alternatives"][0]["evidence"] == []
    assert len(document["workloads"]) == 5
    assert document["workloads"][0]["headline"] == overview.lines(sample_plan())[0].headline


def test_long_tables_are_cut_on_pages_and_say_where_the_rest_is():
    many = tuple(verdict(f"a/Job/j{at}/main", "ok") for at in range(450))
    page = render(sample_plan(verdicts=many), "html")
    assert page.count("a/<wbr>Job/<wbr>j") == 400
    assert "50 more rows are in the JSON and CSV reports." in page
    mail = render(sample_plan(verdicts=many), "mail")
    assert mail.count("a/<wbr>Job/<wbr>j") == 45
    assert len(mail.encode()) < 100_000  # some mail programs cut what is longer
    assert render(sample_plan(verdicts=many), "csv").count("a/Job/j") == 450
