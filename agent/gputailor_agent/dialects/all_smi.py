"""all-smi: one exporter for many vendors' cards, in percent, bytes and watts, without pods.

Facts from its parser's test lines (Apache-2.0), which show both label styles: ``uuid`` and
``index``, and ``gpu_uuid`` and ``gpu_index``. MIG instances have metrics and a UUID of their own.
A card's name tells the vendor where it can be told.
"""

from typing import Final

from gputailor_agent.dialects.gauges import OF_THE_PROCESS, Gauge, Ignored, Measure, Subject
from gputailor_agent.dialects.labels import Labels, first, node_of
from gputailor_agent.model.usage import Device

NAME: Final = "all_smi"

_PERCENT: Final = 0.01
_CARD: Final = "all_smi_gpu_"
_MIG: Final = "all_smi_mig_instance_"
_VENDORS: Final = ("nvidia", "amd", "intel", "apple", "tenstorrent", "rebellions", "furiosa")

_GAUGES: Final = (
    Gauge((f"{_CARD}utilization",), Measure.ACTIVITY, "kernel", _PERCENT),
    Gauge((f"{_CARD}memory_used_bytes",), Measure.MEMORY_USED),
    Gauge((f"{_CARD}memory_total_bytes",), Measure.MEMORY_TOTAL),
    Gauge((f"{_CARD}power_consumption_watts",), Measure.POWER),
    Gauge(
        (f"{_MIG}utilization_gpu",), Measure.ACTIVITY, "graphics", _PERCENT, "mig",
        of_instance=True,
    ),
    Gauge((f"{_MIG}memory_used_bytes",), Measure.MEMORY_USED, group="mig", of_instance=True),
    Gauge((f"{_MIG}memory_total_bytes",), Measure.MEMORY_TOTAL, group="mig", of_instance=True),
    Gauge((f"{_CARD}info",), Measure.INFO),
)  # fmt: skip

_IGNORED: Final = (
    Ignored(rf"{_MIG}utilization_memory", "the filled share, not bandwidth"),
    Ignored(rf"{_CARD}(temperature|performance|frequency|mig_mode|power_limit|ane).*", "settings"),
    Ignored(r"all_smi_process_.*", "by pid, not by pod"),
    Ignored(r"all_smi_vgpu_.*", "of virtual machines, not of containers"),
    Ignored(
        r"all_smi_(cpu|memory|disk|storage|chassis|swap|network|runtime|ane|npu|user).*",
        "of the machine",
    ),
    OF_THE_PROCESS,
)


class _AllSmi:
    """The dialect of all-smi."""

    name = NAME
    exporter = "all-smi"
    rank = 50
    holders = ""
    prefixes = ("all_smi_",)
    ignored = _IGNORED
    gauges = _GAUGES

    def identify(self, labels: Labels, cluster: str) -> Subject | None:
        """The card, or the MIG instance by its own UUID."""
        card = first(labels, "gpu_uuid", "uuid")
        if not card:
            return None
        instance = first(labels, "mig_uuid")
        model = first(labels, "gpu")
        device = Device(
            cluster=cluster,
            gpu_uuid=instance or card,
            node=first(labels, "host", "hostname", "exported_instance") or node_of(labels),
            index=first(labels, "gpu_index", "index"),
            vendor=next((name for name in _VENDORS if name in model.lower()), ""),
            model=model,
            mig_profile=first(labels, "mig_profile"),
            parent_uuid=card if instance else "",
        )
        return Subject(None, device)


GAUGES: Final = _AllSmi()
