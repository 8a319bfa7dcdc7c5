"""Broken, breaking and throttled GPUs, on the counters of GPU Tailor's exporter.

Xid codes that mean hardware are those that NVIDIA's page "XID Errors" advises to drain or reset
for; codes of applications (13, 31, 43, 45) are their owners' matter and alert nobody here.
"""

from typing import Final

from gputailor_dashboards.rules import Alert, Severity
from gputailor_exporter import metrics as m

HARDWARE_XIDS: Final = "48|64|74|79|95|119|120|140|143"
_DEVICE: Final = "cluster, node, gpu, gpu_uuid"
_NODE: Final = "cluster, node"
_BOARD: Final = "gputailor-health"
_XID_AGE_SECONDS: Final = 900
_HELD_DOWN: Final = 0.2  # of the time
_HEAT_REASONS: Final = (
    m.ThrottleReason.SW_THERMAL_SLOWDOWN,
    m.ThrottleReason.HW_THERMAL_SLOWDOWN,
    m.ThrottleReason.HW_SLOWDOWN,
)
_ON: Final = "GPU {{ $labels.gpu }} of node {{ $labels.node }}"
_ABSENT: Final = "A device that does not tell of it, and one that is not seen, rests."


def _lost() -> str:
    down = f"max by ({_DEVICE}) ({m.DEVICE_UP.name}) == 0"
    state = m.EXPORTER_DEVICES.name
    missing = f'({state}{{state="expected"}} - ignoring (state) {state}{{state="present"}} > 0)'
    node = (
        f"group by (cluster, node, job, instance) ({m.DEVICE_UP.name}) and on (job, instance) "
        f"{missing}"
    )
    # A GPU that vanished while the exporter ran is told by its own series already.
    return (
        f"({down}) or (group by ({_NODE}) ({node}) unless on ({_NODE}) ({m.DEVICE_UP.name} == 0))"
    )


def _is_one(*families: m.Family) -> str:
    return " or ".join(f"max by ({_DEVICE}) ({family.name}) == 1" for family in families)


def _narrow() -> str:
    now = f"max by ({_DEVICE}) (max_over_time({m.DEVICE_PCIE_WIDTH.name}[1h]))"
    most = f"max by ({_DEVICE}) ({m.DEVICE_PCIE_WIDTH_MAX.name})"
    return f"{now} < {most}"


def _link_down() -> str:
    up = m.DEVICE_NVLINK_UP.name
    by = f"{_DEVICE}, link"
    was = f"max by ({by}) (max_over_time({up}[1d])) == 1"
    return f"(max by ({by}) ({up}) == 0) and ({was})"


def _recent_xid() -> str:
    last = f'{m.DEVICE_XID_LAST.name}{{xid=~"{HARDWARE_XIDS}"}}'
    return f"time() - max by ({_DEVICE}, xid) ({last}) < {_XID_AGE_SECONDS}"


def _uncorrected() -> str:
    errors = f'{m.DEVICE_ECC_ERRORS.name}{{severity="uncorrected"}}'
    return f"max by ({_DEVICE}) (increase({errors}[30m])) > 0"


def _heat() -> str:
    seconds = f'{m.DEVICE_THROTTLED_SECONDS.name}{{reason=~"{"|".join(_HEAT_REASONS)}"}}'
    return f"max by ({_DEVICE}, reason) (rate({seconds}[15m])) > {_HELD_DOWN}"


