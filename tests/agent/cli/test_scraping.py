"""Exporters that want a certificate, a token or a password, and a store's address in a file."""

import ssl

import pytest

from gputailor_agent.cli.errors import UsageError
from gputailor_agent.cli.scraping import ANEW, ScrapingKeys, exporters_access
from gputailor_agent.cli.settings import load_settings
from gputailor_agent.cli.validating import faults
from gputailor_agent.sources.scrape import FailureReason, ScrapeSource
from tests.agent.sources.test_scrape import AT, Exporter
from tests.fakes.mailbox import certificate

URL = "postgresql+psycopg://gputailor:hush@database.example.org/gputailor"


@pytest.fixture
def write(tmp_path):
    """A function that writes a file and names it."""

    def call(name, text):
        path = tmp_path / name
        path.write_text(text, "utf-8")
        return path

    return call


def settings(**given):
    return load_settings({"targets": ["node-1:9836"], **given}, None)


@pytest.fixture
def exporter():
    server = Exporter()
    yield server
    server.close()


def test_a_token_is_read_again_at_each_scrape(exporter, write):
    token = write("token", "one\n")
    verify, auth = exporters_access(settings(targets_bearer_token_file=token))
    with ScrapeSource([exporter.address], "lab", verify=verify, auth=auth) as source:
        assert source.scrape(AT).pages
        token.write_text("two", "utf-8")
        assert source.scrape(AT).pages
        token.unlink()
        (failure,) = source.scrape(AT).failures
    assert [headers["Authorization"] for _, headers in exporter.asked] == [
        "Bearer one",
        "Bearer two",
    ]
    assert failure.reason is FailureReason.CREDENTIALS
    assert str(token) in failure.text


def test_a_password_from_a_file_wins_over_the_one_in_an_address(exporter, write):
    told = settings(targets_username="agent", targets_password_file=write("password", "hush\n"))
    verify, auth = exporters_access(told)
    with ScrapeSource(
        [f"http://other:word@{exporter.address}"], "lab", verify=verify, auth=auth
    ) as source:
        assert source.scrape(AT).pages
    ((_, headers),) = exporter.asked
    assert headers["Authorization"] == "Basic YWdlbnQ6aHVzaA=="


def test_a_certificate_of_an_authority_that_is_named_is_trusted_and_of_another_not(
    exporter, tmp_path
):
    ours, key = certificate(tmp_path / "ours")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(ours, key)
    # Who comes must show a certificate, which is his own authority here.
    mine, my_key = certificate(tmp_path / "mine")
    context.load_verify_locations(mine)
    context.verify_mode = ssl.CERT_REQUIRED
    listening = exporter.server.socket
    exporter.server.socket = context.wrap_socket(listening, server_side=True)

    def scraped(**more):
        verify, auth = exporters_access(settings(**more))
        url = f"https://{exporter.address}"
        with ScrapeSource([url], "lab", verify=verify, auth=auth) as source:
            return source.scrape(AT)

    shown = {"targets_certificate_file": mine, "targets_key_file": my_key}
    assert scraped(targets_ca_file=ours, **shown).pages
    for told in (shown, shown | {"targets_ca_file": mine}):
        (failure,) = scraped(**told).failures
        assert failure.reason is FailureReason.TLS
    (failure,) = scraped(targets_ca_file=ours).failures  # who shows nothing is not answered
    assert failure.reason in {FailureReason.TLS, FailureReason.BROKEN}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"targets_key_file": "key.pem"}, "targets_key_file: give targets_certificate_file, too"),
        ({"targets_username": "agent"}, "targets_username and targets_password_file go together"),
        ({"targets_password_file": "word"}, "targets_username and targets_password_file go"),
        ({"targets_ca_file": "none.pem"}, "the CA file none.pem cannot be used"),
        (
            {"targets_username": "agent", "targets_password_file": "none"},
            "targets_password_file: cannot read none",
        ),
        (
            {
                "targets_username": "agent",
                "targets_password_file": "none",
                "targets_bearer_token_file": "token",
            },
            "targets_username and targets_bearer_token_file: give one of them",
        ),
    ],
)
def test_what_does_not_fit_together_is_told_before_the_agent_starts(given, words):
    (told,) = faults(settings(**given))
    assert words in told
    with pytest.raises(UsageError, match=words.partition(":")[0]):
        exporters_access(settings(**given))


def test_a_reload_makes_new_connections_for_each_of_these_settings():
    assert {"targets", "scrape_timeout_seconds", *ScrapingKeys.model_fields} == set(ANEW)


def test_the_stores_address_is_read_from_a_file(write):
    assert settings(store_file=write("url", f"{URL}\n")).store == URL


def test_an_address_in_a_file_is_taken_from_environment_and_settings_file(write, monkeypatch):
    path = write("url", URL)
    config = write("agent.yaml", f"store_file: {path}\n")
    assert load_settings({}, config).store == URL
    monkeypatch.setenv("GPUTAILOR_STORE_FILE", str(path))
    assert load_settings({}, None).store == URL


@pytest.mark.parametrize("more", ["\n", None])
def test_a_file_that_names_no_store_is_told_and_its_text_is_not(write, tmp_path, more):
    path = tmp_path / "none" if more is None else write("url", more)
    with pytest.raises(UsageError, match=f"store_file: .*{path}"):
        settings(store_file=path)


def test_two_places_of_a_store_are_refused_and_no_password_is_shown(write):
    with pytest.raises(UsageError, match="store and store_file both say") as refused:
        settings(store_file=write("url", URL), store="sqlite:///x.db")
    assert "hush" not in str(refused.value)
    with pytest.raises(UsageError) as refused:
        settings(store_file=write("url", URL.replace("postgresql+psycopg", "oracle")))
    assert "hush" not in str(refused.value)
