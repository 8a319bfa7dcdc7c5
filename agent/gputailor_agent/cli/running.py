"""Settings of how the agent runs: time zone, lease, keeping, logs; and files in TOML."""

import tomllib
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer
from pydantic import Field, field_validator
from pydantic_settings import BaseSettings

from gputailor_agent.cli.errors import UsageError
from gputailor_agent.cli.scraping import ANEW
from gputailor_agent.schedule.timing import CronError, time_zone

#: What a reload (SIGHUP) changes; the rest needs a restart.
RELOADED: Final = frozenset(
    {
        *ANEW,
        "channels_file",
        "cool_down_hours",
        "jitter_seconds",
        "keep_days",
        "mail_from",
        "mail_to",
        "notices",
        "notices_at_once",
        "notify",
        "notify_domains",
        "objects_credentials_file",
        "objects_endpoint",
        "objects_path_style",
        "objects_region",
        "objects_url",
        "prices",
        "public_url",
        "quiet_hours",
        "recommend_seconds",
        "report_cron",
        "report_folder",
        "report_language",
        "report_time_zone",
        "scrape_seconds",
        "severe_in_quiet_hours",
        "smtp_ca_file",
        "smtp_host",
        "smtp_password",
        "smtp_password_file",
        "smtp_port",
        "smtp_tls",
        "smtp_username",
        "team_keys",
        "teams_file",
        "thresholds",
        "watch_idle_seconds",
        "webhook_secret_file",
        "webhook_url",
        "webhook_url_file",
        "window_days",
    }
)


RUNNING: Final = "How it runs"

_running = partial(typer.Option, rich_help_panel=RUNNING)

ReportTimeZone = Annotated[
    str | None,
    _running(
        "--report-time-zone",
        help="Time zone of --report-cron, e.g. Europe/Berlin.",
    ),
]
ReportLanguage = Annotated[
    str | None,
    _running(
        "--report-language",
        help="Language of the weekly report: en or zh.",
    ),
]
JitterSeconds = Annotated[
    float | None,
    _running(
        "--jitter-seconds",
        help="Spread reports and hourly readings over so many seconds, by cluster.",
    ),
]
WatchIdleSeconds = Annotated[
    float | None,
    _running(
        "--watch-idle-seconds",
        help="Seconds between looks for what went idle, between plans.",
    ),
]
LeaseSeconds = Annotated[
    float | None,
    _running(
        "--lease-seconds",
        help="After so long without a sign of life another agent may take over.",
    ),
]
KeepDays = Annotated[
    float | None,
    _running("--keep-days", help="Days that usage is kept."),
]
HourlyDays = Annotated[
    float | None,
    _running("--hourly-days", help="Days that are read hour by hour."),
]
LogFormat = Annotated[
    str | None,
    _running(
        "--log-format",
        help="text for people, json for log stores.",
    ),
]


class RunningKeys(BaseSettings):
    """Keys of the agent's settings that say how it runs."""

    report_time_zone: str = Field(
        "UTC", description="Time zone of report_cron, by its IANA name, e.g. `Europe/Berlin`."
    )
    report_language: Literal["en", "zh"] = Field(
        "en",
        description="Language of reports and notices: `en` (English) or `zh` (Chinese).",
    )
    jitter_seconds: float = Field(
        0.0,
        ge=0,
        le=3600,
        description="Spread reports and hourly readings of a Prometheus over so many seconds, each "
        "cluster at a place of its own: for many agents that ask one server.",
    )
    watch_idle_seconds: float = Field(
        300.0,
        ge=30,
        le=86400,
        description="Seconds between looks for workloads that stopped working, where plans are "
        "rarer than that.",
    )
    lease_seconds: float = Field(
        40.0,
        ge=2,
        le=600,
        description="After so long without a sign of life another agent may take the store over.",
    )
    keep_days: float = Field(
        400.0, ge=30, description="Days that usage and what became of findings are kept."
    )
    log_format: Literal["text", "json"] = Field(
        "text", description="`text` for people, `json` (one object a line) for log stores."
    )

    @field_validator("report_time_zone")
    @classmethod
    def _zone(cls, value: str) -> str:
        try:
            time_zone(value)
        except CronError as error:
            raise ValueError(str(error)) from error
        return value


def read_toml(path: Path) -> dict[str, Any]:
    """A settings file in TOML; raises ``UsageError``."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--config: cannot read {path}: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"--config: {path} is not TOML: {error}") from error
