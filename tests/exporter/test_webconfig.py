"""What a web-config file may say, and how a wrong one is refused."""

import ssl

import bcrypt
import pytest
from cryptography.hazmat.primitives import serialization

from gputailor_exporter.serving.webconfig import WebConfig, WebConfigError, load_web_config
from tests.exporter.certificates import Authority


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "must be a mapping"),
        ("a: [", "is not YAML"),
        ("web_server_config: {}", "'web_server_config' is not supported"),
        ("http_server_config: {http3: true}", "'http3' is not supported"),
        ("http_server_config: {http2: 2}", "http2 must be true or false"),
        ("http_server_config: {headers: {X-Other: a}}", "'X-Other' is not supported"),
        ("http_server_config: {headers: {X-Frame-Options: all}}", "must be deny or sameorigin"),
        ('http_server_config: {headers: {X-XSS-Protection: "a\\nb"}}', "must be one line"),
        ('http_server_config: {headers: {X-XSS-Protection: " a"}}', "without blanks around it"),
        ('http_server_config: {headers: {X-XSS-Protection: "\u00e9"}}', "ASCII text"),
        (
            "tls_server_config: {cert_file: a, key_file: b, min_version: TLS13, max_version: TLS12}",
            "min_version is above max_version",
        ),
        ('tls_server_config: {cert_file: "a\\0b", key_file: x}', "null byte"),
        ("rate_limit: {interval: soon, burst: 1}", "expected a time such as 1s, not soon"),
        ("rate_limit: {interval: 1s}", "burst must be a whole number from 1 up"),
        ("basic_auth_users: [a]", "must map names to bcrypt hashes"),
        ("basic_auth_users: {a: plain}", "expected a bcrypt hash"),
        ("tls_server_config: {cert_file: x}", "key_file is missing"),
        ("tls_server_config: {cert_file: x, key_file: y}", "cert_file: "),
        ("tls_server_config: {cert_file: web.yml, key_file: y}", "y cannot be read: No such file"),
        ("tls_server_config: {cert_file: web.yml, key_file: web.yml}", "cannot be used"),
        ("basic_auth_users: {a: $2b$zzz}", "expected a bcrypt hash"),
        (f"basic_auth_users: {{a: $2y$99${'x' * 53}}}", "expected a bcrypt hash"),
        (
            "tls_server_config: {cert_file: x, key_file: y, curve_preferences: []}",
            "'curve_preferences' is not supported",
        ),
        (
            "tls_server_config: {cert_file: x, key_file: y, cipher_suites: [TLS_RC4_WITH_NOTHING]}",
            "RC4-NOTHING is not known to OpenSSL",
        ),
        (
            "tls_server_config: {cert_file: x, key_file: y, cipher_suites: [TLS_AES_128_GCM_SHA256]}",
            "expected suites of TLS 1.2",
        ),
        ("tls_server_config: {cert: x, cert_file: x, key_file: y}", "not both"),
        (
            "tls_server_config: {cert_file: x, key_file: y, client_auth_type: RequireAnyClientCert}",
            "client_auth_type must be one of NoClientCert, VerifyClientCertIfGiven",
        ),
        (
            "tls_server_config: {cert_file: x, key_file: y, client_ca_file: z}",
            "a client CA without a client_auth_type has no effect",
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
    assert load_web_config(file) == WebConfig(files=(file,))


@pytest.fixture
def authority(tmp_path):
    made = Authority(tmp_path)
    made.issue("server", "127.0.0.1")
    return made


def written(folder, more=""):
    file = folder / "web.yml"
    tls = "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n"
    file.write_text(tls + more, encoding="utf-8")
    return file


def test_a_key_with_a_passphrase_is_refused_and_nobody_is_asked_for_it(authority, tmp_path):
    plain = serialization.load_pem_private_key((tmp_path / "server.key").read_bytes(), None)
    (tmp_path / "server.key").write_bytes(
        plain.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    with pytest.raises(WebConfigError, match="expected a key without a passphrase"):
        load_web_config(written(tmp_path))


def test_an_authority_in_letters_of_another_alphabet_is_refused(authority, tmp_path):
    more = "  client_auth_type: RequireAndVerifyClientCert\n  client_ca: é\n"
    with pytest.raises(WebConfigError, match="cannot be used"):
        load_web_config(written(tmp_path, more))


def test_suites_and_versions_are_those_of_the_file(authority, tmp_path):
    suites = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"
    file = written(tmp_path, f"  cipher_suites: [{suites}]\n  max_version: TLS12\n")
    context = load_web_config(file).tls
    assert context.maximum_version is ssl.TLSVersion.TLSv1_2
    old = {one["name"] for one in context.get_ciphers() if one["protocol"] == "TLSv1.2"}
    assert old == {"ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-RSA-CHACHA20-POLY1305"}


@pytest.mark.parametrize(
    "more",
    [
        "  client_allowed_sans: [a]\n",
        "  client_auth_type: VerifyClientCertIfGiven\n  client_ca_file: ca.crt\n  client_allowed_sans: [a]\n",
        "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.crt\n  client_allowed_sans: []\n",
    ],
)
def test_allowed_names_without_a_required_certificate_are_refused(authority, tmp_path, more):
    with pytest.raises(WebConfigError, match="client_allowed_sans needs names"):
        load_web_config(written(tmp_path, more))


def test_the_files_to_watch_are_named(authority, tmp_path):
    file = written(
        tmp_path, "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.crt\n"
    )
    names = [path.name for path in load_web_config(file).files]
    assert names == ["web.yml", "server.crt", "server.key", "ca.crt"]


def test_a_rate_of_several_units_is_added_up(tmp_path):
    file = tmp_path / "web.yml"
    file.write_text("rate_limit: {interval: 1m1.5s500ms, burst: 3}", encoding="utf-8")
    found = load_web_config(file)
    assert (found.rate_interval_seconds, found.rate_burst) == (62.0, 3)


def test_a_file_of_all_sections_is_understood(authority, tmp_path):
    file = written(
        tmp_path,
        "http_server_config:\n  http2: true\n"
        "basic_auth_users:\n"
        f"  alice: {bcrypt.hashpw(b'secret', bcrypt.gensalt(4)).decode()}\n"
        'rate_limit:\n  interval: "1s"\n  burst: 20\n',
    )
    found = load_web_config(file)
    assert set(found.users) == {"alice"}
    assert found.tls is not None
    assert found.rate_interval_seconds == 1.0
