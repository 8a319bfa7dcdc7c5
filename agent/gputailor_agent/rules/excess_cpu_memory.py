"""Excess CPU and memory: a pod asks for so much of its node that GPUs beside it cannot be used.

A pod's share of a node is its GPUs' part of the node's CPUs and memory. What it asks for beyond it
strands GPUs: ``max(CPU request / CPUs per GPU, memory request / memory per GPU) - its GPUs``. That
matters only where the pod does not need it: what it needs of CPU is its 95th percentile, of memory
its peak, with headroom (``host_needs``). The advice never goes below the pod's share, which would
free nothing, nor below the need; a resource of which the pod was short (throttled, or killed for
memory) is left as it is.
GPUs that are stranded are bought anyway, and the same ones may be stranded by several workloads, so
no saving is counted.
"""

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import Final

from gputailor_agent.model.inventory import ContainerSpec, Node, Pod, TaskClass
from gputailor_agent.model.judgement import (
    Change,
    Confidence,
    Evidence,
    Finding,
    Message,
    Saving,
    Severity,
    Silence,
    SilenceKind,
)
from gputailor_agent.model.profile import Profile
from gputailor_agent.profiles.holding import holds_at, is_pending
from gputailor_agent.rules import changes, host_needs
from gputailor_agent.rules.advising import Advice, Case, containers_of, opened
from gputailor_agent.rules.base import (
    Context,
    Rule,
    Threshold,
    held_against,
    message,
    noted,
)
from gputailor_agent.rules.gates import GATE_MESSAGES, SIZING_THRESHOLDS
from gputailor_agent.rules.host_needs import HostNeed, host_need
from gputailor_agent.rules.members import by_pod
from gputailor_agent.rules.pricing import equivalent, node_shape

_ID: Final = "excess_cpu_memory"
_GIB: Final = 1024**3
_LINKS: Final = ("https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/",)
_FORMULA: Final = "max(CPU request / CPUs per GPU, memory request / memory per GPU) - its GPUs"

_THRESHOLDS: Final = (
    *SIZING_THRESHOLDS,
    Threshold("excess", 2, "factor", "request of the need at or above which it is in excess"),
    Threshold("stranded_gpus", 0.5, "gpus", "GPUs per pod that the excess strands; own default"),
    *host_needs.THRESHOLDS,
)

_MESSAGES: Final = {
    **GATE_MESSAGES,
    "excess_cpu_memory.blocks": "it asks for {cpus:count} CPU(s) and {memory:bytes} beside its "
    "{gpus:count} GPU(s) (needed: {need_cpus:count} and {need_memory:bytes}), which keeps "
    "{free:count} GPU(s) of node {node} from others that could use them now",
    "excess_cpu_memory.strands": "it asks for {cpus:count} CPU(s) and {memory:bytes} beside its "
    "{gpus:count} GPU(s) (needed: {need_cpus:count} and {need_memory:bytes}): the share of "
    "{stranded:count} GPU(s) more of node {node}, which others cannot use once it is full",
    "excess_cpu_memory.unquantified": "the GPUs are paid for anyway; what it is worth depends on "
    "who waits for them",
    "excess_cpu_memory.no_requests": "its pods ask for no CPU and memory",
    "excess_cpu_memory.no_pod": "unknown: the inventory has none of its pods, so what they ask for "
    "is not known",
    "excess_cpu_memory.no_node": "unknown: how many CPUs and how much memory its node has is not "
    "told",
    "excess_cpu_memory.no_use": "unknown: what its containers use of CPU and memory is not told; "
    "cAdvisor does",
    "excess_cpu_memory.partly": "unknown: CPU and memory used were told for {told:ratio} of the "
    "time only",
    "excess_cpu_memory.within": "it asks for no more than its GPUs' share of the node",
    "excess_cpu_memory.needed": "it asks for more than its GPUs' share of the node, and needs it",
    "excess_cpu_memory.risk_burst": "CPU is known as means of hours: shorter bursts would be "
    "slowed down where the node is full (its limit stays)",
    "excess_cpu_memory.risk_above_p95": "a twentieth of the time it used more CPU, and shorter "
    "bursts than five minutes are not known: those are slowed down where the node is full (its "
    "limit stays)",
    "excess_cpu_memory.risk_memory": "a container above its memory request is evicted first when "
    "the node runs short",
    "excess_cpu_memory.risk_interactive": "a person works in it: tomorrow may need more than the "
    "window saw",
    "excess_cpu_memory.not_limits": "lower limits: they block nobody",
    "excess_cpu_memory.not_fewer_gpus": "fewer GPUs: that is another question (too_many_gpus)",
}


