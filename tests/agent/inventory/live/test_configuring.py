import contextlib
import json
import logging
import os
import ssl
import stat
import sys
import time
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address

import psutil
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from gputailor_agent.inventory.live import plugging
from gputailor_agent.inventory.live.client import connect
from gputailor_agent.inventory.live.configuring import client_module, find_connection
from gputailor_agent.inventory.live.errors import AccessError, UnreachableError
from gputailor_agent.inventory.live.listing import list_objects
from tests.agent.inventory.live.api_server import ApiServer
from tests.agent.inventory.live.conftest import QUICK, kubeconfig_of
from tests.testbed.servers import eventually


def _ask(path=None, context=None):
    with contextlib.closing(connect(path, context, patience=QUICK)) as client:
        list_objects(client, "/api/v1/pods", lambda _: None)


def _told(path=None, context=None):
    with pytest.raises(AccessError) as caught:
        _ask(path, context)
    return str(caught.value)


def _plugin(tmp_path, body, name="login"):
    script = tmp_path / name
    script.write_text(f"#!/bin/sh\n{body}\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return script


def _credential(**given):
    return json.dumps(
        {
            "apiVersion": "client.authentication.k8s.io/v1",
            "kind": "ExecCredential",
            "status": given,
        }
    )


def _exec(command, **more):
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": str(command),
            "interactiveMode": "Never",
            **more,
        }
    }


def test_the_current_context_is_used_unless_another_is_named(api, write_kubeconfig):
    content = kubeconfig_of("http://127.0.0.1:9")
    content["clusters"].append({"name": "b", "cluster": {"server": api.url}})
    content["contexts"].append({"name": "other", "context": {"cluster": "b", "namespace": "ml"}})
    path = write_kubeconfig(content)
    _ask(path, "other")
    assert len(api.requests) == 1
    assert find_connection(path, "other").namespace == "ml"
    assert find_connection(path).where == f"context 'lab' of {path}"


def test_kubeconfig_may_name_several_files_and_the_first_counts(api, write_kubeconfig, monkeypatch):
    first = write_kubeconfig({"current-context": "lab"}, "first")
    second = write_kubeconfig(kubeconfig_of(api.url), "second")
    monkeypatch.setenv("KUBECONFIG", f"{first}:{second}:/nowhere/else")
    _ask()
    assert len(api.requests) == 1


def test_the_file_of_the_home_folder_is_the_default(api, write_kubeconfig, tmp_path):
    (tmp_path / "home" / ".kube").mkdir(parents=True)
    write_kubeconfig(kubeconfig_of(api.url)).rename(tmp_path / "home" / ".kube" / "config")
    found = find_connection()
    assert str(tmp_path / "home" / ".kube" / "config") in found.where


def test_without_any_configuration_the_ways_out_are_told(tmp_path):
    told = _told()
    assert f"there is no kubeconfig at {tmp_path}/home/.kube/config and this is no pod" in told
    assert "--kubeconfig PATH" in told
    assert "--inventory cluster.json" in told


def test_a_file_that_is_not_there_is_named(tmp_path):
    assert f"{tmp_path}/nope: there is no such kubeconfig" in _told(tmp_path / "nope")


def test_a_wrong_context_is_told_with_those_there_are(api, write_kubeconfig):
    path = write_kubeconfig(kubeconfig_of(api.url))
    told = _told(path, "lap")
    assert told == (
        f"{path}: there is no context 'lap' (did you mean lab?); contexts there are: lab"
    )


def test_no_current_context_is_told_with_those_there_are(api, write_kubeconfig):
    content = kubeconfig_of(api.url)
    del content["current-context"]
    path = write_kubeconfig(content)
    assert "no current-context is set; give --context NAME; contexts there are: lab" in _told(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [1", "(line 1): not YAML"),
        ("just words", "is no kubeconfig; expected a mapping"),
        ("", "is no kubeconfig"),
        ("contexts: 3", "contexts: expected a list"),
        ("contexts: [{context: {}}]", "contexts: entry 1 has no name"),
    ],
)
def test_a_file_that_is_no_kubeconfig_is_told(write_kubeconfig, text, words):
    path = write_kubeconfig(text)
    told = _told(path)
    assert str(path) in told
    assert words in told


@pytest.mark.parametrize("section", ["clusters", "users"])
def test_a_context_that_names_what_is_not_there_is_told(api, write_kubeconfig, section):
    content = kubeconfig_of(api.url)
    content[section] = []
    told = _told(write_kubeconfig(content))
    assert f"names a {section[:-1]} that is not there" in told
    assert f"{section} there are: none" in told


