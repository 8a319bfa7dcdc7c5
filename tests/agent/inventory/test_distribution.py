import pytest

from gputailor_agent.inventory.distribution import distribution, distribution_table, precision
from gputailor_agent.inventory.files import read_inventory
from gputailor_agent.inventory.identity import resolve
from gputailor_agent.model.inventory import ContainerSpec
from tests.agent.inventory.objects import MANIFESTS, NOON_SECONDS, container, inventory, pod


def _container(command="", **env):
    return ContainerSpec(name="main", command=tuple(command.split()), env=env)


def _sizes(command="", pods=None, **env):
    found = distribution(_container(command, **env), pods=pods)
    fields = ("ranks", "tensor", "pipeline", "data", "expert", "context", "sharding")
    return {name: value for name in fields if (value := getattr(found, name))}


@pytest.mark.parametrize(
    ("command", "sizes"),
    [
        ("vllm serve m --tensor-parallel-size 8 --pipeline-parallel-size=2", {"tensor": 8, "pipeline": 2}),
        ("vllm serve m -tp 4 -pp 2", {"tensor": 4, "pipeline": 2}),
        ("python -m sglang.launch_server --tp-size 8 --dp-size 2 --ep-size 4", {"tensor": 8, "data": 2, "expert": 4}),
        ("text-generation-launcher --num-shard 2", {"tensor": 2}),
        ("pretrain --tensor-model-parallel-size 4 --context-parallel-size 2", {"tensor": 4, "context": 2}),
        ("python t.py model.tensor_model_parallel_size=4", {"tensor": 4}),
        ("torchrun --nnodes=4 --nproc_per_node=8 t.py", {"ranks": 32}),
        ("torchrun --nnodes 1:4 --nproc-per-node 8 t.py", {"ranks": 32}),
        ("torchrun --nproc_per_node=auto t.py", {}),
        ("mpirun -np 16 ./t", {"ranks": 16}),
        ("accelerate launch --num_processes 8 --use_fsdp t.py", {"ranks": 8, "sharding": "fsdp"}),
        ("deepspeed t.py --zero-stage 3", {"sharding": "zero-3"}),
        ("t.py --sharding_strategy=full", {"sharding": "fsdp"}),
        ("python t.py --tp", {}),
        ("python t.py --http 8 --dpi 300", {}),
        ("python t.py --tensor-parallel-size=0", {}),
    ],
)  # fmt: skip
def test_commands_tell_the_shape_and_silence_is_unknown(command, sizes):
    assert _sizes(command) == sizes


def test_variables_tell_the_shape_where_the_command_does_not():
    assert _sizes(TENSOR_PARALLEL_SIZE="8", WORLD_SIZE="16") == {"tensor": 8, "ranks": 16}
    assert _sizes("vllm serve m -tp 4", TP_SIZE="8") == {"tensor": 4}


def test_a_variable_of_the_container_is_put_into_its_command():
    assert _sizes("vllm serve m --tensor-parallel-size=$(TP)", TP="8") == {"tensor": 8}
    assert _sizes("torchrun --nnodes=$N --nproc_per_node=${P} t.py", N="2", P="4") == {"ranks": 8}
    assert _sizes("vllm serve m --tensor-parallel-size=$(TP)") == {}


def test_pods_stand_for_nodes_where_their_number_is_left_open():
    assert _sizes("torchrun --nproc_per_node=8 t.py", pods=4) == {"ranks": 32}


@pytest.mark.parametrize(
    ("command", "env", "ranks"),
    [
        ("torchrun --nproc_per_node=8 t.py", {"WORLD_SIZE": "2"}, 16),  # pods, says Kubeflow
        ("torchrun --nproc_per_node=8 --nnodes=$WORLD_SIZE t.py", {"WORLD_SIZE": "2"}, 16),
        ("python t.py", {"WORLD_SIZE": "16"}, 16),
        ("torchrun t.py", {"PET_NNODES": "2", "PET_NPROC_PER_NODE": "8"}, 16),
        ("torchrun --nproc_per_node=8 --nnodes=1:4 t.py", {}, 16),
        ("deepspeed --num_gpus 8 t.py", {}, 16),
        ("msrun --worker_num=16 --local_worker_num=8 t.py", {}, 16),
        ("python t.py trainer.devices=8 trainer.num_nodes=2", {}, 16),
    ],
)
def test_ranks_of_two_pods_are_counted_however_they_are_said(command, env, ranks):
    assert _sizes(command, pods=2, **env)["ranks"] == ranks


def test_every_size_has_its_evidence():
    found = distribution(_container("torchrun --nnodes=2 --nproc_per_node=8 t.py --tp 4"), pods=2)
    assert found.evidence == {
        "tensor": "argument --tp 4",
        "ranks": "2 nodes with argument --nproc_per_node=8",
    }
    assert found.pods == 2


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("vllm serve m --dtype bfloat16", "bf16"),
        ("vllm serve m --dtype=half", "fp16"),
        ("vllm serve m --dtype auto", ""),
        ("vllm serve m --quantization fp8", "fp8"),
        ("vllm serve m --dtype auto --quantization awq", "int4"),
        ("accelerate launch --mixed_precision=fp16 t.py", "fp16"),
        ("python t.py --bf16", "bf16"),
        ("python t.py --fp16_opt_level O1", ""),
        ("python t.py --fp16 False", ""),
        ("python t.py --fp16=0 --bf16 True", "bf16"),
        ("vllm serve m --dtype bfloat16 --quantization awq", "int4"),
        ("vllm serve m --quantization awq --dtype bfloat16", "int4"),
        ("vllm serve m --kv-cache-dtype fp8 --dtype bfloat16", "bf16"),
        ("text-generation-launcher --quantize bitsandbytes-nf4", "int4"),
        ("python t.py", ""),
    ],
)
def test_precision_is_what_is_asked_for(command, name):
    found, evidence = precision(_container(command))
    assert (found, bool(evidence)) == (name, bool(name))


def test_a_variable_tells_the_precision():
    asked = precision(_container(ACCELERATE_MIXED_PRECISION="bf16"))
    assert asked == ("bf16", "environment ACCELERATE_MIXED_PRECISION=bf16")


def test_pods_of_the_latest_run_are_counted(tmp_path):
    trainer = [container(command=["torchrun", "--nproc_per_node=4", "t.py"])]
    reference = {"kind": "PyTorchJob", "name": "big", "uid": "u", "controller": True}
    made = [pod(f"big-worker-{n}", owners=[reference], containers=trainer) for n in range(3)]
    (workload,) = resolve(inventory(tmp_path, *made)).workloads
    assert (workload.distribution.pods, workload.distribution.ranks) == (3, 12)


def test_whole_manifests_carry_the_shape():
    found = resolve(read_inventory([MANIFESTS / "leaderworkerset.yaml"], "lab", NOON_SECONDS))
    leader = next(one for one in found.workloads if one.container == "leader")
    assert leader.distribution is not None
    assert leader.distribution.pods


def test_what_a_name_stands_for_is_one_of_few():
    assert set(distribution_table().names.values()) == {
        "bf16", "fp16", "fp32", "tf32", "fp8", "int8", "int4", "fp4",
    }  # fmt: skip
