"""``gputailor fleet``: all clusters that write into one store, each by its newest plan."""

import time
from collections.abc import Iterator
from typing import Annotated, Final

import typer

from gputailor_agent.cli import failing_on, options, showing
from gputailor_agent.cli.errors import CommandError
from gputailor_agent.cli.keeping import kept_store
from gputailor_agent.cli.stored import chosen_clusters
from gputailor_agent.model.judgement import Plan
from gputailor_agent.reports import fleet as pages
from gputailor_agent.reports.catalogues import ENGLISH, speaking
from gputailor_agent.reports.fleet import Fleet
from gputailor_agent.store import Store

_EPILOG: Final = """Examples:

  gputailor fleet --store postgresql://gputailor@db/gputailor

  gputailor fleet --store "$DB" --cluster east --cluster west --output json

  gputailor fleet --store "$DB" --fail-on 'stale>0'      # an agent that plans no more
"""


def _saving(found: Fleet) -> float | None:
    return None if found.saving is None else found.saving.amount


FIGURES: Final[failing_on.Figures] = {
    "saving": (_saving, "money that can be saved per month in all clusters"),
    "gpu_hours": (
        lambda found: found.saving_gpu_hours_per_month,
        "GPU-hours that can be saved per month in all clusters",
    ),
    "findings": (
        lambda found: float(found.states("finding")),
        "workloads with a recommendation in all clusters",
    ),
    "unknown": (
        lambda found: float(found.states("unknown")),
        "workloads of which too little is known in all clusters",
    ),
    "free": (lambda found: found.free, "GPUs that are free now in all clusters"),
    "stale": (
        lambda found: float(len(found.stale) + len(found.without_plan)),
        "clusters without a plan of the last day",
    ),
}
_FailOn = Annotated[
    list[str] | None, failing_on.option("saving, gpu_hours, findings, unknown, free or stale")
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=_EPILOG)(fleet)


def fleet(
    *,
    store: options.Store = None,
    cluster: Annotated[
        list[str] | None,
        typer.Option("--cluster", help="Only this cluster. Repeatable.", show_default=False),
    ] = None,
    output: showing.Output = "table",
    language: options.Language = ENGLISH,
    fail_on: _FailOn = None,
) -> None:
    """Show all clusters whose agents write into one store: GPUs, use, cost, what could be saved.

    Each figure is of the cluster's newest plan; a sum of which a part is unknown is unknown.
    """
    wanted = failing_on.conditions(fail_on or (), FIGURES)
    with kept_store(store) as opened:
        names = chosen_clusters(opened, cluster)
        if not names:
            raise CommandError("the store holds no cluster yet; has an agent run on it?")
        found = pages.fleet_of(_plans(opened, names), time.time())
    with speaking(options.spoken_language(language)):
        showing.show(output, pages.page(found), pages.values(found))
    failing_on.end(wanted, found)


def _plans(store: Store, names: list[str]) -> Iterator[tuple[str, Plan | None]]:
    for name in names:
        yield name, store.latest_plan(name)
