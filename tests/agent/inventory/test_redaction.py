"""Nothing that looks like a credential enters the inventory, whatever it is called."""

import time

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputailor_agent.inventory.redaction import (
    MASK,
    is_secret_name,
    mask_annotations,
    mask_arguments,
    mask_text,
    mask_value,
)
from tests.agent.inventory.objects import container, controller, inventory, pod

WORD = "Zx9kQw7LmN2pRt5v"  # what must not be seen again
IN_VALUES = [
    f"DefaultEndpointsProtocol=https;AccountName=x;AccountKey={WORD}==;EndpointSuffix=x.net",
    f"Server=db;Uid=sa;Pwd={WORD};",
    f"jdbc:postgresql://h/db?user=u&password={WORD}",
    f"postgres://user:ab/{WORD}@db/x",
    f"mysql://user:ab@{WORD}@db/x",
    f"redis://:{WORD}@r:6379",
    f"https://x.example/c?sv=2020&sig={WORD}%3D",
    f"https://b.example/o?X-Amz-Expires=60&X-Amz-Signature={WORD}",
    f"https://hooks.slack.com/services/T0/B0/{WORD}",
    f"https://discord.com/api/webhooks/123/{WORD}",
    f'{{"user": "x", "password": "{WORD}"}}',
    f'{{"auths": {{"r.io": {{"auth":"{WORD}"}}}}}}',
    f"user: x\npassword: {WORD}\n",
    f"password = '{WORD}'",
    f"Authorization: Bearer {WORD}",
    f"machine h login u password {WORD}",
    f"-----BEGIN OPENSSH PRIVATE KEY-----\n{WORD}\n{WORD}\n-----END OPENSSH PRIVATE KEY-----",
    f"sk_live_{WORD}",
    f"hvs.{WORD}",
    f"glsa_{WORD}",
    f"123456789:AAH{WORD}{WORD}",
]
IN_ARGUMENTS = [
    [f"--token={WORD}"],
    ["--token", WORD],
    [f"--token='{WORD}'"],
    [f"--apiKey={WORD}"],
    ["--authToken", WORD],
    ["--aws-secret-access-key", WORD],
    ["--pwd", WORD],
    ["--credentials", WORD],
    [f"--NotebookApp.token={WORD}"],
    [f"+trainer.logger.api_key={WORD}"],
    ["--config", f'{{"password":"{WORD}"}}'],
    ["curl", "-u", f"user:{WORD}", "http://h"],
    ["curl", "-H", f"X-Api-Key: {WORD}"],
    ["sshpass", "-p", WORD, "ssh", "h"],
    ["mysql", "-uroot", f"-p{WORD}"],
    ["docker", "login", "-u", "x", "-p", WORD],
    ["sh", "-c", f'export HF_TOKEN="{WORD}" && train'],
    ["sh", "-c", f"wandb login {WORD}{WORD}"],
    ["sh", "-c", f"echo {WORD} | docker login --password-stdin"],
    ["sh", "-c", f"azcopy 'https://x.example/?sig={WORD}'"],
    ["sh", "-c", f'tool -c "--token {WORD}"'],
    ["python", "-c", f"login(token='{WORD}')"],
    ["python", "-c", f'os.environ["HF_TOKEN"] = "{WORD}"'],
]
KEPT_ARGUMENTS = [
    "--max-num-batched-tokens=8192",
    "--max-tokens 512",
    "--tokenizer=/models/llama-3",
    "--num-key-value-heads=8",
    "--auth-mode none",
    "--author bob",
    "--user 1000:1000",
    "export HF_TOKEN=$TOKEN; train",
    "export HF_TOKEN=${TOKEN}",
    "torchrun --nproc_per_node=8 train.py --config configs/zero3_bf16.json",
    "https://host:8080/path@v1",
]

SECRETS = [
    "hf_abcdefghijklmnopqrstuv",
    "ghp_0123456789abcdefghijABCDEFGHIJ",
    "AKIAIOSFODNN7EXAMPLE",
    "nvapi-0123456789abcdefghijklmnop",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.c2lnbmF0dXJl",
    "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY",
    "postgresql://trainer:word@db.example/runs",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIE",
    "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
]
PLAIN = [
    "meta-llama/Llama-3.1-8B-Instruct",
    "0a1b2c3d4e5f60718293a4b5c6d7e8f9",
    "/usr/local/nvidia/lib64:/usr/local/cuda/lib64",
    "https://mlflow.example:5000/api",
    "expandable_segments:True",
    "s3://bucket/path@2026-01-01",
    "user@example.com",
    "GPU-12345678-1234-1234-1234-123456780000",
    "data/LibriSpeech360/train/Speaker12/Wav16",
]


