"""Servers whose authorities are as bare as EKS' own are believed, on every Python; others are not.

Python 3.13 made default contexts stricter; where an older one runs they are made so here.
"""

import contextlib
import socket
import ssl

import httpx
import pytest

from gputailor_agent.inventory.live import client as live
from gputailor_agent.inventory.live.client import connect
from gputailor_agent.inventory.live.errors import UnreachableError
from gputailor_agent.inventory.live.listing import list_objects
from gputailor_agent.model.trust import trusting
from gputailor_agent.reports.delivery import mail
from gputailor_agent.reports.delivery.settings import MailServer
from gputailor_agent.sources.prometheus import Access
from gputailor_dashboards.importing import Grafana
from tests.agent.inventory.live.api_server import ApiServer
from tests.agent.inventory.live.conftest import QUICK, kubeconfig_of, write_kubeconfig  # noqa: F401
from tests.exporter.certificates import Authority


@pytest.fixture(autouse=True)
def strict(monkeypatch):
    """Contexts as Python 3.13 makes them."""

    def stricter(make):
        def made(*arguments, **options):
            context = make(*arguments, **options)
            context.verify_flags |= ssl.VERIFY_X509_STRICT
            return context

        return made

    for place, name in ((ssl, "create_default_context"), (live, "create_urllib3_context")):
        monkeypatch.setattr(place, name, stricter(getattr(place, name)))


@pytest.fixture(params=[True, False], ids=["bare", "whole"])
def authority(request, tmp_path):
    return Authority(tmp_path, bare=request.param)


@pytest.fixture
def server(authority):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("server", "127.0.0.1"))
    made = ApiServer(tls=context)
    yield made
    made.stop()


def greets(context, server):
    """Whether a client with this context believes the server."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as line:
        try:
            context.wrap_socket(line, server_hostname="127.0.0.1").close()
        except ssl.SSLCertVerificationError:
            return False
    return True


def test_a_default_context_of_python_3_13_refuses_what_has_no_key_identifiers(authority, server):
    """What this page is about: it must be possible to fail."""
    whole = not authority._bare
    assert greets(ssl.create_default_context(cafile=authority.ca), server) is whole


def contexts(ca_file):
    settings = MailServer(host="127.0.0.1", port=465, ca_file=str(ca_file))
    return {
        "trusting": trusting(ca_file),
        "prometheus and exporters": Access(ca_file=ca_file).tls(),
        "mail": mail._trust(settings),
    }


def test_every_client_believes_them_all_the_same(authority, server):
    believed = {name: greets(one, server) for name, one in contexts(authority.ca).items()}
    assert set(believed.values()) == {True}, believed


def test_no_client_believes_another_authority(tmp_path, server):
    other = tmp_path / "other"
    other.mkdir()
    strange = Authority(other).ca
    believed = {name: greets(one, server) for name, one in contexts(strange).items()}
    assert set(believed.values()) == {False}, believed


def test_the_api_server_is_asked(authority, server, write_kubeconfig):  # noqa: F811
    path = write_kubeconfig(
        kubeconfig_of(server.url, **{"certificate-authority": str(authority.ca)})
    )
    with contextlib.closing(connect(path, patience=QUICK)) as client:
        list_objects(client, "/api/v1/pods", lambda _: None)
    assert [one.path for one in server.requests] == ["/api/v1/pods"]


def test_an_api_server_of_another_authority_is_not(tmp_path, server, write_kubeconfig):  # noqa: F811
    other = tmp_path / "other"
    other.mkdir()
    strange = {"certificate-authority": str(Authority(other).ca)}
    path = write_kubeconfig(kubeconfig_of(server.url, **strange))
    with (
        contextlib.closing(connect(path, patience=QUICK)) as client,
        pytest.raises(UnreachableError, match="certificate"),
    ):
        list_objects(client, "/api/v1/pods", lambda _: None)
    assert server.requests == []


def test_an_api_server_is_asked_unverified_only_where_the_kubeconfig_says_so(
    server, write_kubeconfig  # noqa: F811
):  # fmt: skip
    path = write_kubeconfig(kubeconfig_of(server.url, **{"insecure-skip-tls-verify": True}))
    with contextlib.closing(connect(path, patience=QUICK)) as client:
        list_objects(client, "/api/v1/pods", lambda _: None)
    assert len(server.requests) == 1


def test_grafana_is_asked(authority, server):
    with Grafana(server.url, "token", ca_file=str(authority.ca)) as grafana:
        answer = grafana._client.get("/api/health")
    assert isinstance(answer, httpx.Response)
