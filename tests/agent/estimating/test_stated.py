"""The model that a container's own arguments name."""

import pytest

from gputailor_agent.estimating.stated import stated_estimate, stated_model


def test_vllm_in_a_shells_script_is_understood():
    script = (
        "exec vllm serve meta-llama/Llama-3.1-8B-Instruct \\\n --max-model-len 8192 "
        "--tensor-parallel-size=2 --max-num-seqs 32 --gpu-memory-utilization 0.85"
    )
    stated = stated_model(["sh", "-c", script])
    assert stated.task == "serving"
    assert stated.shape.parameters == 8_030_261_248
    assert (stated.serving.sequence, stated.serving.gpus, stated.serving.batch) == (8192, 2, 32)
    assert stated.memory_utilisation == 0.85
    assert "serve meta-llama/Llama-3.1-8B-Instruct" in stated.evidence
    assert "--max-model-len 8192" in stated.evidence


def test_without_a_length_the_models_own_is_served():
    stated = stated_model(["python", "-m", "vllm.entrypoints.openai.api_server", "--model", "gpt2"])
    assert stated.serving.sequence == 1024
    assert stated.memory_utilisation == 0.9


@pytest.mark.parametrize(
    ("arguments", "weights"),
    [
        (["vllm", "serve", "Qwen/Qwen2.5-7B-Instruct-AWQ"], "int4"),
        (["vllm", "serve", "mistralai/Mistral-7B-v0.3", "--quantization", "fp8"], "fp8"),
        (["vllm", "serve", "deepseek-ai/DeepSeek-R1"], "fp8"),
        (["vllm", "serve", "gpt2", "--dtype=float32"], "fp32"),
        (["vllm", "serve", "gpt2"], "bf16"),
    ],
)
def test_the_weights_number_type_is_the_stated_one(arguments, weights):
    assert stated_model(arguments).serving.weights == weights


def test_the_model_may_stand_in_the_environment():
    stated = stated_model(
        ["text-generation-launcher", "--num-shard", "4"], {"MODEL_ID": "tiiuae/falcon-7b"}
    )
    assert stated.serving.gpus == 4
    assert stated.evidence[0] == "MODEL_ID=tiiuae/falcon-7b"


def test_flags_of_the_trainer_make_it_training():
    stated = stated_model(
        [
            *("torchrun", "run_clm.py", "--model_name_or_path", "gpt2", "--bf16"),
            *("--per_device_train_batch_size", "4", "--gradient_checkpointing", "true"),
            *("--optim", "adamw_bnb_8bit", "--block_size", "512"),
        ]
    )
    settings = stated.training
    assert stated.task == "training"
    assert (settings.precision, settings.batch, settings.sequence) == ("amp", 4, 512)
    assert (settings.checkpointing, settings.optimizer) == ("full", "adamw8bit")
    assert stated_estimate(stated).total.expected > 0


def test_an_image_with_the_engine_as_its_entry_point_needs_arguments_alone():
    image = "docker.io/vllm/vllm-openai:v0.11.0"
    stated = stated_model(["--model", "gpt2", "--dtype", "half"], {}, image)
    assert stated.serving.weights == "fp16"
    assert stated.memory_utilisation == 0.9


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["python", "train.py"],
        ["python", "mine.py", "--model", "gpt2"],
        ["vllm", "serve", "/models/final"],
        ["sh", "-c", "echo 'unclosed"],
    ],
)
def test_nothing_is_claimed_of_a_model_that_nobody_names(arguments):
    assert stated_model(arguments) is None


def test_the_need_is_that_of_weights_and_one_full_sequence_not_what_an_engine_takes():
    stated = stated_model(["vllm", "serve", "meta-llama/Llama-3.1-8B", "--max-model-len", "8192"])
    need = stated_estimate(stated).total
    assert 16 * 2**30 < need.expected < 20 * 2**30


def test_settings_that_clash_give_no_estimate():
    stated = stated_model(
        ["torchrun", "x.py", "--model", "gpt2", "--per-device-train-batch-size", "0"]
    )
    assert stated.training.batch == 8  # 0 says nothing: the Trainer's own default
    assert stated_estimate(stated) is not None
