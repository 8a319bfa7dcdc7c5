"""Nothing that looks like a credential enters the inventory, whatever it is called."""

import msgspec
import pytest

from gputailor_agent.inventory.redaction import MASK, is_secret_name, mask_value
from tests.agent.inventory.objects import container, controller, inventory, pod

SECRETS = [
    "hf_abcdefghijklmnopqrstuv",
    "ghp_0123456789abcdefghijABCDEFGHIJ",
    "AKIAIOSFODNN7EXAMPLE",
    "nvapi-0123456789abcdefghijklmnop",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.c2lnbmF0dXJl",
    "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY",
    "postgresql://trainer:word@db.example/runs",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIE",
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
    "name", ["HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "BASIC_AUTH", "SENTRY_DSN", "api-key"]
)  # fmt: skip
def test_names_of_secrets_are_known(name):
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ["AUTHOR", "KEYBOARD", "PATH", "TOKENIZERS_PARALLELISM", "MONKEY"])
def test_words_that_only_contain_one_are_no_secrets(name):
    assert not is_secret_name(name)


def test_a_secret_in_an_entry_point_is_masked(tmp_path):
    spec = {"entrypoint": "python t.py --token=abcdef123456", "template": {"spec": {"containers": [container()]}}}  # fmt: skip
    found = inventory(tmp_path, controller("RayJob", "run", api_version="ray.io/v1", spec=spec))
    assert "abcdef123456" not in msgspec.json.encode(found).decode()
    assert MASK in msgspec.json.encode(found).decode()
