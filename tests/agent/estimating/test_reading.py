"""A model is read from what a user has at hand; weights are never read."""

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputailor_agent.estimating import ModelError, read_model
from gputailor_agent.estimating.known import known_models
from gputailor_agent.estimating.reading import header_of, parameter_count

BLOOM = next(model for model in known_models() if "bloom-560m" in model.names)


def safetensors(path, tensors, weights=b""):
    header = json.dumps({"__metadata__": {"format": "pt"}, **tensors}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + weights)
    return path


def tensor(dtype, *shape):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [0, 0]}


@pytest.mark.parametrize(
    ("text", "count"),
    [("7B", 7e9), ("0.5b", 5e8), ("350M", 350e6), ("1.3e9", 1.3e9), ("1T", 1e12), ("7", None), ("seven", None), ("-7B", None), ("", None)],
)  # fmt: skip
def test_a_count_is_understood(text, count):
    assert parameter_count(text) == count


def test_a_configuration_file_is_read(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(BLOOM.config))
    assert read_model(str(path)).parameters == BLOOM.parameters
    assert read_model(str(tmp_path)).parameters == BLOOM.parameters


def test_a_safetensors_header_gives_the_exact_count_and_the_bits(tmp_path):
    path = safetensors(
        tmp_path / "m.safetensors", {"a": tensor("BF16", 1000, 10), "b": tensor("F32", 10)}
    )
    shape = read_model(str(path))
    assert shape.parameters == 10_010
    assert shape.parameters_error == 0
    assert shape.stored_bits == pytest.approx((10_000 * 16 + 10 * 32) / 10_010)
    assert shape.guessed


def test_packed_four_bit_weights_count_eight_to_a_word(tmp_path):
    tensors = {"l.qweight": tensor("I32", 64, 8), "l.scales": tensor("F16", 4, 8)}
    shape = read_model(str(safetensors(tmp_path / "q.safetensors", tensors)))
    assert shape.parameters == 64 * 8 * 8 + 32
    assert 4 < shape.stored_bits < 5


def test_bytes_of_bitsandbytes_hold_two_weights_each(tmp_path):
    tensors = {"l.weight": tensor("U8", 512, 1), "l.weight.absmax": tensor("U8", 16)}
    shape = read_model(str(safetensors(tmp_path / "b.safetensors", tensors)))
    assert shape.parameters == 1024 + 16


def test_a_configuration_beside_the_weights_gives_the_layers(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(BLOOM.config))
    path = safetensors(tmp_path / "model.safetensors", {"a": tensor("F16", 123, 1000)})
    shape = read_model(str(path))
    assert (shape.parameters, shape.layers, shape.guessed) == (123_000, 24, False)


def test_all_files_of_a_checkpoint_count_and_a_missing_one_is_told(tmp_path):
    for number in (1, 2):
        safetensors(tmp_path / f"m-0000{number}-of-00002.safetensors", {"a": tensor("F16", 5000)})
    first = tmp_path / "m-00001-of-00002.safetensors"
    assert read_model(str(first)).parameters == 10_000
    (tmp_path / "m-00002-of-00002.safetensors").unlink()
    with pytest.raises(ModelError, match="1 of 00002 files are here; put the others beside it"):
        read_model(str(first))


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("config.json", "{\n  'a': 1}", r"config\.json:2:3: is not JSON"),
        ("config.json", "[1]", r"config\.json:1: expected a JSON object, found list"),
        ("m.safetensors", "", "its header has no length"),
        ("m.safetensors", "x" * 100, "its header has no length"),
    ],
)
def test_a_damaged_file_says_where_and_what_was_expected(tmp_path, name, content, told):
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(ModelError, match=told):
        read_model(str(path))


def test_a_header_that_is_no_table_of_tensors_is_told(tmp_path):
    with pytest.raises(ModelError, match="its header is damaged"):
        read_model(str(safetensors(tmp_path / "m.safetensors", {"a": {"dtype": "F16"}})))


def test_nothing_of_that_name_says_what_may_be_named(tmp_path):
    with pytest.raises(ModelError, match=r"no such file; expected a config\.json"):
        read_model(str(tmp_path / "none.json"))
    with pytest.raises(ModelError, match=r"expected a config\.json or \.safetensors"):
        read_model(str(tmp_path))


@given(st.binary(max_size=300))
def test_any_bytes_at_all_are_a_header_or_told(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("st") / "m.safetensors"
    path.write_bytes(content)
    told = ""
    try:
        header_of(path)
    except ModelError as error:
        told = str(error)
    assert told == "" or told.startswith(str(path))


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "t5", "d_model": 512, "num_layers": 6, "num_heads": 8},
        {"model_type": "bart", "d_model": 1024, "num_hidden_layers": 12, "num_attention_heads": 16,
         "encoder_layers": 12, "decoder_layers": 12},
        {"model_type": "new", "is_encoder_decoder": True, "hidden_size": 64,
         "num_hidden_layers": 2, "num_attention_heads": 2},
    ],
)  # fmt: skip
def test_two_stacks_are_refused_rather_than_counted_as_one(tmp_path, config):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    with pytest.raises(ModelError, match="an encoder and a decoder"):
        read_model(str(path))


def test_a_checkpoint_of_two_stacks_is_counted_by_its_weights(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "t5", "d_model": 512}))
    safetensors(tmp_path / "model.safetensors", {"a": tensor("F32", 1000, 1000)})
    assert read_model(str(tmp_path)).parameters == 1e6


def test_a_checkpoint_without_weights_is_refused(tmp_path):
    with pytest.raises(ModelError, match="has no weights"):
        read_model(str(safetensors(tmp_path / "none.safetensors", {})))
