"""Restarts and kills for memory of containers, as kube-state-metrics tells them.

Facts from its documentation of pod metrics (kubernetes/kube-state-metrics,
``docs/metrics/workload/pod-metrics.md``). The reason is that of the last end only: of several
restarts in an hour at least one was a kill for memory where the last says so, so kills are counted
once an hour and never overstated.
"""

from typing import Final

NAME: Final = "kube_state_metrics"
TITLE: Final = "kube-state-metrics"

RESTARTS: Final = "kube_pod_container_status_restarts_total"
#: Reasons of the last end before the present start, and of the end of what does not start again.
BEFORE: Final = "kube_pod_container_status_last_terminated_reason"
NOW: Final = "kube_pod_container_status_terminated_reason"
KILLED: Final = "OOMKilled"