GPU_LOST: Final = Alert(
    name="GpuLost",
    expr=_lost(),
    hold="2m",
    severity=Severity.CRITICAL,
    summary="A GPU of node {{ $labels.node }} is lost or hangs",
    description=(
        "GPU {{ $labels.gpu }} ({{ $labels.gpu_uuid }}) of node {{ $labels.node }} no longer "
        "answers its driver, or fewer GPUs are there than should be. What runs on it is likely "
        "dead, and new pods may still be sent to it."
    ),
    impact="Jobs on it have failed or hang; jobs over several GPUs stand still as a whole.",
    runbook=(
        (
            "See the Xid errors of the node on the dashboard Health; on the node: "
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
    missing=(
        "An exporter that says nothing is no lost GPU: `device_up` has to be 0, or the count of "
        "GPUs has to be told and too small."
    ),
    board=_BOARD,
)
GPU_XID_HARDWARE: Final = Alert(
    name="GpuXidHardware",
    expr=_recent_xid(),
    hold="0s",
    severity=Severity.CRITICAL,
    summary=f"{_ON} reported Xid {{{{ $labels.xid }}}}",
    description=(
        f"{_ON} ({{{{ $labels.gpu_uuid }}}}) reported Xid {{{{ $labels.xid }}}} within the last 15 "
        "minutes. This code mostly means the hardware or its firmware, not the program."
    ),
    impact="What ran on it has failed or computes wrongly; the next job there likely fails too.",
    runbook=(
        (
            "48, 95, 140: memory errors that could not be corrected. Drain the node and reset the "
            "GPU; if it repeats, replace it."
        ),
        "64: a memory row could not be remapped. See GpuRowRemapFailed.",
        "74: an NVLink failed. See GpuNvlinkDown.",
        "79: the GPU fell off the bus. See GpuLost.",
        "119, 120, 143: the GPU's own processor does not answer. Reset; update driver, firmware.",
    ),
    missing=_ABSENT,
    board=_BOARD,
)
GPU_ECC_UNCORRECTED: Final = Alert(
    name="GpuEccUncorrected",
    expr=_uncorrected(),
    hold="0s",
    severity=Severity.WARNING,
    summary=f"{_ON} had memory errors that could not be corrected",
    description=(
        f"{_ON} ({{{{ $labels.gpu_uuid }}}}) counted {{{{ $value | humanize }}}} uncorrected ECC "
        "error(s) within half an hour."
    ),
    impact="The process that read the memory was ended, or its result is wrong.",
    runbook=(
        "Tell the owner of what ran there: the result must not be trusted.",
        (
            "Drain the node and reset the GPU, so that the row is remapped "
            "(`nvidia-smi --query-remapped-rows=...`)."
        ),
        "It happens again within weeks: replace the card.",
    ),
    missing=_ABSENT,
    board=_BOARD,
)
GPU_ROW_REMAP_FAILED: Final = Alert(
    name="GpuRowRemapFailed",
    expr=_is_one(m.DEVICE_REMAPPED_ROWS_FAILED),
    hold="5m",
    severity=Severity.CRITICAL,
    summary=f"{_ON} cannot remap a broken memory row",
    description=f"{_ON} ({{{{ $labels.gpu_uuid }}}}) has no spare row left: replace the card.",
    impact="Memory errors there will end jobs again and again.",
    runbook=("Cordon and drain the node.", "Let the maker replace the card."),
    missing=_ABSENT,
    board=_BOARD,
)
GPU_RESET_PENDING: Final = Alert(
    name="GpuResetPending",
    expr=_is_one(m.DEVICE_REMAPPED_ROWS_PENDING, m.DEVICE_RETIRED_PAGES_PENDING),
    hold="1h",
    severity=Severity.INFO,
    summary=f"{_ON} waits for a reset",
    description=(
        f"{_ON} ({{{{ $labels.gpu_uuid }}}}) has found bad memory, which is taken out of use only "
        "by a reset of the GPU."
    ),
    impact="Until then the bad memory is in use.",
    runbook=(
        "Drain the node when its jobs have ended.",
        "`nvidia-smi --gpu-reset -i INDEX`, or boot the node; then uncordon it.",
    ),
    missing=_ABSENT,
    board=_BOARD,
)
GPU_THERMAL_THROTTLING: Final = Alert(
    name="GpuThermalThrottling",
    expr=_heat(),
    hold="15m",
    severity=Severity.WARNING,
    summary=f"{_ON} is slowed down by heat",
    description=(
        f"Clocks of {_ON} ({{{{ $labels.gpu_uuid }}}}) were held down for "
        "{{ $value | humanizePercentage }} of the last 15 minutes ({{ $labels.reason }})."
    ),
    impact="Jobs on it are slower; jobs over several GPUs wait for the slowest.",
    runbook=(
        "Dashboard GPU: temperature against its limits, fan, power.",
        "All GPUs of the node or rack: cooling, airflow, inlet temperature.",
        "One GPU alone: dust, fan, thermal paste; let it be serviced.",
    ),
    missing=_ABSENT,
    board=_BOARD,
)
GPU_NVLINK_DOWN: Final = Alert(
    name="GpuNvlinkDown",
    expr=_link_down(),
    hold="5m",
    severity=Severity.WARNING,
    summary=f"NVLink {{{{ $labels.link }}}} of {_ON} went down",
    description=(
        f"NVLink {{{{ $labels.link }}}} of {_ON} ({{{{ $labels.gpu_uuid }}}}) was up within a day "
        "and is down."
    ),
    impact="Traffic between GPUs goes by fewer links or by PCIe: collective operations slow down.",
    runbook=(
        "`nvidia-smi nvlink --status -i INDEX` on the node; Xid 74 beside it?",
        "Reset all GPUs of the node, or boot it; on NVSwitch machines restart Fabric Manager.",
        "It stays down: bridge, switch or card need service.",
    ),
    missing="A link that was never up, as on cards without a bridge, rests; so does an unseen one.",
    board=_BOARD,
)
GPU_PCIE_NARROW: Final = Alert(
    name="GpuPcieNarrow",
    expr=_narrow(),
    hold="30m",
    severity=Severity.INFO,
    summary=f"{_ON} uses {{{{ $value }}}} PCIe lanes, fewer than it could",
    description=(
        f"{_ON} ({{{{ $labels.gpu_uuid }}}}) had at most {{{{ $value }}}} PCIe lanes within an "
        "hour, fewer than card and slot have."
    ),
    impact="Input and checkpoints go over a slower link.",
    runbook=(
        "`nvidia-smi -q -i INDEX`, section PCI: link width now and at most.",
        "Reseat the card, check the riser; look for lane bifurcation in the firmware's settings.",
    ),
    missing=_ABSENT,
    board=_BOARD,
)

HEALTH: Final = (
    GPU_LOST,
    GPU_XID_HARDWARE,
    GPU_ECC_UNCORRECTED,
    GPU_ROW_REMAP_FAILED,
    GPU_RESET_PENDING,
    GPU_THERMAL_THROTTLING,
    GPU_NVLINK_DOWN,
    GPU_PCIE_NARROW,
)