@dataclass(frozen=True, slots=True)
class _Ask:
    """What one pod asks for on its node, and what it needs. None: not asked, or not known."""

    node: Node
    gpus: float
    cpus: float | None
    memory: int | None
    cpus_per_gpu: float
    memory_per_gpu: float

    def stranded(self, cpus: float | None, memory: float | None) -> float:
        """GPUs whose share of the node goes with such requests."""
        return max(
            0.0,
            (cpus or 0.0) / self.cpus_per_gpu - self.gpus,
            (memory or 0.0) / self.memory_per_gpu - self.gpus,
        )


@dataclass(frozen=True, slots=True)
class _Less:
    """A smaller request, and what it frees."""

    ask: _Ask
    cpus: int | None
    memory_gib: int | None
    stranded: float
    freed: float


def evaluate(profile: Profile, context: Context) -> Finding | Silence:
    """Say whether the workload's CPU and memory requests strand GPUs for nothing."""
    case = opened(RULE, profile, context)
    if isinstance(case, Silence):
        return case
    limits = case.limits
    pods = containers_of(profile, context)
    if not pods:
        return case.silent(SilenceKind.UNKNOWN, message("excess_cpu_memory.no_pod"))
    if all(spec.cpu_request is None and spec.memory_request_bytes is None for _, spec in pods):
        return case.silent(SilenceKind.NOT_APPLICABLE, message("excess_cpu_memory.no_requests"))
    asks = _asks(profile, context, pods)
    if not asks:
        why = message("excess_cpu_memory.no_node")
        return case.silent(SilenceKind.UNKNOWN, why, missing=("node CPUs", "node memory"))
    worst = max(asks, key=lambda one: (one.stranded(one.cpus, one.memory), one.node.name))
    if worst.stranded(worst.cpus, worst.memory) < limits["stranded_gpus"]:
        why = message("excess_cpu_memory.within")
        return case.silent(SilenceKind.FINE, why, _asked(case, worst))
    return _needed(case, worst)


def _asks(profile: Profile, context: Context, pods: list[tuple[Pod, ContainerSpec]]) -> list[_Ask]:
    """Pods on nodes whose size is known."""
    held = {
        (uses[0].namespace, uses[0].pod): sum(equivalent(context, use) for use in uses)
        for uses in by_pod(profile.gpus)
    }
    found = []
    for pod, spec in pods:
        node = context.nodes.get(pod.node or "")
        gpus = held.get((pod.namespace, pod.name), 0.0)
        whole = node_shape(context, node).gpus if node is not None else 0.0
        if node is None or not node.cpus or not node.memory_bytes or whole <= 0 or gpus <= 0:
            continue
        found.append(
            _Ask(
                node,
                gpus,
                spec.cpu_request,
                spec.memory_request_bytes,
                node.cpus / whole,
                node.memory_bytes / whole,
            )
        )
    return found


def _needed(case: Case, ask: _Ask) -> Finding | Silence:
    host = case.profile.host
    told = host_needs.told_share(case)
    if host is None or (host.cpus_peak is None and host.memory_peak_bytes is None):
        why = message("excess_cpu_memory.no_use")
        return case.silent(
            SilenceKind.UNKNOWN, why, _asked(case, ask), missing=("CPU used", "memory used")
        )
    if told is not None and told < case.limits["coverage"]:
        why = message("excess_cpu_memory.partly", told=told)
        return case.silent(SilenceKind.UNKNOWN, why, _asked(case, ask), missing=("CPU used",))
    need = host_need(case, host)
    less = _less(case, ask, need)
    numbers = (*_numbers(case, ask, need, less), *host_needs.cpu_evidence(case, host))
    if less is None:
        why = message("excess_cpu_memory.needed")
        return case.silent(SilenceKind.FINE, why, numbers)
    return _finding(case, less, need, numbers)


