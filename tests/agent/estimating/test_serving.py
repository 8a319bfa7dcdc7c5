"""Serving memory: the KV cache of the vLLM paper, weights by their bits."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputailor_agent.estimating import ModelError, Serving, config_shape, estimate_serving
from gputailor_agent.estimating.known import known_shape
from gputailor_agent.estimating.serving import cache_bytes, cache_bytes_per_token
from gputailor_agent.estimating.shapes import guessed_shape

LLAMA = known_shape("llama-3.1-8b")


def test_a_token_of_opt_13b_takes_800_kb_as_in_the_vllm_paper():
    assert cache_bytes_per_token(known_shape("opt-13b"), 16) == 800 * 1024


def test_grouped_queries_need_the_key_value_heads_alone():
    assert cache_bytes_per_token(LLAMA, 16) == 2 * 32 * 8 * 128 * 2
    assert cache_bytes_per_token(LLAMA, 8) == 32 * 8 * 128 * 2


def test_layers_with_a_window_hold_their_window_only():
    gemma = known_shape("gemma-2-2b")
    per_layer = 2 * 4 * 256 * 2
    assert cache_bytes(gemma, 1, 8192, 16) == per_layer * 13 * (8192 + 4096)
    assert cache_bytes(gemma, 3, 1000, 16) == 3 * per_layer * 26 * 1000


def test_weights_go_by_their_bits_and_tables_stay_in_16():
    def weights(kind):
        return estimate_serving(LLAMA, Serving(weights=kind)).part("weights")

    assert weights("bf16").low == 2 * LLAMA.parameters
    assert weights("fp8").low == LLAMA.parameters
    tables = 2 * 128256 * 4096
    assert weights("int4").expected == pytest.approx(
        (LLAMA.parameters - tables) * 4.5 / 8 + tables * 2
    )


def test_gpus_share_weights_but_no_key_value_head_is_split():
    one, sixteen = (estimate_serving(LLAMA, Serving(gpus=n)) for n in (1, 16))
    assert sixteen.part("weights").low == one.part("weights").low / 16
    assert sixteen.part("KV cache").low == one.part("KV cache").low / 8
    assert "some hold the same part" in sixteen.notes[-1]


def test_an_encoder_has_no_cache():
    estimate = estimate_serving(known_shape("bert-base-uncased"), Serving(sequence=512))
    assert [part.name for part in estimate.parts] == ["weights", "working memory", "framework"]


def test_convolutions_need_little_beside_their_weights():
    shape = config_shape({"architecture": "resnet50"}, "")
    assert estimate_serving(shape, Serving(weights="fp32", batch=8)).total.high < 3 * 2**30


def test_of_a_guessed_model_the_cache_may_be_an_eighth():
    cache = estimate_serving(guessed_shape(7e9, "7B"), Serving(sequence=8192)).part("KV cache")
    assert cache.high == 16 * cache.low


@pytest.mark.parametrize("name", ["batch", "sequence", "gpus"])
def test_settings_below_one_are_refused(name):
    with pytest.raises(ModelError, match=f"--{name}"):
        estimate_serving(LLAMA, Serving(**{name: 0}))


SERVINGS = st.builds(
    Serving,
    weights=st.sampled_from(["fp32", "bf16", "fp8", "int8", "int4"]),
    cache=st.sampled_from(["bf16", "fp8"]),
    batch=st.integers(1, 256),
    sequence=st.sampled_from([128, 4096, 131072]),
    gpus=st.sampled_from([1, 2, 8]),
)


@given(st.sampled_from([LLAMA, known_shape("deepseek-v3"), guessed_shape(3e9, "3B")]), SERVINGS)
def test_ends_are_ordered_and_more_sequences_never_need_less(shape, settings):
    now = estimate_serving(shape, settings)
    for part in now.parts:
        assert 0 <= part.bytes.low <= part.bytes.expected <= part.bytes.high
    more = msgspec.structs.replace(settings, batch=settings.batch + 1)
    assert estimate_serving(shape, more).total.expected > now.total.expected
