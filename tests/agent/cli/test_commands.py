"""report, analyse and explain as people call them: real files in, words and exit codes out."""

import csv
import io
import json
import os

import pytest

from gputailor_agent.cli import app, inputs
from gputailor_agent.cli.demo import fill
from gputailor_agent.cli.simulation import History
from gputailor_agent.inventory.files import read_inventory
from gputailor_agent.store import Store
from tests.agent.cli.clusters import HOUR, START, inventory, log, manifest, pages


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch, tmp_path):
    for name in ("GPUTAILOR_STORE", "GPUTAILOR_CLUSTER", "GPUTAILOR_PROMETHEUS_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.chdir(tmp_path)


def run(capsys, *arguments) -> tuple[int, str, str]:
    code = app.run("gputailor", [str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    return code, out, err


def filled_store(tmp_path) -> tuple[str, ...]:
    """The options of a store that an agent filled with two days of the cluster's use."""
    cluster = read_inventory([inventory(tmp_path)], "demo", START + 48 * HOUR)
    history = History(pages=pages(tmp_path), manifests=tmp_path, nodes=("n1",))
    with Store.open(tmp_path / "agent.db") as store:
        assert fill(store, history) == 96
        with store.transaction() as transaction:
            transaction.put_inventory(cluster)
    return ("--store", f"sqlite:///{tmp_path / 'agent.db'}", "--cluster", "demo")


def cluster(tmp_path):
    return ("--archive", pages(tmp_path), "--inventory", inventory(tmp_path))


def test_report_puts_money_on_the_idle_pod_and_leaves_the_busy_one(capsys, tmp_path):
    code, out, err = run(capsys, "report", *cluster(tmp_path), "--output", "json")
    document = json.loads(out)
    states = {one["id"]: one["state"] for one in document["workloads"]}
    assert code == 0
    assert err == ""
    assert len(states) == 2
    idler = next(v for v in document["plan"]["verdicts"] if "idler" in v["workload"]["id"])
    assert idler["primary"]["rule"] == "idle"
    assert idler["mean_kernel"] == 0.0
    assert idler["primary"]["saving"]["money_per_month"]["amount"] > 0
    assert next(state for name, state in states.items() if "worker" in name) != "finding"


@pytest.mark.parametrize("output", ["table", "markdown", "csv"])
def test_report_answers_in_every_format(capsys, tmp_path, output):
    code, out, _ = run(capsys, "report", *cluster(tmp_path), "--output", output)
    assert code == 0
    assert "idler" in out
    assert "\x1b" not in out


def test_the_window_is_the_datas_unless_asked_otherwise(capsys, tmp_path):
    _, out, _ = run(capsys, "report", *cluster(tmp_path))
    assert "2025-11-29 00:00 UTC to 2025-12-01 00:00 UTC (2 d)" in out
    _, out, _ = run(capsys, "report", *cluster(tmp_path), "--since", "1d")
    assert "2025-11-30 00:00 UTC to 2025-12-01 00:00 UTC (1 d)" in out


def test_fail_on_exits_3_only_where_a_condition_holds(capsys, tmp_path):
    given = cluster(tmp_path)
    code, out, err = run(capsys, "report", *given, "--fail-on", "saving>1")
    assert code == 3
    assert "idler" in out
    assert "--fail-on saving>1: " in err
    given += ("--fail-on", "saving>1e9")
    assert run(capsys, "report", *given)[0] == 0
    assert run(capsys, "report", *given, "--fail-on", "findings >= 1")[0] == 3


def test_own_prices_are_used(capsys, tmp_path):
    prices = tmp_path / "prices.csv"
    prices.write_text("accelerator,price_per_gpu_hour,currency\nNVIDIA L4,10,EUR\n")
    _, out, _ = run(capsys, "report", *cluster(tmp_path), "--prices", prices)
    assert "EUR 7,300/month" in out


def test_wrong_prices_are_told_with_file_and_line(capsys, tmp_path):
    prices = tmp_path / "prices.csv"
    prices.write_text("accelerator,price_per_gpu_hour\nNVIDIA L4,cheap\n")
    code, _, err = run(capsys, "report", *cluster(tmp_path), "--prices", prices)
    assert code == 1
    assert err.startswith(f"error: {prices}:2: price_per_gpu_hour must be a number")


def test_a_log_joins_the_only_gpu_workload_and_says_so(capsys, tmp_path):
    given = ("report", "-a", log(tmp_path), "-i", manifest(tmp_path, "train"))
    code, out, err = run(capsys, *given, "-o", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert (code, err) == (0, "")
    for output in ("table", "json"):
        told = " ".join(run(capsys, *given, "-o", output)[1].split())
        assert "joined to team/Job/train/main, the only GPU workload in the inventory" in told
    assert [row["workload"] for row in rows] == ["team/Job/train/main"]
    assert float(rows[0]["mean_kernel_ratio"]) == pytest.approx(0.6)


def test_a_log_and_two_jobs_need_a_word(capsys, tmp_path):
    jobs = manifest(tmp_path, "train", "score")
    code, _, err = run(capsys, "report", "-a", log(tmp_path), "-i", jobs)
    assert code == 2
    assert "team/score/main" in err
    _, out, err = run(
        capsys, "report", "-a", log(tmp_path), "-i", jobs, "--for", "team/score", "-o", "json"
    )
    used = {v["workload"]["id"]: v["mean_kernel"] for v in json.loads(out)["plan"]["verdicts"]}
    assert used["team/Job/score/main"] == pytest.approx(0.6)
    assert used.get("team/Job/train/main") is None
    assert err == ""


def test_two_logs_can_belong_to_two_jobs(capsys, tmp_path):
    jobs = manifest(tmp_path, "train", "score")
    logs = ("-a", log(tmp_path, "a.csv"), "-a", log(tmp_path, "b.csv"))
    wanted = ("--for", "a.csv=team/train", "--for", "b.csv=team/score")
    _, out, _ = run(capsys, "report", *logs, "-i", jobs, *wanted, "-o", "json")
    used = {v["workload"]["id"]: v["gpu_hours"] for v in json.loads(out)["plan"]["verdicts"]}
    assert used["team/Job/train/main"] == pytest.approx(120 / 3600, rel=0.02)
    assert used["team/Job/score/main"] == pytest.approx(120 / 3600, rel=0.02)


def test_a_log_without_manifests_is_sent_to_analyse(capsys, tmp_path):
    path = log(tmp_path)
    code, _, err = run(capsys, "report", "--archive", path)
    assert code == 2
    assert f"gputailor analyse {path}" in err


def test_an_archive_of_nothing_says_what_was_expected(capsys, tmp_path):
    path = tmp_path / "empty.prom"
    path.write_text("")
    code, _, err = run(capsys, "report", "--archive", path)
    assert code == 1
    assert "no usage could be read" in err


def test_an_empty_store_is_told(capsys, tmp_path):
    Store.open(tmp_path / "new.db").close()
    code, _, err = run(capsys, "report", "--store", f"sqlite:///{tmp_path / 'new.db'}")
    assert code == 1
    assert "holds no usage of cluster 'default'" in err
    assert "is --cluster right" in err


@pytest.mark.parametrize("where", ["sqlite:///{}", "{}"])
def test_reading_a_store_that_is_not_there_makes_none(capsys, tmp_path, where):
    path = tmp_path / "folder" / "none.db"
    code, out, err = run(capsys, "report", "--store", where.format(path))
    assert (code, out) == (1, "")
    assert f"error: {path} does not exist; gputailor serve" in err
    assert not path.parent.exists()


def test_an_archive_of_which_nothing_can_be_read_fails_even_with_manifests(capsys, tmp_path):
    path = tmp_path / "run.csv"
    path.write_text('{"gpu": 1}')
    code, out, err = run(capsys, "report", "-a", path, "-i", manifest(tmp_path, "train"))
    assert (code, out) == (1, "")
    assert "this is JSON" in err


def test_manifests_without_a_pod_are_named(capsys, tmp_path):
    node = tmp_path / "node.yaml"
    node.write_text("apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n")
    code, out, err = run(capsys, "report", "-a", log(tmp_path), "-i", node)
    assert (code, out) == (2, "")
    assert "no pod and no pod template" in err
    assert "node.yaml" in err


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        ("nvidia.com/gpu: 1", None),
        ("nvidia.com/gpu: 8", "asks for 8 x nvidia.com/gpu, while the log holds 1 GPU"),
        ("amd.com/gpu: 1", "asks for 1 x amd.com/gpu, while nvidia-smi wrote the log"),
        ("nvidia.com/mig-1g.5gb: 1", "a part of a device, while the log is of whole devices"),
    ],
)
def test_what_speaks_against_a_join_is_said(capsys, tmp_path, ask, told):
    path = manifest(tmp_path, "train")
    path.write_text(path.read_text().replace("nvidia.com/gpu: 1", ask))
    _, out, _ = run(capsys, "report", "-a", log(tmp_path), "-i", path, "-o", "json")
    problems = " ".join(json.loads(out)["plan"]["problems"])
    assert "asks for" not in problems if told is None else told in problems


@pytest.mark.parametrize(
    "window",
    [("--since", "99999999999999d"), ("--until", "0001-01-01"), ("--since", "9999-01-01")],
)
def test_a_window_outside_of_all_time_is_wrong_usage(capsys, tmp_path, window):
    code, out, err = run(capsys, "report", *cluster(tmp_path), *window)
    assert (code, out) == (2, "")
    assert err.startswith("error: --")


@pytest.mark.parametrize("output", ["table", "json", "csv", "markdown"])
def test_bytes_that_are_no_text_are_replaced_in_every_format(capsys, tmp_path, output):
    path = tmp_path / os.fsdecode(b"r\xfcn.csv")
    path.write_bytes(log(tmp_path).read_bytes().replace(b"NVIDIA L4", b"NVIDI\xff L4"))
    code, out, _ = run(capsys, "analyse", path, "-o", output)
    assert code == 0
    assert "r\ufffdn.csv" in out.replace("\\", "")
    assert out.encode("utf-8")


def test_analyse_sends_exporters_pages_to_report(capsys, tmp_path):
    path = pages(tmp_path)
    code, _, err = run(capsys, "analyse", path)
    assert code == 1
    assert f"gputailor report --archive {path}" in err


def test_the_instance_tells_the_card_of_a_log_that_names_none(capsys, tmp_path):
    path = tmp_path / "run.csv"
    rows = "".join(f"2025-12-01 10:00:{s:02d},50,3000\n" for s in range(60))
    path.write_text("timestamp,gpu_util,vram_used_mb\n" + rows)
    asked = ("analyse", path, "-o", "json", "--instance-type")
    gpu = json.loads(run(capsys, *asked, "g4dn.xlarge")[1])["logs"][0]["gpus"][0]
    assert gpu["device"] == "T4"
    assert gpu["run_cost"]["amount"] == pytest.approx(0.526 / 60, rel=0.01)
    code, out, err = run(capsys, *asked, "nonsense.large")
    assert (code, out) == (2, "")
    assert "no price of 'nonsense.large'" in err


@pytest.mark.parametrize("form", ["{}", "thresholds: {{{}}}"])
def test_own_thresholds_decide_and_are_shown_as_set(capsys, tmp_path, form):
    path = tmp_path / "thresholds.yaml"
    path.write_text(form.format("idle: {start_warn_minutes: 4000, start_act_minutes: 5000}"))
    _, out, _ = run(capsys, "explain", "idler", *cluster(tmp_path), "--thresholds", path)
    assert "4,000 minutes (set; default 60 minutes)" in out
    _, out, _ = run(capsys, "report", *cluster(tmp_path), "--thresholds", path, "-o", "json")
    idler = next(w for w in json.loads(out)["workloads"] if "idler" in w["id"])
    assert idler["state"] != "finding"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("idle: 3", "idle: expected YAML such as"),
        ("idle: {coverage: 98}", "expected a share from 0 to 1, found 98; did you mean 0.98?"),
        ("idle: {warn_minutes: -5}", "expected 0 or more, found -5"),
        ("[1, 2]", "expected YAML such as"),
        ("idle: [", "is not YAML"),
        ("nonsense: {a: 1}", "no such rule; there are: idle"),
        ("idle: {nonsense: 1}", "no such threshold; there are: coverage"),
        ("idle: {coverage: x}", "idle.coverage: expected a number, found 'x'"),
        ("idle: {coverage: true}", "expected a number, found True"),
        ("idle: {coverage: .nan}", "expected a number, found nan"),
    ],
)
def test_wrong_thresholds_are_told_with_their_place(capsys, tmp_path, text, told):
    path = tmp_path / "thresholds.yaml"
    path.write_text(text)
    code, out, err = run(capsys, "report", *cluster(tmp_path), "--thresholds", path)
    assert (code, out) == (2, "")
    assert err.startswith(f"error: --thresholds: {path}")
    assert told in err


