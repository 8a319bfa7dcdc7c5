"""estimate as people call it."""

import json

import pytest

from gputailor_agent.cli import app

CONFIG = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "torch_dtype": "bfloat16",
}


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch, tmp_path):
    monkeypatch.delenv("GPUTAILOR_PRICES", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))


def run(capsys, *arguments) -> tuple[int, str, str]:
    code = app.run("gputailor", ["estimate", *(str(argument) for argument in arguments)])
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    return code, out, err


def values(capsys, *arguments):
    return json.loads(run(capsys, *arguments, "--output", "json")[1])


def test_serving_a_configuration_shows_parts_cards_and_price(capsys):
    code, out, err = run(capsys, "config.json", "--sequence", 8192, "--batch", 16, "--shown", 99)
    assert (code, err) == (0, "")
    for word in ("weights", "KV cache", "total", "L40S", "USD", "fits", "What would make it fit"):
        assert word in out


def test_training_with_everything_said_is_as_the_formulas_have_it(capsys):
    answer = values(
        capsys, "config.json", "--train", "--gpus", 8, "--zero", 3, "--checkpointing", "full"
    )
    parts = {part["name"]: part["bytes"]["expected"] for part in answer["estimate"]["parts"]}
    count = answer["model"]["parameters"]
    assert parts["parameters"] == pytest.approx(2 * count / 8)
    assert parts["optimizer"] == pytest.approx(12 * count / 8)
    total = answer["total"]
    assert total["low"] < total["expected"] < total["high"]
    assert all(part["formula"] for part in answer["estimate"]["parts"])


def test_cards_come_with_verdict_and_hourly_price(capsys):
    fits = values(capsys, "7B", "--vendor", "amd")["fits"]
    assert {fit["card"]["device"]["vendor"] for fit in fits} == {"AMD"}
    assert {fit["verdict"] for fit in fits} <= {"fits", "tight", "unlikely", "no"}


def test_own_prices_decide_the_order(capsys, tmp_path):
    own = tmp_path / "prices.csv"
    own.write_text("accelerator,price_per_gpu_hour,currency\nH200 NVL 141GB,0.01,EUR\n")
    first = values(capsys, "7B", "--gpus", 2, "--prices", own)["fits"][0]
    assert first["card"]["device"]["key"] == "H200 NVL 141GB"
    assert first["price_per_hour"] == 0.02


def test_several_currencies_are_told_since_nothing_converts_them(capsys, tmp_path):
    own = tmp_path / "prices.csv"
    own.write_text("accelerator,price_per_gpu_hour,currency\nH200 NVL 141GB,0.01,EUR\n")
    _, out, _ = run(capsys, "7B", "--prices", own)
    assert "Prices are in EUR and USD; nothing converts them." in out


def test_a_job_for_many_gpus_is_offered_no_slice(capsys):
    fits = values(capsys, "config.json", "--gpus", 2)["fits"]
    assert not any(fit["card"]["mig"] for fit in fits)


def test_a_slice_is_not_told_to_work_with_another(capsys):
    goal = values(capsys, "0.5B", "--sequence", 131072, "--batch", 4)["goal"]
    if goal["fit"]["card"]["mig"]:
        assert all(change["gpus"] == 1 for change in goal["changes"])
    assert all(change["estimate"]["parts"] for change in goal["changes"])


def test_what_fits_nothing_says_so(capsys):
    code, out, _ = run(capsys, "405B", "--train")
    assert code == 0
    assert "None: not even B300 does." in out


def test_a_public_models_id_is_enough(capsys):
    code, out, _ = run(capsys, "meta-llama/Llama-3.1-8B-Instruct")
    assert code == 0
    assert "8.03 billion" in out


def test_experts_are_told_apart_from_what_a_token_meets(capsys):
    _, out, _ = run(capsys, "mistralai/Mixtral-8x7B-v0.1", "--weights", "int4")
    assert "46.7 billion, 12.88 billion for one token" in out


def test_markdown_is_for_reports(capsys):
    _, out, _ = run(capsys, "config.json", "--output", "markdown")
    assert "| weights |" in out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("none.json",), "none.json: no such file; expected a config.json"),
        (("7",), "7: no such file"),
        (("7B", "--train", "--zero", 2), "--zero 2: there is nothing to divide on 1 GPU"),
        (("7B", "--train", "--quantise", "nf4"), "add --lora RANK"),
        (("7B", "--train", "--quantise", "nf3"), "--quantise: expected nf4, int8, found 'nf3'"),
        (("7B", "--weights", "fp7"), "--weights: expected fp32, fp16, bf16, fp8, int8, int4"),
        (("7B", "--cache", "int4"), "--cache: expected fp32"),
        (("7B", "--vendor", "acme"), "no cards of 'acme' are known; vendors are AMD"),
        (("7B", "--output", "xml"), "--output: expected table, markdown, json"),
    ],
)
def test_wrong_usage_exits_2_and_says_what_to_do(capsys, arguments, told):
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert told in err


def test_an_adapter_wider_than_the_model_is_refused(capsys):
    code, _, err = run(capsys, "config.json", "--train", "--lora", 4097)
    assert code == 2
    assert "--lora: expected a rank of at most 4096" in err
    assert run(capsys, "config.json", "--train", "--lora", 4096)[0] == 0


def test_no_parameters_are_no_model(capsys):
    code, _, err = run(capsys, "0B")
    assert code == 2
    assert "a parameter count such as 7B" in err


@pytest.mark.parametrize(
    "said",
    [
        ("--precision", "bf16"), ("--optimizer", "adamw"), ("--zero", 3), ("--lora", 8),
        ("--quantise", "nf4"), ("--checkpointing", "full"), ("--attention", "flash"),
        ("--fused-loss",),
    ],
)  # fmt: skip
def test_an_option_of_training_is_refused_where_serving_is_estimated(capsys, said):
    """Even one that says the default: whoever gives it believes that it counts."""
    code, out, err = run(capsys, "config.json", *said)
    assert (code, out) == (2, "")
    assert f"{said[0]}: an option of training, and this estimates serving" in err
    assert "--train" in err
    assert run(capsys, "config.json", "--train", "--lora", 8, "--gpus", 2, *said)[0] == 0


@pytest.mark.parametrize("said", [("--weights", "fp8"), ("--cache", "bf16"), ("--prefill", 512)])
def test_an_option_of_serving_is_refused_where_training_is_estimated(capsys, said):
    code, out, err = run(capsys, "config.json", "--train", *said)
    assert (code, out) == (2, "")
    assert f"{said[0]}: an option of serving, and this estimates training" in err
    assert run(capsys, "config.json", *said)[0] == 0


def test_every_option_that_does_not_apply_is_named(capsys):
    _, _, err = run(capsys, "7B", "--serve", "--optimizer", "lion", "--zero", 1)
    assert "--optimizer, --zero: options of training" in err
    assert "leave them out" in err
