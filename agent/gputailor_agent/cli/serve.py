"""``gputailor serve``: the agent as one process, with its pages."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from gputailor_agent.assessment import AssessmentSettings
from gputailor_agent.catalog import load_catalogue
from gputailor_agent.cli import options, running
from gputailor_agent.cli.discovered import AUTO, find_prometheus
from gputailor_agent.cli.histories import PrometheusAccess, asked_containers, pairs
from gputailor_agent.cli.hosting import check_address, leaving, serving, stopping
from gputailor_agent.cli.kubernetes import telling_of
from gputailor_agent.cli.logs import set_up
from gputailor_agent.cli.recorded import RecordedInventory
from gputailor_agent.cli.reloading import Reloading, attend, hearing
from gputailor_agent.cli.scraping import exporters_access
from gputailor_agent.cli.settings import AgentSettings, load_settings, threshold
from gputailor_agent.cli.terminal import tell
from gputailor_agent.cli.validating import check
from gputailor_agent.inventory.files import read_inventory
from gputailor_agent.inventory.identity import IdentitySettings
from gputailor_agent.reports.plurals import counted
from gputailor_agent.rules import RuleSettings
from gputailor_agent.schedule import (
    AgentService,
    Lease,
    ServiceSettings,
    Telemetry,
)
from gputailor_agent.schedule.backfill import HistoryFiller
from gputailor_agent.schedule.delivering import Delivery
from gputailor_agent.schedule.live import PrometheusUsage
from gputailor_agent.schedule.settings import InventoryReader
from gputailor_agent.sources.scrape import ScrapeSource
from gputailor_agent.store import Store
from gputailor_agent.store.database import sqlite_file, store_url

_EPILOG: Final = """Examples:

  gputailor serve --target http://node-1:9836 --inventory cluster.json

  gputailor serve --target http://node-1:9836 --context lab    # asks the cluster itself

  gputailor serve --prometheus-url http://prometheus:9090      # with kube-state-metrics in it

  gputailor serve --prometheus-url http://prometheus:9090 --kubernetes

  gputailor serve --config /etc/gputailor/agent.yaml

  GPUTAILOR_TARGETS=node-1:9836,node-2:9836 gputailor serve --listen 0.0.0.0:8080

