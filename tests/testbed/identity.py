"""Keys, certificates, tokens and kubeconfig files of a control plane, made anew for every start."""

import ipaddress
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

#: Users of the token file with their groups. Each part has a name of its own, so that the audit
#: log tells who asked; `nobody` may do nothing until a test binds a role to it.
USERS: Mapping[str, Sequence[str]] = {
    "admin": ("system:masters",),
    "kube-controller-manager": ("system:masters",),
    "kube-scheduler": ("system:masters",),
    "kwok": ("system:masters",),
    "kube-state-metrics": ("system:masters",),
    "helm": ("system:masters",),
    "installer": (),
    "laptop": (),
    "nobody": (),
}
SERVICE_ADDRESS = "10.0.0.1"


@dataclass(frozen=True)
class Identity:
    """Paths of what was made, and the token of each user."""

    ca: Path
    certificate: Path
    key: Path
    service_account_key: Path
    service_account_public_key: Path
    token_file: Path
    tokens: Mapping[str, str]


def create_identity(folder: Path) -> Identity:
    """Make a CA, a serving certificate, an RSA pair for service accounts and the token file."""
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "testbed-ca")])
    ca = (
        _builder(ca_name, ca_name, ca_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(
            x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key()), critical=False
        )
        .sign(ca_key, hashes.SHA256())
    )
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")])
    names: list[x509.GeneralName] = [
        x509.DNSName("localhost"),
        x509.DNSName("kubernetes.default.svc"),
        *(x509.IPAddress(ipaddress.ip_address(each)) for each in ("127.0.0.1", SERVICE_ADDRESS)),
    ]
    certificate = (
        _builder(name, ca_name, key.public_key())
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
        )
        .sign(ca_key, hashes.SHA256())
    )
    pair = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    tokens = {user: secrets.token_hex(16) for user in USERS}
    # Without groups there is no fourth column: an empty one would be a group without a name.
    rows = [
        f"{tokens[user]},{user},{user}" + (f',"{",".join(groups)}"' if groups else "")
        for user, groups in USERS.items()
    ]
    return Identity(
        ca=_write(folder / "ca.crt", ca.public_bytes(serialization.Encoding.PEM)),
        certificate=_write(
            folder / "apiserver.crt", certificate.public_bytes(serialization.Encoding.PEM)
        ),
        key=_write(folder / "apiserver.key", _pem(key)),
        service_account_key=_write(folder / "sa.key", _pem(pair)),
        service_account_public_key=_write(
            folder / "sa.pub",
            pair.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            ),
        ),
        token_file=_write(folder / "tokens.csv", "\n".join(rows).encode()),
        tokens=tokens,
    )


def write_kubeconfig(
    path: Path, url: str, ca: Path, token: str, namespace: str = "default"
) -> Path:
    """Write a kubeconfig of one context (named ``testbed``) and return its path."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "testbed", "cluster": {"server": url, "certificate-authority": str(ca)}}
        ],
        "users": [{"name": "testbed", "user": {"token": token}}],
        "contexts": [
            {
                "name": "testbed",
                "context": {"cluster": "testbed", "user": "testbed", "namespace": namespace},
            }
        ],
        "current-context": "testbed",
    }
    return _write(path, yaml.safe_dump(config).encode())


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=2))
    )


def _pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def _write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    path.chmod(0o600)
    return path
