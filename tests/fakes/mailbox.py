"""A real SMTP server (aiosmtpd) that keeps what it gets: plain, STARTTLS or TLS, with a login."""

import datetime as dt
import ipaddress
import ssl
from email import message_from_bytes
from email.policy import default
from pathlib import Path

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

USER, PASSWORD = "agent", "s3cret-pass"


def certificate(folder: Path) -> tuple[Path, Path]:
    """Certificate and key of 127.0.0.1, signed by itself; the certificate is its own authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = dt.datetime.now(dt.UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    folder.mkdir(parents=True, exist_ok=True)
    cert, secret = folder / "cert.pem", folder / "key.pem"
    cert.write_bytes(built.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return cert, secret


class _Controller(Controller):
    """Its port is chosen by the system, and TLS from the first byte is possible."""

    def _trigger_server(self):
        self.port = self.server.sockets[0].getsockname()[1]
        super()._trigger_server()


class Mailbox:
    """Start with ``with``; ``mails`` are what was accepted, ``refuse`` maps addresses to answers."""

    def __init__(self, folder: Path, tls: str = "none") -> None:
        self.tls, self.mails, self.refuse, self.tls_seen = tls, [], {}, []
        self.port = 0
        self.ca_file = ""
        options = {}
        if tls != "none":
            cert, key = certificate(folder)
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(cert, key)
            self.ca_file = str(cert)
            options = {"authenticator": self._login, "auth_required": True}
            if tls == "tls":
                options |= {"ssl_context": context, "auth_require_tls": False}
            else:
                options |= {"tls_context": context, "require_starttls": True}
        self._options = options
        self._controller = None

    def __enter__(self):
        self._controller = _Controller(self, hostname="127.0.0.1", port=self.port, **self._options)
        self._controller.start()
        self.port = self._controller.port
        return self

    def __exit__(self, *_):
        self._controller.stop()

    @staticmethod
    def _login(_server, _session, _envelope, _mechanism, data) -> AuthResult:
        given = (data.login.decode(), data.password.decode())
        return AuthResult(success=given == (USER, PASSWORD), handled=False)

    async def handle_RCPT(self, server: SMTP, session, envelope, address, rcpt_options):  # noqa: N802
        if address in self.refuse:
            return self.refuse[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session, envelope):  # noqa: N802
        self.tls_seen.append(server.transport.get_extra_info("sslcontext") is not None)
        mail = message_from_bytes(envelope.content, policy=default)
        mail.envelope_to = list(envelope.rcpt_tos)
        self.mails.append(mail)
        return "250 taken"
