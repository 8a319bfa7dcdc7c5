"""One truth as each exporter of gauges would tell it: its names, labels and units.

Names and scales come from the dialect that is tested; labels, which it takes apart, are written
here as the exporters write them.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from gputailor_agent.dialects.gauges import HEALTH, Gauge, GaugeDialect, Measure

Labels = Mapping[str, str]


class Truth(NamedTuple):
    """What one container does with one card, at one time; memory in bytes, power in watts."""

    uuid: str
    model: str
    node: str
    namespace: str
    pod: str
    container: str
    signals: Mapping[str, float]
    memory_used: float
    memory_total: float
    watts: float


def _pod(truth: Truth) -> dict[str, str]:
    return {"namespace": truth.namespace, "pod": truth.pod, "container": truth.container}


def _dcgm(truth: Truth, _gauge: Gauge) -> Labels:
    own = {"gpu": "0", "UUID": truth.uuid, "modelName": truth.model, "Hostname": truth.node}
    return own | _pod(truth)


def _hami(truth: Truth, gauge: Gauge) -> Labels:
    own = {"node": truth.node, "device_uuid": truth.uuid, "device_index": "0"}
    return own | ({"vdevice_index": "0", **_pod(truth)} if gauge.of_holder else {})


def _nvidia_gpu_exporter(truth: Truth, gauge: Gauge) -> Labels | None:
    bare = {"uuid": truth.uuid.removeprefix("GPU-"), "node": truth.node}
    if gauge.group == "mig" or "mig_" in gauge.names[0]:
        return None
    described = {"name": truth.model, "index": "0"}
    return bare | (described if gauge.measure is Measure.INFO else {})


def _nvitop(truth: Truth, _gauge: Gauge) -> Labels:
    return {
        "uuid": truth.uuid, "index": "0", "devicename": truth.model, "hostname": truth.node
    }  # fmt: skip


def _amd(truth: Truth, _gauge: Gauge) -> Labels:
    own = {
        "gpu_uuid": truth.uuid, "gpu_id": "0", "gpu_partition_id": "0",
        "gpu_compute_partition_type": "spx", "hostname": truth.node, "card_series": truth.model,
    }  # fmt: skip
    return own | _pod(truth)


def _ascend(truth: Truth, gauge: Gauge) -> Labels | None:
    if gauge.group == "virtual":
        return None
    return {
        "id": "0", "vdie_id": truth.uuid, "model_name": truth.model, "node": truth.node,
        "namespace": truth.namespace, "pod_name": truth.pod, "container_name": truth.container,
    }  # fmt: skip


def _intel(truth: Truth, gauge: Gauge) -> Labels | None:
    if gauge.names[0].startswith("xpum_"):
        return None
    return {
        "uuid": truth.uuid, "pci_bdf": "0000:3a:00.0", "host": truth.node,
        "kube_namespace": truth.namespace, "kube_pod": truth.pod, "kube_container": truth.container,
        **dict(gauge.labels),
    }  # fmt: skip


def _all_smi(truth: Truth, gauge: Gauge) -> Labels | None:
    if gauge.group == "mig":
        return None
    return {
        "gpu_uuid": truth.uuid, "gpu_index": "0", "gpu": truth.model, "host": truth.node
    }  # fmt: skip


def _gke(truth: Truth, gauge: Gauge) -> Labels:
    own = {"accelerator_id": truth.uuid, "make": "nvidia", "model": truth.model}
    return own | {"node_name": truth.node} | (_pod(truth) if gauge.group == "container" else {})


#: By dialect: the labels of one gauge; None where this exporter has no such series of such a card.
TELLERS: Mapping[str, Callable[[Truth, Gauge], Labels | None]] = {
    "dcgm": _dcgm,
    "hami": _hami,
    "nvidia_gpu_exporter": _nvidia_gpu_exporter,
    "nvitop": _nvitop,
    "amd": _amd,
    "ascend": _ascend,
    "intel": _intel,
    "all_smi": _all_smi,
    "gke": _gke,
}


def told_by(dialect: GaugeDialect, truth: Truth, at: float) -> Iterator[str]:
    """One scrape of that exporter."""
    target = {"job": dialect.name, "instance": f"{truth.node}:9"}
    for gauge in dialect.gauges:
        value = _value(truth, gauge)
        labels = TELLERS[dialect.name](truth, gauge)
        if value is None or labels is None:
            continue
        text = ",".join(f'{name}="{told}"' for name, told in {**target, **labels}.items())
        yield f"{gauge.names[0]}{{{text}}} {value / gauge.scale:.12g} {at:.0f}\n"


def _value(truth: Truth, gauge: Gauge) -> float | None:
    if gauge.measure is Measure.ACTIVITY:
        return truth.signals.get(gauge.signal)
    values = {
        Measure.MEMORY_USED: truth.memory_used,
        Measure.MEMORY_TOTAL: truth.memory_total,
        Measure.MEMORY_FREE: truth.memory_total - truth.memory_used,
        Measure.MEMORY_RESERVED: 0.0,
        Measure.POWER: truth.watts,
        Measure.INFO: 1.0,
        Measure.IDLE: 0.0,
    }
    return 0.0 if gauge.measure in HEALTH else values[gauge.measure]
