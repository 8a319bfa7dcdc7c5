"""What a web-config file may say, and how a wrong one is refused."""

import pytest

from gputailor_exporter.webconfig import WebConfig, WebConfigError, load_web_config


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "must be a mapping"),
        ("a: [", "is not YAML"),
        ("http_server_config: {}", "'http_server_config' is not supported"),
        ("basic_auth_users: [a]", "must map names to bcrypt hashes"),
        ("basic_auth_users: {a: plain}", "expected a bcrypt hash"),
        ("tls_server_config: {cert_file: x}", "key_file is missing"),
        ("tls_server_config: {cert_file: x, key_file: y}", "cert_file: "),
        ("tls_server_config: {cert_file: web.yml, key_file: y}", "y cannot be read: No such file"),
        ("tls_server_config: {cert_file: web.yml, key_file: web.yml}", "cannot be used"),
        ("basic_auth_users: {a: $2b$zzz}", "expected a bcrypt hash"),
        (f"basic_auth_users: {{a: $2y$99${'x' * 53}}}", "expected a bcrypt hash"),
        (
            "tls_server_config: {cert_file: x, key_file: y, cipher_suites: []}",
            "'cipher_suites' is not supported",
        ),
        (
            "tls_server_config: {cert_file: x, key_file: y, min_version: TLS10}",
            "min_version must be one of",
        ),
        (
            "tls_server_config: {cert_file: x, key_file: y, client_auth_type: RequireAndVerifyClientCert}",
            "needs client_ca_file",
        ),
    ],
)
def test_a_web_config_that_cannot_be_honoured_is_refused_with_its_place(tmp_path, text, said):
    file = tmp_path / "web.yml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(WebConfigError, match=r"web\.yml") as caught:
        load_web_config(file)
    assert said in str(caught.value)


def test_a_missing_web_config_is_refused(tmp_path):
    with pytest.raises(WebConfigError, match="cannot be read"):
        load_web_config(tmp_path / "none.yml")


def test_an_empty_web_config_asks_for_nothing(tmp_path):
    file = tmp_path / "web.yml"
    file.write_text("", encoding="utf-8")
    assert load_web_config(file) == WebConfig()
