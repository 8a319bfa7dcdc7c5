"""Settings of delivery: who gets reports and notices, and by which servers.

They come from the environment and the file only, never from flags: a command line is there for
every user of a machine to read, and lists of people belong into a file.
"""

from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, SecretStr, ValidationInfo, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode

from gputailor_agent.reports.delivery.settings import (
    DeliveryError,
    DeliverySettings,
    delivery_settings,
)


class DeliveryKeys(BaseSettings):
    """Keys of the agent's settings that say what is sent to whom."""

    mail_to: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Who gets reports and notices by mail: addresses, separated by commas."
    )
    mail_from: str = Field("", description="Who mails come from: an address, or `Name <address>`.")
    smtp_host: str = Field("", description="Mail server; without one no mail is sent.")
    smtp_port: int | None = Field(
        None, ge=1, le=65535, description="Its port; by smtp_tls 587, 465 or 25."
    )
    smtp_tls: str = Field(
        "starttls", description="`starttls`, `tls` (from the first byte) or `none`."
    )
    smtp_username: str = Field("", description="Login at the mail server, if it wants one.")
    smtp_password: SecretStr = Field(
        SecretStr(""), description="Password of that login. Set it in the environment only."
    )
    smtp_password_file: Path | None = Field(
        None, description="File with that password, in place of it: a mounted Secret."
    )
    smtp_ca_file: str = Field(
        "", description="PEM file of an authority to trust beside the system's."
    )
    webhook_url: SecretStr = Field(
        SecretStr(""), description="Reports and notices are posted here as JSON. Kept as a secret."
    )
    webhook_url_file: Path | None = Field(
        None, description="File with that address, in place of it: a mounted Secret."
    )
    notices: bool = Field(
        default=True, description="Tell at once when a workload goes idle, not only in the report."
    )
    notify: dict[str, str] = Field(
        {},
        description="Who is told of idle workloads instead of mail_to, by namespace or pattern: a "
        'mapping in the file, JSON in the environment, e.g. `{"team-a": "a@example.org"}`.',
    )
    notify_domains: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="Domains that the annotation gputailor.io/notify may name beside those of "
        "mail_to and mail_from, separated by commas.",
    )
    cool_down_hours: float = Field(
        24.0, ge=0, le=8760, description="Least hours between two notices of one workload."
    )
    public_url: str = Field(
        "", description="Where people reach the agent's page; links in mails lead there."
    )

    @field_validator("mail_to", "notify_domains", mode="before")
    @classmethod
    def _commas(cls, value: object, _info: ValidationInfo) -> object:
        """A list, or one text with commas."""
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        try:
            _ = self.delivery
        except DeliveryError as error:
            raise ValueError(str(error)) from None
        return self

    @property
    def delivery(self) -> DeliverySettings:
        """What these keys say, checked; raises ``DeliveryError``."""
        given: dict[str, Any] = {name: getattr(self, name) for name in DeliveryKeys.model_fields}
        for name in ("smtp_password", "webhook_url"):
            file = given.pop(f"{name}_file")
            given[name] = given[name].get_secret_value()
            if file is not None:
                given[name] = _in_file(f"{name}_file", file)
        return delivery_settings(**given)


def _in_file(name: str, path: Path) -> str:
    """A secret in a file, without the line's end; raises ``DeliveryError``."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise DeliveryError(f"{name}: cannot read {path}: {error}") from error
