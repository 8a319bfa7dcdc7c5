"""Logs and manifests as people have them, through the commands (restricted: they stay outside)."""

import json

import pytest

from gputailor_agent.cli.app import run

pytestmark = pytest.mark.restricted

LOGS = (
    "bom_llm_bench_15s.csv",
    "h100_8gpu_idle.csv",
    "multi_gpu_noheader_llamacpp.csv",
    "rtx2070_gpu_usage1.csv",
    "rtx2070_gpu_usage_cleaned.csv",
    "rtx2070_gpu_usage_repeated_header.csv",
    "rtx4060_doubled_timestamp_column.csv",
    "rtx4090_vlm_eval_1s.csv",
    "utf16_11gb_gpu_training_1s.csv",
)
MANIFESTS = (
    "job__k8s-device-plugin__job-1.yaml",
    "pod__gpu-operator__gpu-pod.yaml",
    "deployment__kubernetes-engine-samples__vllm-3-27b-it.yaml",
    "pytorchjob__awsome-distributed-training__1-imagenet-gpu-team-a.yaml",
)


@pytest.mark.parametrize("name", LOGS)
def test_every_log_gets_a_judgement_with_what_it_cannot_tell(shared_data, capsys, name):
    assert run("gputailor", ["analyse", str(shared_data / "logs" / name), "-o", "json"]) == 0
    out = capsys.readouterr().out
    (log,) = json.loads(out)["logs"]
    assert log["rows_read"] + log["rows_skipped"] == log["rows_present"] > 0
    assert run("gputailor", ["analyse", str(shared_data / "logs" / name)]) == 0
    assert "cannot tell" in capsys.readouterr().out


def test_every_log_is_named_here(shared_data):
    assert {path.name for path in (shared_data / "logs").iterdir()} == set(LOGS)


@pytest.mark.parametrize("manifest", MANIFESTS)
@pytest.mark.parametrize("name", LOGS[1:4])
def test_a_log_and_a_manifest_make_a_report_or_a_reason(shared_data, capsys, name, manifest):
    arguments = ["report", "--archive", str(shared_data / "logs" / name)]
    arguments += ["--inventory", str(shared_data / "manifests" / manifest), "-o", "json"]
    code = run("gputailor", arguments)
    told = capsys.readouterr()
    assert "Traceback" not in told.err
    if code == 0:
        assert json.loads(told.out)["plan"]["verdicts"]
    else:
        assert code == 2
        assert told.err.startswith("error: ")
