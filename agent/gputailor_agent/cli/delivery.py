"""Settings of delivery: who gets reports and notices, and by which servers.

They come from the environment and the file only, never from flags: a command line is there for
every user of a machine to read, and lists of people belong into a file.
"""

from pathlib import Path
from typing import Annotated, Any, Self

import yaml
from pydantic import Field, SecretStr, ValidationInfo, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode

from gputailor_agent.reports.catalogues import ENGLISH
from gputailor_agent.reports.delivery import objects
from gputailor_agent.reports.delivery.channels import opened
from gputailor_agent.reports.delivery.errors import DeliveryError
from gputailor_agent.reports.delivery.quiet import QuietHours
from gputailor_agent.reports.delivery.settings import (
    DeliverySettings,
    ObjectStore,
    delivery_settings,
    web_address,
)
from gputailor_agent.reports.delivery.signing import secrets_in
from gputailor_agent.reports.delivery.teams import team_receivers


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
    webhook_secret_file: Path | None = Field(
        None,
        description="File with the secret that web calls are signed by (Standard Webhooks): "
        "`whsec_` and base64, one a line.",
    )
    channels_file: Path | None = Field(
        None,
        description="YAML file of chats that get reports and notices: names, each with its URL as "
        "the library apprise writes it, e.g. `gpu-chat: slack://…`: a mounted Secret. One that is "
        "`{url: …, workloads: true}` gets what workloads have sent there, and nothing else.",
    )
    report_folder: Path | None = Field(
        None,
        description="Folder that keeps every report: CLUSTER/PERIOD/report.html, .md, .json, .csv.",
    )
    objects_url: str = Field(
        "",
        description="Object store (S3) that keeps every report likewise: `s3://BUCKET/PREFIX`; "
        "needs the extra `objects`.",
    )
    objects_endpoint: str = Field(
        "", description="Its server where that is not Amazon's, e.g. `https://s3.example.org:9000`."
    )
    objects_region: str = Field("us-east-1", description="Its region.")
    objects_path_style: bool = Field(
        default=True, description="Write the bucket into the path, not into the host's name."
    )
    objects_credentials_file: Path | None = Field(
        None,
        description="File with its keys as the AWS command line writes it: a mounted Secret; "
        "without it the process's own identity is used.",
    )
    teams_file: Path | None = Field(
        None,
        description="YAML file of who gets a team's part of the report and its notices: team to "
        "addresses and names of channels; `default` is everybody else.",
    )
    quiet_hours: str = Field(
        "",
        description="When notices are kept back until the end of it, in report_time_zone, e.g. "
        "`22:00-07:00`.",
    )
    severe_in_quiet_hours: bool = Field(
        default=False, description="Send notices of broken hardware in quiet_hours, too."
    )
    notices_at_once: int = Field(
        10, ge=1, le=1000, description="More notices to one receiver at a time go as one message."
    )
    notices: bool = Field(
        default=True,
        description="Tell at once when a workload goes idle or its GPUs unhealthy, not only in the "
        "report.",
    )
    notify: dict[str, str] = Field(
        {},
        description="Who is told of workloads instead of mail_to, by namespace or pattern: "
        "addresses and names of channels, as a mapping in the file, as JSON in the environment, "
        'e.g. `{"team-a": "a@example.org"}`.',
    )
    notify_domains: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="Domains that the annotation gputailor.io/notify may name beside those of "
        "mail_to and mail_from, separated by commas.",
    )
    cool_down_hours: float = Field(
        24.0, ge=0, le=8760, description="Least hours between two notices of the same."
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
        given["channels"], given["open_channels"] = _chats(given.pop("channels_file"))
        given["folder"] = given.pop("report_folder")
        given["objects"] = _objects(
            **{name: given.pop(name) for name in tuple(given) if name.startswith("objects_")}
        )
        teams = given.pop("teams_file")
        lines = _mapping("teams_file", teams)
        given["teams"] = team_receivers(lines, f"teams_file {teams}", given["channels"])
        given["webhook_secrets"] = _signing(given.pop("webhook_secret_file"))
        hours = given.pop("quiet_hours")
        # both are settings of the agent's running, beside which these keys stand
        zone = getattr(self, "report_time_zone", "UTC")
        given["quiet"] = QuietHours.read(hours, zone) if hours else None
        given["language"] = getattr(self, "report_language", ENGLISH)
        return delivery_settings(**given)


def _chats(file: Path | None) -> tuple[dict[str, str], frozenset[str]]:
    """Channels with their URLs, each tried for a service, and which of them workloads may name.

    Raises ``DeliveryError``.
    """
    urls: dict[str, str] = {}
    open_to_workloads = set()
    for name, told in _mapping("channels_file", file).items():
        given = told if isinstance(told, dict) else {"url": told}
        strange = given.keys() - {"url", "workloads"}
        asked = given.get("workloads", False)
        if strange or "url" not in given or not isinstance(asked, bool):
            raise DeliveryError(
                f"channels_file, {name}: expected a URL, or {{url: …, workloads: true}}"
            )
        urls[str(name)] = str(given["url"]).strip()
        opened(str(name), urls[str(name)])
        open_to_workloads |= {str(name)} if asked else set()
    return urls, frozenset(open_to_workloads)


def _objects(
    *,
    objects_url: str,
    objects_endpoint: str,
    objects_region: str,
    objects_path_style: bool,
    objects_credentials_file: Path | None,
) -> ObjectStore | None:
    """The object store, its library and its keys tried; raises ``DeliveryError``."""
    if not objects_url:
        if objects_endpoint or objects_credentials_file:
            raise DeliveryError("objects_endpoint or a file of keys is given, but no objects_url")
        return None
    bucket, prefix = objects.located(objects_url, "objects_url")
    objects.imported()
    if objects_credentials_file is not None:
        objects.credentials(objects_credentials_file, "objects_credentials_file")
    return ObjectStore(
        bucket=bucket,
        prefix=prefix,
        endpoint=web_address(objects_endpoint, "objects_endpoint").rstrip("/")
        if objects_endpoint
        else "",
        region=objects_region,
        path_style=objects_path_style,
        credentials_file=objects_credentials_file,
    )


def _mapping(setting: str, file: Path | None) -> dict[Any, Any]:
    """What a YAML file maps; nothing of its text, which may be secret, is in an error."""
    if file is None:
        return {}
    try:
        told = yaml.safe_load(_in_file(setting, file))
    except yaml.MarkedYAMLError as error:
        line = "" if error.problem_mark is None else f", line {error.problem_mark.line + 1}"
        raise DeliveryError(f"{setting}: {file}{line} is no YAML: {error.problem}") from None
    if not isinstance(told, dict):
        raise DeliveryError(
            f"{setting}: {file}: expected a mapping of names such as 'vision: …', found "
            f"{type(told).__name__}"
        )
    return told


def _signing(file: Path | None) -> tuple[bytes, ...]:
    if file is None:
        return ()
    setting = "webhook_secret_file"
    secrets = secrets_in(_in_file(setting, file), setting)
    if not secrets:
        raise DeliveryError(f"{setting}: {file} is empty")
    return secrets


def _in_file(name: str, path: Path) -> str:
    """A secret in a file, without the line's end; raises ``DeliveryError``."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise DeliveryError(f"{name}: cannot read {path}: {error}") from error
