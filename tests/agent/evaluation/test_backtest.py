"""A history told again: only what was known then counts, and what came later tells who was right."""

import json
from dataclasses import replace as replaced

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputailor_agent.cli.app import run
from gputailor_agent.evaluation.backtest import History, Settings, known_at, outcome_of, replay
from gputailor_agent.evaluation.backtest.hindsight import Advice, Later, Verdict, judge
from gputailor_agent.evaluation.backtest.history import place_of, worked
from gputailor_agent.evaluation.backtest.openings import Opening
from gputailor_agent.evaluation.backtest.replay import Replay, risen
from gputailor_agent.evaluation.backtest.results import CLAIMED
from gputailor_agent.model.judgement import (
    Change,
    Confidence,
    Evidence,
    Finding,
    Interval,
    Message,
    Saving,
    Severity,
)
from gputailor_agent.model.profile import Window
from gputailor_agent.store import Store
from tests.agent.cli.clusters import pages
from tests.agent.factories import (
    CLUSTER,
    DAY,
    GIB,
    HOUR,
    NOW,
    FakeCatalogue,
    device,
    inventory,
    node,
    pod,
    row,
)

HOURS = 24
START = NOW - DAY


def history(levels, *, gpus=1, name="train-0"):
    """One pod; ``levels`` has one kernel level per hour, or a tuple with one per GPU."""
    rows = []
    for at, level in enumerate(levels):
        each = level if isinstance(level, tuple) else (level,) * gpus
        for gpu, value in enumerate(each):
            worked_at = START + (at + 1) * HOUR - 1 if value else None
            rows.append(
                row(START + at * HOUR, pod=name, gpu=f"GPU-{gpu}", kernel=value,
                    last_active=worked_at)
            )  # fmt: skip
    held = pod(name, gpus=gpus, start=START)
    devices = tuple(device(f"GPU-{gpu}") for gpu in range(gpus))
    return History(
        rows=tuple(rows), devices=devices, inventory=inventory(pods=(held,), nodes=(node(),))
    )


def told(given_history, every=1):
    return replay(given_history, FakeCatalogue(), Settings(every_seconds=every * HOUR))


def of_rule(replayed, rule):
    return [one for one in replayed.advice if one.rule == rule]


def test_a_gpu_that_is_never_used_is_told_once_and_once_advised_and_rightly():
    """The notice after an hour and the advice to act after six are two things to be right about."""
    advice = of_rule(told(history([0.0] * HOURS)), "idle")

    assert [one.verdict for one in advice] == [Verdict.RIGHT, Verdict.RIGHT]
    assert [one.confidence for one in advice] == ["low", "high"]
    assert [one.counts for one in advice] == [False, True]
    assert [(one.at - START) / HOUR for one in advice] == [1, 6]


def test_a_notice_may_be_right_and_the_advice_to_act_wrong():
    woken = history([0.0] * 6 + [0.9] * (HOURS - 6))
    advice = of_rule(told(woken), "idle")

    assert [(one.confidence, one.verdict) for one in advice] == [
        ("low", Verdict.RIGHT), ("high", Verdict.WRONG),
    ]  # fmt: skip


def test_a_finding_that_wavers_counts_each_confidence_once():
    """Less sure and as sure again is nothing new while it stands; gone and back is."""
    key, standing, told_at = ("w", "r"), {}, []
    for at, level in enumerate([0, 2, 0, 1, 2, None, 2]):
        new, standing = risen({} if level is None else {key: level}, standing)
        told_at += [at] * len(new)
    assert told_at == [0, 1, 6]
    assert standing == {key: 2}


def test_only_advice_that_counts_a_saving_saves():
    opening = Opening("idle", "w0", start=float(START), end=START + 10.0 * HOUR, gpu_hours=10.0)
    early = replaced(advised("low", Verdict.RIGHT)[0], at=START + 1.0 * HOUR, counts=False)
    late = replaced(advised("high", Verdict.RIGHT)[0], at=START + 6.0 * HOUR)

    def figures(*advice):
        made = outcome_of(Replay(advice, (opening,), runs=9, moments=3, start=0.0, end=1.0))
        return {one.name: one.value for one in made.figures}

    both = figures(early, late)
    assert both["savings, share of the oracle's"] == pytest.approx(0.4)
    assert both["savings, had every notice been followed, too"] == pytest.approx(0.9)
    assert figures(early)["savings, share of the oracle's"] == 0
    assert figures(early)["recall, share of openings found"] == 1


def test_idle_advice_is_wrong_when_the_gpu_works_within_the_hour():
    first = of_rule(told(history([0.0] * HOURS)), "idle")[0]
    hours = round((first.at - START) / HOUR)
    woken = history([0.0] * hours + [0.9] * (HOURS - hours))

    assert [one.verdict for one in of_rule(told(woken), "idle")] == [Verdict.WRONG]


