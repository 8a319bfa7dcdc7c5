"""The chart, and what Helm makes of it."""

import importlib.util
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
    namespace,
    nodes,
)

__all__ = ["control_plane", "helm", "namespace", "nodes"]

MONITORING = "monitoring.coreos.com/v1"
RENDERED: dict[str, list[dict[str, Any]]] = {}


@pytest.fixture(scope="session")
def chart(repository: Path) -> Path:
    """Folder of the chart."""
    return repository / "helm" / "gputailor"


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
    """A function: the objects that ``helm template`` makes of values."""

    def objects(
        values: Mapping[str, Any], *flags: str, release: str = "gt", into: str = "gpus"
    ) -> list[dict[str, Any]]:
        text = helm("template", release, str(chart), "-n", into, "-f", values_file(values), *flags)
        return [each for each in yaml.safe_load_all(text) if each]

    return objects


@pytest.fixture(params=VALUE_SETS)
def rendered(request: pytest.FixtureRequest, render) -> list[dict[str, Any]]:
    """The objects of each set of values, on a cluster without the operator's kinds."""
    name: str = request.param
    if name not in RENDERED:
        RENDERED[name] = render(VALUE_SETS[name])
    return RENDERED[name]
