"""What a Prometheus web-config file asks for: TLS, client certificates, users, headers, a rate.

The format is that of Prometheus' own servers and exporters
(https://github.com/prometheus/exporter-toolkit/blob/master/docs/web-configuration.md). What cannot
be honoured here is an error, never ignored: a security setting must not be lost in silence. Not
supported: ``curve_preferences`` and the two client_auth_types that ask for a certificate without
verifying it, for which Python's TLS has no switch; HTTP/2, which nobody needs for a scrape, is
accepted as a wish.
"""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import ssl  # costs 4 MB of memory: loaded where a file asks for TLS

_TOP_KEYS: Final = frozenset(
    {"tls_server_config", "http_server_config", "basic_auth_users", "rate_limit"}
)
_TLS_KEYS: Final = frozenset(
    {
        "cert",
        "cert_file",
        "cipher_suites",
        "client_allowed_sans",
        "client_auth_type",
        "client_ca",
        "client_ca_file",
        "key",
        "key_file",
        "max_version",
        "min_version",
        "prefer_server_cipher_suites",
    }
)
_VERSIONS: Final = {"TLS12": "TLSv1_2", "TLS13": "TLSv1_3"}
_BCRYPT: Final = re.compile(r"\$2[abxy]\$(0[4-9]|[12]\d|3[01])\$[./A-Za-z0-9]{53}")
_CLIENT_AUTH: Final = {
    "NoClientCert": "CERT_NONE",
    "VerifyClientCertIfGiven": "CERT_OPTIONAL",
    "RequireAndVerifyClientCert": "CERT_REQUIRED",
}
#: Header -> the values it may have; none: any.
_HEADERS: Final[Mapping[str, tuple[str, ...]]] = {
    "Content-Security-Policy": (),
    "Strict-Transport-Security": (),
    "X-Content-Type-Options": ("nosniff",),
    "X-Frame-Options": ("deny", "sameorigin"),
    "X-XSS-Protection": (),
}
#: RFC 9110, 5.5, without its obsolete bytes above ASCII. Anything else would fail each answer.
_HEADER_VALUE: Final = re.compile(r"(?:[!-~](?:[ \t!-~]*[!-~])?)?")
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_SECONDS: Final = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


class WebConfigError(Exception):
    """The web-config file cannot be used; the text says where and what was expected."""


@dataclass(frozen=True, slots=True)
class WebConfig:
    """What the server needs of the file; ``files`` are those whose change means a new reading."""

    tls: "ssl.SSLContext | None" = None
    allowed_sans: tuple[str, ...] = ()  # empty: any verified client
    users: Mapping[str, bytes] = field(default_factory=dict)  # name -> bcrypt hash
    headers: Mapping[str, str] = field(default_factory=dict)
    rate_interval_seconds: float = 0.0  # 0: no limit
    rate_burst: int = 0
    files: tuple[Path, ...] = ()  # the first is the web-config file


def load_web_config(path: Path, *, may_be_empty: bool = True) -> WebConfig:
    """Read ``path``; raises ``WebConfigError`` for anything missing, wrong or not supported.

    ``may_be_empty`` False: neither is a file without any content taken, which is what one looks
    like while it is being written anew. It must not open the door for that moment.
    """
    import yaml  # noqa: PLC0415 - only who uses the file needs the library

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise WebConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise WebConfigError(f"{path}: is not YAML: {error}") from error
    if content is None and not may_be_empty:
        raise WebConfigError(f"{path}: is empty; for no rules at all write {{}} into it")
    top = _section(path, "the file", {} if content is None else content, _TOP_KEYS)
    users = _users(path, top.get("basic_auth_users") or {})
    headers = _headers(path, top.get("http_server_config") or {})
    interval, burst = _rate(path, top.get("rate_limit") or {})
    tls: ssl.SSLContext | None = None
    section: Mapping[str, Any] = {}
    if top.get("tls_server_config"):
        section = _section(path, "tls_server_config", top["tls_server_config"], _TLS_KEYS)
        tls = _tls_context(path, section)
    named = [path.parent / str(section[key]) for key in _FILE_KEYS if section.get(key)]
    sans = _allowed_sans(path, section)
    return WebConfig(tls, sans, users, headers, interval, burst, (path, *named))


