"""What of an address may be shown, and names that are like a mistyped one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputailor_agent.model.addresses import public, without_secrets
from gputailor_agent.model.nearest import did_you_mean, meant_or_known, nearest


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("http://h:9400/metrics", "http://h:9400/metrics"),
        ("http://h:9400/metrics?token=SECRET", "http://h:9400/metrics?token=***"),
        ("http://user:SECRET@h:9400/metrics", "http://h:9400/metrics"),
        ("http://SECRET@h/metrics", "http://h/metrics"),
        ("u:SECRET@h:9400", "h:9400"),
        ("dns+https://u:SECRET@h:9/m?k=SECRET", "dns+https://h:9/m?k=***"),
        ("http://h/probe?target=http://u:SECRET@x&module=gpu",
         "http://h/probe?target=http://x&module=gpu"),
        ("http://h/m?collect[]=gpu&match%5B%5D=up&key=SECRET",
         "http://h/m?collect[]=gpu&match%5B%5D=up&key=***"),
        ("http://h/m?SECRET", "http://h/m?***"),
        ("http://h/m#SECRET", "http://h/m#***"),
        ("http://u:SEC/RET@h/m", "http://h/m"),
        ("http://u:SEC?RET@h/m", "http://***"),
        ("http://h?x=a@SECRET", "http://***"),
        ("http://[::1]:9400/m?auth=SECRET", "http://[::1]:9400/m?auth=***"),
    ],
)  # fmt: skip
def test_an_address_is_shown_without_what_may_be_secret(address, shown):
    assert public(address) == shown
    assert without_secrets(f"cannot read '{address}': refused") == f"cannot read '{shown}': refused"


@pytest.mark.parametrize(
    "text",
    [
        "mail to ops@example.org at 12:30",
        "mailto:ops@example.org",
        "image nginx:1.2@sha256:0a1b",
        "GET http://h:9400/metrics, then https://[::1]/x.",
        "team-a/Job/train/main: 3 of 8 at 12:00",
    ],
)
def test_a_text_without_a_secret_stays_as_it_is(text):
    assert without_secrets(text) == text


_WORD = st.text("abcXYZ0189-_.~%", min_size=1, max_size=12)


@given(_WORD, _WORD, st.lists(st.tuples(_WORD, _WORD), max_size=4))
def test_whatever_a_password_or_parameter_holds_is_masked(user, password, query):
    secret = [f"S3CR3T{one}" for one in (user, password, *(value for _, value in query))]
    told = "&".join(f"q{name}={value}" for (name, _), value in zip(query, secret[2:], strict=True))
    address = f"http://{secret[0]}:{secret[1]}@host:9/metrics?{told}"
    assert "S3CR3T" not in public(address)
    assert "S3CR3T" not in without_secrets(f"two of them: ({address}), {address}")
    assert public(public(address)) == public(address)


def test_what_stands_for_a_password_can_be_chosen():
    assert public("http://u:p@h", credentials="(secret)@") == "http://(secret)@h"
    assert public("http://h", credentials="(secret)@") == "http://h"


def test_names_that_are_like_one_are_offered_whatever_their_letters_look_like():
    known = ["too_many_gpus", "idle", "idle_notebook"]
    assert nearest("Too-Many-GPU", known) == ["too_many_gpus"]
    assert did_you_mean("idel", known) == "; did you mean idle?"
    assert did_you_mean("zzz", known) == ""
    assert meant_or_known("zzz", known) == "; there are: too_many_gpus, idle, idle_notebook"
    assert meant_or_known("zzz", []) == "; there are: none"


def test_no_other_part_looks_for_names_by_itself(request):
    """One way to say what may have been meant; others would say it in other words."""
    agent = request.config.rootpath / "agent"
    users = [
        path.name for path in agent.rglob("*.py") if "import difflib" in path.read_text("utf-8")
    ]
    assert users == ["nearest.py"]
