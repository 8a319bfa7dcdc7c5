"""TLS and basic authentication from a Prometheus web-config file.

The file's format is that of Prometheus' own servers and exporters
(https://prometheus.io/docs/prometheus/latest/configuration/https/); of it the server certificate,
client certificates, the least TLS version and bcrypt users are supported. What is not supported is
an error, never ignored: a security setting must not be lost in silence.
"""

import hashlib
import os
import re
import ssl
import threading
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

_TLS_KEYS: Final = {"cert_file", "key_file", "client_ca_file", "client_auth_type", "min_version"}
_TOP_KEYS: Final = {"tls_server_config", "basic_auth_users"}
_VERSIONS: Final = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_BCRYPT: Final = re.compile(r"\$2[abxy]\$(0[4-9]|[12]\d|3[01])\$[./A-Za-z0-9]{53}")
_CLIENT_AUTH: Final = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}


class WebConfigError(Exception):
    """The web-config file cannot be used; the text says where and what was expected."""


@dataclass(frozen=True, slots=True)
class WebConfig:
    """What the server needs of the file."""

    tls: ssl.SSLContext | None = None
    users: Mapping[str, bytes] = field(default_factory=dict)  # name -> bcrypt hash


def load_web_config(path: Path) -> WebConfig:
    """Read ``path``; raises ``WebConfigError`` for anything missing, wrong or not supported."""
    import yaml  # noqa: PLC0415 - only who uses the file needs the library

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise WebConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise WebConfigError(f"{path}: is not YAML: {error}") from error
    top = _section(path, "the file", {} if content is None else content, _TOP_KEYS)
    tls = None
    if top.get("tls_server_config"):
        section = _section(path, "tls_server_config", top["tls_server_config"], _TLS_KEYS)
        tls = _tls_context(path, section)
    return WebConfig(tls, _users(path, top.get("basic_auth_users") or {}))


def _section(path: Path, name: str, value: object, known: set[str]) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise WebConfigError(f"{path}: {name} must be a mapping, not {type(value).__name__}")
    for key in value:
        if key not in known:
            expected = ", ".join(sorted(known))
            raise WebConfigError(f"{path}: {name}: {key!r} is not supported; known: {expected}")
    return value


def _tls_context(path: Path, section: Mapping[str, Any]) -> ssl.SSLContext:
    for key in ("cert_file", "key_file"):
        if not section.get(key):
            raise WebConfigError(f"{path}: tls_server_config: {key} is missing")
    auth = section.get("client_auth_type") or "NoClientCert"
    version = section.get("min_version") or "TLS12"
    for key, value, known in (
        ("client_auth_type", auth, tuple(_CLIENT_AUTH)),
        ("min_version", version, tuple(_VERSIONS)),
    ):
        if value not in known:
            raise WebConfigError(f"{path}: {key} must be one of {', '.join(known)}, not {value!r}")
    verify = _CLIENT_AUTH[auth]
    if verify is not ssl.CERT_NONE and not section.get("client_ca_file"):
        raise WebConfigError(f"{path}: client_auth_type {auth} needs client_ca_file")
    for key in ("cert_file", "key_file", "client_ca_file"):
        if section.get(key):
            _require_readable(path, key, path.parent / str(section[key]))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[version]
    try:
        # Relative names are relative to the file, as everywhere in the Prometheus world.
        context.load_cert_chain(
            path.parent / str(section["cert_file"]), path.parent / str(section["key_file"])
        )
        if section.get("client_ca_file"):
            context.load_verify_locations(path.parent / str(section["client_ca_file"]))
    except OSError as error:  # also ssl.SSLError
        raise WebConfigError(f"{path}: the certificate or key cannot be used: {error}") from error
    context.verify_mode = verify
    return context


def _require_readable(path: Path, key: str, file: Path) -> None:
    try:
        with file.open("rb"):
            pass
    except OSError as error:
        text = f"{path}: tls_server_config: {key}: {file} cannot be read: {error.strerror}"
        raise WebConfigError(text) from error


def _users(path: Path, section: object) -> dict[str, bytes]:
    if not isinstance(section, dict):
        raise WebConfigError(f"{path}: basic_auth_users must map names to bcrypt hashes")
    users = {}
    for name, hashed in section.items():
        if not isinstance(hashed, str) or _BCRYPT.fullmatch(hashed) is None:
            raise WebConfigError(
                f"{path}: basic_auth_users: {name}: expected a bcrypt hash ($2y$...), "
                "as `htpasswd -nBC 10 NAME` prints it"
            )
        users[str(name)] = hashed.encode()
    return users


class BasicAuth:
    """Checks Authorization headers; remembers good ones, for bcrypt is slow on purpose."""

    def __init__(self, users: Mapping[str, bytes]) -> None:
        """``users`` maps names to bcrypt hashes; empty: everyone may come in."""
        self._users = users
        self._salt = os.urandom(16)
        self._good: set[bytes] = set()
        self._turn = threading.Lock()  # one bcrypt at a time: a flood must not eat the node's CPU

    def allows(self, header: str | None) -> bool:
        """Return whether the header names a known user with the right password."""
        if not self._users:
            return True
        scheme, _, encoded = (header or "").partition(" ")
        if scheme.lower() != "basic":
            return False
        try:
            name, colon, password = b64decode(encoded, validate=True).partition(b":")
        except (Base64Error, ValueError):
            return False
        digest = hashlib.blake2b(name + colon + password, key=self._salt).digest()
        if digest in self._good:
            return True
        if not self._matches(name.decode("utf-8", "replace"), password):
            return False
        self._good.add(digest)
        return True

    def _matches(self, name: str, password: bytes) -> bool:
        import bcrypt  # noqa: PLC0415 - only who asks for passwords needs the library

        # An unknown user costs the same time as a known one.
        hashed = self._users.get(name) or next(iter(self._users.values()))
        with self._turn:
            try:
                right = bcrypt.checkpw(password[:72], hashed)
            except ValueError:
                return False
        return right and name in self._users
