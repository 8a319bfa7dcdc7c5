"""The chart, and what Helm makes of it."""

import importlib.util
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from tests.helm.value_sets import VALUE_SETS
from tests.testbed.fixtures import (
    RunHelm,
    control_plane,
    helm,
    helm3,
    namespace,
    nodes,
)

__all__ = ["control_plane", "helm", "helm3", "namespace", "nodes"]

#: Kinds of others that the chart makes objects of, as Helm names them.
FOREIGN_KINDS = (
    "monitoring.coreos.com/v1/ServiceMonitor",
    "monitoring.coreos.com/v1/PodMonitor",
    "monitoring.coreos.com/v1/PrometheusRule",
    "operator.victoriametrics.com/v1beta1/VMServiceScrape",
    "operator.victoriametrics.com/v1beta1/VMRule",
    "grafana.integreatly.org/v1beta1/GrafanaDashboard",
)
#: What was rendered, by values and flags; nobody changes it.
RENDERED: dict[str, list[dict[str, Any]]] = {}


def api_versions(*wanted: str) -> tuple[str, ...]:
    """Flags for ``helm template``: a cluster that has the kinds whose names hold one of these."""
    kinds = [kind for kind in FOREIGN_KINDS if any(part in kind for part in wanted)]
    return tuple(flag for kind in kinds for flag in ("--api-versions", kind))


@pytest.fixture(scope="session")
def chart(repository: Path) -> Path:
    """Folder of the chart."""
    return repository / "helm" / "gputailor"


@pytest.fixture(scope="module")
def schema(chart: Path) -> dict[str, Any]:
    """The schema of the values."""
    found: dict[str, Any] = json.loads((chart / "values.schema.json").read_text("utf-8"))
    return found


@pytest.fixture(scope="session")
def generate(repository: Path) -> ModuleType:
    """helm/generate.py as a module."""
    spec = importlib.util.spec_from_file_location("helm_generate", repository / "helm/generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def values_file(tmp_path: Path) -> Callable[[Mapping[str, Any]], str]:
    """A function that writes values to a file and names it."""

    def write(values: Mapping[str, Any]) -> str:
        path = tmp_path / "values.yaml"
        path.write_text(yaml.safe_dump(dict(values)), "utf-8")
        return str(path)

    return write


@pytest.fixture
def render(
    helm: RunHelm, chart: Path, values_file: Callable[[Mapping[str, Any]], str]
) -> Callable[..., list[dict[str, Any]]]:
    """A function: the objects that ``helm template`` makes of values; each asked for once."""

    def objects(
        values: Mapping[str, Any], *flags: str, release: str = "gt", into: str = "gpus"
    ) -> list[dict[str, Any]]:
        key = json.dumps([values, flags, release, into], sort_keys=True)
        if key not in RENDERED:
            file = values_file(values)
            text = helm("template", release, str(chart), "-n", into, "-f", file, *flags)
            RENDERED[key] = [each for each in yaml.load_all(text, yaml.CSafeLoader) if each]
        return RENDERED[key]

    return objects


@pytest.fixture(params=VALUE_SETS)
def rendered(request: pytest.FixtureRequest, render) -> list[dict[str, Any]]:
    """The objects of each set of values, on a cluster without the operator's kinds."""
    found: list[dict[str, Any]] = render(VALUE_SETS[request.param])
    return found


@pytest.fixture
def notes(
    helm: RunHelm, chart: Path, values_file: Callable[[Mapping[str, Any]], str]
) -> Callable[..., str]:
    """A function: what Helm says after an install with values, without a cluster."""

    def said(values: Mapping[str, Any]) -> str:
        flags = ("--dry-run=client", "-n", "gpus", "-f", values_file(values))
        return helm("install", "gt", str(chart), *flags).partition("\nNOTES:\n")[2]

    return said
