"""Unallocated: GPUs that nobody asks for, hour after hour, beside pods that wait for some.

By model and pool. A GPU counts as unallocated in an hour in which no pod held it, by the inventory
and, where a pod has gone from it, by what was measured. Said are the GPUs that were free in every
hour of at least a day and are free now (a pod that came since the last whole hour holds them),
hence the least of these. Of a node that nothing was ever measured on, and of the time before, only
now is known: then the rule speaks of now. Money is counted only for nodes that stood empty all that
time, since only a whole node can be given back, at the price of its GPUs; it stands apart from the
plan's saving, as the GPUs are no workload's. Nodes that are cordoned or not ready are another
matter (unavailable). Where pods wait for devices that a node of the pool has, the GPUs are wanted:
then nothing is to be given back and no money is counted. Why the pods do not run there is told by
the planner's list of what waits.
"""

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import Final

from gputailor_agent.model.judgement import (
    Change,
    Confidence,
    Evidence,
    Finding,
    Message,
    Money,
    Saving,
    Scalar,
    Severity,
    Silence,
    SilenceKind,
    Waiting,
)
from gputailor_agent.rules.base import Context, Limits, Threshold, message
from gputailor_agent.rules.cluster_rules import ClusterRule, ClusterView, NodeHours

_ID: Final = "unallocated"
_HOUR: Final = 3600.0
_MINUTE: Final = 60.0
_NEARLY: Final = 1e-6
_LINK: Final = "https://kubernetes.io/docs/concepts/cluster-administration/node-autoscaling/"
_SCHEDULING: Final = "https://kubernetes.io/docs/concepts/scheduling-eviction/"
_FORMULA: Final = "GPUs of nodes that stood empty x 730 h, at their price per GPU-hour"
_SHOWN: Final = 8

_THRESHOLDS: Final = (
    Threshold("least_hours", 24, "hours", "whole hours in each of which the GPUs were free"),
    Threshold("least_gpus", 1, "gpus", "fewer are not worth a word"),
    Threshold("wait_minutes", 10, "minutes", "a pod that waits for less is not told"),
)

MESSAGES: Final = {
    "unallocated.steady": "{free:count} of {gpus:count} GPU(s) {model}{pool} were held by nobody "
    "in any of the last {hours:count} hours; {whole:count} of them are on {nodes:count} node(s) "
    "that stood empty",
    "unallocated.scattered": "{free:count} of {gpus:count} GPU(s) {model}{pool} were held by "
    "nobody in any of the last {hours:count} hours, on nodes that others use",
    "unallocated.now": "{free:count} of {gpus:count} GPU(s) {model}{pool} are held by nobody now, "
    "while {pods:count} pods wait for such; since when is not known",
    "unallocated.now_only": "{free:count} of {gpus:count} GPU(s) {model}{pool} are held by nobody "
    "now; since when is not known, as nothing was measured on their nodes in the window",
    "unallocated.watching": "watching: {free:count} of {gpus:count} GPU(s) {model}{pool} are held "
    "by nobody now, and their nodes are known for {hours:count} of {needed:count} hours",
    "unallocated.all_held": "all {gpus:count} GPU(s) {model}{pool} are held now",
    "unallocated.used": "no GPU of {gpus:count} {model}{pool} was free in each of the last "
    "{hours:count} hours and is now: at the fullest, {free:count} were",
    "unallocated.unpriced": "no price is known for {model}; give one in a file of own prices",
    "unallocated.not_counted": "the confidence is low, so no saving is counted",
    "unallocated.no_empty_node": "the free GPUs are on nodes that others use: none can be given "
    "back as a whole",
    "unallocated.risk_burst": "they may be kept for load that comes less often than every "
    "{hours:count} hours",
    "unallocated.risk_minimum": "a pool's minimum, or a commitment, may keep the nodes anyway",
    "unallocated.risk_incomplete": "not every pod and node could be read: GPUs may be held by pods "
    "that nobody told of",
    "unallocated.risk_unseen": "of {nodes:count} more node(s) only now is known",
    "unallocated.beside": "{free:count} of {gpus:count} GPU(s) {model}{pool} were held by nobody "
    "in any of the last {hours:count} hours, while {pods:count} pods wait for such: see why they "
    "do not run on them",
    "unallocated.wanted": "pods wait for such GPUs: they are wanted, not to be given back",
    "unallocated.not_cordoned": "nodes that are cordoned or not ready: they are counted as "
    "unavailable",
}


