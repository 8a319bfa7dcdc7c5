"""What kube-state-metrics does not tell, what that costs, and the setting that gives it.

Only what something needs is named: completion times are not missed where nothing ended.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from gputailor_agent.dialects import kube_state_metrics as names
from gputailor_agent.dialects.kube_state_metrics import KubeState
from gputailor_agent.inventory.kube_state_metrics.owning import Ownership
from gputailor_agent.model.inventory import Pod

_SHOWN: Final = 5


class Missing(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is not told, with the next step."""

    found: str
    advice: str

    def __str__(self) -> str:
        """Both in one line."""
        return f"kube-state-metrics: {self.found}; {self.advice}"


#: Metrics of pods, what is lost without them, and how kube-state-metrics comes to give them.
_OF_PODS: Final = (
    (
        names.PHASE,
        "who holds a GPU now is unknown, no pod counts as holding one",
        "keep it in --metric-allowlist, or take it out of --metric-denylist",
    ),
    (
        names.POD_OWNER,
        "owners are those that kube_pod_info says created the pods",
        "keep it in --metric-allowlist, or take it out of --metric-denylist",
    ),
    (
        names.POD_INFO,
        "nodes are those of the requests, priority classes are unknown",
        "keep it in --metric-allowlist, or take it out of --metric-denylist",
    ),
    (
        "kube_pod_container_info",
        "images are unknown, so framework and task class are guessed by the kind of owner alone",
        "keep it in --metric-allowlist, or take it out of --metric-denylist",
    ),
    (
        "kube_pod_created",
        "pods' beginnings are unknown, so missing measurements do not show",
        "keep it and kube_pod_start_time in --metric-allowlist",
    ),
    (
        "kube_pod_labels",
        "labels that join runs (gputailor.io/workload), name a revision or an owner are not seen",
        "give it --metric-labels-allowlist=pods=[*]",
    ),
    (
        "kube_pod_annotations",
        "annotations (gputailor.io/ignore, gputailor.io/notify, gpu-fraction) are not seen",
        "give it --metric-annotations-allowlist=pods=[*],deployments=[*],jobs=[*]",
    ),
)


def missing(state: KubeState, pods: Sequence[Pod], above: Ownership) -> Iterator[Missing]:
    """What is not told of these pods and their nodes, the gravest first."""
    if not state.found:
        yield Missing(
            found="the server has no series of it, so nothing says what was asked for: owners, "
            "requests, pods that never used a GPU and free GPUs are unknown",
            advice="scrape it, or give --context NAME, --kubernetes or --inventory PATH",
        )
        return
    if state.nameless:
        yield Missing(
            found="its series of pods carry no uid, so nothing can be joined by it and no pod is "
            "known",
            advice="upgrade it to version 2",
        )
    if not state.current:
        yield Missing(
            found=f"it was last scraped {_when(state.at)}; pods and nodes are as of then",
            advice="look whether it runs and whether the server scrapes it",
        )
    if state.partial:
        yield Missing(
            found=f"the server told but a part ({'; '.join(state.partial[:_SHOWN])}): pods that "
            "are not told of may still be there",
            advice="look which of its stores does not answer; it is asked again",
        )
    yield from _clusters(state)
    yield from _unread(state)
    told = {sample.name for sample in state.samples}
    for name, lost, advice in _OF_PODS if pods else ():
        if name not in told:
            yield Missing(found=f"{name} is missing: {lost}", advice=advice)
    yield from _endings(told, pods)
    yield from _owners(above)
    yield from _nodes(told)


def _when(at: float) -> str:
    return datetime.fromtimestamp(at, tz=UTC).strftime("%Y-%m-%d %H:%M UTC")


def _clusters(state: KubeState) -> Iterator[Missing]:
    clusters = sorted({one.labels["cluster"] for one in state.samples if "cluster" in one.labels})
    if len(clusters) > 1:
        yield Missing(
            found=f"series of {len(clusters)} clusters are there ({_listed(clusters)}) and are "
            "taken for one",
            advice=f"name one: --prometheus-label cluster={clusters[0]}",
        )


def _unread(state: KubeState) -> Iterator[Missing]:
    if state.unread:
        yield Missing(
            found=f"{state.unread} pods that ended earlier are left out, for the budget of samples "
            "is used up",
            advice="look at a shorter window (--since)",
        )


def _endings(told: set[str], pods: Sequence[Pod]) -> Iterator[Missing]:
    if names.COMPLETION not in told and any(pod.phase in names.ENDED for pod in pods):
        yield Missing(
            found=f"{names.COMPLETION} is missing: pods count as finished when they were last "
            "seen running",
            advice="keep it in --metric-allowlist, or take it out of --metric-denylist",
        )


def _owners(above: Ownership) -> Iterator[Missing]:
    lost = {
        "ReplicaSet": "their Deployments are read out of their names",
        "Job": "runs of one CronJob or pipeline are joined by their names alone",
    }
    for kind, consequence in lost.items():
        unknown = above.unknown(kind)
        if unknown:
            shown = _listed([f"{one.namespace}/{one.name}" for one in unknown])
            yield Missing(
                found=f"{names.OWNERS[kind].owner} tells nothing of {shown}: {consequence}",
                advice=f"have {kind.lower()}s in its --resources and scrape it at least once "
                "while they live",
            )


def _nodes(told: Iterable[str]) -> Iterator[Missing]:
    if names.NODE_INFO not in told and names.NODE_CAPACITY not in told:
        yield Missing(
            found="there are no series of nodes: capacity, free GPUs and prices are unknown",
            advice="have nodes in its --resources",
        )
    elif names.NODE_LABELS not in told:
        yield Missing(
            found=f"{names.NODE_LABELS} is missing: instance types, regions and spot nodes are "
            "unknown, so prices are those of the GPU's model",
            advice="give it --metric-labels-allowlist=nodes=[*]",
        )


def _listed(items: Sequence[str]) -> str:
    more = len(items) - _SHOWN
    return ", ".join(items[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
