"""The three alerts, on GPU Tailor's exporter: a GPU is lost, held devices idle, an exporter blind.

An alert must not fire from missing data: everything that calls something idle also asks that it was
observed for 0.98 of its window, by the exporter's own count of seconds, and that it is held now.
Times and shares are those of the rule ``idle`` of the agent, as far as PromQL can follow it: the
agent knows a notebook from an inference service, an alert only whether memory is loaded.
"""

from typing import Final

from gputailor_dashboards.rules import Alert, Group
from gputailor_exporter import metrics as m

#: Recorded: devices of pods that were seen, all of them at zero, for five minutes.
QUIET: Final = "gputailor:pod_quiet:5m"

_POD: Final = "node, namespace, pod, pod_uid"
_HOLDER: Final = ", ".join(m.CONTAINER_LABELS)
_COVERAGE: Final = 0.98
#: Of a window as short as five minutes; scrapes do not fall on its edges.
_SHORT_COVERAGE: Final = 0.9
_LOADED: Final = 0.05  # of the device's memory; less is a bare context
_POWER_SHARE: Final = 0.35  # of the power limit; above it zero activity is not believed
_POWER_FLOOR_WATTS: Final = 45
_FIVE_MINUTES_IN_THREE_DAYS: Final = 3 * 24 * 12
_SOURCE_AGE_SECONDS: Final = 600
_SECONDS: Final = {"5m": 300, "2h": 7200, "5h": 18000}

_HELD: Final = f"max by ({_HOLDER}) ({m.CONTAINER_ALLOCATED.name})"
_DEVICES_HELD: Final = f"count by ({_POD}) ({_HELD})"


def _everywhere(holders: str) -> str:
    """Pods all of whose devices are among these holders."""
    return f"(count by ({_POD}) ({holders}) == on ({_POD}) {_DEVICES_HELD})"


def _quiet(window: str, coverage: float) -> str:
    """Pods whose devices were all observed over the window, and did nothing."""
    active = f'{m.CONTAINER_ACTIVE_SECONDS.name}{{signal=~"kernel|sm|encoder|decoder"}}'
    observed = f'{m.CONTAINER_OBSERVED_SECONDS.name}{{signal=~"kernel|sm"}}'
    least = round(coverage * _SECONDS[window])
    seen = (
        f"(max by ({_HOLDER}) (increase({observed}[{window}])) >= {least}) and on ({_HOLDER}) "
        f"{_HELD}"
    )
    nothing = f"(sum by ({_POD}) (increase({active}[{window}])) == 0)"
    return f"({nothing} and on ({_POD}) {_everywhere(seen)})"


def quiet_pods() -> str:
    """Devices held by pods that were quiet for five minutes."""
    return f"{_DEVICES_HELD} and on ({_POD}) {_quiet('5m', _SHORT_COVERAGE)}"


def _nothing_loaded() -> str:
    used = f"max by ({_HOLDER}) ({m.CONTAINER_MEMORY_USED.name})"
    total = f"max by (node, gpu_uuid) ({m.DEVICE_MEMORY_TOTAL.name})"
    return _everywhere(f"{used} / on (node, gpu_uuid) group_left () {total} < {_LOADED}")


def _drawing_power() -> str:
    """Pods on a device of their own that draws more than an idle one: counters may be stuck."""
    power, limit = m.DEVICE_POWER.name, m.DEVICE_POWER_LIMIT.name
    floor = f"clamp_min({_POWER_SHARE} * {limit}, {_POWER_FLOOR_WATTS})"
    hot = f"max by (node, gpu_uuid) (avg_over_time({power}[30m]) > {floor})"
    own = f'max by ({_HOLDER}) ({m.CONTAINER_ALLOCATED.name}{{sharing="exclusive"}})'
    return f"({own} and on (node, gpu_uuid) {hot})"


def _idle() -> str:
    two, five = _quiet("2h", _COVERAGE), _quiet("5h", _COVERAGE)
    worked = f"last_over_time({m.CONTAINER_LAST_ACTIVE.name}[5h])"
    bare = _nothing_loaded()
    slots = round(_COVERAGE * _FIVE_MINUTES_IN_THREE_DAYS)
    long_quiet = f"(count_over_time({QUIET}[3d:5m]) >= {slots})"
    never = f"({two} unless on ({_POD}) {worked}) and on ({_POD}) {bare}"
    went = f"{five} and on ({_POD}) {bare}"
    loaded = f"{five} and on ({_POD}) {long_quiet}"
    return (
        f"{_DEVICES_HELD} and on ({_POD}) (({never}) or ({went}) or ({loaded})) "
        f"unless on ({_POD}) {_drawing_power()}"
    )


