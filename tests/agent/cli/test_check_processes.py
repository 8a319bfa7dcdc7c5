"""check holds the GPUs that commands use against those that are asked for."""

import pytest

from tests.agent.cli.test_check import bare_environment, judged, run  # noqa: F401

MANIFEST = """\
apiVersion: KIND_OF
kind: KIND
metadata: {name: work, namespace: team}
spec:
  SIZE
  template:
    spec:
      containers:
      - name: main
        image: IMAGE
        command: [COMMAND]
        resources: {limits: {RESOURCE: GPUS}}
"""
VLLM, TORCH = "vllm/vllm-openai:v0.8.5", "pytorch/pytorch:2.4.0-cuda12.4-cudnn9-runtime"


def manifest(
    tmp_path, command, gpus, *, kind="Job", image=TORCH, pods=1, resource="nvidia.com/gpu"
):
    size = f"parallelism: {pods}" if kind == "Job" else f"replicas: {pods}"
    text = MANIFEST
    for name, value in {
        "KIND_OF": "batch/v1" if kind == "Job" else "apps/v1", "KIND": kind, "SIZE": size,
        "IMAGE": image, "COMMAND": ", ".join(command.split()), "RESOURCE": resource, "GPUS": gpus,
    }.items():  # fmt: skip
        text = text.replace(name, str(value))
    path = tmp_path / "work.yaml"
    path.write_text(text, "utf-8")
    return path


def taken(capsys, *arguments, **options):
    code, found, err = judged(capsys, manifest(*arguments, **options))
    (one,) = found["workloads"]
    assert found["unlike"] == (one["taken"] is not None)
    assert (code == 3) is (one["taken"] is not None), err
    return one["taken"]


SERVE = "vllm serve Qwen/Qwen2.5-0.5B-Instruct --tensor-parallel-size"


@pytest.mark.parametrize(
    ("command", "gpus", "options", "told"),
    [
        ("torchrun --nproc-per-node=2 train.py", 8, {}, (2, 8, True)),
        ("torchrun --nproc-per-node=8 train.py", 8, {}, None),
        ("torchrun --nproc-per-node=8 train.py", 4, {}, (8, 4, True)),
        ("torchrun --nnodes=2 --nproc-per-node=4 train.py", 4, {"pods": 2}, None),
        ("torchrun --nnodes=2 --nproc-per-node=4 train.py", 8, {"pods": 2}, (8, 16, True)),
        ("python train.py", 8, {}, None),
        # a launcher adds ranks that nobody names
        ("python train.py --tensor-model-parallel-size 2", 8, {}, None),
        ("python train.py --tensor-model-parallel-size 16", 8, {}, (16, 8, False)),
        (f"{SERVE} 2", 1, {"kind": "Deployment", "image": VLLM}, (2, 1, False)),
        (f"{SERVE} 2", 2, {"kind": "Deployment", "image": VLLM, "pods": 3}, None),
        (f"{SERVE} 2", 8, {"kind": "Deployment", "image": VLLM}, (2, 8, False)),
        (f"{SERVE} 2 --pipeline-parallel-size 2", 4, {"kind": "Deployment", "image": VLLM}, None),
        # a group of pods may hold what is too much for one
        (f"{SERVE} 8", 4, {"kind": "Deployment", "image": VLLM, "pods": 2}, None),
        # parts of cards are no GPUs of a rank's own
        ("torchrun --nproc-per-node=2 train.py", 1, {"resource": "nvidia.com/gpu.shared"}, None),
    ],
)
def test_the_gpus_of_commands_are_held_against_those_asked_for(
    capsys, tmp_path, *, command, gpus, options, told
):
    found = taken(capsys, tmp_path, command, gpus, **options)
    assert (found and (found["used"], found["asked"], found["whole"])) == told
    if found:
        assert found["evidence"]


def test_it_is_said_what_would_happen(capsys, tmp_path):
    code, out, err = run(capsys, manifest(tmp_path, "torchrun --nproc-per-node=2 train.py", 8))
    assert code == 3
    assert (
        "2 GPUs (one node with argument --nproc-per-node=2), and all pods would have 8: 6 would stay"
        in out
    )
    assert "1 request unlike the commands" in err
    _, out, _ = run(capsys, manifest(tmp_path, f"{SERVE} 2", 1, kind="Deployment", image=VLLM))
    assert (
        "2 GPUs (argument --tensor-parallel-size 2), and each pod would have 1: it will not" in out
    )