def test_a_busy_gpu_gets_no_advice_to_release_it():
    assert not of_rule(told(history([0.9] * HOURS)), "idle")


@settings(max_examples=15)
@given(st.lists(st.sampled_from([0.0, 0.9]), min_size=6, max_size=6))
def test_what_comes_later_never_changes_what_was_advised_before(later):
    levels = [0.0] * 8
    plain = told(history(levels + [0.0] * 6), every=2)
    other = told(history(levels + later), every=2)
    until = START + len(levels) * HOUR

    def before(replayed):
        return [(one.at, one.workload, one.rule, one.confidence)
                for one in replayed.advice if one.at <= until]  # fmt: skip

    assert before(plain) == before(other)


def test_a_pod_is_taken_back_to_what_it_was():
    ended = msgspec.structs.replace(
        pod("a", start=START), finished=START + 9 * HOUR, phase="Failed", reason="OOMKilled",
        oom_killed=True,
    )  # fmt: skip
    late = pod("late", start=START + 20 * HOUR)
    known = known_at(inventory(pods=(ended, late)), START + 5 * HOUR)

    assert [one.name for one in known.pods] == ["a"]
    assert (known.pods[0].phase, known.pods[0].finished) == ("Running", None)
    assert not known.pods[0].oom_killed
    assert known.at == START + 5 * HOUR


def test_an_hour_that_was_not_observed_is_neither_work_nor_idleness():
    assert worked(row(START, kernel=0.0, observed=600)) is None
    assert worked(row(START, kernel=0.5, observed=600)) is True
    assert worked(row(START, kernel=0.0)) is False


def finding(kind, *, slowdown=None, usable=None, **params):
    evidence = () if usable is None else (
        Evidence(name="memory needed", value=1.0, threshold=usable, comparison="<="),
    )  # fmt: skip
    return Finding(
        id="c/w/r", cluster="c", workload_id="w", rule="r", severity=Severity.LOW,
        message=Message(key="k"), confidence=Confidence.HIGH, evidence=evidence,
        change=Change(kind=kind, target="t", params=params), saving=Saving(), slowdown=slowdown,
        window=Window(start=0, end=1),
    )  # fmt: skip


def later(found, rows):
    return Later(found, float(START), frozenset(map(place_of, (one.key for one in rows))), rows)


def test_fewer_gpus_is_wrong_if_more_of_them_work_later():
    two, one = ((0.9, 0.9), (0.9, 0.0))

    for levels, verdict in ((two, Verdict.WRONG), (one, Verdict.RIGHT)):
        rows = history([levels] * 2, gpus=2).rows
        assert judge(later(finding("set_gpus", gpus=1), rows)) is verdict


def test_fewer_gpus_as_a_trial_claims_nothing_that_could_be_wrong():
    found = finding("set_gpus", gpus=1, slowdown=Interval(low=1.0, high=2.0))

    assert judge(later(found, history([(0.9, 0.9)], gpus=2).rows)) is Verdict.UNJUDGED


def test_fewer_replicas_is_wrong_if_more_work_in_one_hour():
    both = (*history([0.9], name="a").rows, *history([0.9], name="b").rows)

    assert judge(later(finding("set_replicas", replicas=1), both)) is Verdict.WRONG
    assert judge(later(finding("set_replicas", replicas=2), both)) is Verdict.RIGHT


def test_a_smaller_card_is_wrong_if_memory_later_would_not_fit():
    rows = (row(START, memory_gib=30.0, kernel=0.5),)

    assert judge(later(finding("set_gpu_type", usable=24.0 * GIB), rows)) is Verdict.WRONG
    assert judge(later(finding("set_gpu_type", usable=40.0 * GIB), rows)) is Verdict.RIGHT


def test_what_no_history_can_tell_is_not_judged():
    assert judge(later(finding("edit_code"), ())) is Verdict.UNJUDGED


def test_the_oracle_takes_an_opening_whole_and_a_late_advice_the_rest():
    opening = Opening("idle", "w", start=0.0, end=10 * HOUR, gpu_hours=20.0)

    assert opening.left_at(0.0) == 20.0
    assert opening.left_at(5 * HOUR) == 10.0
    assert opening.left_at(12 * HOUR) == 0.0


def test_figures_of_a_replay_are_shares_with_intervals():
    outcome = outcome_of(told(history([0.0] * HOURS)))
    figures = {one.name: one for one in outcome.figures}

    assert figures["precision"].value == 1.0
    assert 0 < figures["precision"].low < 1
    assert figures["recall, share of openings found"].value == 1.0
    saved = figures["savings, share of the oracle's"].value
    assert 0 < saved < 1
    rate = figures["unsafe advice per 1,000 runs"]
    assert rate.value == 0.0
    assert "no claim" in rate.note


