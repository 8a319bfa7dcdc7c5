"""Queries on utkuozdemir's nvidia_gpu_exporter, which tells what ``nvidia-smi`` does.

Names and units are those of its metrics page (MIT). Its series carry the card's UUID alone: index
and model stand in ``gpu_info``, the node only in ``instance``, whose port is cut off here (relabel
it to the node's name to see that). It names no pods, so nothing is said of who holds what. Values
are points in time: short bursts are missed.
"""

from typing import Final

from gputailor_dashboards.expressions.base import Dialect, matchers
from gputailor_dashboards.expressions.native import silent
from gputailor_exporter.metrics import Signal

PREFIX: Final = "nvidia_smi_"
INFO: Final = f"{PREFIX}gpu_info"
POWER: Final = f"{PREFIX}power_draw_watts"
THROTTLED: Final = f"{PREFIX}clocks_event_reasons_counters_"
_SIGNALS: Final = {
    Signal.KERNEL: f"{PREFIX}utilization_gpu_ratio",
    Signal.MEMCOPY: f"{PREFIX}utilization_memory_ratio",
    Signal.ENCODER: f"{PREFIX}utilization_encoder_ratio",
    Signal.DECODER: f"{PREFIX}utilization_decoder_ratio",
}
_REASONS: Final = (
    "sw_power_cap",
    "sw_thermal_slowdown",
    "hw_thermal_slowdown",
    "hw_power_brake_slowdown",
)
_TEMPERATURES: Final = {"gpu": "temperature_gpu", "memory": "temperature_memory"}
_CLOCKS: Final = {
    "sm": "clocks_current_sm_clock_hz",
    "memory": "clocks_current_memory_clock_hz",
}
_DEVICE: Final = "cluster, node, gpu, uuid"
_KEY: Final = "cluster, instance, uuid"
#: ``host:port``, the address of an IPv6 host in brackets.
_HOST: Final = r"(.+?)(?::[0-9]+)?"


class Smi(Dialect):
    """nvidia_gpu_exporter, of Utku Özdemir."""

    key = "smi"
    title = "nvidia_gpu_exporter"
    recorded = "gputailor_smi"
    holder_labels = ""
    device_labels = _DEVICE

    def _selector(self) -> str:
        scope = self.scope
        nodes = f"(?:{scope.nodes})(?::[0-9]+)?" if scope.nodes else ""
        return matchers(cluster=scope.clusters, instance=nodes)

    def devices(self, name: str, over: str = "") -> str:
        """Return a metric by device, through a function of a range where ``over`` names one."""
        series = name + self._selector()
        asked = f"{over}({series}[{self.scope.window}])" if over else series
        index = f"max by ({_KEY}, index) ({INFO}{self._selector()})"
        named = f"(max by ({_KEY}) ({asked})) * on ({_KEY}) group_left (index) {index}"
        gpu = f'label_replace({named}, "gpu", "$1", "index", "(.*)")'
        found = f'label_replace({gpu}, "node", "$1", "instance", "{_HOST}")'
        found = f"max by ({_DEVICE}) ({found})"
        return f"{found} and on ({_DEVICE}) {self._chosen_gpus()}" if self.scope.gpus else found

    def _chosen_gpus(self) -> str:
        selector = self._selector().removesuffix("}")
        info = f'{INFO}{selector},index=~"{self.scope.gpus}"}}'
        gpu = f'label_replace({info}, "gpu", "$1", "index", "(.*)")'
        return f'label_replace({gpu}, "node", "$1", "instance", "{_HOST}")'

    @property
    def cluster_values(self) -> tuple[str, str]:
        """Names of the clusters."""
        return f"label_values({INFO}, cluster)", ""

    @property
    def node_values(self) -> tuple[str, str]:
        """Names of the nodes of $cluster."""
        return f'label_values({INFO}{{cluster=~"$cluster"}}, instance)', f"/^{_HOST}$/"

    @property
    def gpu_values(self) -> tuple[str, str]:
        """Indexes of the GPUs of $node."""
        selector = '{cluster=~"$cluster",instance=~"(?:$node)(?::[0-9]+)?"}'
        return f"label_values({INFO}{selector}, index)", ""

    def gpus(self, by: str = "") -> str:
        """Number of GPUs that are seen; MIG instances are not counted."""
        return f"count by ({by}) ({self.devices(POWER)})"

    def device_activity(self, signal: str) -> str | None:
        """Mean of a signal per device, 0..1."""
        if signal not in _SIGNALS:
            return None
        return self.devices(_SIGNALS[Signal(signal)], "avg_over_time")

    def device_memory_ratio(self) -> str:
        """Memory in use / memory of the device."""
        return f"({self.device_memory('used')}) / ({self.device_memory('total')})"

    def device_memory(self, part: str) -> str:
        """Bytes per device: ``used``, ``total`` or ``reserved``."""
        return self.devices(f"{PREFIX}memory_{part}_bytes")

    def device_power(self) -> str:
        """Watts per device."""
        return self.devices(POWER)

    def temperature(self, sensor: str) -> str:
        """Degrees Celsius per device: sensor ``gpu`` or ``memory``."""
        return self.devices(PREFIX + _TEMPERATURES[sensor])

    def clock(self, domain: str) -> str:
        """Clock in hertz per device: domain ``sm`` or ``memory``."""
        return self.devices(PREFIX + _CLOCKS[domain])

    def throttled(self) -> str:
        """Share of time that clocks were held down, by device and reason."""
        found = [
            f'label_replace({self.devices(f"{THROTTLED}{reason}_seconds", "rate")}, "reason", '
            f'"{reason}", "", "")'
            for reason in _REASONS
        ]
        return " or ".join(found)

    def silent_exporters(self) -> str:
        """Number of exporters that do not answer, 0 where all do."""
        return silent(POWER)

    def ecc(self, severity: str) -> str:
        """ECC errors since the driver was loaded: severity corrected or uncorrected."""
        return self.devices(f"{PREFIX}ecc_errors_{severity}_volatile_total")

    def rows(self, state: str) -> str:
        """1 where rows wait to be remapped (``pending``) or could not be (``failure``)."""
        return self.devices(f"{PREFIX}remapped_rows_{state}")
