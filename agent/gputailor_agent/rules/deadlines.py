"""After how long a workload's runs are ended by Kubernetes or a queue, as far as that is told."""

from collections.abc import Iterable
from typing import Final

from gputailor_agent.inventory.hints import DEADLINE_HINT
from gputailor_agent.model.inventory import Pod, Workload

_KUEUE: Final = "kueue.x-k8s.io/max-exec-time-seconds"


def deadline_of(workload: Workload, pods: Iterable[Pod]) -> float | None:
    """Lowest of the limits that are told, in seconds; None where there is none."""
    named = (workload.annotations.get(DEADLINE_HINT, ""), workload.labels.get(_KUEUE, ""))
    told = [float(text) for text in named if text.replace(".", "", 1).isdigit()]
    told += [pod.deadline_seconds for pod in pods if pod.deadline_seconds is not None]
    return min((seconds for seconds in told if seconds > 0), default=None)