def _lost() -> str:
    down = f"max by (node, gpu, gpu_uuid) ({m.DEVICE_UP.name}) == 0"
    state = m.EXPORTER_DEVICES.name
    missing = f'({state}{{state="expected"}} - ignoring (state) {state}{{state="present"}} > 0)'
    node = f"group by (node, job, instance) ({m.DEVICE_UP.name}) and on (job, instance) {missing}"
    # A GPU that vanished while the exporter ran is told by its own series already.
    return f"({down}) or (group by (node) ({node}) unless on (node) ({m.DEVICE_UP.name} == 0))"


def _blind() -> str:
    seen = f"group by (node, job, instance) (last_over_time({m.DEVICE_UP.name}[1d]))"
    down = f"{seen} and on (job, instance) (up == 0)"
    age = f"time() - {m.EXPORTER_LAST_SUCCESS.name}"
    stale = f"{seen} and on (job, instance) ({age} > {_SOURCE_AGE_SECONDS})"
    resources = 'resource=~"nvidia_com_gpu.*|nvidia_com_mig_.*"'
    capacity = f"(kube_node_status_allocatable{{{resources}}} > 0)"
    unseen = f"{capacity} unless on (node) {m.DEVICE_UP.name}"
    return f"group by (node) (({down}) or ({stale}) or ({unseen}))"


GPU_LOST: Final = Alert(
    name="GpuLost",
    expr=_lost(),
    hold="2m",
    severity="critical",
    summary="A GPU of node {{ $labels.node }} is lost or hangs",
    description=(
        "GPU {{ $labels.gpu }} ({{ $labels.gpu_uuid }}) of node {{ $labels.node }} no longer "
        "answers its driver, or fewer GPUs are there than should be. What runs on it is likely "
        "dead, and new pods may still be sent to it."
    ),
    runbook=(
        (
            "See the Xid errors of the node on the dashboard Cluster, row Health; on the node: "
            "`dmesg | grep -i xid` and `nvidia-smi`."
        ),
        "Cordon the node (`kubectl cordon NODE`), so that no new pod is sent to it.",
        (
            "Xid 79 (fell off the bus) and 48, 63, 64, 74, 95 mostly mean hardware: drain the "
            "node, reset or power-cycle it; if it comes back, let the maker test the card."
        ),
        (
            "A hang without an Xid: end the process that holds the device, then reset the GPU "
            "(`nvidia-smi --gpu-reset -i INDEX`) or boot the node."
        ),
    ),
)

GPU_ALLOCATION_IDLE: Final = Alert(
    name="GpuAllocationIdle",
    expr=_idle(),
    hold="10m",
    severity="warning",
    summary="Pod {{ $labels.namespace }}/{{ $labels.pod }} holds {{ $value }} idle GPU(s)",
    description=(
        "On none of the {{ $value }} GPU(s) or MIG instances that pod {{ $labels.namespace }}/"
        "{{ $labels.pod }} holds on node {{ $labels.node }} did anything run: for two hours since "
        "it began, for five hours after it had worked, or for three days with a model in memory. "
        "All of them were measured all the time."
    ),
    runbook=(
        (
            "`gputailor explain NAMESPACE/WORKLOAD` says what was measured and what to do; the "
            "dashboard Workload shows it over time."
        ),
        "A job that hangs or waits: look at its log, then delete it or start it again.",
        "A forgotten notebook or shell: tell its owner; stop it.",
        (
            "A service that nobody calls: scale it to zero; the first request then waits for the "
            "model. One idle replica of several: take one replica away."
        ),
        (
            "It is meant to wait: annotate the workload with `gputailor.io/ignore: idle` for the "
            "reports, and silence the alert for the namespace and pod in Alertmanager."
        ),
    ),
)

GPU_EXPORTER_BLIND: Final = Alert(
    name="GpuExporterBlind",
    expr=_blind(),
    hold="10m",
    severity="warning",
    summary="The GPUs of node {{ $labels.node }} are not measured",
    description=(
        "The exporter of node {{ $labels.node }} does not answer, cannot read its driver or "
        "kubelet for ten minutes, or was never seen although the node offers GPUs. Until that is "
        "mended the node's GPUs count as unknown, never as idle."
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
)

ALERTS: Final = (GPU_LOST, GPU_ALLOCATION_IDLE, GPU_EXPORTER_BLIND)
#: Idleness changes slowly and looks far back: it is asked less often.
GROUPS: Final = (
    Group("gputailor-health", "1m", (GPU_LOST, GPU_EXPORTER_BLIND)),
    Group("gputailor-idle", "5m", (GPU_ALLOCATION_IDLE,)),
)