def test_report_and_explain_read_what_an_agent_stored(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(inputs.time, "time", lambda: START + 49 * HOUR)
    given = filled_store(tmp_path)
    code, out, _ = run(capsys, "report", *given)
    assert code == 0
    assert "2025-11-29 00:00 UTC to 2025-12-01 00:00 UTC (2 d)" in out
    assert "2 workloads: 1 to change" in out
    assert "recommended" in run(capsys, "explain", "idler", *given)[1]


def test_a_store_that_is_none_is_told(capsys, tmp_path):
    path = tmp_path / "text.db"
    path.write_text("this is no database, whatever its name may say" * 20)
    code, _, err = run(capsys, "report", "--store", f"sqlite:///{path}")
    assert code == 1
    assert err.startswith("error: the store")


def test_analyse_judges_several_logs(capsys, tmp_path):
    code, out, _ = run(capsys, "analyse", log(tmp_path, "a.csv"), log(tmp_path, "b.csv"))
    assert code == 0
    assert "a.csv" in out
    assert "b.csv" in out
    assert "GPU 0: needs 10.1 GiB" in out


def test_analyse_goes_on_with_what_it_can_read(capsys, tmp_path):
    broken = tmp_path / "broken.csv"
    broken.write_bytes(b"\x00\x01\x02" * 500)
    code, out, err = run(capsys, "analyse", log(tmp_path), broken)
    assert code == 0
    assert "run.csv" in out
    assert "warning:" in err
    assert "broken.csv" in err


def test_analyse_of_nothing_readable_fails_with_the_reason(capsys, tmp_path):
    broken = tmp_path / "broken.csv"
    broken.write_bytes(b"\x00\x01\x02" * 500)
    code, out, err = run(capsys, "analyse", broken)
    assert (code, out) == (1, "")
    assert "broken.csv" in err


def test_analyse_of_an_unknown_gpu_lists_the_names(capsys, tmp_path):
    code, _, err = run(capsys, "analyse", log(tmp_path), "--gpu", "H1000")
    assert code == 2
    assert "H100 PCIe 80GB" in err
    assert "T4" not in err


def test_explain_shows_every_rule_with_thresholds(capsys, tmp_path):
    code, out, _ = run(capsys, "explain", "idler", *cluster(tmp_path))
    assert code == 0
    for shown in ("recommended", "Thresholds", "formula", "coverage", "samples"):
        assert shown in out


def test_explain_suggests_when_the_name_is_mistyped(capsys, tmp_path):
    code, _, err = run(capsys, "explain", "wroker", *cluster(tmp_path))
    assert code == 1
    assert "did you mean" in err
    assert "worker" in err
