"""What is said of the cluster itself: GPUs nobody asks for, and pods that wait for some."""

from collections.abc import Iterable
from typing import Final

import msgspec

from gputailor_agent.model.judgement import Finding, FreePool, Plan, SilenceKind, Waiting
from gputailor_agent.reports import overview, units
from gputailor_agent.reports.catalogues import _
from gputailor_agent.reports.document import (
    Block,
    Bullets,
    Column,
    Heading,
    Item,
    Listing,
    Table,
    headed,
)
from gputailor_agent.reports.explain import (
    DEFAULT_RULES,
    Explanation,
    Fact,
    found_section,
    rule_title,
    silent_section,
)
from gputailor_agent.reports.plurals import counted
from gputailor_agent.reports.wording import joined, say, sentence
from gputailor_agent.rules import RuleSettings

#: How people ask for the explanation of what is said about the cluster.
CLUSTER: Final = "cluster"
_TOLD: Final = (SilenceKind.WATCHING, SilenceKind.UNKNOWN)
_SHOWN: Final = 20

_POOL_COLUMNS: Final = (
    Column(title="model", least=14),
    Column(title="pool", least=10),
    Column(title="nodes", numeric=True),
    Column(title="GPUs", numeric=True),
    Column(title="free now", numeric=True),
    Column(title="always free", numeric=True),
    Column(title="free GPU-hours", numeric=True),
    Column(title="known for", numeric=True),
    Column(title="by hour of the day (UTC)", least=16),
)
_WAITING_COLUMNS: Final = (
    Column(title="waits", least=20),
    Column(title="pods", numeric=True),
    Column(title="each asks for", least=14),
    Column(title="for", numeric=True),
    Column(title="because", least=24),
    Column(title="could run on", least=24),
)


class ClusterText(msgspec.Struct, frozen=True, kw_only=True):
    """What is said about the cluster, in the language of the report."""

    findings: dict[str, str] = {}  # id -> sentence
    silences: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()  # as ``Plan.waiting``


def cluster_text(plan: Plan) -> ClusterText:
    """Sentences about the cluster."""
    return ClusterText(
        findings={one.id: sentence(say(one.message)) for one in plan.cluster_findings},
        silences=tuple(sentence(say(one.message)) for one in plan.cluster_silences),
        waiting=tuple(waiting_text(one, plan.window.end) for one in plan.waiting),
    )


def waiting_text(one: Waiting, now: float) -> str:
    """One entry of what pods wait for, as a sentence; ``now`` in Unix seconds."""
    told = {
        "pods": counted(one.pods, "pod"),
        "owner": f"{one.namespace}/{one.owner}",
        "number": units.count(one.devices),
        "resource": one.resource,
        "why": _because(one),
    }
    if one.since is None:
        text = _("{pods} of {owner} waiting for {number} x {resource} each: {why}", **told)
    else:
        text = _(
            "{pods} of {owner} waiting for {since} for {number} x {resource} each: {why}",
            since=units.duration(now - one.since),
            **told,
        )
    served = _served(one)
    return sentence(f"{text}; {served}" if served else text)


def _because(one: Waiting) -> str:
    return "; ".join(say(reason) for reason in one.reasons) or units.unknown()


def _served(one: Waiting) -> str:
    """What primary findings would free for them; '' where nothing would do."""
    if not one.served_by:
        return ""
    devices = _(", ").join(
        _(
            "{number} of {workload} on {node} ({rule})",
            number=units.count(part.devices),
            workload=part.workload_id,
            node=part.node,
            rule=part.rule,
        )
        for part in one.served_by
    )
    return _(
        "{number} of them could run on what others do not use: {devices}",
        number=one.served_pods,
        devices=devices,
    )


def demand_text(plan: Plan) -> str:
    """How many pods wait for how many devices, and since when; '' where none does."""
    if not plan.waiting:
        return ""
    pods = counted(sum(one.pods for one in plan.waiting), "pod")
    devices = counted(sum(one.pods * one.devices for one in plan.waiting), "device")
    made = [one.since for one in plan.waiting if one.since is not None]
    if not made:
        return _("{pods} for {devices}", pods=pods, devices=devices)
    longest = units.duration(plan.window.end - min(made))
    return _(
        "{pods} for {devices}, the longest for {length}",
        pods=pods,
        devices=devices,
        length=longest,
    )


