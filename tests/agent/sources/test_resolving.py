"""One target per address of a name, resolved anew at each round."""

import datetime as dt
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from gputailor_agent.sources.resolving import UnresolvedError, addresses, system_resolver
from gputailor_agent.sources.scrape import FailureReason, ScrapeResult, ScrapeSource
from tests.agent.sources.test_scrape import AT, Exporter, new_exporter

__all__ = ["new_exporter"]


@pytest.fixture
def exporter(new_exporter: Callable[[], Exporter]) -> Exporter:
    return new_exporter()


class Names:
    """A resolver whose answer a test changes."""

    def __init__(self, *found: str) -> None:
        self.found: tuple[str, ...] = found

    def __call__(self, _host: str, _port: int) -> tuple[str, ...]:
        if not self.found:
            raise socket.gaierror(-2, "Name or service not known")
        return self.found


def target(exporter: Exporter, user: str = "") -> str:
    return f"dns+http://{user}exporters.lab.svc:{exporter.address.rpartition(':')[2]}/metrics"


def scrape(names: Names, *targets: str) -> ScrapeResult:
    with ScrapeSource(targets, "lab", resolver=names) as source:
        return source.scrape(AT)


def test_every_address_of_a_name_is_a_page_under_its_own_address(exporter: Exporter) -> None:
    result = scrape(Names("127.0.0.1"), target(exporter))
    assert result.failures == ()
    (page,) = result.pages
    assert page.exporter == f"http://{exporter.address}/metrics"
    port = exporter.address.rpartition(":")[2]
    assert exporter.asked[0][1]["Host"] == f"exporters.lab.svc:{port}"


def test_pods_that_come_and_go_are_seen_at_the_next_round(exporter: Exporter) -> None:
    names = Names()
    with ScrapeSource([target(exporter)], "lab", resolver=names) as source:
        assert source.scrape(AT).pages == ()
        names.found = ("127.0.0.1",)
        assert len(source.scrape(AT + 30).pages) == 1
        names.found = ()
        assert source.scrape(AT + 60).pages == ()


def test_an_address_that_does_not_answer_leaves_the_others(exporter: Exporter) -> None:
    result = scrape(Names("127.0.0.1", "127.0.0.9"), target(exporter))
    assert len(result.pages) == 1
    (failure,) = result.failures
    assert failure.reason is FailureReason.REFUSED
    assert "127.0.0.9" in failure.target


def test_a_name_without_an_address_is_told_without_its_password(exporter: Exporter) -> None:
    (failure,) = scrape(Names(), target(exporter, "me:secret@")).failures
    assert failure.reason is FailureReason.DNS
    assert failure.target.startswith("dns+http://exporters.lab.svc:")
    assert failure.text == "exporters.lab.svc cannot be resolved: Name or service not known"


def test_an_address_that_two_targets_lead_to_is_asked_once(exporter: Exporter) -> None:
    result = scrape(Names("127.0.0.1"), target(exporter), f"http://{exporter.address}/metrics")
    assert len(result.pages) == 1
    assert len(exporter.asked) == 1


def test_addresses_of_version_6_stand_in_brackets_and_the_name_is_kept() -> None:
    found = addresses(httpx.URL("https://u:p@x.svc:9836/metrics"), Names("fd00::7", "10.0.0.1"))
    assert [(str(one.url), one.name) for one in found] == [
        ("https://u:p@10.0.0.1:9836/metrics", "x.svc"),
        ("https://u:p@[fd00::7]:9836/metrics", "x.svc"),
    ]


def test_a_name_without_pods_is_told() -> None:
    with pytest.raises(UnresolvedError, match="no pod is ready behind it"):
        addresses(httpx.URL("http://x.svc"), lambda _host, _port: ())


def test_the_systems_resolver_knows_this_machine() -> None:
    assert system_resolver("127.0.0.1", 80) == ["127.0.0.1"]


def certificate_of(name: str, folder: Path) -> tuple[Path, Path]:
    """Certificate, signed by itself, and key of a name."""
    key, now = ec.generate_private_key(ec.SECP256R1()), dt.datetime.now(dt.UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    signed = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    cert, secret = folder / "cert.pem", folder / "key.pem"
    cert.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return cert, secret


def test_over_tls_each_address_proves_the_name_and_not_its_number(
    exporter: Exporter, tmp_path: Path
) -> None:
    cert, key = certificate_of("exporters.lab.svc", tmp_path)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(cert, key)
    exporter.server.socket = server.wrap_socket(exporter.server.socket, server_side=True)
    trusting = ssl.create_default_context(cafile=cert)
    port = exporter.address.rpartition(":")[2]

    def ask(name: str) -> ScrapeResult:
        address = f"dns+https://{name}:{port}/metrics"
        names = Names("127.0.0.1")
        with ScrapeSource([address], "lab", verify=trusting, resolver=names) as source:
            return source.scrape(AT)

    assert len(ask("exporters.lab.svc").pages) == 1
    assert [one.reason for one in ask("others.lab.svc").failures] == [FailureReason.TLS]
