"""What only shows once all settings are together: told by ``serve``, a reload and ``config show``.

What a single setting can be is checked where it is declared (``settings``). Nothing here asks a
server or writes a byte; a file that a setting names is read where ``serve`` would read it.
"""

from collections.abc import Iterator

from gputailor_agent.catalog import CatalogueError, load_catalogue
from gputailor_agent.cli.discovered import AUTO
from gputailor_agent.cli.errors import UsageError
from gputailor_agent.cli.kubernetes import nowhere_to_write
from gputailor_agent.cli.scraping import exporters_access
from gputailor_agent.cli.settings import AgentSettings
from gputailor_agent.store.database import StoreError
from gputailor_agent.store.opening import check_place

NO_USAGE = (
    "no exporter to scrape: give --target http://NODE:9836, GPUTAILOR_TARGETS or targets in the "
    "file, or --prometheus-url; without a cluster try: gputailor demo"
)


def check(settings: AgentSettings) -> None:
    """Raise ``UsageError`` with every fault for which the agent would not start."""
    lacking = [] if measures(settings) else [NO_USAGE]
    refuse([*lacking, *faults(settings)])


def refuse(found: list[str]) -> None:
    """Raise ``UsageError`` for faults, if any: one as it is, more a line each."""
    if len(found) == 1:
        raise UsageError(found[0])
    if found:
        listed = "".join(f"\n  {fault}" for fault in found)
        raise UsageError(f"the settings have {len(found)} faults:{listed}")


def measures(settings: AgentSettings) -> bool:
    """Whether it is said where usage comes from."""
    return bool(settings.targets) or settings.prometheus.asked


def faults(settings: AgentSettings) -> Iterator[str]:
    """What does not fit together or cannot be used, each as a line."""
    if settings.targets and settings.prometheus.asked:
        yield (
            "both targets and prometheus_url are set: exporters are scraped, or what a Prometheus "
            "scraped is read; set one of them"
        )
    yield from _prometheus(settings)
    yield from nowhere_to_write(settings, settings.cluster_access)
    try:
        check_place(settings.store)
    except StoreError as error:
        yield f"store: {error}"
    try:
        load_catalogue(settings.prices)
    except CatalogueError as error:
        yield f"prices: {error}"
    for ask in (lambda: settings.doors, lambda: exporters_access(settings)):
        try:
            ask()
        except UsageError as error:
            yield str(error)


def _prometheus(settings: AgentSettings) -> Iterator[str]:
    access = settings.prometheus
    if access.key_file is not None and access.certificate_file is None:
        yield "prometheus_key_file: give prometheus_certificate_file, too"
    elif access.asked and access.url != AUTO:
        from gputailor_agent.sources.prometheus import PrometheusError  # noqa: PLC0415 - rarely used

        try:
            access.client().close()
        except PrometheusError as error:
            yield f"prometheus_url: {error}"
