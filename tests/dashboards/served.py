"""A Prometheus with the history of one exporter, and with what its recording rules wrote of it."""

from collections.abc import Iterator
from pathlib import Path

from gputailor_dashboards.expressions.base import Dialect
from gputailor_dashboards.generating import BUILDERS, generate
from tests.dashboards import history, prometheus
from tests.dashboards.asking import Shown

WRITERS = {
    "gputailor": history.write_native,
    "dcgm": history.write_dcgm,
    "smi": history.write_smi,
}


def dialect_of(dashboard: str) -> Dialect:
    """The exporter that a dashboard is on."""
    return BUILDERS[dashboard].dialect


def rule_file(exporter: str) -> str:
    """Name of its rule file."""
    return "gputailor.yaml" if exporter == "gputailor" else f"gputailor-{exporter}.yaml"


def served(folder: Path, exporter: str) -> Iterator[Shown]:
    """Yield the server, with three hours of history."""
    data = folder / "data"
    generate(folder / "generated")
    prometheus.fill(data, WRITERS[exporter](folder))
    with prometheus.serving(folder, data) as url:
        path = folder / "generated" / "rules" / rule_file(exporter)
        prometheus.record(url, data, path, history.START, history.NOW)
    with prometheus.serving(folder, data) as url:
        yield Shown(url, history.START, history.NOW)
