"""Parameters are counted exactly, layer by layer, from the sizes in a configuration."""

import pytest

from gputailor_agent.estimating import ModelError, config_shape
from gputailor_agent.estimating.known import known_models, known_shape, named_packing, plain_name

MODELS = {model.names[0]: model for model in known_models()}


@pytest.mark.parametrize("name", MODELS)
def test_the_count_of_a_public_model_is_the_published_one(name):
    model = MODELS[name]
    shape = config_shape(model.config, name)
    assert shape.parameters == model.parameters
    assert shape.parameters_error == 0
    assert shape.notes == ()


def test_experts_count_in_full_but_a_token_meets_few():
    mixtral = known_shape("mistralai/Mixtral-8x7B-Instruct-v0.1")
    assert mixtral.active_parameters == pytest.approx(12.88e9, rel=0.001)
    deepseek = known_shape("deepseek-ai/DeepSeek-V3")
    assert deepseek.active_parameters == pytest.approx(37.6e9, rel=0.01)  # published: 37 billion
    assert deepseek.stored_bits == 8


def test_latent_attention_keeps_576_elements_a_token_and_layer():
    assert known_shape("deepseek-v3").kv_elements == 512 + 64


def test_windows_are_those_of_the_layers_that_have_one():
    gemma = known_shape("google/gemma-2-2b-it")
    assert (gemma.window, gemma.windowed_layers, gemma.layers) == (4096, 13, 26)


def test_a_type_that_is_not_known_is_counted_like_llama_and_says_so():
    shape = config_shape({**MODELS["llama-2-7b"].config, "model_type": "brandnew"}, "config.json")
    assert shape.parameters == MODELS["llama-2-7b"].parameters
    assert shape.parameters_error == 0.1
    assert "counted as if it were like Llama" in shape.notes[0]


def test_of_a_model_with_a_vision_tower_the_text_part_is_counted():
    config = {
        "model_type": "llava",
        "text_config": MODELS["llama-2-7b"].config,
        "vision_config": {},
    }
    shape = config_shape(config, "config.json")
    assert shape.parameters == MODELS["llama-2-7b"].parameters
    assert "vision" in shape.notes[-1]


def test_a_configuration_without_sizes_is_refused_with_what_was_expected():
    with pytest.raises(ModelError, match=r"^config\.json: expected a whole number for hidden_size"):
        config_shape({"model_type": "llama"}, "config.json")


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("meta-llama/Meta-Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("Qwen/Qwen2.5-7B-Instruct-AWQ", "qwen2.5-7b"),
        ("neuralmagic/Meta-Llama-3.1-70B-Instruct-FP8-dynamic", "llama-3.1-70b"),
        ("TheBloke/Mistral-7B-Instruct-v0.2-GPTQ", "mistral-7b"),
    ],
)
def test_a_name_is_known_whoever_tuned_or_packed_it(name, plain):
    assert plain_name(name) == plain
    assert known_shape(name) is not None


def test_packing_is_read_from_the_name():
    assert named_packing("Qwen/Qwen2.5-7B-Instruct-AWQ") == "int4"
    assert named_packing("neuralmagic/Llama-FP8") == "fp8"
    assert named_packing("gpt2") is None


def test_an_unknown_id_tells_its_size_only_if_it_names_one():
    guessed = known_shape("acme/secret-13b-chat")
    assert guessed.parameters == 13e9
    assert (guessed.guessed, guessed.parameters_error) == (True, 0.1)
    assert known_shape("acme/secret-8x22b") is None
    assert known_shape("/models/final") is None


@pytest.mark.parametrize(
    ("architecture", "millions"),
    [("vit_base_patch16_224.augreg_in21k", 86.57), ("resnet50.a1_in1k", 25.56)],
)
def test_timm_architectures_are_known_by_their_name(architecture, millions):
    shape = config_shape({"architecture": architecture, "num_classes": 1000}, "config.json")
    assert shape.parameters == pytest.approx(millions * 1e6, rel=0.001)


def test_larger_images_have_more_activations_and_more_tokens():
    small = config_shape({"architecture": "resnet50"}, "")
    large = config_shape(
        {"architecture": "resnet50", "pretrained_cfg": {"input_size": [3, 448, 448]}}, ""
    )
    assert large.activations_per_image == 4 * small.activations_per_image
    vit = config_shape({"architecture": "vit_base_patch16_384", "num_classes": 1000}, "")
    assert vit.tokens == 577


def test_an_unknown_timm_architecture_names_those_like_it():
    with pytest.raises(ModelError, match="did you mean resnet"):
        config_shape({"architecture": "resnet51"}, "config.json")