def _section(path: Path, name: str, value: object, known: frozenset[str]) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise WebConfigError(f"{path}: {name} must be a mapping, not {type(value).__name__}")
    for key in value:
        if key not in known:
            expected = ", ".join(sorted(known))
            raise WebConfigError(f"{path}: {name}: {key!r} is not supported; known: {expected}")
    return value


# -- TLS -------------------------------------------------------------------------------------------

_FILE_KEYS: Final = ("cert_file", "key_file", "client_ca_file")


def _tls_context(path: Path, section: Mapping[str, Any]) -> "ssl.SSLContext":
    import ssl  # noqa: PLC0415 - see above

    for name in ("cert", "key"):
        if not section.get(name) and not section.get(f"{name}_file"):
            raise WebConfigError(f"{path}: tls_server_config: {name}_file is missing")
        if section.get(name) and section.get(f"{name}_file"):
            raise WebConfigError(f"{path}: tls_server_config: give {name} or {name}_file, not both")
    verify = ssl.VerifyMode[_client_auth(path, section)]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    lowest, highest = (
        ssl.TLSVersion[_one_of(path, key, section.get(key) or default, _VERSIONS)]
        for key, default in (("min_version", "TLS12"), ("max_version", "TLS13"))
    )
    if lowest > highest:
        raise WebConfigError(f"{path}: min_version is above max_version: nobody could connect")
    context.minimum_version, context.maximum_version = lowest, highest
    if section.get("prefer_server_cipher_suites", True):
        context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    if section.get("cipher_suites"):
        _set_ciphers(path, context, section["cipher_suites"])
    for key in _FILE_KEYS:
        if section.get(key):
            _require_readable(path, key, path.parent / str(section[key]))
    try:
        with ExitStack() as files:
            certificate, key = (
                files.enter_context(_pem(path, section, name)) for name in ("cert", "key")
            )
            context.load_cert_chain(certificate, key, _no_passphrase)
        # Relative names are relative to the file, as everywhere in the Prometheus world.
        if section.get("client_ca_file"):
            context.load_verify_locations(path.parent / str(section["client_ca_file"]))
        elif section.get("client_ca"):
            context.load_verify_locations(cadata=str(section["client_ca"]))
    except (OSError, TypeError, ValueError) as error:  # also ssl.SSLError; no ASCII, no passphrase
        raise WebConfigError(f"{path}: the certificate or key cannot be used: {error}") from error
    context.verify_mode = verify
    return context


def _no_passphrase() -> str:
    """Stand in for OpenSSL's question on the terminal, at which a service would wait for ever."""
    raise ValueError("it is encrypted; expected a key without a passphrase")


@contextmanager
def _pem(path: Path, section: Mapping[str, Any], name: str) -> Iterator[str]:
    """Path of a certificate or key; of one that stands in the file itself, in memory only."""
    if section.get(f"{name}_file"):
        yield str(path.parent / str(section[f"{name}_file"]))
        return
    with os.fdopen(os.memfd_create(name), "wb") as file:
        file.write(str(section[name]).encode())
        file.flush()
        yield f"/proc/self/fd/{file.fileno()}"


def _client_auth(path: Path, section: Mapping[str, Any]) -> str:
    auth = section.get("client_auth_type") or "NoClientCert"
    verify = _one_of(path, "client_auth_type", auth, _CLIENT_AUTH)
    has_ca = bool(section.get("client_ca") or section.get("client_ca_file"))
    if auth != "NoClientCert" and not has_ca:
        raise WebConfigError(f"{path}: client_auth_type {auth} needs client_ca_file")
    if auth == "NoClientCert" and has_ca:
        raise WebConfigError(
            f"{path}: a client CA without a client_auth_type has no effect; "
            "expected client_auth_type: RequireAndVerifyClientCert"
        )
    return verify


