"""The page at ``/``: which devices there are and how they do, and where the metrics are.

Plain HTML out of the last snapshot; nothing is loaded from anywhere.
"""

from collections.abc import Iterator, Mapping
from html import escape
from typing import Final

from gputailor_exporter import __version__
from gputailor_exporter import metrics as m
from gputailor_exporter.accounting import Snapshot
from gputailor_exporter.metrics import Family

#: Nothing may be loaded, and no script may run.
POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"

_STYLE: Final = (
    ":root{color-scheme:light dark}"
    "body{font:16px/1.5 system-ui,sans-serif;margin:2rem;max-width:75rem}"
    "table{border-collapse:collapse}td,th{padding:.25rem .75rem;text-align:left;"
    "border-bottom:1px solid #8886}td.n{text-align:right}.scroll{overflow-x:auto}"
)
_HEADS: Final = (
    "GPU",
    "model",
    "UUID",
    "state",
    "kernel",
    "memory",
    "power",
    "temperature",
    "held by",
)
_UNKNOWN: Final = '<span title="unknown">?</span>'
_GIB: Final = 1 << 30

Labels = Mapping[str, str]


def page(snapshot: Snapshot, *, ready: bool, healthy: bool, trouble: str = "") -> str:
    """Return the page as HTML; ``trouble`` says why devices cannot be read now."""
    devices = list(_samples(snapshot, m.DEVICE_UP))
    rows = "".join(_row(snapshot, labels, up=value > 0) for labels, value in devices)
    heads = "".join(f"<th scope=col>{head}</th>" for head in _HEADS)
    table = f"<div class=scroll><table><tr>{heads}</tr>{rows}</table></div>"
    state = "healthy" if healthy else "unhealthy"
    state += "" if ready else ", waiting for the first full cycle"
    state += f". {escape(trouble)}" if trouble else ""
    return (
        "<!doctype html><html lang=en><head><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width'><title>GPU Tailor exporter</title>"
        f"<style>{_STYLE}</style></head><body><h1>GPU Tailor exporter {escape(__version__)}</h1>"
        f"<p>{state}. <a href=/metrics>/metrics</a> · <a href=/healthz>/healthz</a> · "
        f"<a href=/readyz>/readyz</a></p>"
        f"{table if devices else '<p>No device on this node.</p>'}"
        "<p>What cannot be read, and why: <code>gputailor-exporter check</code> on the node, or "
        f"<code>{m.EXPORTER_SIGNAL_UNAVAILABLE.name}</code>.</p></body></html>\n"
    )


def _row(snapshot: Snapshot, device: Labels, *, up: bool) -> str:
    uuid = device["gpu_uuid"]
    info = next((row for row, _ in _samples(snapshot, m.DEVICE_INFO, gpu_uuid=uuid)), {})
    model = " ".join(part for part in (info.get("model"), info.get("mig_profile")) if part)
    kernel = _one(snapshot, m.DEVICE_ACTIVITY_RATIO, gpu_uuid=uuid, signal="kernel")
    used = _one(snapshot, m.DEVICE_MEMORY_USED, gpu_uuid=uuid)
    total = _one(snapshot, m.DEVICE_MEMORY_TOTAL, gpu_uuid=uuid)
    power = _one(snapshot, m.DEVICE_POWER, gpu_uuid=uuid)
    heat = _one(snapshot, m.DEVICE_TEMPERATURE, gpu_uuid=uuid, sensor="gpu")
    holders = sorted(
        f"{row['namespace']}/{row['pod']}"
        for row, _ in _samples(snapshot, m.CONTAINER_ALLOCATED, gpu_uuid=uuid)
    )
    memory = (
        None if used is None or total is None else f"{used / _GIB:.1f} of {total / _GIB:.1f} GiB"
    )
    texts = (device["gpu"], model, uuid, "up" if up else "does not answer")
    numbers = (
        None if kernel is None else f"{kernel:.0%}",
        memory,
        None if power is None else f"{power:.0f} W",
        None if heat is None else f"{heat:.0f} °C",
    )
    cells = "".join(f"<td>{escape(text) or _UNKNOWN}</td>" for text in texts)
    cells += "".join(f"<td class=n>{text or _UNKNOWN}</td>" for text in numbers)
    return f"<tr>{cells}<td>{escape(', '.join(holders)) or '-'}</td></tr>"


def _samples(snapshot: Snapshot, family: Family, **wanted: str) -> Iterator[tuple[Labels, float]]:
    """Label sets and values of a family of single values, with the labels that are wanted."""
    for samples in snapshot.families:
        if samples.family.name != family.name:
            continue
        for row, value in zip(samples.rows, samples.values, strict=True):
            labels = dict(zip(family.labels, row, strict=True))
            if all(labels.get(name) == text for name, text in wanted.items()):
                yield labels, value


def _one(snapshot: Snapshot, family: Family, **wanted: str) -> float | None:
    return next((value for _, value in _samples(snapshot, family, **wanted)), None)