def _less(case: Case, ask: _Ask, need: HostNeed) -> _Less | None:
    """The smaller request; None where it frees nothing worth it."""
    factor = case.limits["excess"]
    cpus = _smaller(ask.cpus, need.cpus, ask.gpus * ask.cpus_per_gpu, factor)
    gib = _smaller(
        None if ask.memory is None else ask.memory / _GIB,
        None if need.memory is None else need.memory / _GIB,
        ask.gpus * ask.memory_per_gpu / _GIB,
        factor,
    )
    now = ask.stranded(ask.cpus, ask.memory)
    then = ask.stranded(
        ask.cpus if cpus is None else cpus, ask.memory if gib is None else gib * _GIB
    )
    if now - then < case.limits["stranded_gpus"]:
        return None
    return _Less(ask, cpus, gib, now, now - then)


def _smaller(asked: float | None, need: float | None, share: float, factor: float) -> int | None:
    """The need or the share of the node, whichever is more; None where that is not in excess."""
    if asked is None or need is None or asked < factor * need:
        return None
    wanted = max(math.ceil(need), math.floor(share), 1)
    return wanted if wanted < asked else None


def _asked(case: Case, ask: _Ask) -> tuple[Evidence, ...]:
    profile = case.profile
    return (
        noted("CPUs asked for", ask.cpus, unit="count", profile=profile,
              formula="CPU request of the container, cores"),
        noted("CPUs per GPU of the node", ask.cpus_per_gpu, unit="count", profile=profile,
              formula="allocatable CPUs / GPUs of the node"),
        noted("memory asked for", ask.memory, unit="bytes", profile=profile,
              formula="memory request of the container"),
        noted("memory per GPU of the node", ask.memory_per_gpu, unit="bytes", profile=profile,
              formula="allocatable memory / GPUs of the node"),
        held_against("GPUs stranded per pod", ask.stranded(ask.cpus, ask.memory), ">=",
                     case.limits["stranded_gpus"], unit="gpus", profile=profile,
                     formula=_FORMULA),
    )  # fmt: skip


def _numbers(case: Case, ask: _Ask, need: HostNeed, less: _Less | None) -> tuple[Evidence, ...]:
    profile, limits = case.profile, case.limits
    cpus = ask.cpus / need.cpus if ask.cpus is not None and need.cpus else None
    memory = ask.memory / need.memory if ask.memory is not None and need.memory else None
    return (
        *_asked(case, ask),
        held_against("CPU request of the need", cpus, ">=", limits["excess"], unit="factor",
                     profile=profile, formula=f"{host_needs.cpu_formula(case, need)}; unknown "
                     "where it was throttled"),
        held_against("memory request of the need", memory, ">=", limits["excess"], unit="factor",
                     profile=profile, formula=f"request / ({limits['memory_headroom']:g} x highest "
                     "working set); unknown after a kill for memory"),
        held_against("GPUs freed per pod", None if less is None else less.freed, ">=",
                     limits["stranded_gpus"], unit="gpus", profile=profile,
                     formula="stranded now - stranded with the smaller request"),
        noted("time of which CPU and memory were told", host_needs.told_share(case), unit="ratio",
              profile=profile, formula="container-seconds seen by cAdvisor / held"),
    )  # fmt: skip


