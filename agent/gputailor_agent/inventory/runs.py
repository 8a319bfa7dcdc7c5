"""One run as a value: its pods, its times, and how it ended."""

from collections.abc import Sequence

from gputailor_agent.inventory.holding import HOLDING_PHASES
from gputailor_agent.inventory.kinds import kind_table
from gputailor_agent.model.inventory import Outcome, Pod, Run


def pod_key(pod: Pod) -> str:
    """The key of a pod in ``Run.pods``."""
    return f"{pod.namespace}/{pod.name}/{pod.uid}"


def _member(pod: Pod) -> str:
    """Which member of its run a pod is; retries of the same member share the answer."""
    for key in kind_table().members:
        values = [pod.labels.get(part, "") for part in key.split("+")]
        if all(values):
            return key + "=" + ",".join(values)
    return ""


def _ended(pod: Pod) -> tuple[float, str]:
    return (pod.finished or pod.started or pod.created or 0.0, pod.name)


def outcome(pods: Sequence[Pod]) -> Outcome:
    """How a run ended, by its pods: of each member the last attempt decides.

    Running while any pod is; failed if a member's last attempt failed; unknown if any is.
    """
    real = [pod for pod in pods if not pod.template]
    if any(pod.phase in HOLDING_PHASES for pod in real):
        return Outcome.RUNNING
    last: dict[str, Pod] = {}
    for pod in sorted(real, key=_ended):
        last[_member(pod)] = pod
    phases = {pod.phase for pod in last.values()}
    if "Failed" in phases:
        return Outcome.FAILED
    if phases == {"Succeeded"}:
        return Outcome.SUCCEEDED
    return Outcome.UNKNOWN


def make_run(id_: str, workload_id: str, pods: Sequence[Pod]) -> Run:
    """A run from its pods; ``finished`` only when none of them goes on."""
    ended = outcome(pods)
    started = [pod.started for pod in pods if pod.started is not None]
    finished = [pod.finished for pod in pods if pod.finished is not None]
    return Run(
        id=id_,
        workload_id=workload_id,
        pods=tuple(sorted(pod_key(pod) for pod in pods)),
        started=min(started) if started else None,
        finished=max(finished) if finished and ended is not Outcome.RUNNING else None,
        outcome=ended,
    )
