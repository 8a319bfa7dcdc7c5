"""Devices that primary findings would free, by workload and node: waste beside demand.

Only changes that let go of whole devices count, at confidence that is counted at all: a release, a
smaller number per pod, fewer replicas. Of fewer replicas those go that worked least. A cheaper card
or a shorter run frees nothing that a pod which waits could take at once.
"""

from collections import defaultdict
from collections.abc import Iterable

from gputailor_agent.model.judgement import Finding, Serving, Verdict
from gputailor_agent.model.profile import GpuUse, Profile
from gputailor_agent.planner.choosing import counts
from gputailor_agent.profiles import busy_signal
from gputailor_agent.rules import Context

PodKey = tuple[str, str, str]


def freed(profile: Profile, verdict: Verdict, context: Context) -> tuple[Serving, ...]:
    """Return what the verdict's primary finding would free, one entry per node."""
    primary = verdict.primary
    if primary is None or not counts(primary):
        return ()
    by_pod: dict[PodKey, list[GpuUse]] = defaultdict(list)
    for use in context.holdings.live_uses(profile.gpus, profile.window):
        by_pod[use.namespace, use.pod, use.pod_uid].append(use)
    by_node: dict[str, float] = defaultdict(float)
    for key, devices in _let_go(primary, by_pod):
        pod = context.holdings.find(*key)
        if pod is not None and pod.node and devices > 0:
            by_node[pod.node] += devices
    work = profile.workload.id
    return tuple(
        Serving(workload_id=work, rule=primary.rule, node=node, devices=by_node[node])
        for node in sorted(by_node)
    )


def _let_go(primary: Finding, by_pod: dict[PodKey, list[GpuUse]]) -> Iterable[tuple[PodKey, float]]:
    """Devices that each pod would let go of."""
    change = primary.change
    if change.kind == "release":
        return [(key, float(len(uses))) for key, uses in by_pod.items()]
    if change.kind == "set_gpus":
        kept = float(change.params.get("gpus") or 0.0)
        return [(key, max(0.0, len(uses) - kept)) for key, uses in by_pod.items()]
    if change.kind == "set_replicas":
        going = len(by_pod) - int(change.params.get("replicas") or 0)
        quietest = sorted(by_pod, key=lambda key: (_worked(by_pod[key]), key))
        return [(key, float(len(by_pod[key]))) for key in quietest[: max(0, going)]]
    return []


def _worked(uses: list[GpuUse]) -> float:
    """Seconds in which the pod's devices worked."""
    return sum(
        use.signals[name].active_seconds
        for use in uses
        if (name := busy_signal(use.signals)) in use.signals
    )