def _finding(case: Case, less: _Less, need: HostNeed, numbers: tuple[Evidence, ...]) -> Finding:
    ask = less.ask
    free = _blocked(case.context, ask)
    why = message(
        "excess_cpu_memory.blocks" if free >= 1 else "excess_cpu_memory.strands",
        cpus=ask.cpus,
        memory=ask.memory,
        gpus=ask.gpus,
        need_cpus=need.cpus,
        need_memory=need.memory,
        node=ask.node.name,
        stranded=less.stranded,
        free=free,
    )
    waiting = _waiting(case.context)
    person = case.profile.workload.task_class == TaskClass.NOTEBOOK
    severity = Severity.LOW
    if free >= 1:
        severity = Severity.HIGH if waiting else Severity.MEDIUM
    more = (
        noted("free GPUs of the node that are blocked", free, unit="gpus", profile=case.profile,
              formula="free GPUs where the pods known leave less than one GPU's share"),
        noted("pods waiting for GPUs", waiting, unit="count", profile=case.profile,
              formula="pending pods of the cluster that ask for GPUs"),
    )  # fmt: skip
    advice = Advice(
        severity=severity,
        confidence=Confidence.LOW if person else Confidence.MEDIUM,
        reason="a person's work differs from day to day"
        if person
        else "requests and use are known; CPU as means of "
        f"{'five minutes' if need.p95 is not None else 'hours only'}",
        change=_change(case.profile, less),
        saving=Saving(why=message("excess_cpu_memory.unquantified"), formula=_FORMULA),
        risks=_risks(less, need, person=person),
        not_chosen=(
            message("excess_cpu_memory.not_limits"),
            message("excess_cpu_memory.not_fewer_gpus"),
        ),
    )
    return case.found(why, advice, (*numbers, *more))


def _risks(less: _Less, need: HostNeed, *, person: bool) -> tuple[Message, ...]:
    risks = []
    if less.cpus is not None:
        burst = "risk_burst" if need.p95 is None else "risk_above_p95"
        risks.append(message(f"excess_cpu_memory.{burst}"))
    if less.memory_gib is not None:
        risks.append(message("excess_cpu_memory.risk_memory"))
    if person:
        risks.append(message("excess_cpu_memory.risk_interactive"))
    return tuple(risks)


def _change(profile: Profile, less: _Less) -> Change:
    return changes.set_requests(profile, less.cpus, less.memory_gib, _LINKS)


def _blocked(context: Context, ask: _Ask) -> float:
    """Free GPUs of the node where its known pods leave less than one GPU's share of the rest."""
    node = ask.node
    here = _pods_by_node(context).get(node.name, [])
    cpus, memory = node.cpus or 0.0, float(node.memory_bytes or 0)
    taken = 0.0
    unit = node_shape(context, node).whole_unit
    for pod in here:
        for spec in pod.containers:
            if not spec.init:
                cpus -= spec.cpu_request or 0.0
                memory -= spec.memory_request_bytes or 0
                taken += unit * sum(one.count for one in spec.gpus if one.kind == "gpu")
    free = node_shape(context, node).gpus - taken
    if cpus >= ask.cpus_per_gpu and memory >= ask.memory_per_gpu:
        return 0.0
    return max(0.0, free)


def _waiting(context: Context) -> int:
    """Pods of the cluster that wait for GPUs; remembered."""
    if "waiting_pods" not in context.remembered:
        waiting = sum(1 for pod in context.inventory.pods if is_pending(pod))
        context.remembered["waiting_pods"] = waiting
    known: int = context.remembered["waiting_pods"]
    return known


def _pods_by_node(context: Context) -> dict[str, list[Pod]]:
    """Pods that hold devices now, by node; remembered."""
    if "pods_by_node" not in context.remembered:
        found: dict[str, list[Pod]] = defaultdict(list)
        for pod in context.inventory.pods:
            if pod.node and not pod.template and holds_at(pod, context.now):
                found[pod.node].append(pod)
        context.remembered["pods_by_node"] = found
    known: dict[str, list[Pod]] = context.remembered["pods_by_node"]
    return known


RULE: Final = Rule(
    id=_ID,
    title="Excess CPU and memory",
    summary="CPU and memory requests far above use keep GPUs of the node from others.",
    signals=(),
    thresholds=_THRESHOLDS,
    messages=_MESSAGES,
    evaluate=evaluate,
    order=84,
)