Flags win over GPUTAILOR_* environment variables, those over the file. The page is at /, the API
under /api/v1, /healthz and /readyz tell how it is. SIGTERM ends it cleanly.
"""
_DAY_SECONDS: Final = 86_400.0


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=_EPILOG)(serve)


def serve(
    *,
    config: Annotated[
        Path | None,
        typer.Option("--config", envvar="GPUTAILOR_CONFIG", help="Settings, YAML or TOML."),
    ] = None,
    cluster: Annotated[str | None, typer.Option(help="The cluster's name.")] = None,
    target: Annotated[
        list[str] | None,
        typer.Option(
            "--target",
            help="An exporter to scrape: URL or HOST:PORT; dns+http://HOST:PORT is every address "
            "of a host. Repeatable.",
        ),
    ] = None,
    prometheus_url: options.PrometheusUrl = None,
    prometheus_bearer_token_file: options.PrometheusTokenFile = None,
    prometheus_header: options.PrometheusHeaders = None,
    prometheus_label: options.PrometheusLabels = None,
    prometheus_parameter: options.PrometheusParameters = None,
    prometheus_ca_file: options.PrometheusCa = None,
    prometheus_certificate_file: options.PrometheusCertificate = None,
    prometheus_key_file: options.PrometheusKey = None,
    prometheus_samples_per_second: Annotated[
        float | None,
        typer.Option(
            help="Samples that reading history may touch on average.",
            rich_help_panel=options.INPUTS,
        ),
    ] = None,
    inventory: options.InventoryFiles = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    namespace: options.Namespaces = None,
    kubernetes: Annotated[
        bool | None,
        typer.Option(
            "--kubernetes/--no-kubernetes",
            help="Follow the live cluster of the current context; the default in a pod.",
            rich_help_panel=options.INPUTS,
        ),
    ] = None,
    team_key: options.TeamKeys = None,
    prices: options.Prices = None,
    store: Annotated[
        str | None, typer.Option(help="Where usage is kept: a file or a database URL.")
    ] = None,
    listen: Annotated[str | None, typer.Option(help="HOST:PORT of pages and API.")] = None,
    scrape_seconds: Annotated[float | None, typer.Option(help="Seconds between scrapes.")] = None,
    scrape_timeout_seconds: Annotated[
        float | None, typer.Option(help="Seconds to wait for one exporter.")
    ] = None,
    window_days: Annotated[float | None, typer.Option(help="Days a report looks back.")] = None,
    recommend_seconds: Annotated[
        float | None, typer.Option(help="Least seconds between two plans.")
    ] = None,
    report_cron: Annotated[
        str | None, typer.Option(help="When the weekly report is made, five cron fields, UTC.")
    ] = None,
    thresholds: Annotated[
        list[str] | None,
        typer.Option(
            "--threshold",
            metavar="RULE.NAME=VALUE",
            help="Another threshold of a rule, e.g. idle.warn_minutes=120. Repeatable.",
        ),
    ] = None,
    report_time_zone: running.ReportTimeZone = None,
    report_language: running.ReportLanguage = None,
    jitter_seconds: running.JitterSeconds = None,
    watch_idle_seconds: running.WatchIdleSeconds = None,
    lease_seconds: running.LeaseSeconds = None,
    hourly_days: running.HourlyDays = None,
    keep_days: running.KeepDays = None,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
    log_format: running.LogFormat = None,
) -> None:
    """Run the agent: scrape exporters, roll up, recommend, serve the report.

    Stays in the foreground. A restart repeats nothing and loses nothing that can be known. SIGHUP
    reads the settings anew; a second agent on the same store refuses to start.
    """
    load = partial(_checked, _flags(locals()), config)
    settings = load()
    set_up(log_level, settings.log_format)
    doors = settings.doors
    with (
        stopping() as asked,
        hearing() as hup,
        ExitStack() as keeping,
        ExitStack() as parts,
        leaving(asked),
    ):
        check_address(settings.listen)
        prometheus = _prometheus(settings)
        reader = inventory_reader(settings, parts, prometheus)
        usage = _usage(settings, prometheus, reader, parts)
        # last: an agent that cannot start leaves no store behind
        opened = keeping.enter_context(Store.open(settings.store, checked=True))
        lease = keeping.enter_context(leased(settings, opened))
        service = build_service(settings, opened, usage, reader, lease)
        reload = Reloading(service, settings, load, service_settings, partial(_exporters, parts))
        with serving(service, settings.listen, doors) as url, leaving(asked):
            tell(f"gputailor: {url} (cluster {settings.cluster}, {_reads(settings)})")
            try:
                service.start()
                attend(service, asked, hup, reload)
            finally:
                service.stop()
    tell("gputailor: stopped")


#: Options that are given once for each value, by the setting that holds them all.
_REPEATED: Final = {
    "targets": "target",
    "inventory": "inventory",
    "namespaces": "namespace",
    "team_keys": "team_key",
}
_PAIRS: Final = {
    "prometheus_headers": ("prometheus_header", ":"),
    "prometheus_labels": ("prometheus_label", "="),
    "prometheus_parameters": ("prometheus_parameter", "="),
}


def _flags(options_given: Mapping[str, Any]) -> dict[str, Any]:
    """The command line's options as settings, by the names that settings have."""
    given = dict(options_given)
    for name in ("config", "log_level"):
        del given[name]  # they are no settings
    flags: dict[str, Any] = {name: given.pop(option) for name, option in _REPEATED.items()}
    for name, (option, sign) in _PAIRS.items():
        texts = given.pop(option) or ()
        flags[name] = pairs(f"--{option.replace('_', '-')}", sign, texts)
    return {**flags, **given, "thresholds": _thresholds(given["thresholds"] or ())}


def _thresholds(given: Sequence[str]) -> dict[str, dict[str, float]]:
    values: dict[str, dict[str, float]] = {}
    for rule, name, value in map(threshold, given):
        values.setdefault(rule, {})[name] = value
    return values


def _checked(flags: dict[str, Any], config: Path | None) -> AgentSettings:
    """What the agent starts with, and what a reload puts in force: never less than it needs."""
    settings = load_settings(flags, config)
    check(settings)
    return settings


def _reads(settings: AgentSettings) -> str:
    if settings.prometheus.asked:
        return "usage from a Prometheus"
    return counted(len(settings.targets), "exporter")