def _one_of(path: Path, key: str, value: object, known: Mapping[str, str]) -> str:
    if not isinstance(value, str) or value not in known:
        raise WebConfigError(f"{path}: {key} must be one of {', '.join(known)}, not {value!r}")
    return known[value]


def _strings(path: Path, key: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise WebConfigError(f"{path}: {key} must be a list of strings")
    return tuple(value)


def _set_ciphers(path: Path, context: "ssl.SSLContext", value: object) -> None:
    """Allow the named suites of TLS 1.2; those of 1.3 (TLS_AES_…) are always on, as in Go."""
    names = [
        re.sub(r"AES_(\d+)", r"AES\1", name.removeprefix("TLS_"))
        .replace("_WITH", "")
        .replace("_", "-")
        .replace("POLY1305-SHA256", "POLY1305")
        for name in _strings(path, "cipher_suites", value)
        if "_WITH_" in name
    ]
    known = {str(one["name"]) for one in context.get_ciphers()}
    for name in names:
        if name not in known:
            raise WebConfigError(f"{path}: cipher_suites: {name} is not known to OpenSSL")
    if not names:
        raise WebConfigError(
            f"{path}: cipher_suites: expected suites of TLS 1.2 "
            "(TLS_ECDHE_…_WITH_…); for TLS 1.3 alone set min_version: TLS13"
        )
    context.set_ciphers(":".join(names))


def _allowed_sans(path: Path, section: Mapping[str, Any]) -> tuple[str, ...]:
    if section.get("client_allowed_sans") is None:
        return ()
    found = _strings(path, "client_allowed_sans", section["client_allowed_sans"])
    if section.get("client_auth_type") != "RequireAndVerifyClientCert" or not found:
        raise WebConfigError(
            f"{path}: client_allowed_sans needs names, and client_auth_type: "
            "RequireAndVerifyClientCert"
        )
    return found


def _require_readable(path: Path, key: str, file: Path) -> None:
    try:
        with file.open("rb"):
            pass
    except (OSError, ValueError) as error:  # a name with a zero byte
        said = getattr(error, "strerror", None) or error
        text = f"{path}: tls_server_config: {key}: {file} cannot be read: {said}"
        raise WebConfigError(text) from error


# -- the rest --------------------------------------------------------------------------------------


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


def _headers(path: Path, section: object) -> dict[str, str]:
    http = _section(path, "http_server_config", section, frozenset({"http2", "headers"}))
    if not isinstance(http.get("http2", True), bool):
        raise WebConfigError(f"{path}: http2 must be true or false")
    found = _section(path, "headers", http.get("headers") or {}, frozenset(_HEADERS))
    for name, value in found.items():
        if not isinstance(value, str) or not _HEADER_VALUE.fullmatch(value):
            raise WebConfigError(
                f"{path}: headers: {name} must be one line of ASCII text without blanks around it, "
                f"not {value!r}"
            )
        if _HEADERS[name] and value not in ("", *_HEADERS[name]):
            raise WebConfigError(f"{path}: headers: {name} must be {' or '.join(_HEADERS[name])}")
    return {name: value for name, value in found.items() if value}


def _rate(path: Path, section: object) -> tuple[float, int]:
    """Seconds between two requests and the burst that is allowed beside."""
    rate = _section(path, "rate_limit", section, frozenset({"interval", "burst"}))
    text = str(rate.get("interval") or 0)
    parts = _DURATION.findall(text)
    if text != "0" and "".join(number + unit for number, unit in parts) != text:
        raise WebConfigError(
            f"{path}: rate_limit: interval: expected a time such as 1s, not {text}"
        )
    interval = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    burst = rate.get("burst", 0)
    if isinstance(burst, bool) or not isinstance(burst, int) or (interval and burst < 1):
        raise WebConfigError(f"{path}: rate_limit: burst must be a whole number from 1 up")
    return interval, burst
