"""check as people call it: a manifest is judged before it is applied."""

import io
import json
import sys

import pytest

from gputailor_agent.cli import app
from tests.agent.cli import clusters
from tests.agent.cli.test_commands import filled_store

WEB = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: team}
spec:
  replicas: REPLICAS
  template:
    metadata: {annotations: {ANNOTATIONS}}
    spec:
      containers:
      - name: main
        image: x
        resources: {limits: {nvidia.com/gpu: GPUS}}
"""
SERVED = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: chat, namespace: team}
spec:
  template:
    spec:
      SELECTOR
      containers:
      - name: main
        image: vllm/vllm-openai:v0.8.5
        args: [--model, MODEL, --max-model-len, "8192"]
        resources: {limits: {RESOURCE: 1}}
"""
ON_L4 = "nodeSelector: {nvidia.com/gpu.product: NVIDIA-L4}"
SMALL, LARGE = "Qwen/Qwen2.5-0.5B-Instruct", "meta-llama/Llama-3.1-70B-Instruct"


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch, tmp_path):
    for name in ("GPUTAILOR_STORE", "GPUTAILOR_CLUSTER", "GPUTAILOR_PROMETHEUS_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.chdir(tmp_path)


def run(capsys, *arguments):
    code = app.run("gputailor", ["check", *map(str, arguments)])
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    return code, out, err


def judged(capsys, *arguments):
    """The exit code and the answer as values."""
    code, out, err = run(capsys, *arguments, "--output", "json")
    return code, json.loads(out), err


def web(tmp_path, replicas=1, gpus=1, annotations=""):
    text = WEB.replace("REPLICAS", str(replicas)).replace("GPUS", str(gpus))
    path = tmp_path / "web.yaml"
    path.write_text(text.replace("ANNOTATIONS", annotations), "utf-8")
    return path


def served(tmp_path, model, resource="nvidia.com/gpu", selector=""):
    text = SERVED.replace("MODEL", model).replace("RESOURCE", resource)
    path = tmp_path / "chat.yaml"
    path.write_text(text.replace("SELECTOR", selector), "utf-8")
    return path


def history(tmp_path):
    """Options: two days in which the Deployment web was idle and the Job train-20251129 worked."""
    written = json.loads(clusters.inventory(tmp_path).read_text("utf-8"))
    node, idler, worker = written["items"]

    def owned(thing, kind, name, uid):
        reference = {"kind": kind, "name": name, "uid": uid, "controller": True}
        thing["metadata"]["ownerReferences"] = [reference]
        return thing

    def made(kind, name, uid):
        return {"kind": kind, "metadata": {"name": name, "namespace": "team", "uid": uid}}

    items = [
        node,
        owned(idler, "ReplicaSet", "web-7d9f8b6c5d", "r1"),
        owned(made("ReplicaSet", "web-7d9f8b6c5d", "r1"), "Deployment", "web", "d1"),
        made("Deployment", "web", "d1"),
        owned(worker, "Job", "train-20251129", "j1"),
        made("Job", "train-20251129", "j1"),
    ]
    path = tmp_path / "lived.json"
    path.write_text(json.dumps({"kind": "List", "items": items}), "utf-8")
    return "--archive", clusters.pages(tmp_path), "--inventory", path


def test_what_history_shows_to_be_too_much_is_told_with_evidence_saving_and_patch(capsys, tmp_path):
    code, out, err = run(capsys, web(tmp_path), *history(tmp_path))
    assert code == 3
    assert "1 GPU held for 2 d and never used" in out
    assert "USD 840/month" in out
    assert "idle time, to act" in out
    assert "replicas: 0" in out
    assert "1 recommended change" in err


def test_a_manifest_that_has_the_change_already_is_told_so(capsys, tmp_path):
    code, told, err = judged(capsys, web(tmp_path, replicas=0), *history(tmp_path))
    (workload,) = told["workloads"]
    assert (code, err) == (0, "")
    assert workload["past"]["state"] == "done"
    assert workload["devices"] == 0


def test_a_request_of_another_size_is_held_against_what_was_asked_for_then(capsys, tmp_path):
    code, told, _ = judged(capsys, web(tmp_path, replicas=3, gpus=4), *history(tmp_path))
    (workload,) = told["workloads"]
    assert code == 3
    assert (workload["per_pod"], workload["pods"], workload["devices"]) == (4, 3, 12)
    assert workload["past"]["state"] == "open"
    assert [one["count"] for one in workload["past"]["asked"]] == [1]


def test_an_agents_store_is_a_history(capsys, tmp_path):
    pod = json.loads(clusters.inventory(tmp_path).read_text("utf-8"))["items"][1]
    path = tmp_path / "idler.json"
    path.write_text(json.dumps(pod), "utf-8")
    code, told, err = judged(capsys, path, *filled_store(tmp_path))
    assert code == 3
    assert told["workloads"][0]["past"]["finding"]["rule"] == "idle"
    assert "1 recommended change" in err


def test_pods_of_a_listing_that_are_done_are_not_asked_for(capsys, tmp_path):
    written = json.loads(clusters.inventory(tmp_path).read_text("utf-8"))
    written["items"][1]["status"]["phase"] = "Succeeded"
    path = tmp_path / "listing.json"
    path.write_text(json.dumps(written), "utf-8")
    _, told, _ = judged(capsys, path)
    assert {one["workload"]: one["pods"] for one in told["workloads"]} == {
        "team/Pod/idler/main": None,
        "team/Pod/worker/main": 1,
    }


def test_an_annotation_in_the_manifest_opts_out_of_the_rule(capsys, tmp_path):
    path = web(tmp_path, annotations="gputailor.io/ignore: idle, gputailor.io/reason: standby")
    code, told, _ = judged(capsys, path, *history(tmp_path))
    (workload,) = told["workloads"]
    assert code == 0
    assert workload["past"]["state"] == "opted_out"
    assert workload["past"]["why"]["params"]["reason"] == "standby"


def test_a_job_of_another_date_is_the_same_workload(capsys, tmp_path):
    path = clusters.manifest(tmp_path, "train-20251205")
    code, told, _ = judged(capsys, path, *history(tmp_path))
    (workload,) = told["workloads"]
    assert code == 0
    assert workload["past"]["workload"] == "team/Job/train/main"
    assert workload["past"]["gpu_hours"] == 48
    assert workload["past"]["finding"] is None


def test_a_workload_without_history_is_unknown_and_not_fine(capsys, tmp_path):
    path = clusters.manifest(tmp_path, "stranger")
    code, told, _ = judged(capsys, path, *history(tmp_path))
    (workload,) = told["workloads"]
    assert code == 0
    assert workload["past"]["state"] == "unknown"
    assert workload["past"]["gpu_hours"] is None


def test_without_history_nothing_is_judged_and_that_is_said(capsys, tmp_path):
    code, out, err = run(capsys, web(tmp_path))
    assert (code, err) == (0, "")
    assert "none was given (--store, --archive or --prometheus-url)" in out
    assert "unknown: arguments and environment name no model whose size is known" in out


def test_a_namespace_places_manifests_that_name_none(capsys, tmp_path):
    path = web(tmp_path)
    path.write_text(path.read_text("utf-8").replace(", namespace: team", ""), "utf-8")
    _, out, _ = run(capsys, path, *history(tmp_path))
    assert "no use of default/Deployment/web/main; --namespace says where" in out
    code, told, _ = judged(capsys, path, *history(tmp_path), "--namespace", "team")
    assert code == 3
    assert told["workloads"][0]["past"]["state"] == "open"


def test_objects_of_one_name_are_both_looked_at(capsys, tmp_path):
    path = web(tmp_path)
    path.write_text("---\n".join([path.read_text("utf-8"), clusters.JOB.replace("NAME", "web")]))
    _, told, _ = judged(capsys, path)
    names = [one["workload"] for one in told["workloads"]]
    assert names == ["team/Deployment/web/main", "team/Job/web/main"]


def test_a_pattern_of_namespaces_places_nothing(capsys, tmp_path):
    path = web(tmp_path)
    path.write_text(path.read_text("utf-8").replace(", namespace: team", ""), "utf-8")
    _, told, _ = judged(capsys, path, "--namespace", "team-*")
    assert [one["workload"] for one in told["workloads"]] == ["default/Deployment/web/main"]


def test_the_log_of_an_earlier_run_is_joined_to_the_manifest(capsys, tmp_path):
    path = clusters.manifest(tmp_path, "train")
    code, told, _ = judged(capsys, path, "--archive", clusters.log(tmp_path))
    (workload,) = told["workloads"]
    assert code == 0
    assert workload["past"]["state"] == "undecided"
    assert "Watching" in workload["past"]["text"]


def test_standard_input_is_called_so(capsys, tmp_path, monkeypatch):
    text = web(tmp_path).read_bytes().replace(b"nvidia.com/gpu", b"nvidia.com/gpus")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    code, out, err = run(capsys, "-")
    place = "spec.template.spec.containers[main].resources.limits.nvidia.com/gpus"
    assert code == 3
    assert f"- standard input: document 1 (line 1): {place}: no accelerator has this name; " in out
    assert "No workload there asks for an accelerator." in out
    assert "1 problem in the manifests" in err


@pytest.mark.parametrize(
    ("asked", "fits", "held"),
    [
        ((SMALL, "nvidia.com/gpu", ON_L4), True, {"L4"}),
        ((LARGE, "nvidia.com/gpu", ON_L4), False, {"L4"}),
        ((LARGE, "nvidia.com/mig-1g.10gb"), False, {"1g.10gb"}),  # of several cards, by size
        ((SMALL, "nvidia.com/gpu"), None, set()),
    ],
)
def test_a_model_is_held_against_the_card_or_slice_asked_for(capsys, tmp_path, asked, fits, held):
    code, told, _ = judged(capsys, served(tmp_path, *asked))
    (workload,) = told["workloads"]
    assert code == (3 if fits is False else 0)
    assert workload["fits"] is fits
    assert {one["name"].split()[-1] for one in workload["memory"]["held"]} == held
    assert workload["memory"]["total"]["expected"] > 0
    assert workload["memory"]["why"] == ("no_card" if fits is None else "")


def test_the_card_is_that_of_history_where_the_manifest_names_none(capsys, tmp_path):
    code, told, err = judged(capsys, served(tmp_path, LARGE), *history(tmp_path))
    assert code == 3
    assert [one["name"] for one in told["workloads"][0]["memory"]["held"]] == ["L4"]
    assert "1 model too large" in err


def test_a_daemon_set_has_an_unknown_number_of_pods(capsys, tmp_path):
    path = web(tmp_path)
    text = path.read_text("utf-8").replace("Deployment", "DaemonSet")
    path.write_text(text.replace("  replicas: 1\n", ""), "utf-8")
    _, told, _ = judged(capsys, path)
    assert (told["workloads"][0]["pods"], told["workloads"][0]["devices"]) == (None, None)


def test_what_cannot_be_read_does_not_pass(capsys, tmp_path):
    path = tmp_path / "broken.yaml"
    path.write_text("a: [", "utf-8")
    code, out, _ = run(capsys, path, "--output", "markdown")
    assert code == 3
    assert "document 1 (line 2): not YAML" in out.replace("\\", "")
    assert "No workload" not in out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nowhere.yaml"], "MANIFEST: nowhere.yaml does not exist"),
        (["-", "-"], "it can be read once"),
        (["web.yaml", "--output", "csv"], "--output: expected table, markdown, json"),
        (["web.yaml", "--language", "xx"], "--language: no language 'xx'"),
    ],
)
def test_wrong_usage_says_what_there_is(capsys, tmp_path, arguments, told):
    web(tmp_path)
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert told in err


def test_it_speaks_chinese(capsys, tmp_path):
    code, out, _ = run(capsys, web(tmp_path), *history(tmp_path), "--language", "zh")
    assert code == 3
    assert "建议改动" in out