@pytest.mark.parametrize("secret", SECRETS)
def test_a_value_that_looks_like_a_credential_is_masked_under_any_name(tmp_path, secret):
    shown = container(env=[{"name": "SETTING", "value": secret}])
    text = msgspec.json.encode(inventory(tmp_path, pod("a", containers=[shown]))).decode()
    assert MASK in text
    for part in secret.replace("@", ":").replace("/", ":").replace("\n", ":").split(":"):
        assert len(part) < 12 or part not in text or part == "db.example"


@pytest.mark.parametrize("value", PLAIN)
def test_ordinary_values_are_kept(value):
    assert mask_value(value) == value


@pytest.mark.parametrize(
    "name", ["HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "BASIC_AUTH", "SENTRY_DSN", "api-key",
             "DBPASSWORD", "dbPassword", "SMTP_PASS", "githubToken", "API_KEYS", "PRIVATEKEY", "JWT",
             "KEYSTORE_PW", "AZURE_STORAGE_CONNECTION_STRING", "SLACK_WEBHOOK"]
)  # fmt: skip
def test_names_of_secrets_are_known(name):
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "AUTHOR",
        "KEYBOARD",
        "PATH",
        "TOKENIZERS_PARALLELISM",
        "MONKEY",
        "BYPASS",
        "NCCL_IB_SL",
        "SEED",
    ],
)
def test_words_that_only_contain_one_are_no_secrets(name):
    assert not is_secret_name(name)


def test_a_secret_in_an_entry_point_is_masked(tmp_path):
    spec = {"entrypoint": "python t.py --token=abcdef123456", "template": {"spec": {"containers": [container()]}}}  # fmt: skip
    found = inventory(tmp_path, controller("RayJob", "run", api_version="ray.io/v1", spec=spec))
    assert "abcdef123456" not in msgspec.json.encode(found).decode()
    assert MASK in msgspec.json.encode(found).decode()


@pytest.mark.parametrize("value", IN_VALUES)
def test_a_secret_inside_a_value_is_masked_whatever_form_holds_it(value):
    assert WORD not in mask_value(value)
    assert MASK in mask_value(value)


@pytest.mark.parametrize("arguments", IN_ARGUMENTS, ids=" ".join)
def test_a_secret_in_arguments_is_masked_and_their_number_stays(arguments):
    masked = mask_arguments(arguments)
    assert WORD not in " ".join(masked)
    assert len(masked) == len(arguments)


@pytest.mark.parametrize("argument", KEPT_ARGUMENTS)
def test_arguments_that_carry_no_secret_are_kept(argument):
    assert mask_arguments(argument.split(" ")) == tuple(argument.split(" "))
    assert mask_text(argument) == argument


def test_annotations_are_masked_and_those_that_repeat_the_object_dropped():
    repeated = '{"spec": {"containers": [{"env": [{"name": "X_TOKEN", "value": "abc"}]}]}}'
    given = {
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "kopf.zalando.org/last-handled-configuration": "{}",
        "kapp.k14s.io/original": "{}",
        "example.com/copy": repeated,
        "example.com/packed": "H4sIAAAAAAAA",
        "example.com/api-token": "short",
        "example.com/address": f"https://u:{WORD}@example.com",
        "gputailor.io/notify": "https://hooks.slack.com/services/T0/B0/X",
        "gputailor.io/recommendation": '{"rule": "idle"}',
        "team": "vision",
    }
    assert mask_annotations(given) == {
        "example.com/api-token": MASK,
        "example.com/address": f"https://{MASK}@example.com",
        "gputailor.io/notify": "https://hooks.slack.com/services/T0/B0/X",
        "team": "vision",
    }


@given(
    before=st.text(max_size=40),
    name=st.sampled_from(["DB_PASSWORD", "--api-key", "hf.token", "clientSecret", "access_key"]),
    sign=st.sampled_from(["=", ": ", " = ", ":="]),
    secret=st.from_regex(r"[A-Za-z0-9+/_.-]{8,60}", fullmatch=True),
    after=st.sampled_from(["", " --lr 0.1", "; train", ", x=1", "\nnext: 1"]),
)
def test_no_surrounding_text_saves_a_secret_field_s_value(before, name, sign, secret, after):
    assert secret not in mask_text(f"{before} {name}{sign}{secret}{after}").replace(before, "")


@given(st.text(max_size=200))
def test_masking_what_is_masked_changes_nothing(text):
    assert mask_text(mask_text(text)) == mask_text(text)


@pytest.mark.parametrize("piece", ["://a:", "http://a:b/", "mysql ", "login ", 'a="', "--user a", "token "])  # fmt: skip
def test_a_long_hostile_text_is_masked_in_no_time(piece):
    began = time.perf_counter()
    mask_text(piece * 4000)
    assert time.perf_counter() - began < 2.0
