"""``gputailor serve``: the agent as one process, with its pages."""

import logging
import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer

from gputailor_agent.assessment import AssessmentSettings
from gputailor_agent.catalog import load_catalogue
from gputailor_agent.cli import options
from gputailor_agent.cli.errors import UsageError
from gputailor_agent.cli.histories import pairs
from gputailor_agent.cli.hosting import leaving, serving, stopping
from gputailor_agent.cli.recorded import RecordedInventory
from gputailor_agent.cli.settings import AgentSettings, load_settings, threshold
from gputailor_agent.cli.terminal import tell
from gputailor_agent.inventory.files import read_inventory
from gputailor_agent.rules import RuleSettings
from gputailor_agent.schedule import (
    AgentService,
    CronError,
    ServiceSettings,
    Telemetry,
    cron_trigger,
)
from gputailor_agent.schedule.backfill import HistoryFiller
from gputailor_agent.schedule.delivering import Delivery
from gputailor_agent.schedule.settings import InventoryReader
from gputailor_agent.sources.scrape import ScrapeSource
from gputailor_agent.store import Store

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
_MIND_CLOCK_SECONDS: Final = 20.0
_DAY_SECONDS: Final = 86_400.0


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=_EPILOG)(serve)


def serve(
    *,
    config: Annotated[
        Path | None,
        typer.Option("--config", envvar="GPUTAILOR_CONFIG", help="Settings as a YAML file."),
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
    prometheus_ca_file: options.PrometheusCa = None,
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
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
) -> None:
    """Run the agent: scrape exporters, roll up, recommend, serve the report.

    Stays in the foreground. A restart repeats nothing and loses nothing that can be known.
    """
    settings = load_settings(
        {
            "cluster": cluster,
            "targets": target,
            "prometheus_url": prometheus_url,
            "prometheus_bearer_token_file": prometheus_bearer_token_file,
            "prometheus_headers": pairs("--prometheus-header", ":", prometheus_header or ()),
            "prometheus_labels": pairs("--prometheus-label", "=", prometheus_label or ()),
            "prometheus_ca_file": prometheus_ca_file,
            "inventory": inventory,
            "kubernetes": kubernetes,
            "kubeconfig": kubeconfig,
            "context": context,
            "namespaces": namespace,
            "prices": prices,
            "store": store,
            "listen": listen,
            "scrape_seconds": scrape_seconds,
            "scrape_timeout_seconds": scrape_timeout_seconds,
            "window_days": window_days,
            "recommend_seconds": recommend_seconds,
            "report_cron": report_cron,
            "thresholds": _thresholds(thresholds or ()),
        },
        config,
    )
    _log(log_level)
    _check(settings)
    with (
        stopping() as asked,
        Store.open(settings.store) as opened,
        ExitStack() as parts,
    ):
        reader = inventory_reader(settings, parts)
        service = build_service(settings, opened, _usage(settings, parts), reader)
        with serving(service, settings.listen) as url, leaving(asked):
            tell(f"gputailor: {url} (cluster {settings.cluster}, {_reads(settings)})")
            service.start()
            try:
                while not asked.wait(_MIND_CLOCK_SECONDS):
                    service.mind_clock()
            finally:
                service.stop()
    tell("gputailor: stopped")


def _thresholds(given: Sequence[str]) -> dict[str, dict[str, float]]:
    values: dict[str, dict[str, float]] = {}
    for rule, name, value in map(threshold, given):
        values.setdefault(rule, {})[name] = value
    return values


def _log(level: str) -> None:
    if level.upper() not in {"DEBUG", "INFO", "WARNING", "ERROR"}:
        raise UsageError(f"--log-level: expected debug, info, warning or error, found {level!r}")
    logging.basicConfig(
        level=level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    for noisy in ("httpx", "httpcore", "apscheduler", "alembic"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    # runs that are skipped or late are counted in the metrics, every second if need be
    logging.getLogger("apscheduler.scheduler").setLevel(logging.ERROR)


def _check(settings: AgentSettings) -> None:
    """Raise ``UsageError`` for what only shows once everything is together."""
    if not settings.targets and not settings.prometheus.asked:
        raise UsageError(
            "no exporter to scrape: give --target http://NODE:9836, GPUTAILOR_TARGETS or targets "
            "in the file, or --prometheus-url; without a cluster try: gputailor demo"
        )
    if settings.targets and settings.prometheus.asked:
        raise UsageError(
            "both targets and prometheus_url are set: exporters are scraped, or what a Prometheus "
            "scraped is read; set one of them"
        )
    try:
        cron_trigger(settings.report_cron)
    except CronError as error:
        raise UsageError(f"--report-cron: {error}") from error
    options.existing("--inventory", settings.inventory)


def _reads(settings: AgentSettings) -> str:
    if settings.prometheus.asked:
        return "usage from a Prometheus"
    return f"{len(settings.targets)} exporters"


def _usage(settings: AgentSettings, parts: ExitStack) -> ScrapeSource | HistoryFiller:
    """What tells of usage: exporters, or a Prometheus that scrapes them."""
    if settings.prometheus.asked:
        from gputailor_agent.rollup.history import fill_store  # noqa: PLC0415 - where needed only

        return partial(
            fill_store, parts.enter_context(settings.prometheus.source(settings.cluster))
        )
    return parts.enter_context(
        ScrapeSource(
            settings.targets, settings.cluster, timeout_seconds=settings.scrape_timeout_seconds
        )
    )


def inventory_reader(settings: AgentSettings, following: ExitStack) -> InventoryReader:
    """What tells what was asked for.

    Files, a live cluster that is followed until the end, or where neither is named what the
    Prometheus remembers from kube-state-metrics.
    """
    access = settings.cluster_access
    if not access.asked and not settings.inventory and settings.prometheus.asked:
        tell("gputailor: what was asked for is read from kube-state-metrics in the Prometheus")
        window_seconds = settings.window_days * _DAY_SECONDS
        return RecordedInventory(settings.prometheus, settings.cluster, window_seconds)
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
) -> AgentService:
    """The agent of these settings over an open store; not started. ``reader`` None reads files."""
    telemetry = Telemetry()
    return AgentService(
        ServiceSettings(
            cluster=settings.cluster,
            scrape_seconds=settings.scrape_seconds,
            window_days=settings.window_days,
            recommend_seconds=settings.recommend_seconds,
            report_cron=settings.report_cron,
            assessment=AssessmentSettings(rules=RuleSettings(thresholds=settings.thresholds)),
        ),
        store,
        usage if isinstance(usage, ScrapeSource) else None,
        reader or _files(settings),
        load_catalogue(settings.prices),
        fill=None if isinstance(usage, ScrapeSource) else usage,
        telemetry=telemetry,
        delivery=Delivery(
            settings.delivery, store, settings.cluster, clock=time.time, count=telemetry.ran
        ),
    )
