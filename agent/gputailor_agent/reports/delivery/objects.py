"""An object store that keeps reports at PREFIX/CLUSTER/PERIOD/report.html, by the protocol of S3.

Amazon's, or a server of one's own (MinIO, Ceph, …) by its endpoint. The library is obstore (the
extra ``objects``), which is imported only by those who have a store. Putting an object again puts
the same under the same key, so a crash doubles nothing. Keys of access are read anew each time,
since mounted Secrets change, and are never told: of what a server answers only its kind is.
"""

import configparser
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from gputailor_agent.reports.delivery.content import Content
from gputailor_agent.reports.delivery.errors import DeliveryError
from gputailor_agent.reports.delivery.keeping import place_of
from gputailor_agent.reports.delivery.mail import SendError
from gputailor_agent.reports.delivery.settings import ObjectStore

#: Tries of one object; what still fails is tried again by the outbox.
_RETRIES: Final = 2
_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "md": "text/markdown; charset=utf-8",
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
}
#: Keys of a file of credentials, as the AWS command line writes it -> of the library.
_KEYS: Final = {
    "aws_access_key_id": "access_key_id",
    "aws_secret_access_key": "secret_access_key",
    "aws_session_token": "session_token",
}
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_PREFIX: Final = re.compile(r"[A-Za-z0-9!_.*'()/-]*")
_STATUS: Final = re.compile(r"\b(?:status|code)\W{0,3}([45]\d\d)\b", re.IGNORECASE)

Put = Callable[[Content], None]


def located(url: str, setting: str) -> tuple[str, str]:
    """Bucket and prefix of ``s3://BUCKET/PREFIX``; raises ``DeliveryError``."""
    scheme, _sep, rest = url.partition("://")
    bucket, _sep, prefix = rest.partition("/")
    prefix = prefix.removesuffix("/")
    climbs = any(part in {"", ".", ".."} for part in prefix.split("/")) if prefix else False
    fine = _BUCKET.fullmatch(bucket) and _PREFIX.fullmatch(prefix) and not climbs
    if scheme != "s3" or not fine:
        raise DeliveryError(f"{setting}: expected s3://BUCKET or s3://BUCKET/PREFIX, found {url!r}")
    return bucket, prefix


def credentials(file: Path, setting: str) -> dict[str, str]:
    """Keys of access in a file, as the AWS command line writes it; raises ``DeliveryError``.

    The first section that has them counts. Nothing of the file is in an error.
    """
    parsed = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parsed.read_string(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise DeliveryError(f"{setting}: cannot read {file}: {reason}") from None
    except configparser.Error as error:
        raise DeliveryError(f"{setting}: {file} is {_EXPECTED} ({type(error).__name__})") from None
    for section in parsed.sections():
        found = {
            ours: parsed[section][theirs].strip()
            for theirs, ours in _KEYS.items()
            if parsed[section].get(theirs, "").strip()
        }
        if {"access_key_id", "secret_access_key"} <= found.keys():
            return found
    raise DeliveryError(f"{setting}: {file} is {_EXPECTED}")


_EXPECTED: Final = (
    "no file of credentials; expected [default] and below it aws_access_key_id = … and "
    "aws_secret_access_key = …"
)


def imported() -> Any:
    """The module ``obstore``; raises ``DeliveryError`` saying what to install."""
    try:
        import_module("obstore.store")
        return import_module("obstore")
    except ImportError:
        raise DeliveryError(
            "objects_url needs the library obstore: pip install 'gputailor[objects]'"
        ) from None


def opened(place: ObjectStore) -> Put:
    """What puts a report's files; opening and putting raise ``SendError`` without secrets."""
    try:
        obstore = imported()
        store = obstore.store.S3Store(place.bucket, **_options(place))
    except DeliveryError as error:
        raise SendError(str(error), everyone=True) from None
    except Exception as error:  # noqa: BLE001 - the library's own errors have no common base here
        raise SendError(f"{place.name}: {_told(error)}", everyone=True) from None

    def put(content: Content) -> None:
        for name, text in content.files.items():
            folders = (place.prefix, *place_of(content.cluster, content.period))
            key = "/".join(part for part in (*folders, name) if part)
            kind = _TYPES.get(name.rpartition(".")[2], "application/octet-stream")
            try:
                obstore.put(store, key, text.encode(), attributes={"Content-Type": kind})
            except Exception as error:  # noqa: BLE001 - as above
                raise SendError(f"{place.name}: {_told(error)}", everyone=True) from None

    return put


def _options(place: ObjectStore) -> Mapping[str, Any]:
    keys = {}
    if place.credentials_file is not None:
        keys = credentials(place.credentials_file, "objects_credentials_file")
    own = {"endpoint": _endpoint(place)} if place.endpoint else {}
    return {
        **own,
        **keys,
        "region": place.region,
        "virtual_hosted_style_request": not place.path_style,
        "client_options": {
            "allow_http": place.endpoint.startswith("http://"),
            "connect_timeout": timedelta(seconds=min(5.0, place.timeout_seconds)),
            "timeout": timedelta(seconds=place.timeout_seconds),
        },
        "retry_config": {
            "max_retries": _RETRIES,
            "retry_timeout": timedelta(seconds=place.timeout_seconds),
        },
    }


def _endpoint(place: ObjectStore) -> str:
    """The server's address as the library wants it: with the bucket, where hosts have its name."""
    scheme, _sep, host = place.endpoint.partition("://")
    return place.endpoint if place.path_style else f"{scheme}://{place.bucket}.{host}"


def _told(error: Exception) -> str:
    """The kind of an error: its text may hold what the server says of our keys."""
    names = {
        "FileNotFoundError": "there is no such bucket (not found)",
        "PermissionDeniedError": "the keys may not write there, or are wrong (permission denied)",
        "UnauthenticatedError": "no keys, or wrong ones (not authenticated)",
    }
    kind = type(error).__name__
    status = _STATUS.search(str(error))
    answered = f", answered {status.group(1)}" if status else ""
    return names.get(kind, f"cannot be written to ({kind}{answered})")
