"""Every study on small twins of the data: figures that are right, and clear words where not."""

import json

import msgspec
import pytest

from gputailor_agent.evaluation import EvaluationError, Outcome, evaluate, find, studies
from gputailor_agent.evaluation.__main__ import calibration, main
from gputailor_agent.evaluation.flags import choose, flag, flag_policy
from gputailor_agent.evaluation.levels import read_trace
from gputailor_agent.evaluation.pages import as_json, as_markdown, written
from gputailor_agent.evaluation.scaling import fewer_cases, read_setups
from gputailor_agent.rules.calibrated import Calibrated
from tests.agent.evaluation import twins


def figure(outcome: Outcome, name: str):
    return next(one for one in outcome.figures if name in one.name)


def one(folder, name: str) -> Outcome:
    return evaluate(folder, (find(name),))[0]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return twins.everything(tmp_path_factory.mktemp("data"))


def test_every_study_has_a_name_of_its_own_and_says_how_it_was_done():
    names = [study.id for study in studies()]

    assert len(names) == len(set(names))
    assert {"idle", "sharing", "fewer_gpus", "smaller_gpu", "savings"} <= set(names)


def test_all_studies_run_on_the_twins_and_make_one_page(folder):
    outcomes = evaluate(folder)
    page = as_markdown(outcomes)

    assert all(outcome.method for outcome in outcomes)
    assert [f"## {outcome.title}" for outcome in outcomes] == [
        line for line in page.splitlines() if line.startswith("## ") and line != "## Goals"
    ]
    decoded = json.loads(as_json(outcomes))
    assert [part["study"] for part in decoded] == [outcome.study for outcome in outcomes]


def test_files_that_are_not_there_are_said_to_be_missing_and_cost_only_their_study(tmp_path):
    twins.scaling(tmp_path)
    outcomes = {outcome.study: outcome for outcome in evaluate(tmp_path)}

    assert outcomes["fewer_gpus"].figures
    assert not outcomes["idle"].figures
    assert "is not in this folder" in outcomes["idle"].not_evaluable[0]


def test_a_flag_is_right_if_the_gpu_stays_idle_for_another_hour(tmp_path):
    lines = [twins.HEADER, *twins.trace("3" + "0" * 13 + "3" + "0" * 10 + "3")]
    spells = read_trace((twins.write(tmp_path, "t.csv", "\n".join(lines) + "\n"),)).spells
    flagged = flag(spells, 120)

    # Both spells are two hours old at some time; only the first goes on for an hour more.
    assert (flagged.judged, flagged.precision) == (2, 0.5)
    assert flagged.hours_left.tolist() == [1.0, 0.25]


def test_a_spell_that_was_cut_is_neither_right_nor_wrong(tmp_path):
    lines = [twins.HEADER, *twins.trace("3" + "0" * 12, users="a" * 11 + "bb")]
    spells = read_trace((twins.write(tmp_path, "t.csv", "\n".join(lines) + "\n"),)).spells
    flagged = flag(spells, 120)

    assert (len(flagged.stayed), flagged.judged, flagged.precision) == (1, 0, None)
    assert (flagged.least, flagged.most) == (0.0, 1.0)


def test_the_chosen_default_is_as_right_as_its_goal_on_the_part_it_was_chosen_on(folder):
    spells = read_trace((folder / twins.TRACE,)).spells
    thresholds = choose(spells, 0.97)
    flagged = flag_policy(spells, thresholds)

    assert thresholds["from_start"] is not None
    assert flagged.precision is not None
    assert flagged.precision >= 0.97


def test_a_goal_that_nothing_reaches_means_never(folder):
    spells = read_trace((folder / twins.TRACE,)).spells
    pauses = spells.where(spells.began == 0)

    assert choose(pauses, 0.97) == {"from_start": None, "went_idle": None}
    assert len(flag_policy(pauses, choose(pauses, 0.97)).stayed) == 0


def test_a_policy_never_frees_more_than_the_oracle(folder):
    outcome = one(folder, "savings")
    shares = [row[2] for row in outcome.tables[0].rows]

    assert shares
    assert all(0 <= share <= 1 for share in shares)


