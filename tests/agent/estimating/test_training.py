"""Training memory follows the papers' formulas, and more of anything never needs less."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputailor_agent.estimating import ModelError, Training, config_shape, estimate_training
from gputailor_agent.estimating.activations import Numbers, layer_bytes
from gputailor_agent.estimating.known import known_shape
from gputailor_agent.estimating.shapes import guessed_shape
from gputailor_agent.estimating.training import lora_parameters

GB = 1e9
LLAMA = known_shape("llama-3.1-8b")
GPT2 = known_shape("gpt2")
STATES = ("parameters", "gradients", "optimizer")


def states(shape, **settings):
    estimate = estimate_training(shape, Training(**settings))
    return sum(estimate.part(name).expected for name in STATES)


@pytest.mark.parametrize(("stage", "gigabytes"), [(0, 120), (1, 31.4), (2, 16.6), (3, 1.9)])
def test_the_states_are_those_of_figure_1_of_the_zero_paper(stage, gigabytes):
    """7.5 billion parameters on 64 GPUs, mixed precision and Adam."""
    shape = msgspec.structs.replace(guessed_shape(7.5e9, "paper"), parameters_error=0.0)
    assert states(shape, gpus=64, zero=stage) == pytest.approx(gigabytes * GB, rel=0.02)


def test_sharding_over_16_times_as_many_gpus_saves_what_was_measured():
    """torchtitan, Llama 3.1 8B: 82.4 GiB on 8 GPUs, 67.0 GiB on 128; activations are the same."""
    saved = states(LLAMA, gpus=8, zero=3) - states(LLAMA, gpus=128, zero=3)
    assert saved == pytest.approx((82.4 - 67.0) * 2**30, rel=0.1)


@pytest.mark.parametrize("sequence", [512, 1024])
def test_a_gpt_layer_in_16_bits_keeps_34_plus_5as_over_h_bytes_per_token_and_width(sequence):
    """Korthikanti et al. 2022, equation 1."""
    wanted = GPT2.hidden * (34 + 5 * GPT2.heads * sequence / GPT2.hidden)
    assert layer_bytes(GPT2, sequence, Numbers(2, 2), "eager") == pytest.approx(wanted)


def test_selective_recomputation_drops_the_scores_alone():
    eager = {"batch": 4, "sequence": 1024, "attention": "eager", "precision": "bf16"}
    whole = estimate_training(GPT2, Training(**eager)).part("activations").expected
    selective = estimate_training(GPT2, Training(**eager, checkpointing="selective"))
    left = selective.part("activations").expected
    assert left / whole == pytest.approx(34 / (34 + 5 * 12 * 1024 / 768))


def test_fp32_with_adam_takes_16_bytes_per_parameter_and_amp_18():
    assert states(LLAMA, precision="fp32") == pytest.approx(16 * LLAMA.parameters)
    amp = estimate_training(LLAMA, Training(precision="amp"))
    assert amp.part("16-bit copy").expected == 2 * LLAMA.parameters


def test_a_billion_parameters_in_fp32_with_adam_need_16_to_20_gb():
    shape = guessed_shape(1e9, "1B")
    total = estimate_training(shape, Training(precision="fp32", sequence=512)).total
    assert 16 * GB < total.expected < 20 * GB


def test_a_16_bit_optimizer_and_an_8_bit_one_are_smaller():
    assert states(LLAMA, precision="bf16") == pytest.approx(8 * LLAMA.parameters)
    assert states(LLAMA, precision="mixed", optimizer="adamw8bit") == pytest.approx(
        10 * LLAMA.parameters
    )
    assert states(LLAMA, precision="fp32", optimizer="sgd") == pytest.approx(8 * LLAMA.parameters)


def test_lora_trains_rank_times_inputs_and_outputs_of_each_product():
    # PEFT prints 6,815,744 for rank 16 on q and v of Llama 3 8B alone; q, k, v, o here
    attention = lora_parameters(LLAMA, 16, "attention")
    assert attention == 32 * 16 * ((4096 + 4096) * 2 + (4096 + 1024) * 2)
    assert lora_parameters(LLAMA, 16, "all") == 41_943_040  # PEFT's count for all linear layers


def test_lora_keeps_the_frozen_weights_and_trains_little():
    estimate = estimate_training(LLAMA, Training(lora_rank=16))
    assert estimate.part("parameters").expected == pytest.approx(2 * LLAMA.parameters, rel=0.01)
    assert estimate.part("optimizer").expected < 1 * GB
    quantised = estimate_training(LLAMA, Training(lora_rank=16, base_bits=4.127))
    assert quantised.part("parameters").low < 0.3 * estimate.part("parameters").low


def test_images_through_convolutions_keep_twice_their_outputs():
    shape = config_shape({"architecture": "resnet50"}, "")
    estimate = estimate_training(shape, Training(precision="fp32", optimizer="momentum", batch=32))
    assert estimate.part("activations").expected == pytest.approx(2 * 11.11e6 * 4 * 32 * 1.15)
    assert estimate.part("logits and loss").high == 0


def test_a_patch_transformer_has_its_own_number_of_tokens():
    vit = config_shape({"architecture": "vit_base_patch16_224"}, "")
    short, long = (estimate_training(vit, Training(sequence=n)) for n in (10, 10_000))
    assert short.total == long.total


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"zero": 2}, "--zero 2: there is nothing to divide on 1 GPU"),
        ({"batch": 0}, "--batch: expected a whole number above 0"),
        ({"base_bits": 4.0}, "--quantise: quantised weights cannot be trained"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings, told):
    with pytest.raises(ModelError, match=told):
        estimate_training(LLAMA, Training(**settings))


def test_lora_on_convolutions_is_refused():
    with pytest.raises(ModelError, match="--lora"):
        estimate_training(config_shape({"architecture": "resnet18"}, ""), Training(lora_rank=8))


def test_a_sequence_beyond_the_models_longest_is_noted():
    estimate = estimate_training(GPT2, Training(sequence=4096))
    assert "longest sequence is 1024" in estimate.notes[-1]


SETTINGS = st.builds(
    Training,
    precision=st.sampled_from(["fp32", "amp", "mixed", "bf16"]),
    optimizer=st.sampled_from(["adamw", "adamw8bit", "adafactor", "lion", "momentum", "sgd"]),
    batch=st.integers(1, 32),
    sequence=st.sampled_from([128, 1024, 8192]),
    gpus=st.sampled_from([2, 8, 64]),
    zero=st.sampled_from([0, 1, 2, 3]),
    lora_rank=st.sampled_from([None, 8]),
    checkpointing=st.sampled_from(["none", "selective", "full"]),
    attention=st.sampled_from(["flash", "eager"]),
    fused_loss=st.booleans(),
)
SHAPES = st.sampled_from(
    [
        LLAMA,
        GPT2,
        known_shape("bert-large-uncased"),
        known_shape("mixtral-8x7b"),
        guessed_shape(1e9, "1B"),
    ]
)


@given(SHAPES, SETTINGS)
def test_low_is_at_most_expected_is_at_most_high_in_every_part(shape, settings):
    for part in estimate_training(shape, settings).parts:
        assert 0 <= part.bytes.low <= part.bytes.expected <= part.bytes.high, part.name


@given(SHAPES, SETTINGS)
def test_more_work_never_needs_less_memory(shape, settings):
    now = estimate_training(shape, settings).total
    for more in ({"batch": settings.batch + 1}, {"sequence": settings.sequence * 2}):
        then = estimate_training(shape, msgspec.structs.replace(settings, **more)).total
        assert then.expected >= now.expected
        assert then.low >= now.low


@given(SHAPES, SETTINGS)
def test_checkpointing_a_fused_loss_and_an_8_bit_optimizer_never_need_more(shape, settings):
    plain = msgspec.structs.replace(
        settings, checkpointing="none", fused_loss=False, optimizer="adamw"
    )
    now = estimate_training(shape, plain).total.expected
    for less in ({"checkpointing": "full"}, {"fused_loss": True}, {"optimizer": "adamw8bit"}):
        then = estimate_training(shape, msgspec.structs.replace(plain, **less)).total.expected
        assert then <= now
