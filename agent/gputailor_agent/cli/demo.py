"""``gputailor demo``: the whole product on a simulated cluster, no GPU and no Kubernetes needed.

Simulated nodes are real exporter processes. Two weeks of history are simulated through the
exporter's own accounting, read as an archive and put into a store; then the live agent goes on from
there by scraping. Everything lies in a temporary folder and is gone afterwards, but for what is
written to look at: dashboards and the weekly report.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Annotated, Final

import typer

from gputailor_agent.catalog import load_catalogue
from gputailor_agent.cli import options
from gputailor_agent.cli.errors import CommandError
from gputailor_agent.cli.exhibits import write_exhibits
from gputailor_agent.cli.hosting import check_address, leaving, serving, stopping
from gputailor_agent.cli.keeper import kept
from gputailor_agent.cli.simulation import (
    History,
    demo_scenario,
    running_exporters,
    write_history,
)
from gputailor_agent.cli.terminal import answer, look, tell, working
from gputailor_agent.inventory.files import read_inventory
from gputailor_agent.model.judgement import Plan
from gputailor_agent.model.usage import HOUR_SECONDS
from gputailor_agent.reports.beside import Beside
from gputailor_agent.reports.plurals import agreed, counted
from gputailor_agent.rollup import CounterRollup, encode_state
from gputailor_agent.schedule import AgentService, ServiceSettings
from gputailor_agent.sources.archive import read_archive
from gputailor_agent.sources.scrape import ScrapeResult, ScrapeSource
from gputailor_agent.store import Store

CLUSTER: Final = "demo"
_DAYS: Final = 14.0
_SCRAPE_SECONDS: Final = 5.0
_SCRAPES_SHOWN: Final = 3
_WATCH_SECONDS: Final = 1.5
_FIRST_PAGE_SECONDS: Final = 30.0
_MIND_CLOCK_SECONDS: Final = 20.0

_EPILOG: Final = """Examples:

  gputailor demo

  gputailor demo --once                # end after the report

  gputailor demo --folder ./example    # keep dashboards and weekly report there

  gputailor demo --listen 127.0.0.1:0  # any free port
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=_EPILOG)(demo)


def demo(
    *,
    once: Annotated[
        bool, typer.Option("--once", help="End after the report and a few live scrapes.")
    ] = False,
    listen: Annotated[str, typer.Option(help="HOST:PORT of the page.")] = "127.0.0.1:8080",
    scenario: Annotated[
        Path | None, typer.Option(help="Another scenario file than the packaged one.")
    ] = None,
    days: Annotated[float, typer.Option(help="Days of history.", min=1, max=60)] = _DAYS,
    exhibits: Annotated[
        Path | None,
        typer.Option(
            "--folder",
            help="Where dashboards and the weekly report are written and stay. Without it a "
            "temporary folder: with --once it stays, else it goes with the demo.",
        ),
    ] = None,
    output: options.Output = "table",
) -> None:
    """Show the product on a simulated cluster: a report, then a live page until Ctrl-C.

    Simulates two weeks of a small GPU cluster, reports on it, and goes on live from simulated
    exporters. Needs no GPU, no Kubernetes and no network. Writes the Grafana dashboards
    and the weekly report to a folder and says where.
    """
    shape = options.output_format(output)
    (chosen,) = options.existing("--scenario", [scenario or demo_scenario()])
    if not once:
        check_address(listen)  # before a minute of work, not after it
    with stopping() as asked, ExitStack() as stack, leaving(asked):
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="gputailor-demo-")))
        tell_of = stack.enter_context(kept(folder))
        service, source = stack.enter_context(_cluster(chosen, folder, days, tell_of))
        service.tick_scrape(time.time())
        with working("Judging"):
            plan = service.recommend(time.time())
            beside = service.beside()
        answer(shape.plan(plan, look()))
        _exhibit(plan, exhibits or _place(folder, stays=once), beside)
        _watch(service, source)
        if once:
            return
        url = stack.enter_context(serving(service, listen))
        tell(f"The page: {url}   (live from simulated exporters; Ctrl-C ends)")
        service.start()
        stack.callback(service.stop)
        while not asked.wait(_MIND_CLOCK_SECONDS):
            service.mind_clock()