@dataclass(frozen=True, slots=True)
class _Pool:
    """Nodes of one model and pool; ``known``: those whose last hours are known for long enough."""

    model: str
    name: str
    nodes: tuple[NodeHours, ...]
    known: tuple[NodeHours, ...]
    hours: int

    @property
    def gpus(self) -> float:
        return sum(node.gpus for node in self.nodes)

    @property
    def free_now(self) -> float:
        return sum(node.free_now for node in self.nodes)

    @property
    def least(self) -> float:
        """GPUs free in the fullest of the last hours and now, of the known nodes together."""
        parts = [(*node.free[-self.hours :], node.free_now) for node in self.known]
        return min((sum(hour) for hour in zip(*parts, strict=True)), default=0.0)

    @property
    def empty(self) -> tuple[NodeHours, ...]:
        """Nodes of which no GPU was held in any of the last hours, nor is now."""
        return tuple(
            node
            for node in self.known
            if min(*node.free[-self.hours :], node.free_now) >= node.gpus - _NEARLY
        )

    @property
    def longest_known(self) -> int:
        return max(len(node.free) for node in self.nodes)

    def most(self, resource: str) -> float:
        """Most devices of this name that any one node has."""
        return max(node.resources.get(resource, 0.0) for node in self.nodes)

    def words(self) -> dict[str, Scalar]:
        """What every message names."""
        pool = f" of pool {self.name}" if self.name else ""
        return {"gpus": self.gpus, "model": self.model, "pool": pool}


@dataclass(frozen=True, slots=True)
class _Case:
    """One pool with what it is judged by."""

    view: ClusterView
    context: Context
    limits: Limits
    pool: _Pool

    @property
    def waiting(self) -> list[Waiting]:
        """Pods that have waited for long enough for what one node of the pool has."""
        latest = self.view.window.end - self.limits["wait_minutes"] * _MINUTE
        return [
            one
            for one in self.view.waiting
            if (one.since is None or one.since <= latest)
            and any(
                node.resources.get(one.resource, 0.0) >= one.devices for node in self.pool.nodes
            )
        ]

    @property
    def least_gpus(self) -> float:
        return max(1.0, self.limits["least_gpus"])

    def say(self, name: str, **params: Scalar) -> Message:
        """Return a message that names the pool."""
        return message(f"{_ID}.{name}", **self.pool.words(), **params)

    def silent(self, kind: SilenceKind, why: Message, ready_at: float | None = None) -> Silence:
        """Return the silence with every number."""
        return Silence(
            rule=_ID,
            workload_id="",
            kind=kind,
            message=why,
            evidence=_numbers(self),
            ready_at=ready_at,
        )


def evaluate(view: ClusterView, context: Context) -> list[Finding | Silence]:
    """Judge each model and pool; in the order of their names."""
    limits = CLUSTER_RULE.limits(context.settings)
    hours = max(1, math.ceil(limits["least_hours"]))
    groups: dict[tuple[str, str], list[NodeHours]] = defaultdict(list)
    for node in view.nodes:
        groups[node.model, node.pool].append(node)
    answers = []
    for model, name in sorted(groups):
        nodes = sorted(groups[model, name], key=lambda node: node.name)
        known = tuple(node for node in nodes if len(node.free) >= hours)
        pool = _Pool(model, name, tuple(nodes), known, hours)
        answers.append(_judged(_Case(view, context, limits, pool)))
    return answers


def _judged(case: _Case) -> Finding | Silence:
    pool = case.pool
    if pool.known:
        steady = math.floor(pool.least + _NEARLY)
        if steady >= case.least_gpus:
            return _steady(case, steady)
        why = case.say("used", hours=pool.hours, free=steady)
        return case.silent(SilenceKind.FINE, why)
    free = math.floor(pool.free_now + _NEARLY)
    if free < case.least_gpus:
        return case.silent(SilenceKind.FINE, case.say("all_held"))
    if case.waiting:
        return _now(case, free)
    told = pool.longest_known
    if not told:
        return case.silent(SilenceKind.UNKNOWN, case.say("now_only", free=free))
    ready = case.view.window.end + (pool.hours - told) * _HOUR
    why = case.say("watching", free=free, hours=told, needed=pool.hours)
    return case.silent(SilenceKind.WATCHING, why, ready)


def _numbers(case: _Case) -> tuple[Evidence, ...]:
    pool, window = case.pool, case.view.window

    def number(
        name: str, value: float | None, unit: str, formula: str, least: float | None = None
    ) -> Evidence:
        held = least is not None
        return Evidence(
            name=name,
            value=value,
            unit=unit,
            comparison=">=" if held else "",
            threshold=least,
            passed=(value is not None and value >= least) if least is not None else None,
            window=window,
            formula=formula,
        )

    least = math.floor(pool.least + _NEARLY) if pool.known else None
    return (
        number("GPUs free now", pool.free_now, "gpus", "GPUs of the nodes - held by pods now"),
        number("hours known", pool.longest_known, "count",
               "whole hours up to now of which a node's occupation is known", pool.hours),
        number("GPUs free in every hour", least, "gpus",
               "least of the last hours and of now: sum over nodes of GPUs - held by pods, by the "
               "inventory and by what was measured", case.least_gpus),
        number("GPUs of empty nodes", sum(node.gpus for node in pool.empty), "gpus",
               "nodes of which no GPU was held in any of these hours, nor is now"),
        number("devices that pods wait for", sum(one.devices * one.pods for one in case.waiting),
               "count", "pods without a node x what each asks for, where a node of the pool has "
               "so many"),
        *(_wanted(case, one) for one in case.waiting[:_SHOWN]),
    )  # fmt: skip


