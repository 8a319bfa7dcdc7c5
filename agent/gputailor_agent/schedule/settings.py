"""What the service is told, and what it asks of the parts it is given."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from gputailor_agent.assessment import AssessmentSettings
from gputailor_agent.model.inventory import Inventory
from gputailor_agent.model.usage import Page


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """Times in seconds unless named otherwise; ``report_cron`` is five cron fields.

    They are read in ``report_time_zone``, an IANA name such as ``Europe/Berlin``.
    """

    cluster: str
    scrape_seconds: float = 30.0
    window_days: float = 14.0  # how far back a plan looks
    recommend_seconds: float = 300.0  # least age of a plan before the next one is made
    report_cron: str = "0 7 * * 1"  # Mondays, 7:00
    report_time_zone: str = "UTC"
    report_language: str = "en"  # of the weekly report: a name of ``reports.catalogues``
    jitter_seconds: float = 0.0  # reports and readings of history are spread over so much time
    watch_idle_seconds: float = 300.0
    tick_seconds: float = 60.0  # how often due work is looked for
    deliver_seconds: float = 15.0  # how often the outbox is looked into
    lease_seconds: float = 40.0  # after so long a silent agent's store may be taken over
    checkpoint_seconds: float = 0.0  # least time between checkpoints; 0: at each scrape
    spread_after_seconds: float = 300.0
    keep_days: float = 400.0  # how long usage and what was asked for are kept
    assessment: AssessmentSettings = field(default_factory=AssessmentSettings)


class Failure(Protocol):
    """A target that did not answer well."""

    @property
    def target(self) -> str:
        """Its address."""
        ...

    @property
    def reason(self) -> str:
        """A short label value."""
        ...

    @property
    def text(self) -> str:
        """What happened."""
        ...


class Scraped(Protocol):
    """One round of scrapes."""

    @property
    def pages(self) -> Sequence[Page]:
        """Pages of the targets that answered."""
        ...

    @property
    def failures(self) -> Sequence[Failure]:
        """The others."""
        ...


class PageSource(Protocol):
    """Something that can be scraped, such as ``sources.scrape.ScrapeSource``."""

    def scrape(self, at: float) -> Scraped:
        """Read every target once; ``at`` is the Unix time of the pages."""
        ...


InventoryReader = Callable[[float], Inventory]  # reads what was asked for, as of a Unix time
