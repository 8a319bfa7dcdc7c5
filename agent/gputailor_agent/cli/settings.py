"""Settings of ``gputailor serve``: flags over ``GPUTAILOR_*`` environment over file over defaults.

The file is YAML or TOML with the names below as keys; an unknown key or a wrong value is told with
its name, where it came from is in the order above.
"""

import os
import re
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

import yaml
from pydantic import Field, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)
from pydantic_settings.exceptions import SettingsError as SourceError
from pydantic_settings.sources import InitSettingsSource

from gputailor_agent.api.doors import Doors
from gputailor_agent.cli.clusters import ClusterAccess, in_pod
from gputailor_agent.cli.delivery import DeliveryKeys
from gputailor_agent.cli.discovered import AUTO
from gputailor_agent.cli.environment import strangers
from gputailor_agent.cli.errors import UsageError
from gputailor_agent.cli.faults import told_faults, told_source
from gputailor_agent.cli.histories import PrometheusAccess
from gputailor_agent.cli.kubernetes import KubernetesKeys
from gputailor_agent.cli.placing import PlaceKeys
from gputailor_agent.cli.running import RunningKeys, read_toml
from gputailor_agent.cli.scraping import ScrapingKeys
from gputailor_agent.cli.targets import exporter_url
from gputailor_agent.cli.terminal import tell
from gputailor_agent.cli.web import WebKeys, doors
from gputailor_agent.rules import RuleSettings, SettingsError, check_settings
from gputailor_agent.schedule.timing import CronError, cron_trigger

_LISTEN: Final = re.compile(r"(\[[0-9a-fA-F:.]*\]|[^:\[\]]*):(\d{1,5})")
_HIGHEST_PORT: Final = 65535

_Value = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]


