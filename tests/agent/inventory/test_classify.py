import re

import pytest

from gputailor_agent.inventory.classify import class_table, classify, split_image
from gputailor_agent.inventory.files import read_inventory
from gputailor_agent.inventory.identity import resolve
from gputailor_agent.inventory.kinds import kind_table
from gputailor_agent.model.inventory import ContainerSpec, TaskClass
from tests.agent.inventory.objects import MANIFESTS, NOON_SECONDS


def _of(kinds=(), labels=None, **container):
    for field in ("command", "args", "ports"):
        container[field] = tuple(container.get(field, ()))
    return classify(ContainerSpec(name="main", **container), kinds, labels)


@pytest.mark.parametrize(
    ("image", "framework"),
    [
        ("vllm/vllm-openai:v0.9", "vllm"),
        ("registry.example:5000/mirror/vllm-openai@sha256:abc", "vllm"),
        ("lmsysorg/sglang:latest", "sglang"),
        ("nvcr.io/nvidia/tritonserver:25.01-py3", "triton"),
        ("nvcr.io/nim/meta/llama3-8b-instruct:1", "nim"),
        ("ghcr.io/huggingface/text-generation-inference:3", "tgi"),
        ("ollama/ollama", "ollama"),
        ("pytorch/torchserve:latest-gpu", "torchserve"),
        ("tensorflow/serving:2.18-gpu", "tensorflow_serving"),
        ("rayproject/ray-llm:2", "vllm"),
        ("tensorflow/tensorflow:2.18-gpu", "tensorflow"),
        ("nvcr.io/nvidia/pytorch:25.01-py3", "pytorch"),
        ("ghcr.io/nvidia/jax:latest", "jax"),
        ("ascendhub.example/ascend-mindspore:23", "mindspore"),
        ("ubuntu:22.04", ""),
        ("vllm-registry.example.com/team/webapp:1", ""),
        ("pytorch.example.com/team/webapp:1", ""),
        ("localhost/app", ""),
        ("", ""),
    ],
)
def test_images_tell_the_engine_and_registry_hosts_do_not(image, framework):
    assert _of(image=image).framework == framework


def test_image_references_are_taken_apart():
    assert split_image("host.example:5000/a/b/c:1@sha256:0") == ("a/b", "c:1")
    assert split_image("a/b") == ("a", "b")
    assert split_image("b:1") == ("", "b:1")


@pytest.mark.parametrize(
    ("container", "framework", "task"),
    [
        ({"command": ["vllm", "serve", "x"]}, "vllm", "inference"),
        ({"command": ["python3", "-m", "vllm.entrypoints.openai.api_server"]}, "vllm", "inference"),
        ({"command": ["python3", "-m", "sglang.launch_server"]}, "sglang", "inference"),
        ({"command": ["tritonserver"]}, "triton", "inference"),
        ({"command": ["torchrun", "x.py"]}, "pytorch", "training"),
        ({"command": ["bash", "-c", "accelerate launch x.py"]}, "pytorch", "training"),
        ({"command": ["deepspeed", "x.py"]}, "deepspeed", "training"),
        ({"command": ["msrun", "x.py"]}, "mindspore", "training"),
        ({"command": ["python", "train.py"]}, "", "training"),
        ({"command": ["python", "pretrain_gpt.py"]}, "", "training"),
        ({"command": ["python", "constraint.py"]}, "", "unknown"),
        ({"command": ["jupyter", "lab"]}, "", "notebook"),
        ({"image": "x/base-notebook:1"}, "", "notebook"),
        ({"command": ["uvicorn", "app:app"]}, "", "inference"),
        ({"command": ["python", "evaluate.py"]}, "", "batch"),
        ({"command": ["sleep", "infinity"]}, "", "unknown"),
    ],
)
def test_commands_tell_what_runs(container, framework, task):
    found = _of(**container)
    assert (found.framework, found.task_class) == (framework, TaskClass(task))
    assert bool(found.task_evidence) == (task != "unknown")


@pytest.mark.parametrize(
    ("kinds", "task"),
    [
        (["PyTorchJob"], "training"),
        (["TFJob"], "training"),
        (["Job"], "batch"),
        (["Job", "CronJob"], "batch"),
        (["Notebook"], "notebook"),
        (["StatefulSet", "Notebook"], "notebook"),
        (["ReplicaSet", "Deployment", "InferenceService"], "inference"),
        (["RayCluster", "RayService"], "inference"),
        (["ReplicaSet", "Deployment"], "unknown"),
        (["SomethingNew"], "unknown"),
    ],
)
def test_kinds_made_for_one_purpose_tell_the_task(kinds, task):
    found = _of(kinds, image="app:1")
    assert found.task_class is TaskClass(task)


def test_a_weak_kind_gives_way_to_the_command():
    assert _of(["Job"], command=["torchrun", "x.py"]).task_class is TaskClass.TRAINING


