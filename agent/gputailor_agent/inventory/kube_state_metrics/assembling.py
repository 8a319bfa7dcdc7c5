"""From a reading of kube-state-metrics to an inventory."""

from collections.abc import Set as AbstractSet

import msgspec

from gputailor_agent.dialects import kube_state_metrics as names
from gputailor_agent.dialects.kube_state_metrics import KubeState
from gputailor_agent.inventory.holding import asks_for_devices
from gputailor_agent.inventory.kube_state_metrics.missing import Missing, missing
from gputailor_agent.inventory.kube_state_metrics.nodes import nodes_of
from gputailor_agent.inventory.kube_state_metrics.owning import Ownership, references
from gputailor_agent.inventory.kube_state_metrics.pods import Seen, pod_of
from gputailor_agent.inventory.kube_state_metrics.rows import Rows, by_label
from gputailor_agent.inventory.namespaces import said_by
from gputailor_agent.inventory.raw import RawMetadata
from gputailor_agent.model.inventory import Inventory, Pod


def lacking(state: KubeState) -> tuple[Missing, ...]:
    """What the reading leaves out that something needs, each with the next step."""
    return _assembled(state, "")[1]


def inventory_of(state: KubeState, cluster: str) -> Inventory:
    """What was asked for as of ``state.at``, and the pods that went before it.

    A pod that went without a word of its end is given as a store gives it: ``Unknown``, finished
    when it was last seen running; but the Job above it may tell how it ended. ``complete`` only
    where kube-state-metrics answered at the time that was asked for, and the server in full.
    """
    inventory, gaps = _assembled(state, cluster)
    return msgspec.structs.replace(inventory, problems=tuple(str(one) for one in gaps))


def _assembled(state: KubeState, cluster: str) -> tuple[Inventory, tuple[Missing, ...]]:
    above = Ownership(state.samples, cluster)
    pods = tuple(pod for pod in _pods(state, above, cluster) if asks_for_devices(pod))
    inventory = Inventory(
        cluster=cluster,
        at=state.at,
        pods=pods,
        nodes=tuple(nodes_of(state.samples, cluster)),
        owners=tuple(above.owners()),
        namespaces=_namespaces(state, {pod.namespace for pod in pods}),
        complete=state.found and state.current and not state.nameless and not state.partial,
    )
    return inventory, tuple(missing(state, pods, above))


def _namespaces(state: KubeState, wanted: AbstractSet[str]) -> dict[str, dict[str, str]]:
    """What each namespace says, where kube-state-metrics was told to tell it."""
    told = (one for one in state.samples if one.name in names.OF_NAMESPACES)
    found = {
        name: said_by(
            RawMetadata(
                labels=rows.keyed(names.NAMESPACE_LABELS, "label_"),
                annotations=rows.keyed(names.NAMESPACE_ANNOTATIONS, "annotation_"),
            )
        )
        for (name,), rows in sorted(by_label(told, "namespace").items())
        if name in wanted
    }
    return {name: said for name, said in found.items() if said}


def _pods(state: KubeState, above: Ownership, cluster: str) -> list[Pod]:
    phases, jobs = names.phases(state.samples), _job_ends(state)
    of_pods = (one for one in state.samples if one.name in names.OF_PODS)
    found = []
    for key, rows in sorted(by_label(of_pods, "namespace", "pod", "uid").items()):
        uid = key[2]
        seen = Seen(
            phase=phases.get(uid, "Unknown"),
            gone=state.gone.get(uid),
            ran=state.ran.get(uid),
            job=_job_end(rows, jobs),
        )
        found.append(pod_of((key[0], key[1], uid), rows, seen, above, cluster))
    return found


def _job_ends(state: KubeState) -> dict[tuple[str, str], str]:
    """How each Job ended, by namespace and name; a Job that is complete did not fail."""
    ends = {names.JOB_FAILED: "Failed", names.JOB_COMPLETE: "Succeeded"}
    found: dict[tuple[str, str], str] = {}
    for name, outcome in ends.items():
        for sample in state.samples:
            labels = sample.labels
            if sample.name == name and sample.value == 1 and labels.get("condition") == "true":
                found[labels.get("namespace", ""), labels.get("job_name", "")] = outcome
    return found


def _job_end(rows: Rows, jobs: dict[tuple[str, str], str]) -> str:
    for named, _ in references(rows, names.POD_OWNER):
        if named.kind == "Job" and (named.namespace, named.name) in jobs:
            return jobs[named.namespace, named.name]
    return ""