def cluster_blocks(plan: Plan) -> tuple[Block, ...]:
    """The report's part about the cluster; nothing where there is nothing to say."""
    told = [one for one in plan.cluster_silences if one.kind in _TOLD]
    blocks: list[Block] = []
    if plan.cluster_findings:
        blocks.append(Listing(items=tuple(_item(one) for one in plan.cluster_findings)))
    if told:
        blocks.append(Bullets(lines=tuple(sentence(say(one.message)) for one in told)))
    if plan.waiting:
        blocks.append(_waiting_table(plan))
    if any(one.free_now or one.free_gpu_hours for one in plan.free_pools):
        blocks.append(_pool_table(plan.free_pools))
    if not blocks:
        return ()
    return (Heading(text=_("GPUs that nobody asks for, and pods that wait")), *blocks)


def _item(finding: Finding) -> Item:
    confidence = _("Confidence: {level}.", level=_(finding.confidence.value))
    return Item(
        name=f"{rule_title(finding.rule)}: {finding.change.target}",
        figure=overview.saving_text(finding),
        text=joined(sentence(say(finding.message)), confidence),
    )


def _waiting_table(plan: Plan) -> Table:
    shown = plan.waiting[:_SHOWN]
    more = len(plan.waiting) - len(shown)
    rows = tuple(
        (
            f"{one.namespace}/{one.owner}",
            units.count(one.pods),
            f"{units.count(one.devices)} x {one.resource}",
            units.duration(None if one.since is None else plan.window.end - one.since),
            sentence(_because(one)),
            sentence(_served(one)) or "-",
        )
        for one in shown
    )
    return Table(
        columns=headed(_WAITING_COLUMNS),
        rows=rows,
        caption=_("{number} more wait; all are in the JSON report.", number=more) if more else "",
    )


def _pool_table(pools: Iterable[FreePool]) -> Table:
    rows = tuple(
        (
            one.model,
            one.pool or "-",
            units.count(one.nodes),
            units.count(one.gpus),
            units.count(one.free_now),
            units.count(one.least_free),
            units.count(None if one.free_gpu_hours is None else round(one.free_gpu_hours)),
            units.duration(one.known_hours * 3600.0) if one.known_hours else _("now only"),
            _by_hour(one),
        )
        for one in pools
    )
    return Table(
        columns=headed(_POOL_COLUMNS),
        rows=rows,
        caption=_(
            "Held by no pod, of nodes that are ready; of the hours in which every node that "
            "is known at all is known."
        ),
    )


def _by_hour(pool: FreePool) -> str:
    """The hours of the day with most and with fewest free GPUs, on average."""
    known = [(free, hour) for hour, free in enumerate(pool.by_hour) if free is not None]
    if not known:
        return units.unknown()
    most, least = max(known, key=lambda one: (one[0], -one[1])), min(known)
    if most[0] - least[0] < 0.5:  # noqa: PLR2004 - half a GPU
        return _("{number} at any hour", number=units.count(round(most[0], 1)))
    return _(
        "{most} at {busy}:00, {least} at {quiet}:00",
        most=units.count(round(most[0], 1)),
        busy=f"{most[1]:02d}",
        least=units.count(round(least[0], 1)),
        quiet=f"{least[1]:02d}",
    )


def explain_cluster(plan: Plan, rules: RuleSettings = DEFAULT_RULES) -> Explanation:
    """Everything said about the cluster, with every number; ``rules``: settings of the plan."""
    sections = [found_section(one, _("recommended"), rules) for one in plan.cluster_findings]
    sections += [silent_section(one, plan.window, rules) for one in plan.cluster_silences]
    facts = [
        (_("cluster"), plan.cluster),
        (_("window"), overview.window_text(plan.window)),
        *((_("waits"), waiting_text(one, plan.window.end)) for one in plan.waiting),
    ]
    return Explanation(
        cluster=plan.cluster,
        window=plan.window,
        verdict=None,
        facts=tuple(Fact(label=label, text=text) for label, text in facts),
        sections=tuple(sections),
    )