def test_where_the_oracles_hours_go_adds_up_to_the_oracle(folder):
    outcome = one(folder, "savings")
    lost = next(table for table in outcome.tables if table.title.startswith("Where"))

    assert sum(row[2] for row in lost.rows) == pytest.approx(1.0)
    for row in lost.rows:
        assert row[1] == pytest.approx(sum(row[3:]))
        assert row[1] >= 0
    freed = figure(outcome, "idle GPU-hours freed")
    assert {row[0]: row[2] for row in lost.rows}["freed"] == pytest.approx(freed.value)


def test_hindsight_on_thresholds_never_reaches_less_than_the_same_rule_without(folder):
    outcome = one(folder, "savings")
    most = figure(outcome, "with hindsight on thresholds, as right").value

    assert most is None or 0 <= most <= 1


def test_unsafe_flags_are_counted_and_a_rate_is_claimed_only_of_many_runs(folder):
    rate = figure(one(folder, "savings"), "per 1,000 runs")

    assert rate.cases is not None
    assert (rate.value is not None) == (rate.cases >= 3000)
    assert (rate.met is None) == (rate.value is None)


def test_pairs_of_jobs_that_were_not_measured_alone_are_left_out_and_counted(tmp_path):
    twins.profiles(tmp_path)
    path = tmp_path / "profiles" / "colocation_pairs.csv"
    text = path.read_text(encoding="utf-8")
    path.write_text(text + "9,Strange,D,1,1,0,1.0,Net0,D,1,32,0,1.0,1,1,1\n", encoding="utf-8")

    assert "1 pairs name a configuration" in one(tmp_path, "sharing").notes[0]


def test_a_speed_of_zero_is_told_with_its_line(tmp_path):
    twins.profiles(tmp_path)
    path = tmp_path / "profiles" / "colocation_pairs.csv"
    lines = path.read_text(encoding="utf-8").splitlines()
    cells = lines[1].split(",")
    cells[6] = "0"
    path.write_text("\n".join([lines[0], ",".join(cells)]) + "\n", encoding="utf-8")

    with pytest.raises(EvaluationError, match=r"colocation_pairs\.csv: line 2: .*above 0"):
        one(tmp_path, "sharing")


def test_the_measured_slowdown_is_that_of_the_same_work(tmp_path):
    twins.scaling(tmp_path)
    cases = fewer_cases(read_setups(tmp_path))
    halved = next(
        case for case in cases
        if (case.job, case.now, case.then, len(case.others)) == ("netA", 8, 1, 4)
    )  # fmt: skip

    # 8 GPUs at 0.12 s a step against one at 0.1 s.
    assert halved.slowdown == pytest.approx(8 * 0.1 / 0.12)
    assert halved.busy == pytest.approx(0.1 / 0.12)


def test_a_placement_counts_gpus_by_its_digits(tmp_path):
    twins.scaling(tmp_path)
    setups = read_setups(tmp_path)

    assert {(s.nodes, s.gpus) for s in setups if s.seconds == 0.14} == {(2, 3)}


def test_a_run_that_got_slower_than_stated_lies_outside_and_is_counted(folder):
    outcome = one(folder, "fewer_gpus")
    inside = figure(outcome, "without activity, margins of other jobs: measured")

    # netB on 3 GPUs (placement) synchronises faster than on 2: fewer hurt more than 3 / 2.
    assert (inside.value, inside.cases) == (31 / 32, 32)
    assert inside.note == "slower than stated: 1 of 32"


def test_cards_that_the_catalogue_does_not_know_are_left_out_and_named(folder):
    outcome = one(folder, "smaller_gpu")

    assert any("zx80" in note for note in outcome.notes)
    assert figure(outcome, "no margin: measured").cases == 8


def test_throughputs_of_another_shape_are_told(tmp_path):
    twins.write(tmp_path, "profiles/throughput_by_gpu.json.gz", '{"v100": {"ResNet": {}}, "x": 1}')

    with pytest.raises(EvaluationError, match="x: expected an object"):
        one(tmp_path, "smaller_gpu")