def test_a_certificate_that_is_not_there_is_told(write_kubeconfig):
    content = kubeconfig_of("https://127.0.0.1:9", **{"certificate-authority": "/no/ca.crt"})
    told = _told(write_kubeconfig(content))
    assert "/no/ca.crt" in told
    assert "context 'lab'" in told


def test_an_exec_plugin_gives_the_token(api, write_kubeconfig, tmp_path):
    api.tokens = {"from-plugin"}
    script = _plugin(tmp_path, f"echo '{_credential(token='from-plugin')}'")
    _ask(write_kubeconfig(kubeconfig_of(api.url, _exec(script))))


def test_an_exec_plugin_beside_the_kubeconfig_is_found(api, write_kubeconfig, tmp_path):
    api.tokens = {"t"}
    _plugin(tmp_path, f"echo '{_credential(token='t')}'")
    _ask(write_kubeconfig(kubeconfig_of(api.url, _exec("./login"))))


def test_an_exec_plugin_is_asked_again_when_its_token_is_refused(api, write_kubeconfig, tmp_path):
    api.tokens = {"t2"}
    counter = f"n=$(cat {tmp_path}/n 2>/dev/null || echo 0); n=$((n+1)); echo $n > {tmp_path}/n"
    credential = _credential(token="t$n").replace('"', '\\"')
    script = _plugin(tmp_path, f'{counter}; echo "{credential}"')
    _ask(write_kubeconfig(kubeconfig_of(api.url, _exec(script))))
    assert [one.headers["authorization"] for one in api.requests] == ["Bearer t1", "Bearer t2"]


def test_an_exec_plugin_that_is_not_installed_is_told_with_its_hint(api, write_kubeconfig):
    user = _exec("no-such-login", installHint="Install it from the cloud's page.")
    told = _told(write_kubeconfig(kubeconfig_of(api.url, user)))
    assert "the exec plugin 'no-such-login' of user 'me' is not there" in told
    assert told.endswith("Install it from the cloud's page.")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("echo session expired >&2; exit 3", "process returned 3. session expired"),
        ("echo hello", "failed to decode"),
        ("echo '{}'", "missing key"),
        (f"echo '{_credential()}'", "missing token"),
    ],
)
def test_an_exec_plugin_that_fails_is_told_in_its_words(write_kubeconfig, caplog, body, words):
    user = _exec("sh", args=["-c", body])
    path = write_kubeconfig(kubeconfig_of("http://127.0.0.1:9", user))
    with caplog.at_level(logging.DEBUG):
        told = _told(path)
    assert "gave no credentials" in told
    assert words in told
    assert "run it by hand" in told
    assert not caplog.records


