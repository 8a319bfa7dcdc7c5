import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gputailor_agent.inventory.stems import stem
from tests.agent.inventory.objects import unhurried


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("train-x7k2p", "train"),
        ("bert-finetune-20260301-7bfft", "bert-finetune"),
        ("nightly-eval-28512345", "nightly-eval"),
        ("pipeline-8f14e45f-ea2c-4b1e-9d3a-0a1b2c3d4e5f", "pipeline"),
        ("8f14e45f-ea2c-4b1e-9d3a-0a1b2c3d4e5f", "unnamed"),
        ("train-2026-03-01-step-2", "train-step"),
        ("train-2026-03-01t12-30-00", "train"),
        ("train.20260301t123000z", "train"),
        ("train20260301", "train"),
        ("train_1714569600", "train"),
        ("run-17", "run"),
        ("run17", "run"),
        ("exp3-sweep-12", "exp-sweep"),
        ("job-a1b2c3d4", "job"),
        ("ci-3f2a9bc-gpu-test", "ci-gpu-test"),
        ("web-7d4b9c6f5-x7k2p", "web"),
        ("etl-main-k3j0q8z1", "etl-main"),
        ("hpo-trial-h6zvqc8d", "hpo-trial"),
        ("worker-0", "worker"),
        ("resnet-50", "resnet-50"),
        ("resnet-50-12", "resnet-50"),
        ("llama-3-8b-sft", "llama-3-8b-sft"),
        ("llama3-1-70b", "llama3-1-70b"),
        ("mixtral-8x22b", "mixtral-8x22b"),
        ("t5-xxl-x7k2p", "t5-xxl"),
        ("train-a100-80gb", "train-a100-80gb"),
        ("train-h100-fp8", "train-h100-fp8"),
        ("qwen25vl7b", "qwen25vl7b"),
        ("vllm-v1", "vllm-v1"),
        ("decade", "decade"),
        ("https", "https"),
        ("proxy-https", "proxy-https"),
        ("nccl-allreduce", "nccl-allreduce"),
        ("pytorch-dist-mnist", "pytorch-dist-mnist"),
        ("x7k2p", "x7k2p"),
        ("Train-X7K2P", "train"),
        ("detector-train-r41", "detector-train"),
        ("detector-train-r42", "detector-train"),
        ("finetune-it12", "finetune"),
        ("finetune-gen3-x7k2p", "finetune"),
        ("ranker-try3", "ranker-try"),
        ("run-7a", "run"),
        ("eval-run-d12", "eval-run"),
        ("run-7b-sft", "run-7b-sft"),
        ("detr-r50", "detr-r50"),
        ("deepseek-r1", "deepseek-r1"),
        ("distill-r2-qwen-7b", "distill-r2-qwen-7b"),
        ("ranker-v2", "ranker-v2"),
        ("run-v2", "run-v2"),
        ("train-a100", "train-a100"),
        ("embed-e5", "embed-e5"),
        ("r41", "r41"),
    ],
)
def test_names_people_and_tools_give(name, expected):
    assert stem(name) == expected


WORDS = st.sampled_from(
    ["train", "finetune", "eval", "caption", "vision", "ranker", "speech", "dataset", "nightly"]
)
BASES = st.lists(WORDS, min_size=1, max_size=3).map("-".join)
SIZE_LIKE = re.compile(r"[0-9]{1,3}(x[0-9]{1,3})?[bmk]")


@unhurried
@given(BASES, st.text("bcdfghjklmnpqrstvwxz2456789", min_size=5, max_size=5))
def test_a_generated_suffix_does_not_change_the_stem(base, suffix):
    assume(not SIZE_LIKE.fullmatch(suffix) and suffix not in {"https", "xgbst", "cntks", "t5xxl"})
    assert stem(f"{base}-{suffix}") == base


@unhurried
@given(
    BASES,
    st.text("bcdfghjklmnpqrstvwxz2456789", min_size=8, max_size=10),
    st.text("bcdfghjklmnpqrstvwxz2456789", min_size=5, max_size=5),
)
def test_a_template_hash_and_a_suffix_do_not_change_the_stem(base, template, suffix):
    assume(not SIZE_LIKE.fullmatch(suffix) and suffix not in {"https", "xgbst", "cntks", "t5xxl"})
    assert stem(f"{base}-{template}-{suffix}") == base


@unhurried
@given(BASES, st.uuids())
def test_a_uuid_does_not_change_the_stem(base, uuid):
    assert stem(f"{base}-{uuid}") == base
    assume(re.search("[a-f]", uuid.hex) and re.search("[0-9]", uuid.hex[:7]))
    assert stem(f"{base}-{uuid.hex}") == base


@unhurried
@given(BASES, st.integers(0, 10**12))
def test_a_counter_does_not_change_the_stem(base, number):
    assert stem(f"{base}-{number}") == base


@unhurried
@given(
    BASES,
    st.sampled_from(["r", "it", "n", "gen"]),
    st.integers(0, 9999),
    st.sampled_from(["", "a", "b"]),
)
def test_a_counter_with_a_letter_does_not_change_the_stem(base, letter, number, suffix):
    token = f"{letter}{number}{suffix}"
    assume(token not in {"r1", "r18", "r34", "r50", "r101", "r152", "r200"})
    assert stem(f"{base}-{token}") == base


@unhurried
@given(BASES, st.integers(1, 9), st.integers(1, 999))
def test_versions_and_sizes_are_part_of_the_stem(base, version, size):
    assert stem(f"{base}-v{version}") == f"{base}-v{version}"
    assert stem(f"{base}-{size}b") == f"{base}-{size}b"


@unhurried
@given(
    BASES, st.datetimes(), st.sampled_from(["%Y%m%d", "%Y-%m-%d", "%Y%m%d-%H%M%S", "%Y%m%dt%H%M%S"])
)
def test_a_date_does_not_change_the_stem(base, at, form):
    assume(1900 <= at.year <= 2099)
    assert stem(f"{base}-{at.strftime(form)}") == base


@unhurried
@given(st.text("abcdefghijklmnopqrstuvwxyz0123456789-.", min_size=1, max_size=40))
def test_a_stem_is_its_own_stem(name):
    assert stem(stem(name)) == stem(name)


@unhurried
@given(st.text(max_size=40))
def test_a_stem_is_never_empty(name):
    assert stem(name)
