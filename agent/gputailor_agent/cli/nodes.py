"""``gputailor nodes``: nodes with accelerators, what pods hold there and what is free."""

import time
from collections.abc import Sequence
from typing import Annotated, Final

import typer

from gputailor_agent.api import nodes as listing
from gputailor_agent.api.kept import NodeUse, node_uses
from gputailor_agent.cli import failing_on, options, showing
from gputailor_agent.cli.clusters import ClusterAccess
from gputailor_agent.cli.errors import UsageError
from gputailor_agent.cli.inputs import Inputs, read_asked
from gputailor_agent.cli.stored import reading
from gputailor_agent.reports.catalogues import ENGLISH, _, speaking
from gputailor_agent.reports.document import Document, Heading, Paragraph, Table, headed
from gputailor_agent.reports.plurals import counted

_EPILOG: Final = """Examples:

  gputailor nodes --context lab                      # asks the cluster itself

  gputailor nodes --store sqlite:///gputailor.db     # as the agent saw it last

  kubectl get nodes,pods -A -o json | gputailor nodes --inventory /dev/stdin --output json

  gputailor nodes --context lab --fail-on 'free>16'
"""
#: Pods seen by any reading within this time count.
_LATELY_SECONDS: Final = 86_400.0


def _sum_free(lines: Sequence[listing.NodeLine]) -> float | None:
    """Free devices of whatever kind; None where no node tells."""
    known = [part.free for one in lines for part in one.by_resource if part.free is not None]
    return sum(known) if known else None


FIGURES: Final[failing_on.Figures] = {
    "free": (_sum_free, "devices that a pod could be given now, of any resource"),
    "nodes": (lambda lines: float(len(lines)), "nodes with accelerators"),
    "not_ready": (
        lambda lines: float(sum(one.ready is False for one in lines)),
        "nodes that are not ready",
    ),
    "lost": (
        lambda lines: float(sum(one.devices_lost for one in lines)),
        "devices that answer no more",
    ),
}
_FailOn = Annotated[list[str] | None, failing_on.option("free, nodes, not_ready or lost")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=_EPILOG)(nodes)


def nodes(
    *,
    store: options.Store = None,
    inventory: options.InventoryFiles = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    kubernetes: options.Kubernetes = False,
    cluster: options.Cluster = options.DEFAULT_CLUSTER,
    output: showing.Output = "table",
    language: options.Language = ENGLISH,
    fail_on: _FailOn = None,
) -> None:
    """List nodes with accelerators: what they offer, what pods hold, what is free.

    By resource: whole cards, MIG slices, shares and other makers' cards are never added up.
    """
    wanted = failing_on.conditions(fail_on or (), FIGURES)
    live = ClusterAccess(kubeconfig=kubeconfig, context=context, kubernetes=kubernetes)
    asked = Inputs(inventory=tuple(inventory or ()), live=live, cluster=cluster, store=store)
    lines = [listing.line(one) for one in _uses(asked)]
    with speaking(options.spoken_language(language)):
        showing.show(output, _page(lines, cluster), {"schema_version": "1.0", "nodes": lines})
    failing_on.end(wanted, lines)


def _uses(asked: Inputs) -> list[NodeUse]:
    if asked.inventory and asked.live.asked:
        raise UsageError("--inventory and a live cluster were both given: give one of them")
    if asked.inventory or asked.live.asked:
        paths = options.existing("--inventory", asked.inventory)
        return node_uses(read_asked(asked, paths, time.time()), ())
    if not asked.store:
        raise UsageError(
            "nothing to list: give a live cluster (--context, --kubernetes), --store URL or "
            "--inventory PATH"
        )
    with reading(asked.store) as store:
        span = store.usage_span(asked.cluster)
        at = time.time() if span is None else min(time.time(), float(span[1] + 3600))
        known = store.inventory(asked.cluster, at, since=at - _LATELY_SECONDS)
        return node_uses(known, store.devices(asked.cluster))


def _page(lines: Sequence[listing.NodeLine], cluster: str) -> Document:
    title = _("Nodes of {name}", name=cluster)
    told = _("{nodes} with accelerators.", nodes=counted(len(lines), "node"))
    found = listing.table(lines)
    table = Table(columns=headed(found.columns), rows=found.rows)
    blocks = (Heading(text=title, level=1), Paragraph(text=told, tone="muted"))
    return Document(title=title, blocks=(*blocks, table) if lines else blocks)