class AgentSettings(WebKeys, DeliveryKeys, ScrapingKeys, PlaceKeys, KubernetesKeys, RunningKeys):
    """Everything the agent can be told."""

    model_config = SettingsConfigDict(env_prefix="GPUTAILOR_", extra="forbid", frozen=True)
    file_values: ClassVar[dict[str, Any]] = {}

    cluster: str = Field("default", min_length=1, description="The cluster's name.")
    targets: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="Exporters to scrape: URLs, host:port, separated by commas; "
        "`dns+http://host:port` is every address of a host.",
    )
    prometheus_url: str = Field(
        "",
        description="Read usage hourly from this Prometheus instead of scraping; `auto` looks for "
        "one among the cluster's services.",
    )
    prometheus_bearer_token_file: Path | None = Field(
        None, description="File with a bearer token for the Prometheus; read at each request."
    )
    prometheus_headers: dict[str, str] = Field(
        {},
        description="Headers for the Prometheus: a mapping in the file, JSON in the environment, "
        'e.g. `{"X-Scope-OrgID": "team"}`.',
    )
    prometheus_labels: dict[str, str] = Field(
        {},
        description="Only series with these labels, where one server holds several clusters: "
        "a mapping in the file, JSON in the environment.",
    )
    prometheus_parameters: dict[str, str] = Field(
        {},
        description="Query parameters of each request, e.g. `{dedup: true}` for Thanos: a mapping "
        "in the file, JSON in the environment.",
    )
    prometheus_ca_file: Path | None = Field(
        None, description="CA that signed the certificate of the Prometheus."
    )
    prometheus_certificate_file: Path | None = Field(
        None, description="Client certificate (PEM) where the Prometheus asks for one."
    )
    prometheus_key_file: Path | None = Field(
        None, description="Key of the client certificate, where it is not in the same file."
    )
    prometheus_samples_per_second: float = Field(
        500_000.0,
        gt=0,
        description="Samples that reading history may touch on average in the Prometheus.",
    )
    inventory: Annotated[tuple[Path, ...], NoDecode] = Field(
        (), description="Files or folders with kubectl output or manifests."
    )
    kubernetes: bool | None = Field(
        None,
        description="Follow the live cluster of the current context; by default in a pod, or where "
        "kubeconfig, context or namespaces say so, unless inventory files are given.",
    )
    kubeconfig: Path | None = Field(None, description="Kubeconfig of the live cluster.")
    context: str | None = Field(None, description="Context of the live cluster.")
    namespaces: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="Only these namespaces of the live cluster, separated by commas: names, "
        "patterns such as team-*, and !PATTERN for all but those.",
    )
    team_keys: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="Labels or annotations that name the team, separated by commas, on a pod, its "
        "owners or its namespace; they win over those known by themselves (docs/kubernetes.md).",
    )
    prices: Path | None = Field(None, description="Your own prices (CSV).")
    store: str = Field("sqlite:///gputailor.db", description="Database URL.")
    listen: str = Field("127.0.0.1:8080", description="HOST:PORT of pages and API.")
    scrape_seconds: float = Field(30.0, gt=0, le=3600, description="Seconds between scrapes.")
    scrape_timeout_seconds: float = Field(5.0, gt=0, le=60, description="Wait for one exporter.")
    window_days: float = Field(14.0, gt=0, le=400, description="Days that a report looks back.")
    recommend_seconds: float = Field(
        300.0,
        ge=10,
        le=86400,
        description="Least seconds between two plans; never less than 20 times what one takes.",
    )
    hourly_days: float = Field(
        8.0,
        ge=1,
        le=400,
        description="Days back to which a window may begin at any hour; older days are read whole.",
    )
    report_cron: str = Field("0 7 * * 1", description="When the weekly report is made (cron).")
    thresholds: dict[str, dict[str, _Value]] = Field(
        {},
        description="Thresholds of rules by rule and name (docs/rules.md): a mapping in the file, "
        'JSON in the environment, e.g. `{"idle": {"warn_minutes": 120}}`.',
    )

    @field_validator("targets", "inventory", "namespaces", "team_keys", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        """A list, or one text with commas."""
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value

    @property
    def prometheus(self) -> PrometheusAccess:
        """The Prometheus to read; one that is not ``asked`` where exporters are scraped."""
        return PrometheusAccess(
            url=self.prometheus_url,
            bearer_token_file=self.prometheus_bearer_token_file,
            headers=self.prometheus_headers,
            labels=self.prometheus_labels,
            parameters=self.prometheus_parameters,
            ca_file=self.prometheus_ca_file,
            certificate_file=self.prometheus_certificate_file,
            key_file=self.prometheus_key_file,
            samples_per_second=self.prometheus_samples_per_second,
        )

    @property
    def doors(self) -> Doors:
        """Who is let in to page and API; raises ``UsageError``."""
        host, _port = split_listen(self.listen)
        return doors(self, host, public_url=self.public_url, pod=in_pod())

    @property
    def cluster_access(self) -> ClusterAccess:
        """The live cluster to follow; one that is not ``asked`` where files are read instead."""
        named = bool(self.kubeconfig or self.context or self.namespaces)
        follow = self.kubernetes
        if follow is None:
            follow = not self.inventory and (named or in_pod())
        if not follow:
            return ClusterAccess()
        return ClusterAccess(
            kubeconfig=self.kubeconfig,
            context=self.context,
            namespaces=self.namespaces,
            kubernetes=True,
        )

    @field_validator("targets")
    @classmethod
    def _urls(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        found: dict[str, None] = {}
        wrong = []
        for target in value:
            try:
                found[exporter_url(target)] = None
            except ValueError as error:
                wrong.append(str(error))
        if wrong:
            raise ValueError("; ".join(wrong))
        return tuple(found)

    @field_validator("prometheus_url")
    @classmethod
    def _server(cls, value: str) -> str:
        if value and value != AUTO:
            from gputailor_agent.sources.prometheus.access import (  # noqa: PLC0415 - rarely used
                PrometheusError,
                base_url,
            )

            try:
                base_url(value)
            except PrometheusError as error:
                raise ValueError(str(error)) from error
        return value

    @field_validator("inventory", "kubeconfig", "prices")
    @classmethod
    def _there(cls, value: Path | tuple[Path, ...] | None) -> Path | tuple[Path, ...] | None:
        for path in (value,) if isinstance(value, Path) else value or ():
            if not path.exists():
                raise ValueError(f"{path} does not exist")
        return value

    @field_validator("store")
    @classmethod
    def _database(cls, value: str) -> str:
        from gputailor_agent.store.database import (  # noqa: PLC0415 - half a second
            StoreError,
            store_url,
        )

        try:
            store_url(value)
        except StoreError as error:
            raise ValueError(str(error)) from error
        return value

    @field_validator("report_cron")
    @classmethod
    def _cron(cls, value: str) -> str:
        try:
            cron_trigger(value)
        except CronError as error:
            raise ValueError(str(error)) from error
        return value

    @field_validator("listen")
    @classmethod
    def _address(cls, value: str) -> str:
        split_listen(value)
        return value

    @field_validator("thresholds")
    @classmethod
    def _known(cls, value: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
        try:
            check_settings(RuleSettings(thresholds=value))
        except SettingsError as error:
            raise ValueError(str(error).removeprefix("thresholds.")) from error
        return value

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags, environment, file, in this order."""
        _ = dotenv_settings, file_secret_settings
        from_file = InitSettingsSource(settings_cls, init_kwargs=dict(cls.file_values))
        return init_settings, env_settings, from_file


def split_listen(text: str) -> tuple[str, int]:
    """Host and port of ``HOST:PORT``, ``:PORT`` or ``[IPV6]:PORT``."""
    match = _LISTEN.fullmatch(text)
    if match is None or int(match[2]) > _HIGHEST_PORT:
        raise ValueError(f"expected HOST:PORT such as 127.0.0.1:8080, found {text!r}")
    return match[1].strip("[]") or "0.0.0.0", int(match[2])


def threshold(text: str) -> tuple[str, str, float]:
    """Rule, name and value of ``RULE.NAME=VALUE``."""
    place, equals, value = text.partition("=")
    rule, dot, name = place.strip().partition(".")
    try:
        number = float(value)
    except ValueError:
        number = None
    if not (equals and dot and rule and name) or number is None:
        raise UsageError(
            f"--threshold: expected RULE.NAME=VALUE such as idle.warn_minutes=120, found {text!r}"
        )
    return rule, name, number


def load_settings(flags: dict[str, Any], config: Path | None) -> AgentSettings:
    """Settings out of all sources; flags that are None or empty were not given.

    Raises ``UsageError`` with the setting's name for what cannot be used.
    """
    given = {name: value for name, value in flags.items() if value not in (None, [], (), {})}

    class _WithFile(AgentSettings):
        file_values: ClassVar[dict[str, Any]] = read_file(config)

    strange = list(strangers(os.environ, AgentSettings.model_fields))
    faults = [f"{name}: there is no such setting{hint}" for name, hint in strange if hint]
    try:
        settings = _WithFile(**given)
    except ValidationError as error:
        faults = [*told_faults(error, AgentSettings), *faults]
    except SourceError as error:
        faults = [told_source(error), *faults]
    if faults:
        source = f" (flags, GPUTAILOR_* environment, {config})" if config else ""
        raise UsageError(f"settings{source}: {'; '.join(faults)}")
    for name, _hint in strange:
        tell(f"warning: {name} is no setting of the agent; gputailor config schema lists them")
    return settings


def read_file(config: Path | None) -> dict[str, Any]:
    """The settings in a file, YAML or (by its ending) TOML; raises ``UsageError``."""
    if config is None:
        return {}
    if config.suffix == ".toml":
        return read_toml(config)
    try:
        values = yaml.safe_load(config.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--config: cannot read {config}: {error}") from error
    except yaml.YAMLError as error:
        # its own text shows the line, in which a password may stand
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark is not None else ""
        why = getattr(error, "problem", None) or "it cannot be read as such"
        raise UsageError(f"--config: {config}{line} is not YAML: {why}") from None
    if values is None:
        return {}
    if not isinstance(values, dict) or not all(isinstance(key, str) for key in values):
        raise UsageError(f"--config: {config}: expected a mapping of settings")
    return values