@contextmanager
def _cluster(
    scenario: Path, folder: Path, days: float, tell_of: Callable[[int], None]
) -> Iterator[tuple[AgentService, "_Watched"]]:
    """An agent over ``days`` of history and running exporters; all of it ends with the context."""
    began = time.monotonic()
    tell(f"Simulating {counted(days, 'day')} of a GPU cluster …")
    with working("Simulating"):
        history = write_history(scenario, folder, days=days, tell_of=tell_of)
    with ExitStack() as stack:
        urls = stack.enter_context(
            running_exporters(scenario, history.nodes, folder / "logs", tell_of)
        )
        store = stack.enter_context(Store.open(folder / "demo.db"))
        tell(f"Reading the history of {counted(len(history.nodes), 'node')} …")
        rows = fill(store, history)
        took = f"{time.monotonic() - began:.0f} s"
        tell(f"{counted(rows, 'hourly row')} in {took}; the exporters are live.")
        tell(hardware(store, time.time()))
        source = _Watched(stack.enter_context(ScrapeSource(urls, CLUSTER)))
        service = AgentService(
            ServiceSettings(cluster=CLUSTER, scrape_seconds=_SCRAPE_SECONDS, window_days=days),
            store,
            source,
            lambda at: read_inventory([history.manifests], CLUSTER, at),
            load_catalogue(),
        )
        yield service, source


def _place(folder: Path, *, stays: bool) -> Path:
    return Path(mkdtemp(prefix="gputailor-example-")) if stays else folder / "example"


def _exhibit(plan: Plan, folder: Path, beside: Beside) -> None:
    """Write what Grafana and a mailbox would get; raises ``CommandError`` where it cannot."""
    tell("What Grafana and your mailbox would get:")
    try:
        for line in write_exhibits(plan, folder, beside):
            tell(f"  {line}")
    except OSError as error:
        raise CommandError(
            f"--folder: {folder} cannot be written: {error.strerror or error}"
        ) from error


class _Watched:
    """A source that remembers its last round, so that the demo can tell of it."""

    def __init__(self, source: ScrapeSource) -> None:
        self._source = source
        self.last = ScrapeResult()

    def scrape(self, at: float) -> ScrapeResult:
        """Scrape as the source does."""
        self.last = self._source.scrape(at)
        return self.last

    def observed_seconds(self) -> float:
        """Seconds that containers were observed, by the counters of the last round."""
        return sum(
            counters.observed.get("kernel", 0.0)
            for page in self.last.pages
            for counters in page.containers
        )


def fill(store: Store, history: History) -> int:
    """Roll the history up into the store, with the state the agent goes on from; returns rows."""
    rollup = CounterRollup(CLUSTER)
    with working("Reading the history") as tick:
        archive = read_archive([history.pages], CLUSTER, progress=tick)
        for page in archive.pages():
            rollup.add(page)
    if archive.problems:
        raise CommandError(f"the simulated history cannot be read: {archive.problems[0]}")
    rows = rollup.take_rows()
    with store.transaction() as tx:
        tx.put_usage(rows)
        tx.put_devices(rollup.devices())
        tx.put_checkpoint(f"{CLUSTER}/rollup", encode_state(rollup.state()))
    return len(rows)


def hardware(store: Store, now: float) -> str:
    """What was simulated, as a line: GPUs by model, how many are split or shared."""
    devices = store.devices(CLUSTER)
    parts = [device for device in devices if device.mig_profile]
    models = Counter(device.model for device in devices if not device.mig_profile)
    rows = store.usage(CLUSTER, now - 2 * HOUR_SECONDS, now)
    shared = {row.key.gpu_uuid for row in rows if row.share < 1} - {one.gpu_uuid for one in parts}
    listed = ", ".join(
        f"{number} x {model.removeprefix('NVIDIA ')}" for model, number in sorted(models.items())
    )
    profiles = ", ".join(sorted({device.mig_profile for device in parts}))
    return (
        f"{listed}; {len({one.parent_uuid for one in parts})} split by MIG ({profiles}), "
        f"{len(shared)} shared by several pods."
    )


def _watch(service: AgentService, source: _Watched) -> None:
    """Scrape a few times and say what came; raises ``CommandError`` when nothing did."""
    tell("Live, from the exporters' own /metrics:")
    until = time.monotonic() + _FIRST_PAGE_SECONDS
    shown, before = 0, source.observed_seconds()
    while shown < _SCRAPES_SHOWN:
        time.sleep(_WATCH_SECONDS)
        service.tick_scrape(time.time())
        rise = source.observed_seconds() - before
        if source.last.pages and rise > 0:
            shown, before = shown + 1, before + rise
            tell(f"  {_answered(source.last)}; {rise:.0f} GPU-seconds more observed")
        elif time.monotonic() > until:
            failed = "; ".join(failure.text for failure in source.last.failures)
            raise CommandError(
                f"the simulated exporters do not go on: {failed or 'no new samples'}"
            )


def _answered(result: ScrapeResult) -> str:
    held = sum(counters.allocated for page in result.pages for counters in page.containers)
    return agreed(f"{len(result.pages)} exporters answered, {held} containers hold GPUs")
