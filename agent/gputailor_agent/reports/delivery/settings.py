"""Who gets what, and by which servers. Secrets never show in ``repr``, logs or the store."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from email.utils import parseaddr
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from gputailor_agent.reports.delivery.errors import DeliveryError
from gputailor_agent.reports.delivery.quiet import QuietHours

_ATOM: Final = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_ADDRESS: Final = re.compile(rf"{_ATOM}(?:\.{_ATOM})*@({_LABEL}(?:\.{_LABEL})*)")
_LONGEST_ADDRESS: Final = 254  # RFC 5321, 4.5.3.1.3
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_HIGHEST_PORT: Final = 65535

#: The line of the mapping file for all who have none.
DEFAULT_TEAM: Final = "default"

TLS_MODES: Final = ("starttls", "tls", "none")
#: The usual port of each mode: submission, submission over TLS (RFC 8314), relay.
USUAL_PORTS: Final[Mapping[str, int]] = {"starttls": 587, "tls": 465, "none": 25}


@dataclass(frozen=True, slots=True, kw_only=True)
class MailServer:
    """The server that takes our mails, and our name there."""

    host: str
    port: int
    tls: str = "starttls"
    username: str = ""
    password: str = field(default="", repr=False)
    ca_file: str = ""  # trusted beside the system's authorities
    timeout_seconds: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectStore:
    """A bucket that keeps reports, by the protocol of S3.

    Without a file of credentials the process's own identity is used: a role of its service
    account, of its node, or variables of the environment.
    """

    bucket: str
    prefix: str = ""
    endpoint: str = ""  # of a server of one's own; '' is Amazon's
    region: str = "us-east-1"
    path_style: bool = True  # the bucket in the path, not in the host's name
    credentials_file: Path | None = None  # as the AWS command line writes it
    timeout_seconds: float = 30.0

    @property
    def name(self) -> str:
        """The place as it may be shown and stored."""
        host = urlsplit(self.endpoint).netloc.rpartition("@")[2]
        return "/".join(part for part in (f"s3://{self.bucket}", self.prefix) if part) + (
            f" at {host}" if host else ""
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Receivers:
    """Mail addresses and names of channels."""

    mail_to: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverySettings:
    """Everything about delivery; without a channel nothing is sent."""

    server: MailServer | None = None
    mail_from: str = ""
    mail_to: tuple[str, ...] = ()
    webhook_url: str = field(default="", repr=False)  # its path is often a secret
    webhook_secrets: tuple[bytes, ...] = field(default=(), repr=False)
    channels: Mapping[str, str] = field(default_factory=dict, repr=False)  # name -> apprise's URL
    teams: Mapping[str, Receivers] = field(default_factory=dict)  # line of the mapping file
    quiet: QuietHours | None = None
    notices_at_once: int = 10  # more of them to one receiver go as one message
    language: str = "en"  # of notices: a name of ``reports.catalogues``
    notices: bool = True
    #: Channels that workloads may name themselves; they get nothing else.
    open_channels: frozenset[str] = frozenset()
    severe_in_quiet_hours: bool = False  # notices of broken hardware do not wait
    folder: Path | None = None  # keeps every report in all its formats
    objects: ObjectStore | None = None  # likewise
    # namespace or pattern -> addresses and names of channels, separated by commas
    notify: Mapping[str, str] = field(default_factory=dict)
    notify_domains: tuple[str, ...] = ()
    public_url: str = ""
    cool_down_seconds: float = 86400.0

    @property
    def wanted(self) -> bool:
        """Whether there is any way to send."""
        kept = self.folder is not None or self.objects is not None
        return kept or self.server is not None or bool(self.webhook_url or self.channels)

    @property
    def folder_name(self) -> str:
        """The folder as it is stored; '' without one."""
        return "" if self.folder is None else str(self.folder)

    @property
    def objects_name(self) -> str:
        """The object store as it is stored; '' without one."""
        return "" if self.objects is None else self.objects.name

    @property
    def whole(self) -> Receivers:
        """Who gets what is of the whole cluster: no channel that is some team's or workload's."""
        taken = {one for line in self.teams.values() for one in line.channels} | self.open_channels
        return Receivers(
            mail_to=self.mail_to, channels=tuple(one for one in self.channels if one not in taken)
        )

    def line_of(self, team: str) -> str:
        """The line of the mapping file that a team's workloads fall under."""
        return team if team in self.teams else DEFAULT_TEAM

    def for_team(self, team: str) -> "DeliverySettings":
        """The settings as they hold for notices of a team's workloads."""
        line = self.teams.get(self.line_of(team), self.whole)
        known = {domain_of(one) for one in self.mail_to}  # they stay known
        return replace(
            self,
            mail_to=line.mail_to,
            channels={one: self.channels[one] for one in line.channels},
            teams={},
            notify_domains=(*self.notify_domains, *known),
        )

    @property
    def webhook_name(self) -> str:
        """The web address as it may be shown and stored: host and a fingerprint."""
        host = urlsplit(self.webhook_url).hostname or ""
        return f"{host}#{hashlib.sha256(self.webhook_url.encode()).hexdigest()[:12]}"

    @property
    def fingerprint(self) -> str:
        """Hash of what shapes a message and its receivers; secrets are not in it."""
        shape = (
            *(self.mail_from, self.mail_to, self.webhook_name, self.public_url),
            *(sorted(self.channels), sorted(self.teams.items(), key=str), self.language),
        )
        return hashlib.sha256(repr(shape).encode()).hexdigest()[:16]

    def may_notify(self, address: str) -> bool:
        """Whether an address that a workload names itself may be written to."""
        known = {domain_of(one) for one in (self.mail_from, *self.mail_to)}
        return domain_of(address) in known | {one.lower() for one in self.notify_domains}


