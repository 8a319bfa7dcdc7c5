"""What is not measured: a blind exporter, poor coverage, and GPUs that nobody holds.

Missing data is the matter of the first two; the third asks that the node was seen all day.
"""

from typing import Final

from gputailor_dashboards.expressions.native import HOLDER
from gputailor_dashboards.rules import Alert, Severity
from gputailor_exporter import metrics as m

_SOURCE_AGE_SECONDS: Final = 600
_LEAST_COVERAGE: Final = 0.9  # what sizing rules of the agent ask for
_HELD_SECONDS: Final = 1800  # of the hour; less says little
_DAY_COVERAGE: Final = 0.98
_DAY_SECONDS: Final = 86400
_NODE: Final = "cluster, node"
_TARGET: Final = "cluster, node, job, instance"


def _blind() -> str:
    seen = f"group by ({_TARGET}) (last_over_time({m.DEVICE_UP.name}[1d]))"
    down = f"{seen} and on (job, instance) (up == 0)"
    age = f"time() - {m.EXPORTER_LAST_SUCCESS.name}"
    stale = f"{seen} and on (job, instance) ({age} > {_SOURCE_AGE_SECONDS})"
    resources = 'resource=~"nvidia_com_gpu.*|nvidia_com_mig_.*"'
    capacity = f"(kube_node_status_allocatable{{{resources}}} > 0)"
    unseen = f"{capacity} unless on ({_NODE}) {m.DEVICE_UP.name}"
    return f"group by ({_NODE}) (({down}) or ({stale}) or ({unseen}))"


def _poorly_covered() -> str:
    observed = f'{m.CONTAINER_OBSERVED_SECONDS.name}{{signal=~"kernel|sm"}}'
    best = f"sum by ({_NODE}) (max by ({HOLDER}) (increase({observed}[1h])))"
    held = f"sum by ({_NODE}) (increase({m.CONTAINER_ALLOCATED_SECONDS.name}[1h]))"
    return f"(({best} or 0 * {held}) / ({held} > {_HELD_SECONDS})) < {_LEAST_COVERAGE}"


def _unheld() -> str:
    seconds = f'{m.DEVICE_OBSERVED_SECONDS.name}{{signal=~"kernel|sm"}}'
    seen = f"max by ({_TARGET}) (increase({seconds}[1d])) >= {_DAY_COVERAGE * _DAY_SECONDS:.0f}"
    kubelet = f'time() - {m.EXPORTER_LAST_SUCCESS.name}{{source="kubelet"}}'
    told = f"max_over_time(({kubelet})[1d:5m]) < {_SOURCE_AGE_SECONDS}"
    devices = f'count by ({_NODE}) ({m.DEVICE_INFO.name}{{parent_uuid=""}})'
    nobody = f"{devices} unless on ({_NODE}) last_over_time({m.CONTAINER_ALLOCATED.name}[1d])"
    return f"({nobody}) and on ({_NODE}) (({seen}) and on (job, instance) ({told}))"


GPU_EXPORTER_BLIND: Final = Alert(
    name="GpuExporterBlind",
    expr=_blind(),
    hold="10m",
    severity=Severity.WARNING,
    summary="The GPUs of node {{ $labels.node }} are not measured",
    description=(
        "The exporter of node {{ $labels.node }} does not answer, cannot read its driver or "
        "kubelet for ten minutes, or was never seen although the node offers GPUs. Until that is "
        "mended the node's GPUs count as unknown, never as idle."
    ),
    impact=(
        "Use, health and waste of the node are unknown; reports cover less, other alerts on the "
        "node rest."
    ),
    runbook=(
        (
            "`kubectl get pods -o wide` in the exporter's namespace: is there a pod on the node, "
            "and does it run? No pod: look at taints, node selector and quota of the DaemonSet."
        ),
        "The pod's log says which source fails; `gputailor_exporter_errors_total` says why.",
        (
            "Source `nvml`: does `nvidia-smi` work on the node? Source `kubelet`: is the "
            "kubelet's socket mounted?"
        ),
        (
            "The pod is well, but its target is down: does a NetworkPolicy keep Prometheus away, "
            "do TLS and password match?"
        ),
        "The node's GPUs need no measuring: silence the alert for the node.",
    ),
    missing=(
        "Missing data is its matter. A node that was taken away together with its target is not "
        "missed."
    ),
    board="gputailor-self",
)
GPU_COVERAGE_LOW: Final = Alert(
    name="GpuCoverageLow",
    expr=_poorly_covered(),
    hold="30m",
    severity=Severity.WARNING,
    summary="Only {{ $value | humanizePercentage }} of held GPU time on {{ $labels.node }} is read",
    description=(
        "Within the last hour, activity could be read for less than 0.9 of the time that "
        "containers held devices of node {{ $labels.node }}, although its exporter runs."
    ),
    impact="Sizing needs a coverage of 0.9: workloads there are watched, but not judged.",
    runbook=(
        (
            "Dashboard Exporters and agent, *Signals that cannot be read*: which signal is missing "
            "on how many devices, and why?"
        ),
        (
            "`not_attributable`: the exporter cannot lead processes to pods; it needs `hostPID` "
            "and the log folders of kubelet (docs/attribution.md)."
        ),
        "`held_by_dcgm`: another program has the profiling counters; stop it or share them.",
        "`timeout`: the driver hangs; see GpuLost.",
    ),
    missing="An exporter that is down counts neither held nor observed time: the alert rests.",
    board="gputailor-self",
)
GPU_NODE_UNHELD: Final = Alert(
    name="GpuNodeUnheld",
    expr=_unheld(),
    hold="0s",
    severity=Severity.INFO,
    summary="Nobody held a GPU of node {{ $labels.node }} for a day ({{ $value }} GPUs)",
    description=(
        "No container held any of the {{ $value }} GPUs of node {{ $labels.node }} within 24 "
        "hours. The node was measured all day, and kubelet was read all day."
    ),
    impact="The node costs its full price for nothing.",
    runbook=(
        (
            "Are there pods that wait for GPUs (`kubectl get pods -A | grep Pending`)? Then look "
            "at taints, selectors and GPU models: why can they not go there?"
        ),
        "No demand: let the autoscaler take the node away, or give the machine back.",
        "Kept as a reserve: silence the alert for the node.",
    ),
    missing="A node that was not seen for 0.98 of the day, or whose kubelet was not, is unknown.",
    board="gputailor-waste",
)