def _alive(group):
    """Processes of a process group that are no zombies."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, 0)
        return [
            one.pid
            for one in psutil.process_iter(["status"])
            if one.info["status"] != psutil.STATUS_ZOMBIE and os.getpgid(one.pid) == group
        ]
    return []


@pytest.mark.parametrize("body", ["sleep 60", "sleep 60 & sleep 60"])
def test_an_exec_plugin_that_hangs_is_stopped_and_told(
    write_kubeconfig, tmp_path, monkeypatch, body
):
    monkeypatch.setattr(plugging, "UNATTENDED_SECONDS", 0.3)
    script = _plugin(tmp_path, f"echo $$ > {tmp_path}/pid\n{body}")
    path = write_kubeconfig(kubeconfig_of("http://127.0.0.1:9", _exec(script)))
    began = time.monotonic()
    told = _told(path)
    assert time.monotonic() - began < 5
    assert f"the exec plugin '{script}' of user 'me' gave no credentials" in told
    assert "no answer within 0.3 s, so it was stopped" in told
    assert "run it by hand" in told
    group = int((tmp_path / "pid").read_text())
    eventually(lambda: not _alive(group), "it ends with all that it started")


def test_who_sits_at_a_terminal_is_told_what_is_waited_for_and_has_longer(
    api, write_kubeconfig, tmp_path, monkeypatch, capsys
):
    api.tokens = {"t"}
    monkeypatch.setattr(plugging, "SILENT_SECONDS", 0.1)
    monkeypatch.setattr(plugging, "UNATTENDED_SECONDS", 0.2)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", None)
    monkeypatch.setattr(sys, "stderr", (tmp_path / "terminal").open("w"))
    script = _plugin(tmp_path, f"sleep 0.5; echo '{_credential(token='t')}'")
    _ask(write_kubeconfig(kubeconfig_of(api.url, _exec(script))))
    sys.stderr.close()
    assert (tmp_path / "terminal").read_text() == f"waiting for {script} (at most 300 s)\n"


def test_a_token_is_not_waited_for_without_end_when_it_is_renewed(
    api, write_kubeconfig, tmp_path, monkeypatch
):
    """The agent has run for hours; then the plugin hangs, and the server is asked all the same."""
    monkeypatch.setattr(plugging, "UNATTENDED_SECONDS", 0.3)
    api.tokens = {"t"}
    old = _credential(token="t", expirationTimestamp="2020-01-01T00:00:00Z")
    script = _plugin(tmp_path, f"[ -e {tmp_path}/hang ] && sleep 60\necho '{old}'")
    path = write_kubeconfig(kubeconfig_of(api.url, _exec(script)))
    with contextlib.closing(connect(path, patience=QUICK)) as client:
        list_objects(client, "/api/v1/pods", lambda _: None)
        (tmp_path / "hang").touch()
        began = time.monotonic()
        list_objects(client, "/api/v1/pods", lambda _: None)
    assert time.monotonic() - began < 5


def test_a_provider_that_is_no_more_is_told_with_its_successor(api, write_kubeconfig):
    user = {"auth-provider": {"name": "azure", "config": {}}}
    assert "kubelogin convert-kubeconfig" in _told(write_kubeconfig(kubeconfig_of(api.url, user)))


def test_user_and_password_are_sent(api, write_kubeconfig):
    _ask(write_kubeconfig(kubeconfig_of(api.url, {"username": "u", "password": "p"})))
    assert api.requests[0].headers["authorization"] == "Basic dTpw"


@pytest.fixture
def service_account(tmp_path, monkeypatch):
    """A pod's service account folder; the API server's address is given by its variables."""
    module = client_module("config.incluster_config")
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    (folder / "token").write_text("first")
    (folder / "ca.crt").write_text("no certificate")
    (folder / "namespace").write_text("gputailor")
    monkeypatch.setattr(module, "SERVICE_TOKEN_FILENAME", str(folder / "token"))
    monkeypatch.setattr(module, "SERVICE_CERT_FILENAME", str(folder / "ca.crt"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "9")
    return folder


def test_in_a_pod_its_service_account_is_used(service_account):
    found = find_connection()
    assert found.where == "the pod's service account"
    assert found.namespace == "gputailor"
    assert found.load().host == "https://127.0.0.1:9"


def test_a_kubeconfig_wins_over_the_service_account(api, service_account, kubeconfig):
    assert "context" in find_connection(kubeconfig).where


def test_a_service_account_without_token_is_told(service_account):
    (service_account / "token").unlink()
    told = _told()
    assert "the pod's service account cannot be used" in told
    assert "automountServiceAccountToken" in told


@pytest.fixture
def certificate(tmp_path):
    """A certificate for 127.0.0.1, its own authority, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "lab")])
    now = datetime.now(UTC)
    alternative = x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(alternative, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path / "certificate.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM) + private)
    return path


@pytest.fixture
def secure_api(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server = ApiServer(tls=context)
    yield server
    server.stop()


def test_a_rotated_service_account_token_is_read_again_when_the_old_one_is_refused(
    secure_api, service_account, certificate, monkeypatch
):
    (service_account / "ca.crt").write_text(certificate.read_text())
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(secure_api.port))
    secure_api.tokens = {"second"}
    with contextlib.closing(connect(patience=QUICK)) as client:
        (service_account / "token").write_text("second")
        list_objects(client, "/api/v1/pods", lambda _: None)
    sent = [one.headers["authorization"] for one in secure_api.requests]
    assert sent == ["bearer first", "bearer second"]


def test_a_certificate_of_another_authority_is_told_and_not_tried_again(
    secure_api, write_kubeconfig
):
    path = write_kubeconfig(kubeconfig_of(secure_api.url))
    with pytest.raises(UnreachableError) as caught:
        _ask(path)
    assert "certificate-authority" in str(caught.value)
    assert not caught.value.passing


def test_a_certificate_of_the_named_authority_is_trusted(secure_api, write_kubeconfig, certificate):
    named = {"certificate-authority": str(certificate)}
    _ask(write_kubeconfig(kubeconfig_of(secure_api.url, **named)))
    assert len(secure_api.requests) == 1


def test_an_address_without_a_scheme_is_plain_http_as_for_kubectl(api, write_kubeconfig):
    path = write_kubeconfig(kubeconfig_of(api.url.removeprefix("http://")))
    with contextlib.closing(connect(path, patience=QUICK)) as client:
        assert client.host == api.url


def test_a_cluster_without_an_address_is_told(write_kubeconfig):
    with pytest.raises(AccessError, match=r"cluster 'lab' has no server address; expected server"):
        find_connection(write_kubeconfig(kubeconfig_of("")))
