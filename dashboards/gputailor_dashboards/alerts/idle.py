"""Held devices that nobody uses.

An alert must not fire from missing data: what calls something idle also asks that it was observed
for 0.98 of its window, by the exporter's own count of seconds, and that it is held now. Shares are
those of the rule ``idle`` of the agent, as far as PromQL can follow it; times lie between those at
which the rule notices and those at which it says act: an alert asks a person to look. The agent
knows a notebook from an inference service, an alert only whether memory is loaded.
"""

from typing import Final

from gputailor_dashboards.expressions.native import HOLDER
from gputailor_dashboards.rules import Alert, Severity
from gputailor_exporter import metrics as m

#: Recorded: devices of pods that were seen, all of them at zero, for five minutes.
QUIET: Final = "gputailor:pod_quiet:5m"

_POD: Final = "cluster, node, namespace, pod, pod_uid"
_DEVICE: Final = "cluster, node, gpu_uuid"
_COVERAGE: Final = 0.98
#: Of a window as short as five minutes; scrapes do not fall on its edges.
_SHORT_COVERAGE: Final = 0.9
_LOADED: Final = 0.05  # of the device's memory; less is a bare context
_POWER_SHARE: Final = 0.35  # of the power limit; above it zero activity is not believed
_POWER_FLOOR_WATTS: Final = 45
_FIVE_MINUTES_IN_THREE_DAYS: Final = 3 * 24 * 12
_SECONDS: Final = {"5m": 300, "2h": 7200, "5h": 18000}

_HELD: Final = f"max by ({HOLDER}) ({m.CONTAINER_ALLOCATED.name})"
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
        f"(max by ({HOLDER}) (increase({observed}[{window}])) >= {least}) and on ({HOLDER}) {_HELD}"
    )
    nothing = f"(sum by ({_POD}) (increase({active}[{window}])) == 0)"
    return f"({nothing} and on ({_POD}) {_everywhere(seen)})"


def quiet_pods() -> str:
    """Devices held by pods that were quiet for five minutes."""
    return f"{_DEVICES_HELD} and on ({_POD}) {_quiet('5m', _SHORT_COVERAGE)}"


def _nothing_loaded() -> str:
    used = f"max by ({HOLDER}) ({m.CONTAINER_MEMORY_USED.name})"
    total = f"max by ({_DEVICE}) ({m.DEVICE_MEMORY_TOTAL.name})"
    return _everywhere(f"{used} / on ({_DEVICE}) group_left () {total} < {_LOADED}")


def _drawing_power() -> str:
    """Pods on a device of their own that draws more than an idle one: counters may be stuck."""
    power, limit = m.DEVICE_POWER.name, m.DEVICE_POWER_LIMIT.name
    floor = f"clamp_min({_POWER_SHARE} * {limit}, {_POWER_FLOOR_WATTS})"
    hot = f"max by ({_DEVICE}) (avg_over_time({power}[30m]) > {floor})"
    own = f'max by ({HOLDER}) ({m.CONTAINER_ALLOCATED.name}{{sharing="exclusive"}})'
    return f"({own} and on ({_DEVICE}) {hot})"


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


GPU_ALLOCATION_IDLE: Final = Alert(
    name="GpuAllocationIdle",
    expr=_idle(),
    hold="10m",
    severity=Severity.WARNING,
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
    impact=("The devices cost as much as if they worked, and others may be waiting for them."),
    missing=(
        "Nothing is called idle that was not seen: a gap, a signal that cannot be read or an "
        "exporter that is down makes the pod unknown, and the alert rests. So does power that "
        "contradicts the counters."
    ),
    board="gputailor-workload",
)
