"""``docs/dialects.md``: what each exporter can tell, and so which rules can speak.

``python -m gputailor_agent.rules.exporters > docs/dialects.md`` writes it from the registries of
dialects and of rules. A test compares the file with what this module writes, so that no dialect,
name or ignored metric is undocumented.
"""

import sys
from collections.abc import Iterable, Iterator
from typing import Final

from gputailor_agent.dialects import conditions
from gputailor_agent.dialects.gauges import (
    OF_HEALTH,
    Gauge,
    GaugeDialect,
    Measure,
    gauge_dialects,
    telling,
)
from gputailor_agent.rules import Rule, registry
from gputailor_agent.rules.container_sources import container_sources, table
from gputailor_exporter import metrics

_OURS: Final = "gputailor"
_HEALTH: Final = "health"  # the rule, which reads conditions of devices and no signal
_INTRODUCTION: Final = """\
<!-- Written by python -m gputailor_agent.rules.exporters; do not edit. -->
# Exporters that are understood

A dialect maps one exporter's names, labels and units to the signals that rules read. A cluster may
mix exporters: for each device and signal the better source counts, in the order of the first
table. What the first source of a device cannot read, or read for less than half as long as another
one, is filled from the next; `gputailor explain WORKLOAD` says which (`measured by`). Values of two
sources are never added or averaged.

An exporter that names no pods tells of devices only. Its values go to the container that another
exporter names as the device's only holder, or else to the container that, by Kubernetes, held every
GPU of the node for the whole hour; otherwise they stay nobody's.

An activity reads as the share of time or of capacity, 0 to 1. Of our own exporter every second
counts; of the others means of five minutes.
"""
_RULES: Final = """\
A rule speaks fully where every signal it reads is told; where only the first is, it says less, or
is less sure. What an exporter could tell must be switched on: dcgm-exporter by default has no `sm`,
`occupancy`, `fp64`, `fp32` and `fp16`, and of a card's health the latest Xid error only ([how
to](prometheus.md)).
"""
#: How what is a code or a mask becomes conditions.
_CODES: Final = ("", conditions.XID)
_CODED: Final = {
    Measure.LAST_ERROR: f"`{conditions.XID}…`, one for each change of the code",
    Measure.ERRORS: f"`{conditions.XID}…`, by the label `xid`",
    Measure.REASONS: f"`{conditions.THROTTLED}…`, by bit",
}
_MISSING: Final = """\
## What is not here

Moore Threads: no public source was found that gives its exporter's metric names, so none is
guessed. What such cards do is unknown; pods that hold them are reported by their requests.
"""


def dialects_page() -> str:
    """Return the whole page as Markdown."""
    dialects = gauge_dialects()
    parts = [
        _INTRODUCTION,
        *table(("dialect", "exporter", "who holds a device"), _order(dialects)),
        "\n## Signals by dialect\n",
        *table(("signal", f"`{_OURS}`", *(f"`{d.name}`" for d in dialects)), _signals(dialects)),
    ]
    parts += [
        "\n## Rules by dialect\n",
        _RULES,
        *table(("rule", f"`{_OURS}`", *(f"`{d.name}`" for d in dialects)), _rules(dialects)),
    ]
    for dialect in dialects:
        parts += [f"\n## {dialect.exporter} (`{dialect.name}`)\n", *_one(dialect)]
    return "\n".join([*parts, *container_sources(), "", _MISSING])


def _order(dialects: Iterable[GaugeDialect]) -> Iterator[tuple[str, ...]]:
    ours = "`pod`, `namespace`, `container`, `pod_uid`, or those as `exported_…`"
    yield f"`{_OURS}`", "GPU Tailor's own", ours
    for one in dialects:
        yield f"`{one.name}`", one.exporter, one.holders or "not told"


def _signals(dialects: tuple[GaugeDialect, ...]) -> Iterator[tuple[str, ...]]:
    for signal in metrics.Signal:
        yield f"`{signal}`", "yes", *(_mark(d, Measure.ACTIVITY, signal) for d in dialects)
    for measure, words in (
        (Measure.MEMORY_USED, "memory used"),
        (Measure.MEMORY_TOTAL, "memory in all"),
        (Measure.POWER, "power, energy"),
        (Measure.IDLE, "last kernel"),
    ):
        yield words, "yes", *(_mark(dialect, measure, "") for dialect in dialects)
    for words in OF_HEALTH:
        yield words, "yes", *("yes" if telling(d.gauges, words) else "" for d in dialects)


def _rules(dialects: tuple[GaugeDialect, ...]) -> Iterator[tuple[str, ...]]:
    for rule in registry():
        yield f"`{rule.id}`", "fully", *(_can(rule, dialect) for dialect in dialects)


def _can(rule: Rule, dialect: GaugeDialect) -> str:
    if rule.id == _HEALTH:
        missing = [words for words in OF_HEALTH if not telling(dialect.gauges, words)]
        return f"no: {', '.join(missing)}" if missing else "fully"
    told = {gauge.signal for gauge in dialect.gauges if gauge.measure is Measure.ACTIVITY}
    missing = [signal for signal in rule.signals if signal not in told]
    if not missing:
        return "fully"
    named = ", ".join(f"`{signal}`" for signal in missing)
    return f"no: {named}" if rule.signals[0] in missing else f"without {named}"


def _mark(dialect: GaugeDialect, measure: Measure, signal: str) -> str:
    gauges = [g for g in dialect.gauges if g.measure is measure and g.signal == signal]
    if measure is Measure.MEMORY_TOTAL and not gauges:
        parts = {gauge.measure for gauge in dialect.gauges}
        return "used + free" if Measure.MEMORY_FREE in parts else ""
    if not gauges:
        return ""
    if any(gauge.of_holder for gauge in gauges):
        return "per container"
    return "yes"


def _one(dialect: GaugeDialect) -> Iterator[str]:
    yield from table(("metric", "becomes"), map(_reading, dialect.gauges))
    yield ""
    ignored = ((f"`{_cell(one.pattern)}`", one.reason) for one in dialect.ignored)
    yield from table(("ignored (pattern of the name)", "because"), ignored)


def _cell(text: str) -> str:
    """The text with what would end a table's cell escaped."""
    return text.replace("|", "\\|")


def _reading(gauge: Gauge) -> tuple[str, str]:
    only = "".join(f', only `{name}="{value}"`' for name, value in gauge.labels)
    meaning = f"`{gauge.signal}`" if gauge.signal else str(gauge.measure).replace("_", " ")
    meaning = _CODED.get(gauge.measure, meaning) if gauge.signal in _CODES else meaning
    scale = "" if gauge.scale == 1.0 else f" x {gauge.scale:g}"
    own = "; the container's own on a shared device" if gauge.of_holder else ""
    return ", ".join(f"`{name}`" for name in gauge.names) + only, f"{meaning}{scale}{own}"


if __name__ == "__main__":
    sys.stdout.write(dialects_page())
