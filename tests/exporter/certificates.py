"""A small authority that signs certificates for tests of TLS."""

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _san(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        pass
    if "://" in text:
        return x509.UniformResourceIdentifier(text)
    return x509.RFC822Name(text) if "@" in text else x509.DNSName(text)


#: An authority's key signs certificates and lists of revoked ones, and nothing else.
_SIGNS = x509.KeyUsage(
    key_cert_sign=True, crl_sign=True, digital_signature=False, content_commitment=False,
    key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False,
    decipher_only=False,
)  # fmt: skip


class Authority:
    """Signs certificates into ``folder``; its own is ``ca.crt``.

    ``bare``: neither names key identifiers nor what its key is for, as EKS' own.
    """

    def __init__(self, folder: Path, *, bare: bool = False) -> None:
        self.folder = folder
        self._bare = bare
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._subject = _name("test authority")
        own = self._builder(self._subject, self._key.public_key()).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        if not bare:
            own = own.add_extension(_SIGNS, critical=True)
        self.ca = self._write("ca.crt", own)

    def issue(self, name: str, *sans: str) -> tuple[Path, Path]:
        """Certificate and key; the names it is valid for."""
        key = ec.generate_private_key(ec.SECP256R1())
        made = self._builder(_name(name), key.public_key()).add_extension(
            x509.SubjectAlternativeName([_san(text) for text in sans]), critical=False
        )
        path = self.folder / f"{name}.key"
        path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return self._write(f"{name}.crt", made), path

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey):
        now = datetime.now(UTC)
        made = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._subject)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(hours=1))
        )
        if self._bare:
            return made
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return made.add_extension(
            x509.SubjectKeyIdentifier.from_public_key(key), critical=False
        ).add_extension(issuer, critical=False)

    def _write(self, name: str, made: x509.CertificateBuilder) -> Path:
        path = self.folder / name
        signed = made.sign(self._key, hashes.SHA256())
        path.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        return path