def test_an_engine_inside_a_job_is_batch_and_in_a_deployment_inference():
    assert _of(["Job"], image="vllm/vllm-openai").task_class is TaskClass.BATCH
    assert (
        _of(["ReplicaSet", "Deployment"], image="vllm/vllm-openai").task_class
        is TaskClass.INFERENCE
    )


def test_an_engine_below_a_kind_nobody_knows_serves():
    assert _of(["SomethingNew"], image="vllm/vllm-openai").task_class is TaskClass.INFERENCE


@pytest.mark.parametrize(
    ("kinds", "container", "task", "framework"),
    [
        (["PyTorchJob"], {"image": "app:1"}, True, True),
        (["PyTorchJob"], {"image": "x/gpu-burn:1"}, False, False),
        (["Deployment"], {"command": ["vllm", "serve", "m"]}, True, True),
        (["Deployment"], {"env": {"VLLM_LOGGING_LEVEL": "INFO"}}, False, False),
        (["RayCluster"], {"image": "rayproject/ray-llm:2"}, False, False),
        (["Pod"], {"command": ["python", "train.py"]}, False, False),
        (["Job"], {"image": "app:1"}, False, False),
    ],
)
def test_only_what_has_no_other_reading_is_sure(kinds, container, task, framework):
    found = _of(kinds, **container)
    assert (found.task_sure, found.framework_sure) == (task, framework)


@pytest.mark.parametrize(
    "command",
    [
        ["sleep", "infinity"],
        ["bash", "-c", "nvidia-smi -L; trap 'exit 0' TERM; sleep 9999 & wait"],
        ["tail", "-f", "/dev/null"],
        ["/bin/sh", "-c", "while true; do nvidia-smi; sleep 30; done"],
    ],
)
def test_a_container_that_only_waits_is_not_what_its_image_is_made_for(command):
    found = _of(["Deployment"], image="vllm/vllm-openai", command=command)
    assert (found.task_class, found.framework) == (TaskClass.UNKNOWN, "vllm")
    assert _of(["Pod"], image="nvcr.io/nvidia/nemo:25", command=command).task_class is (
        TaskClass.UNKNOWN
    )


@pytest.mark.parametrize(
    ("names", "task"),
    [
        (["main", "llama-finetune-7"], "training"),
        (["main", "nccl-test-host-1"], "batch"),
        (["trainee"], "unknown"),
        (["constraint"], "unknown"),
        (["main", "team-notebook-0"], "notebook"),
    ],
)
def test_names_that_people_gave_come_after_what_is_started(names, task):
    assert classify(ContainerSpec(name="main"), (), {}, names).task_class is TaskClass(task)
    serving = ContainerSpec(name="main", command=("vllm", "serve", "m"))
    assert classify(serving, ("Deployment",), {}, names).task_class is TaskClass.INFERENCE


def test_a_command_goes_before_a_variable_of_an_engine():
    found = _of(
        ["RayCluster"], command=["python", "train_grpo.py"], env={"VLLM_ATTENTION_BACKEND": "X"}
    )
    assert found.task_class is TaskClass.TRAINING


def test_ports_count_for_services_only_and_last():
    assert _of(["StatefulSet"], ports=[8888]).task_class is TaskClass.NOTEBOOK
    assert _of(["Deployment"], ports=[8501]).task_class is TaskClass.INFERENCE
    assert _of(["Pod"], ports=[8888]).task_class is TaskClass.UNKNOWN
    assert (
        _of(["Deployment"], ports=[8888], command=["python", "train.py"]).task_class
        is TaskClass.TRAINING
    )


@pytest.mark.parametrize(
    ("container", "preallocates", "evidence"),
    [
        ({"image": "vllm/vllm-openai"}, True, "0.9"),
        ({"image": "vllm/vllm-openai", "args": ["--gpu-memory-utilization=0.5"]}, True, "=0.5"),
        ({"image": "x", "args": ["--gpu_memory_utilization", "0.5"]}, True, "0.5"),
        (
            {"image": "x", "env": {"VLLM_ADDITIONAL_ARGS": "--gpu-memory-utilization 0.97"}},
            True,
            "0.97",
        ),
        ({"image": "lmsysorg/sglang", "args": ["--mem-fraction-static", "0.8"]}, True, "0.8"),
        ({"image": "tensorflow/tensorflow:2"}, True, "TF_FORCE_GPU_ALLOW_GROWTH"),
        (
            {"image": "tensorflow/tensorflow:2", "env": {"TF_FORCE_GPU_ALLOW_GROWTH": "true"}},
            False,
            "=true",
        ),
        (
            {"image": "tensorflow/serving", "env": {"TF_FORCE_GPU_ALLOW_GROWTH": "false"}},
            True,
            "whole device",
        ),
        ({"image": "x/jax:1"}, True, "75 %"),
        ({"image": "x/jax:1", "env": {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}}, False, "=false"),
        ({"image": "x", "env": {"XLA_PYTHON_CLIENT_MEM_FRACTION": ".4"}}, True, "=.4"),
        ({"image": "nvcr.io/nvidia/pytorch:1"}, False, ""),
        ({"image": "ollama/ollama"}, False, ""),
        ({"image": "ubuntu"}, False, ""),
    ],
)
def test_pre_allocators_are_found_with_the_evidence_that_decided(container, preallocates, evidence):
    found = _of(**container)
    assert found.preallocates is preallocates
    assert evidence in found.preallocates_evidence


