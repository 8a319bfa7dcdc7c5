"""Why something cannot be read on this node, in words, and how to get it.

Sources: NVIDIA's documentation of NVML and of its container runtime; ERR_NVGPUCTRPERM
(https://developer.nvidia.com/ERR_NVGPUCTRPERM) for the permission to read performance counters;
DCGM's pages on profiling.
"""

from collections.abc import Mapping
from typing import Final

from gputailor_exporter.devices.base import DeviceIdentity, Reason
from gputailor_exporter.metrics import Signal

#: Signals that only GPM (Hopper and later) or DCGM's profiling knows.
PROFILED: Final = frozenset(Signal) - {
    Signal.KERNEL,
    Signal.MEMCOPY,
    Signal.ENCODER,
    Signal.DECODER,
}

#: The device has the value, and something on this node keeps it from us.
FAULTS: Final = frozenset(
    {
        Reason.NO_PERMISSION,
        Reason.GPU_IS_LOST,
        Reason.TIMEOUT,
        Reason.DRIVER_ERROR,
        Reason.IN_USE,
        Reason.HELD_BY_DCGM,
    }
)

REMEDIES: Final[Mapping[Reason, str]] = {
    Reason.NOT_SUPPORTED: "this device, or the mode it is in, has no such value",
    Reason.FUNCTION_NOT_FOUND: "the driver is too old to tell it: install a newer one",
    Reason.NO_PERMISSION: "run as root (uid 0), in a container with the NVIDIA runtime; in a "
    "virtual machine the host decides",
    Reason.GPU_IS_LOST: "the GPU fell off the bus: see `dmesg | grep -i xid`, drain the node and "
    "restart it",
    Reason.TIMEOUT: "the driver does not answer: see whether `nvidia-smi` does and `dmesg | grep "
    "-i xid`; restart the node",
    Reason.INVALID_VALUE: "the driver tells a value that cannot be; a newer one may mend it",
    Reason.CONTRADICTED: "another signal proves it wrong; an Xid 31 or a driver fault may have "
    "left the counters at 0: reset the GPU when it is free",
    Reason.NO_SAMPLES: "the driver has no sample yet; try again in a minute",
    Reason.DRIVER_ERROR: "see whether `nvidia-smi` works on the node, and `dmesg | grep -i nvrm`",
    Reason.NOT_ATTRIBUTABLE: "several containers share the device and the driver gives no value "
    "per process",
    Reason.IN_USE: "another profiler holds the counters (Nsight, CUPTI): stop it",
    Reason.HELD_BY_DCGM: "DCGM holds the counters: let dcgm-exporter be scraped as well (the agent "
    "reads its PROF values), or stop its profiling: `dcgmi profile --pause`",
}

_BEFORE_HOPPER: Final = (
    "GPM needs Hopper or later and a driver that has it; before that only DCGM's profiling has it: "
    "let dcgm-exporter with its PROF fields be scraped as well"
)
_COUNTERS: Final = (
    "performance counters are for administrators alone: run with CAP_SYS_ADMIN, or load the "
    "driver with NVreg_RestrictProfilingToAdminUsers=0"
)
_INSTANCE: Final = (
    "NVML has no utilisation of MIG instances; where GPM is readable graphics and sm stand in"
)
_PARENT: Final = "the GPU is divided by MIG: its instances carry what is active"


def remedy(device: DeviceIdentity, name: str, reason: Reason) -> str:
    """Return why ``name`` of ``device`` cannot be read and what to do about it."""
    profiled = name in PROFILED
    if reason is Reason.NO_PERMISSION and profiled:
        return _COUNTERS
    if reason is Reason.NOT_SUPPORTED and name in frozenset(Signal):
        if device.mig_enabled:
            return _PARENT
        if profiled and device.vendor == "nvidia":
            return _BEFORE_HOPPER
        if device.parent_uuid:
            return _INSTANCE
    return REMEDIES[reason]