def _prometheus(settings: AgentSettings) -> PrometheusAccess:
    """The Prometheus that is named, or the cluster's own; not ``asked`` where there is none."""
    if settings.prometheus.url != AUTO:
        return settings.prometheus
    found = find_prometheus(settings.prometheus, settings.cluster_access, now=time.time())
    tell(f"gputailor: reading {found.url}")
    return found


def _usage(
    settings: AgentSettings, prometheus: PrometheusAccess, reader: InventoryReader, parts: ExitStack
) -> ScrapeSource | HistoryFiller:
    """What tells of usage: exporters, or a Prometheus that scrapes them."""
    if prometheus.asked:
        source = prometheus.source(
            settings.cluster, asked=lambda: asked_containers(reader(time.time()))
        )
        return PrometheusUsage(parts.enter_context(source))
    return _exporters(parts, settings)


def _exporters(parts: ExitStack, settings: AgentSettings) -> ScrapeSource:
    """The exporters of the settings; their connections end with ``parts``."""
    verify, auth = exporters_access(settings)
    return parts.enter_context(
        ScrapeSource(
            settings.targets,
            settings.cluster,
            timeout_seconds=settings.scrape_timeout_seconds,
            verify=verify,
            auth=auth,
        )
    )


@contextmanager
def leased(settings: AgentSettings, store: Store) -> Iterator[Lease]:
    """Within: no other agent works on the store for this cluster; raises ``LeaseError``."""
    lease = Lease(store, settings.cluster, seconds=settings.lease_seconds)
    try:
        lease.take()
        yield lease
    finally:
        lease.release()


def inventory_reader(
    settings: AgentSettings, following: ExitStack, prometheus: PrometheusAccess | None = None
) -> InventoryReader:
    """What tells what was asked for.

    Files, a live cluster that is followed until the end, or where neither is named what the
    Prometheus remembers from kube-state-metrics.
    """
    access = settings.cluster_access
    if not access.asked and not settings.inventory and settings.prometheus.asked:
        tell("gputailor: what was asked for is read from kube-state-metrics in the Prometheus")
        window_seconds = settings.window_days * _DAY_SECONDS
        return RecordedInventory(
            prometheus or settings.prometheus, settings.cluster, window_seconds
        )
    if not access.asked:
        return _files(settings)
    live = following.enter_context(access.follow(settings.cluster))
    tell(f"gputailor: following {live.where}")
    return live.snapshot


def _files(settings: AgentSettings) -> InventoryReader:
    return lambda at: read_inventory(settings.inventory, settings.cluster, at)


def build_service(
    settings: AgentSettings,
    store: Store,
    usage: ScrapeSource | HistoryFiller,
    reader: InventoryReader | None = None,
    lease: Lease | None = None,
) -> AgentService:
    """The agent of these settings over an open store; not started. ``reader`` None reads files."""
    telemetry = Telemetry()
    return AgentService(
        service_settings(settings),
        store,
        usage if isinstance(usage, ScrapeSource) else None,
        reader or _files(settings),
        load_catalogue(settings.prices),
        fill=None if isinstance(usage, ScrapeSource) else usage,
        live=usage if isinstance(usage, PrometheusUsage) else None,
        telemetry=telemetry,
        delivery=Delivery(
            settings.delivery, store, settings.cluster, clock=time.time, count=telemetry.ran
        ),
        telling=telling_of(
            settings, settings.cluster_access, store, settings.cluster, telemetry.ran
        ),
        lease=lease,
        store_file=sqlite_file(store_url(settings.store)),
    )


def service_settings(settings: AgentSettings) -> ServiceSettings:
    """What of the settings the service minds."""
    return ServiceSettings(
        cluster=settings.cluster,
        scrape_seconds=settings.scrape_seconds,
        window_days=settings.window_days,
        recommend_seconds=settings.recommend_seconds,
        report_cron=settings.report_cron,
        report_time_zone=settings.report_time_zone,
        report_language=settings.report_language,
        jitter_seconds=settings.jitter_seconds,
        watch_idle_seconds=settings.watch_idle_seconds,
        lease_seconds=settings.lease_seconds,
        keep_days=settings.keep_days,
        assessment=AssessmentSettings(
            identity=IdentitySettings(team_keys=settings.team_keys),
            rules=RuleSettings(thresholds=settings.thresholds),
            hourly_days=settings.hourly_days,
        ),
    )