def test_mixed_precision_tells_what_it_brought(folder):
    outcome = one(folder, "mixed_precision")

    assert figure(outcome, "median speed-up").value == pytest.approx(1.495)
    assert figure(outcome, "memory freed").value == pytest.approx(0.25)


def test_requests_tell_whom_the_gates_leave_out(folder):
    outcome = one(folder, "requests")
    pods = outcome.tables[0].rows[0]

    assert figure(outcome, "jobs long enough to be judged after one run").value == 0.5
    assert pods[1:] == (3, pytest.approx(1 / 3), pytest.approx(1 / 3), pytest.approx(1 / 3))


def test_the_command_prints_a_page_or_json_and_tells_mistakes_in_one_line(
    folder, capsys, monkeypatch, tmp_path
):
    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["evaluation", *map(str, arguments)])
        code = main()
        return code, *capsys.readouterr()

    assert run("--data", folder, "--study", "requests")[1].startswith("<!-- Generated")
    code, out, _ = run("--data", folder, "--study", "requests", "--output", "json")
    assert (code, json.loads(out)[0]["study"]) == (0, "requests")
    code, _, told = run("--data", tmp_path / "none")
    assert code == 1
    assert "no such folder" in told
    code, _, told = run("--data", folder, "--study", "nothing")
    assert code == 1
    assert "no study is called 'nothing'" in told
    assert run("--data", folder, "--output", "xml")[0] == 1
    assert run("--nonsense")[0] == 2


def test_what_the_product_takes_from_data_fits_its_file(folder):
    text = calibration(folder)

    assert msgspec.yaml.decode(text, type=Calibrated).idle.goal == 0.97


def test_half_a_calibration_is_refused(tmp_path):
    twins.profiles(tmp_path)

    with pytest.raises(EvaluationError, match="idle needs"):
        calibration(tmp_path)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, "ratio", "unknown"),
        (0.0, "ratio", "0.0 %"),
        (0.9762, "ratio", "97.6 %"),
        (1.254, "factor", "1.25x"),
        (12_345.0, "count", "12,345"),
        (0.36, "count", "0.36"),
        (2.0, "hours", "2.0 h"),
    ],
)
def test_what_is_not_known_and_zero_look_different(value, unit, text):
    assert written(value, unit) == text


def tiny_trace(folder):
    lines = [twins.HEADER, *twins.trace("30000003")]
    twins.write(folder, twins.TRACE, "\n".join(lines) + "\n")


def one_pair(folder):
    alone = "model,dataset,batchsize,amp,speed,gpu_util,gmem_util,gmem\nA,D,1,0,5,10,5,100\n"
    twins.write(folder, "profiles/single_job_utilisation.csv", alone)
    head = ",".join(
        f"{name}{side}"
        for side in "12"
        for name in ("model", "dataset", "batchsize", "amp", "speed")
    )
    twins.write(folder, "profiles/colocation_pairs.csv", f"{head}\nA,D,1,0,1.0,A,D,1,0,0.8\n")


def one_application(folder):
    text = "local_bsz,step_time,sync_time,num_nodes,num_replicas\n8,0.1,0,1,1\n8,0.1,0,1,2\n"
    twins.write(folder, "profiles/scaling/sia_only_scalability_lab.csv", text)


def one_family(folder):
    job = "('Alpha (batch size 1)', 1)"
    table = {card: {job: {"null": speed}} for card, speed in (("v100", 2.0), ("k80", 1.0))}
    twins.write(folder, "profiles/throughput_by_gpu.json.gz", json.dumps(table))


def no_known_card(folder):
    table = {"zx1": {"('Alpha', 1)": {"null": 2.0}}}
    twins.write(folder, "profiles/throughput_by_gpu.json.gz", json.dumps(table))


@pytest.mark.parametrize("make", [tiny_trace, one_pair, one_application, one_family, no_known_card])
def test_data_too_small_to_tell_make_a_page_with_unknowns_and_no_error(tmp_path, make):
    make(tmp_path)
    outcomes = evaluate(tmp_path)

    assert any(outcome.figures for outcome in outcomes)
    assert "unknown" in as_markdown(outcomes)
    assert json.loads(as_json(outcomes))