def test_kserve_s_runtime_tells_the_engine():
    inventory = read_inventory([MANIFESTS / "kserve.yaml"], "lab", NOON_SECONDS)
    flowers = next(one for one in resolve(inventory).workloads if one.name == "flowers")
    assert (flowers.framework, flowers.task_class) == (
        "tensorflow_serving",
        TaskClass.INFERENCE,
    )
    assert flowers.container == "kserve-container"
    assert flowers.preallocates


def test_a_ray_job_s_entry_point_tells_the_task():
    inventory = read_inventory([MANIFESTS / "ray.yaml"], "lab", NOON_SECONDS)
    sweep = next(one for one in resolve(inventory).workloads if one.name == "sweep")
    assert sweep.task_class is TaskClass.TRAINING
    assert "finetune.py" in sweep.task_evidence


@pytest.mark.parametrize(
    ("file", "classes"),
    [
        ("pytorchjob.yaml", {"vision/PyTorchJob/caption-model/pytorch": ("training", "pytorch")}),
        ("leaderworkerset.yaml", {"serving/LeaderWorkerSet/big-model/leader": ("inference", "vllm"),
                                  "serving/LeaderWorkerSet/big-model/worker": ("inference", "vllm")}),
        ("jobset.yaml", {"llm/JobSet/pretraining/rank": ("training", "")}),
    ],
)  # fmt: skip
def test_whole_manifests_are_classified(file, classes):
    resolution = resolve(read_inventory([MANIFESTS / file], "lab", NOON_SECONDS))
    found = {one.id: (one.task_class.value, one.framework) for one in resolution.workloads}
    assert found == classes


def test_every_expression_in_the_table_compiles_and_every_task_is_known():
    table = class_table()
    for row in (*table.frameworks, *table.tasks):
        for pattern in (row.image, row.folder, row.command, row.env, row.runtime, row.tell):
            re.compile(pattern)
        assert row.name or TaskClass(row.task)
        assert not row.role or TaskClass(row.role)
    assert all(TaskClass(row.task) for row in table.ports)
    assert all(TaskClass(row.task) for row in kind_table().kinds.values() if row.task)


def test_every_kind_has_a_life_the_code_knows():
    lives = {row.life for row in kind_table().kinds.values()}
    assert lives == {"service", "recurring", "pipeline", "run"}


@pytest.mark.parametrize(
    ("kind", "command", "task", "sure"),
    [
        ("Job", ["papermill", "a.ipynb", "b.ipynb"], TaskClass.BATCH, False),
        ("Job", ["jupyter", "nbconvert", "--execute", "a.ipynb"], TaskClass.BATCH, False),
        ("Job", ["python", "train.py"], TaskClass.TRAINING, False),
        ("StatefulSet", ["bash", "-c", "./start.sh"], TaskClass.NOTEBOOK, False),
        ("StatefulSet", ["start-notebook.sh"], TaskClass.NOTEBOOK, True),
        ("StatefulSet", ["--ServerApp.ip=0.0.0.0"], TaskClass.NOTEBOOK, True),
        ("StatefulSet", [], TaskClass.NOTEBOOK, True),
    ],
)
def test_a_notebook_s_image_is_one_only_where_nothing_else_is_started_in_it(
    kind, command, task, sure
):
    found = _of([kind], image="quay.io/jupyter/pytorch-notebook:latest", command=command)
    assert (found.task_class, found.task_sure) == (task, sure)


@pytest.mark.parametrize(
    ("kinds", "command", "task"),
    [
        (["Pod"], ["vllm", "serve", "x"], TaskClass.INFERENCE),
        (["Pod"], [], TaskClass.INFERENCE),
        (["Pod"], ["python", "offline.py"], TaskClass.BATCH),
        (["Job"], ["python3", "-m", "vllm.entrypoints.openai.api_server"], TaskClass.INFERENCE),
        (["Job"], ["python", "offline.py"], TaskClass.BATCH),
    ],
)
def test_a_server_that_is_started_serves_also_in_a_run_but_that_is_not_sure(kinds, command, task):
    found = _of(kinds, image="vllm/vllm-openai:v1", command=command)
    assert (found.task_class, found.task_sure, found.framework) == (task, False, "vllm")


def test_a_launcher_of_training_in_an_engine_s_image_trains_and_the_framework_is_not_sure():
    found = _of(["Job"], image="vllm/vllm-openai:v1", command=["torchrun", "train.py"])
    assert (found.task_class, found.framework) == (TaskClass.TRAINING, "pytorch")
    assert not found.framework_sure