def receivers(given: str | Iterable[str], setting: str, channels: Iterable[str]) -> Receivers:
    """Addresses and names of ``channels``, several in one text by commas.

    Raises ``DeliveryError`` for what is neither.
    """
    several = given.split(",") if isinstance(given, str) else given
    names = tuple(dict.fromkeys(one.strip() for one in several))
    chats = tuple(one for one in names if "@" not in one)
    known = sorted(channels)
    for one in chats:
        if one not in known:
            raise DeliveryError(
                f"{setting}: {one!r} is no mail address and no channel; there are: "
                f"{', '.join(known) or 'none'}"
            )
    return Receivers(
        mail_to=tuple(address(one, setting) for one in names if "@" in one), channels=chats
    )


def address(text: str, setting: str) -> str:
    """A plain mail address (ASCII); raises ``DeliveryError``."""
    stripped = text.strip()
    if len(stripped) > _LONGEST_ADDRESS or _ADDRESS.fullmatch(stripped) is None:
        raise DeliveryError(
            f"{setting}: expected a mail address such as gpu-team@example.org, found {text!r}"
        )
    return stripped


def sender(text: str, setting: str) -> str:
    """An address, or a name with an address in angle brackets; raises ``DeliveryError``."""
    name, plain = parseaddr(text)
    named = "<" in text
    if _CONTROL.search(text) or not text.isascii() or (named and text.strip()[-1] != ">"):
        raise DeliveryError(
            f"{setting}: expected an address or 'Name <address>' in ASCII, found {text!r}"
        )
    checked = address(plain if named else text, setting)
    return f'"{name}" <{checked}>' if name and '"' not in name and "\\" not in name else checked


def domain_of(text: str) -> str:
    """The domain of an address, in lower case; '' without one."""
    return parseaddr(text)[1].rpartition("@")[2].lower()


