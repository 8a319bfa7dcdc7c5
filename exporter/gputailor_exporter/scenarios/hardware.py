"""GPU models a scenario may name, and the sizes of their MIG instances.

Figures are those of the makers' data sheets; idle and context power are typical readings and only
shape the simulation. MIG sizes follow NVIDIA's MIG user guide: an instance of ``<n>g.<m>gb`` shows
about half a GiB less than ``m`` and carries ``n`` compute slices of the card.
"""

import re
from dataclasses import dataclass
from typing import Final

GIB: Final = 1024**3
MIB: Final = 1024**2

_PROFILE = re.compile(r"^(?P<slices>[1-7])g\.(?P<gigabytes>\d{1,3})gb(\+me)?$")


@dataclass(frozen=True, slots=True)
class GpuModel:
    """What one kind of card can do; bytes, watts, hertz."""

    key: str
    name: str  # as NVML says it
    product: str  # the nvidia.com/gpu.product label of GPU Feature Discovery
    architecture: str
    compute_capability: str
    memory_bytes: int
    reserved_bytes: int
    sms: int
    idle_watts: float
    context_watts: float  # a context is loaded, nothing runs
    max_watts: float
    pcie_generation: int
    clock_max_hertz: float
    memory_clock_hertz: float
    gpm: bool = False  # NVML's GPM signals: Hopper and later
    mig_sms_per_slice: int = 0  # 0: the card has no MIG
    vendor: str = "nvidia"


def _model(  # noqa: PLR0917 a row of the table below
    key: str, name: str, architecture: str, capability: str, memory_mib: int, sms: int,
    watts: tuple[float, float, float], pcie: int, clocks_mhz: tuple[int, int],
    *, gpm: bool = False, mig: int = 0, reserved_mib: int = 600,
) -> GpuModel:  # fmt: skip
    return GpuModel(
        key=key,
        name=name,
        product=name.replace(" ", "-"),
        architecture=architecture,
        compute_capability=capability,
        memory_bytes=memory_mib * MIB,
        reserved_bytes=reserved_mib * MIB,
        sms=sms,
        idle_watts=watts[0],
        context_watts=watts[1],
        max_watts=watts[2],
        pcie_generation=pcie,
        clock_max_hertz=clocks_mhz[0] * 1e6,
        memory_clock_hertz=clocks_mhz[1] * 1e6,
        gpm=gpm,
        mig_sms_per_slice=mig,
    )


MODELS: Final[dict[str, GpuModel]] = {
    model.key: model
    for model in (
        _model("t4", "Tesla T4", "Turing", "7.5", 15360, 40, (10, 26, 70), 3, (1590, 5001),
               reserved_mib=450),
        _model("v100-sxm2-32gb", "Tesla V100-SXM2-32GB", "Volta", "7.0", 32768, 80,
               (42, 56, 300), 3, (1530, 877), reserved_mib=350),
        _model("a10", "NVIDIA A10", "Ampere", "8.6", 23028, 72, (16, 58, 150), 4, (1695, 6251)),
        _model("a100-sxm4-40gb", "NVIDIA A100-SXM4-40GB", "Ampere", "8.0", 40960, 108,
               (50, 62, 400), 4, (1410, 1215), mig=14),
        _model("a100-sxm4-80gb", "NVIDIA A100-SXM4-80GB", "Ampere", "8.0", 81920, 108,
               (55, 68, 400), 4, (1410, 1593), mig=14),
        _model("l4", "NVIDIA L4", "Ada", "8.9", 23034, 58, (12, 28, 72), 4, (2040, 6251)),
        _model("l40s", "NVIDIA L40S", "Ada", "8.9", 46068, 142, (32, 80, 350), 4, (2520, 9001)),
        _model("h100-sxm5-80gb", "NVIDIA H100 80GB HBM3", "Hopper", "9.0", 81559, 132,
               (70, 115, 700), 5, (1980, 2619), gpm=True, mig=16),
        _model("h200-sxm5-141gb", "NVIDIA H200", "Hopper", "9.0", 143771, 132,
               (75, 120, 700), 5, (1980, 3201), gpm=True, mig=16),
    )
}  # fmt: skip


def mig_size(model: GpuModel, profile: str) -> tuple[int, int, int] | None:
    """Return compute slices, memory in bytes and SMs of a profile; None if the card lacks it."""
    match = _PROFILE.match(profile)
    if match is None or model.mig_sms_per_slice == 0:
        return None
    slices, gigabytes = int(match["slices"]), int(match["gigabytes"])
    memory = int((gigabytes - 0.5 if gigabytes >= 10 else gigabytes * 0.95) * GIB)  # noqa: PLR2004 see module docstring
    if memory > model.memory_bytes:
        return None
    return slices, memory, slices * model.mig_sms_per_slice