def test_a_history_in_which_nothing_happens_has_no_figures_and_no_division_by_zero():
    outcome = outcome_of(told(history([0.9] * HOURS)))

    assert {one.name: one.value for one in outcome.figures}[
        "savings, share of the oracle's"
    ] is None


@pytest.mark.parametrize("output", ["table", "markdown", "json"])
def test_the_command_replays_an_archive(tmp_path, capsys, output):
    archive = str(pages(tmp_path, hours=36))
    code = run("gputailor", ["backtest", "--archive", archive, "--output", output, "--every", "6h"])
    out = capsys.readouterr().out

    assert code == 0
    if output == "json":
        found = json.loads(out)[0]
        assert found["study"] == "backtest"
        assert {one["name"] for one in found["figures"]} >= {"precision", "unsafe advice"}
    else:
        assert "Advice by rule and confidence" in out


def stored(where):
    """An agent's store with one pod that never worked."""
    held = history([0.0] * HOURS)
    with Store.open(where) as store, store.transaction() as tx:
        tx.put_usage(held.rows)
        tx.put_devices(held.devices)
        tx.put_inventory(held.inventory)
    return where


def test_the_command_replays_the_whole_of_an_agents_store(tmp_path, capsys):
    where = stored(tmp_path / "agent.db")
    code = run(
        "gputailor",
        ["backtest", "--store", str(where), "--cluster", CLUSTER, "--every", "3h", "-o", "json"],
    )
    figures = {one["name"]: one for one in json.loads(capsys.readouterr().out)[0]["figures"]}

    assert code == 0
    assert figures["precision"]["value"] == 1.0
    assert figures["precision"]["cases"] == 2


def test_a_store_gives_table_json_and_plots(tmp_path, capsys):
    where, folder = stored(tmp_path / "own.db"), tmp_path / "out" / "plots"
    base = ["backtest", "--store", str(where), "--cluster", CLUSTER, "--every", "3h"]

    assert run("gputailor", [*base, "--plots", str(folder)]) == 0
    assert "Calibration: stated confidence" in capsys.readouterr().out
    assert {file.name for file in folder.iterdir()} == {
        "backtest-confidence.svg", "backtest-delay.svg",
    }  # fmt: skip
    assert run("gputailor", [*base, "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)[0]
    assert [plot["name"] for plot in told["plots"]] == ["backtest-confidence", "backtest-delay"]


def test_plots_that_cannot_be_written_are_told(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    arguments = ["--archive", str(pages(tmp_path)), "--plots", str(tmp_path / "file" / "plots")]

    assert run("gputailor", ["backtest", *arguments]) == 1
    assert "--plots:" in capsys.readouterr().err


def advised(confidence, *verdicts):
    return tuple(
        Advice(at=START, workload=f"w{place}", rule="idle", confidence=confidence, verdict=verdict,
               counts=confidence != "low")
        for place, verdict in enumerate(verdicts)
    )  # fmt: skip


@pytest.mark.parametrize(
    ("confidence", "right", "wrong", "kept"),
    [
        ("high", 60, 0, None),  # 60 of 60 still allows for 94 of 100
        ("high", 80, 0, "yes"),
        ("high", 40, 40, "no"),
        ("low", 40, 0, "yes"),
        ("medium", 1, 0, None),
    ],
)
def test_a_confidence_keeps_what_it_claims_only_as_far_as_the_interval_can_tell(
    confidence, right, wrong, kept
):
    advice = advised(confidence, *[Verdict.RIGHT] * right, *[Verdict.WRONG] * wrong)
    outcome = outcome_of(Replay(advice, (), runs=9, moments=3, start=0.0, end=1.0))
    (row,) = next(table for table in outcome.tables if table.title.startswith("Calibration")).rows

    assert row[0] == confidence
    assert row[3] == CLAIMED[confidence]
    assert row[-1] == kept


@pytest.mark.parametrize(
    ("arguments", "code", "told_of"),
    [
        ([], 2, "nothing to replay: give --store URL"),
        (["--archive", "PAGES", "--every", "5m"], 2, "--every: expected a length such as 6h"),
        (["--archive", "PAGES", "--output", "xml"], 2, "--output: expected table, json, markdown"),
        (["--archive", "SHORT"], 1, "at least 2 are needed"),
        (["--store", "none.db"], 1, "none.db does not exist"),
    ],
)
def test_mistakes_are_told_in_one_line(tmp_path, capsys, monkeypatch, *, arguments, code, told_of):
    monkeypatch.delenv("GPUTAILOR_STORE", raising=False)
    places = {"PAGES": str(pages(tmp_path)), "SHORT": ""}
    if "SHORT" in arguments:
        short = tmp_path / "short"
        short.mkdir()
        places["SHORT"] = str(pages(short, hours=1))
    given_arguments = [places.get(one, one) for one in arguments]

    assert run("gputailor", ["backtest", *given_arguments]) == code
    assert told_of in capsys.readouterr().err
