"""Why something cannot be read on this node, in words, and how to get it.

Words are the vendor's own: who has an AMD GPU is not helped by ``nvidia-smi``. Sources: NVIDIA's
documentation of NVML and of its container runtime; ERR_NVGPUCTRPERM
(https://developer.nvidia.com/ERR_NVGPUCTRPERM) for the permission to read performance counters;
DCGM's pages on profiling; the kernel's pages on amdgpu (GPU recovery, sysfs), on DRM's usage stats
(fdinfo) and ptrace(2) for the permission to read them; AMD SMI's documentation.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gputailor_exporter.devices.base import DeviceIdentity, Reason
from gputailor_exporter.metrics import Signal
from gputailor_exporter.vocabulary import PROFILED

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

#: What holds for every vendor; a vendor's own words go before.
_COMMON: Final[Mapping[Reason, str]] = {
    Reason.NOT_SUPPORTED: "this device, or the mode it is in, has no such value",
    Reason.FUNCTION_NOT_FOUND: "the driver is too old to tell it: install a newer one",
    Reason.INVALID_VALUE: "the driver tells a value that cannot be; a newer one may mend it",
    Reason.CONTRADICTED: "another signal proves it wrong; a driver fault may have left the "
    "counters at 0: reset the GPU when it is free",
    Reason.NO_SAMPLES: "the driver has no sample yet; try again in a minute",
    Reason.NOT_ATTRIBUTABLE: "several containers share the device and the driver gives no value "
    "per process",
    Reason.IN_USE: "another profiler holds the counters: stop it",
    Reason.HELD_BY_DCGM: "DCGM holds the counters: let dcgm-exporter be scraped as well (the agent "
    "reads its PROF values), or stop its profiling: `dcgmi profile --pause`",
}


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do about the devices of one vendor, or of a back end.

    ``remedies``: by reason, before the common ones. ``faulty``: where to look when a device or the
    driver does not answer. ``unlisted``: what to do where there is no device. ``profiled``: who has
    the signals that this device does not give. ``parent``: why a divided GPU gives none.
    """

    remedies: Mapping[Reason, str]
    faulty: str
    unlisted: str
    profiled: str = ""
    parent: str = ""
    instance: str = ""


_NVIDIA: Final = Advice(
    remedies={
        Reason.NO_PERMISSION: "run as root (uid 0), in a container with the NVIDIA runtime; in a "
        "virtual machine the host decides",
        Reason.GPU_IS_LOST: "the GPU fell off the bus: see `dmesg | grep -i xid`, drain the node "
        "and restart it",
        Reason.TIMEOUT: "the driver does not answer: see whether `nvidia-smi` does and `dmesg | "
        "grep -i xid`; restart the node",
        Reason.CONTRADICTED: "another signal proves it wrong; an Xid 31 or a driver fault may have "
        "left the counters at 0: reset the GPU when it is free",
        Reason.DRIVER_ERROR: "see whether `nvidia-smi` works on the node, and `dmesg | grep -i "
        "nvrm`",
        Reason.IN_USE: "another profiler holds the counters (Nsight, CUPTI): stop it",
    },
    faulty="see whether `nvidia-smi` answers on the node; if not, look for Xid errors in `dmesg` "
    "and restart the node",
    unlisted="see whether `nvidia-smi` lists one; in a container set NVIDIA_VISIBLE_DEVICES=all",
    profiled="GPM needs Hopper or later and a driver that has it; before that only DCGM's "
    "profiling has it: let dcgm-exporter with its PROF fields be scraped as well",
    parent="the GPU is divided by MIG: its instances carry what is active",
    instance="NVML has no utilisation of MIG instances; where GPM is readable graphics and sm "
    "stand in",
)
_FDINFO: Final = (
    "run as root (uid 0); to look into the processes of others, with CAP_SYS_PTRACE and in the "
    "host's pid namespace as well"
)
_AMD: Final = Advice(
    remedies={
        Reason.NO_PERMISSION: _FDINFO,
        Reason.GPU_IS_LOST: "the GPU fell off the bus: see `dmesg | grep -i amdgpu`, drain the "
        "node and restart it",
        Reason.TIMEOUT: "the driver does not answer: see whether `amd-smi` (or `rocm-smi`) does "
        "and whether `dmesg | grep -i amdgpu` tells of a reset; restart the node",
        Reason.DRIVER_ERROR: "see whether `amd-smi` (or `rocm-smi`) works on the node, and `dmesg "
        "| grep -i amdgpu`",
    },
    faulty="see whether `amd-smi` (or `rocm-smi`) answers on the node; if not, look for GPU resets "
    "in `dmesg | grep -i amdgpu` and restart the node",
    unlisted="see `lsmod | grep amdgpu` and `ls /sys/class/drm`; in a container mount the host's "
    "/sys (--sys-root names it)",
    profiled="this device's kernel driver shows no such value; AMD's device-metrics-exporter reads "
    "more by its profiler: let it be scraped as well",
    parent="the GPU is divided into partitions: these carry what is active",
)
_OTHER: Final = Advice(
    remedies={
        Reason.NO_PERMISSION: _FDINFO,
        Reason.GPU_IS_LOST: "the GPU is gone from the bus: see `dmesg` for its driver's messages, "
        "drain the node and restart it",
        Reason.TIMEOUT: "the driver does not answer: see `dmesg` for its messages; restart the "
        "node",
        Reason.DRIVER_ERROR: "see `dmesg` for the driver's messages, and whether the vendor's own "
        "tool works on the node",
    },
    faulty="see `dmesg` for the driver's messages and whether the vendor's own tool answers on the "
    "node; if not, restart it",
    unlisted="see `ls /sys/class/drm` and `dmesg` for the driver's messages",
    parent="the GPU is divided: its parts carry what is active",
)
_BY_VENDOR: Final[Mapping[str, Advice]] = {"nvidia": _NVIDIA, "amd": _AMD}
_BY_BACKEND: Final[Mapping[str, Advice]] = {"nvml": _NVIDIA, "amd": _AMD}

_COUNTERS: Final = (
    "performance counters are for administrators alone: run with CAP_SYS_ADMIN, or load the "
    "driver with NVreg_RestrictProfilingToAdminUsers=0"
)


def backend_advice(backend: str) -> Advice:
    """What to do where the devices of a back end do not answer at all; unknown ones: any GPU's."""
    return _BY_BACKEND.get(backend, _OTHER)


def remedy(device: DeviceIdentity, name: str, reason: Reason) -> str:
    """Return why ``name`` of ``device`` cannot be read and what to do about it."""
    advice, profiled = _BY_VENDOR.get(device.vendor, _OTHER), name in PROFILED
    if reason is Reason.NO_PERMISSION and profiled and advice is _NVIDIA:
        return _COUNTERS
    if reason is Reason.NOT_SUPPORTED and name in frozenset(Signal):
        fitting = (
            (device.mig_enabled, advice.parent),
            (profiled, advice.profiled),
            (bool(device.parent_uuid), advice.instance),
        )
        for fits, words in fitting:
            if fits and words:
                return words
    return advice.remedies.get(reason) or _COMMON[reason]
