"""Signed calls: an independent reading of Standard Webhooks accepts them, and nothing else."""

import base64
import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputailor_agent.reports.delivery import signing
from gputailor_agent.reports.delivery.errors import DeliveryError
from gputailor_agent.reports.delivery.settings import delivery_settings

#: The example that the specification's libraries share in their tests.
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
BODY = b'{"test": 2432232314}'
SIGNED = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def verified(secret, headers, body):
    """As the specification tells receivers to do it."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    text = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    mark = base64.b64encode(hmac.new(key, text, hashlib.sha256).digest()).decode()
    return f"v1,{mark}" in headers["webhook-signature"].split(" ")


def test_the_example_of_the_specification_has_its_signature():
    secrets = signing.secrets_in(SECRET, "webhook_secret_file")
    made = signing.headers(secrets, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, BODY)
    assert made == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": SIGNED,
    }


@given(st.binary(min_size=24, max_size=64), st.binary(max_size=200), st.binary(max_size=200))
def test_a_call_is_verified_by_its_secret_and_a_changed_body_is_not(key, body, other):
    secret = base64.b64encode(key).decode()
    made = signing.headers(signing.secrets_in(secret, "x"), "abc@example.org", 1.7e9, body)
    assert made["webhook-id"] == "abc"
    assert verified(secret, made, body)
    assert verified(secret, made, other) == (other == body)


def test_with_two_secrets_both_verify():
    other = "whsec_" + base64.b64encode(b"y" * 32).decode()
    made = signing.headers(signing.secrets_in(f"{SECRET}\n\n{other}\n", "x"), "a", 1.7e9, BODY)
    assert verified(SECRET, made, BODY)
    assert verified(other, made, BODY)


def test_without_a_secret_nothing_is_signed():
    assert signing.headers((), "a", 1.7e9, BODY) == {}


@pytest.mark.parametrize("bad", ["whsec_", "hunter2", "whsec_c2hvcnQ=", "!" * 40])
def test_a_secret_that_is_too_short_or_no_base64_is_told_and_not_shown(bad):
    with pytest.raises(DeliveryError, match="webhook_secret_file: expected 24 to 64") as told:
        signing.secrets_in(bad, "webhook_secret_file")
    assert bad not in str(told.value).replace("'echo whsec_$(openssl rand -base64 32)'", "")


def test_a_secret_without_an_address_is_told():
    with pytest.raises(DeliveryError, match="no webhook_url"):
        delivery_settings(webhook_secrets=(b"x" * 32,))
