"""Settings of exporters that do not answer everybody: whom we trust there, and who we are.

From the environment and the file only, as those of delivery. Tokens are read again at each scrape,
since they are rotated; certificates and passwords at the start and at a reload.
"""

import ssl
from pathlib import Path
from typing import Final

import httpx
from pydantic import Field
from pydantic_settings import BaseSettings

from gputailor_agent.cli.errors import UsageError
from gputailor_agent.sources.prometheus.access import Access, PrometheusError

#: What a reload puts in force with new connections.
ANEW: Final = (
    "scrape_timeout_seconds",
    "targets",
    "targets_bearer_token_file",
    "targets_ca_file",
    "targets_certificate_file",
    "targets_key_file",
    "targets_password_file",
    "targets_username",
)


class ScrapingKeys(BaseSettings):
    """Keys of the agent's settings that say how exporters are spoken to."""

    targets_ca_file: Path | None = Field(
        None, description="CA that signed the certificates of the exporters."
    )
    targets_certificate_file: Path | None = Field(
        None, description="Client certificate (PEM) where exporters ask for one."
    )
    targets_key_file: Path | None = Field(
        None, description="Key of that certificate, where it is not in the same file."
    )
    targets_bearer_token_file: Path | None = Field(
        None,
        description="File with a bearer token for the exporters, where a proxy before them asks "
        "for one; read at each scrape.",
    )
    targets_username: str = Field(
        "", description="Login at exporters that ask for a password, in place of one in `targets`."
    )
    targets_password_file: Path | None = Field(
        None, description="File with the password of that login: a mounted Secret."
    )


def exporters_access(keys: ScrapingKeys) -> tuple[bool | ssl.SSLContext, httpx.Auth | None]:
    """How exporters' certificates are looked at, and what is shown to them.

    Raises ``UsageError`` for what cannot be used or does not fit together.
    """
    if keys.targets_key_file is not None and keys.targets_certificate_file is None:
        raise UsageError("targets_key_file: give targets_certificate_file, too")
    if bool(keys.targets_username) != (keys.targets_password_file is not None):
        raise UsageError("targets_username and targets_password_file go together: give both")
    if keys.targets_username and keys.targets_bearer_token_file is not None:
        raise UsageError("targets_username and targets_bearer_token_file: give one of them")
    access = Access(
        bearer_token_file=keys.targets_bearer_token_file,
        username=keys.targets_username,
        password=_password(keys.targets_password_file),
        ca_file=keys.targets_ca_file,
        certificate_file=keys.targets_certificate_file,
        key_file=keys.targets_key_file,
    )
    try:
        return access.tls(), access.auth()
    except PrometheusError as error:
        raise UsageError(f"targets: {error}") from error


def _password(file: Path | None) -> str:
    if file is None:
        return ""
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"targets_password_file: cannot read {file}: {error}") from error