def web_address(text: str, setting: str) -> str:
    """An http(s) URL with a host and no control characters; raises ``DeliveryError``."""
    try:
        parts = urlsplit(text)
        port_is_fine = parts.port is None or parts.port <= _HIGHEST_PORT
    except ValueError:
        parts, port_is_fine = urlsplit(""), False
    spoilt = _CONTROL.search(text) or " " in text
    if parts.scheme not in {"http", "https"} or not parts.hostname or spoilt or not port_is_fine:
        # the text may be a secret, so it is not repeated
        raise DeliveryError(f"{setting}: expected a URL such as https://hooks.example.org/gpu")
    return text


def delivery_settings(
    *,
    mail_to: Iterable[str] = (),
    mail_from: str = "",
    smtp_host: str = "",
    smtp_port: int | None = None,
    smtp_tls: str = "starttls",
    smtp_username: str = "",
    smtp_password: str = "",
    smtp_ca_file: str = "",
    webhook_url: str = "",
    notices: bool = True,
    notify: Mapping[str, str] | None = None,
    notify_domains: Iterable[str] = (),
    public_url: str = "",
    cool_down_hours: float = 24.0,
    webhook_secrets: tuple[bytes, ...] = (),
    channels: Mapping[str, str] | None = None,
    teams: Mapping[str, Receivers] | None = None,
    quiet: QuietHours | None = None,
    notices_at_once: int = 10,
    language: str = "en",
    open_channels: Iterable[str] = (),
    severe_in_quiet_hours: bool = False,
    folder: Path | None = None,
    objects: ObjectStore | None = None,
) -> DeliverySettings:
    """Check what was given and put it together; raises ``DeliveryError`` naming the setting."""
    recipients = tuple(dict.fromkeys(address(one, "mail_to") for one in mail_to))
    if recipients and not smtp_host:
        raise DeliveryError("mail_to is given, but no smtp_host to send by")
    if smtp_host and not mail_from:
        raise DeliveryError("smtp_host is given, but no mail_from: who do the mails come from?")
    _check_login(smtp_tls, smtp_username, smtp_password)
    if webhook_secrets and not webhook_url:
        raise DeliveryError("webhook_secret_file is given, but no webhook_url to sign calls to")
    if any(line.mail_to for line in (teams or {}).values()) and not smtp_host:
        raise DeliveryError("teams_file names mail addresses, but there is no smtp_host to send by")
    server = None
    if smtp_host:
        server = MailServer(
            host=smtp_host,
            port=smtp_port or USUAL_PORTS[smtp_tls],
            tls=smtp_tls,
            username=smtp_username,
            password=smtp_password,
            ca_file=smtp_ca_file,
        )
    return DeliverySettings(
        server=server,
        mail_from=sender(mail_from, "mail_from") if mail_from else "",
        mail_to=recipients,
        webhook_url=web_address(webhook_url, "webhook_url") if webhook_url else "",
        notices=notices,
        notify={
            pattern: _joined(receivers(given, f"notify.{pattern}", channels or {}))
            for pattern, given in (notify or {}).items()
        },
        notify_domains=tuple(notify_domains),
        public_url=web_address(public_url, "public_url").rstrip("/") if public_url else "",
        cool_down_seconds=cool_down_hours * 3600.0,
        webhook_secrets=webhook_secrets,
        channels=channels or {},
        teams=teams or {},
        quiet=quiet,
        notices_at_once=notices_at_once,
        language=language,
        open_channels=frozenset(open_channels),
        severe_in_quiet_hours=severe_in_quiet_hours,
        folder=folder,
        objects=objects,
    )


def _check_login(tls: str, username: str, password: str) -> None:
    if tls not in TLS_MODES:
        raise DeliveryError(f"smtp_tls: expected {', '.join(TLS_MODES)}, found {tls!r}")
    if username and tls == "none":
        raise DeliveryError(
            "smtp_username with smtp_tls none would send the password in the clear; use starttls "
            "or tls"
        )
    if bool(username) != bool(password):
        raise DeliveryError("smtp_username and smtp_password belong together: give both or none")


def _joined(several: Receivers) -> str:
    return ",".join((*several.mail_to, *several.channels))