def _wanted(case: _Case, one: Waiting) -> Evidence:
    return Evidence(
        name=f"{one.namespace}/{one.owner} waits since",
        value=one.since,
        unit="time",
        window=case.view.window,
        formula=f"{one.pods} pod(s) that ask for {one.devices:g} x {one.resource} each",
    )


def _steady(case: _Case, free: int) -> Finding:
    pool = case.pool
    empty = pool.empty
    key = "beside" if case.waiting else "steady" if empty else "scattered"
    why = case.say(
        key,
        free=free,
        hours=pool.hours,
        whole=sum(node.gpus for node in empty),
        nodes=len(empty),
        pods=sum(one.pods for one in case.waiting),
    )
    risks = []
    if not case.waiting:
        risks.append(message("unallocated.risk_burst", hours=pool.hours))
    if empty and not case.waiting:
        risks.append(message("unallocated.risk_minimum"))
    unseen = len(pool.nodes) - len(pool.known)
    if unseen:
        risks.append(message("unallocated.risk_unseen", nodes=unseen))
    if case.view.complete:
        reason = (
            "held GPUs are known by the inventory and by what was measured; that the nodes were "
            "the same all the time is assumed"
        )
        return _finding(case, why, risks, Confidence.MEDIUM, reason)
    risks.append(message("unallocated.risk_incomplete"))
    return _finding(case, why, risks, Confidence.LOW, "not every pod and node could be read")


def _now(case: _Case, free: int) -> Finding:
    why = case.say("now", free=free, pods=sum(one.pods for one in case.waiting))
    reason = "only now is known: since when they are free is not"
    return _finding(case, why, [], Confidence.LOW, reason)


def _finding(
    case: _Case, why: Message, risks: list[Message], confidence: Confidence, reason: str
) -> Finding:
    pool, cluster = case.pool, case.context.inventory.cluster
    place = "/".join(name for name in (pool.model, pool.name) if name)
    told = Evidence(name="confidence", value=confidence.value, formula=reason)
    severity = Severity.LOW
    if confidence is not Confidence.LOW:
        unused = Severity.MEDIUM if pool.empty else Severity.LOW
        severity = Severity.HIGH if case.waiting else unused
    return Finding(
        id=f"{cluster}/{place}/{_ID}",
        cluster=cluster,
        workload_id="",
        rule=_ID,
        severity=severity,
        message=why,
        confidence=confidence,
        evidence=(*_numbers(case), told),
        change=_change(case, place),
        saving=_saving(case, confidence),
        risks=tuple(risks),
        not_chosen=(message("unallocated.not_cordoned"),),
        window=case.view.window,
    )


def _change(case: _Case, place: str) -> Change:
    """Let those that wait have them, else give back the nodes that stood empty."""
    pool = case.pool
    names = [node.name for node in pool.empty]
    params: dict[str, Scalar] = {"nodes": ", ".join(names), "gpus": pool.least}
    if case.waiting:
        first = case.waiting[0]
        command = (
            f"kubectl -n {first.namespace} get events --field-selector reason=FailedScheduling"
        )
        return Change(
            kind="serve_waiting",
            target=f"Pool {place}",
            command=command,
            params=params,
            links=(_SCHEDULING,),
            undo="nothing was changed",
        )
    if not names:
        return Change(kind="repack_pool", target=f"Pool {place}", params=params, links=(_LINK,))
    return Change(
        kind="shrink_pool",
        target=f"Pool {place}",
        command=f"kubectl cordon {' '.join(names)}",
        params=params,
        code="# then take so many nodes from the pool where it was made, or let an autoscaler do "
        "it;\n# each of these is empty\n",
        links=(_LINK,),
        undo=f"kubectl uncordon {' '.join(names)}",
    )


def _saving(case: _Case, confidence: Confidence) -> Saving:
    """What the empty nodes cost per month."""
    empty = case.pool.empty
    if confidence is Confidence.LOW:
        return Saving(why=message("unallocated.not_counted"), formula=_FORMULA)
    if case.waiting:
        return Saving(why=message("unallocated.wanted"), formula=_FORMULA)
    if not empty:
        return Saving(why=message("unallocated.no_empty_node"), formula=_FORMULA)
    hours = case.context.hours_per_month
    gpu_hours = sum(node.gpus for node in empty) * hours
    currencies = {node.currency for node in empty}
    if any(node.price is None for node in empty) or len(currencies) > 1:
        why = message("unallocated.unpriced", model=case.pool.model)
        return Saving(gpu_hours_per_month=gpu_hours, why=why, formula=_FORMULA)
    amount = sum(node.gpus * (node.price or 0.0) for node in empty) * hours
    money = Money(amount=amount, currency=currencies.pop())
    return Saving(gpu_hours_per_month=gpu_hours, money_per_month=money, formula=_FORMULA)


CLUSTER_RULE: Final = ClusterRule(
    id=_ID,
    title="Unallocated GPUs",
    summary="GPUs that nobody asks for, hour after hour, beside pods that wait for some.",
    thresholds=_THRESHOLDS,
    messages=MESSAGES,
    evaluate=evaluate,
)
