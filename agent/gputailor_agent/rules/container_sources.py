"""The part of ``docs/dialects.md`` on containers: inference engines, cAdvisor, node_exporter."""

from collections.abc import Iterable, Iterator
from typing import Final

from gputailor_agent.dialects import cadvisor, node_exporter, restarts
from gputailor_agent.dialects.engines import Engine, EngineMetric, Told, engines

_ENGINES: Final = """\
## Inference engines

Figures of requests belong to the container, once, whatever number of GPUs it holds. A process is
found by the scrape's `pod` and `namespace` labels; without them by its address and
`kube_pod_info{pod_ip}`. Series of a process that differ in the labels of the last column are added
up; those that differ in any other label (tensor-parallel ranks, a second scrape job, replicas of
the server) are copies. Processes of a pod are added up. Of an engine only the metrics below are
read. No engine publishes how much device memory its weights and its cache need.
"""
_CONTAINERS: Final = """\
## CPU, memory, pressure, traffic, restarts of containers

Read for containers that hold GPUs, or asked for them where no exporter names the holder. Pressure
of a node stands beside the container's own, for containers that were on the node for the whole
hour; other pods may have caused it.
"""
_COLUMNS: Final = (
    (Told.REQUESTS, "requests"),
    (Told.PROMPT_TOKENS, "tokens in"),
    (Told.OUTPUT_TOKENS, "tokens out"),
    (Told.LATENCY, "latency"),
    (Told.RUNNING, "running"),
    (Told.WAITING, "waiting"),
    (Told.CACHE, "KV cache"),
    (Told.MEMORY, "memory"),
)


def container_sources() -> Iterator[str]:
    """Yield the lines of the part, as Markdown."""
    yield f"\n{_ENGINES}"
    head = ("engine", *(words for _, words in _COLUMNS), "added up over")
    yield from table(head, map(_engine, engines()))
    for engine in engines():
        yield f"\n### {engine.title} (`{engine.name}`)\n"
        yield from table(("metric", "becomes"), map(_metric, engine.metrics))
    yield f"\n{_CONTAINERS}"
    yield from table(("metric", "of", "becomes"), _container_rows())


def _engine(engine: Engine) -> tuple[str, ...]:
    marks = ("yes" if engine.of(told) else "" for told, _ in _COLUMNS)
    return f"`{engine.name}`", *marks, ", ".join(f"`{name}`" for name in engine.apart)


def _metric(metric: EngineMetric) -> tuple[str, str]:
    scale = "" if metric.scale == 1.0 else f" x {metric.scale:g}"
    return ", ".join(f"`{name}`" for name in metric.names), f"{metric.told}{scale}"


def _container_rows() -> Iterator[tuple[str, ...]]:
    for counter in (*cadvisor.COUNTERS, *cadvisor.OF_THE_POD):
        yield f"`{counter.name}`", cadvisor.TITLE, f"`{counter.amount}`"
    levels = "seconds by level of CPU use, of five minutes; the 95th percentile is read from them"
    yield f"`{cadvisor.CPU.name}`", cadvisor.TITLE, levels
    yield f"`{cadvisor.MEMORY}`", cadvisor.TITLE, "memory, the highest of the hour"
    yield f"`{cadvisor.MEMORY_LIMIT}`", cadvisor.TITLE, "memory limit; 0 is none"
    yield f"`{cadvisor.QUOTA}`, `{cadvisor.PERIOD}`", cadvisor.TITLE, "CPU limit"
    yield f"`{cadvisor.STARTED}`", cadvisor.TITLE, "when counters began"
    for name, amount in node_exporter.COUNTERS.items():
        yield f"`{name}`", node_exporter.TITLE, f"`{amount}`"
    yield f"`{restarts.RESTARTS}`", restarts.TITLE, "`restarts`"
    yield (
        f"`{restarts.BEFORE}`, `{restarts.NOW}`",
        restarts.TITLE,
        "`oom_kills`, at most one an hour; the higher of this and cAdvisor's counts",
    )


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """Yield a Markdown table's lines."""
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
