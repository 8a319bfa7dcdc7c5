"""Fixtures of the test bed: real servers, started once per session and shared by all tests.

A test folder takes them by its conftest, or a test module by itself:

``from tests.testbed.fixtures import control_plane, kube_state_metrics, prometheus, helm, namespace``

However many folders take them, there is one control plane in a session. Tests keep apart by
namespaces of their own (``namespace``) and by removing the nodes they made (``nodes``).
"""

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest

from tests.testbed.control_plane import ControlPlane
from tests.testbed.monitoring import KubeStateMetrics, Prometheus, write_history
from tests.testbed.servers import need, run

T = TypeVar("T", ControlPlane, KubeStateMetrics)
SHARED = pytest.StashKey[dict[str, Any]]()

__all__ = [
    "control_plane",
    "control_plane_factory",
    "helm",
    "helm3",
    "kube_state_metrics",
    "namespace",
    "nodes",
    "prometheus",
    "running_helm",
]


def _shared(config: pytest.Config, name: str, start: Callable[[], T]) -> T:
    """One server per session under ``name``, stopped when pytest ends."""
    running = config.stash.setdefault(SHARED, {})
    if name not in running:
        running[name] = start()
        config.add_cleanup(running[name].stop)
    found: T = running[name]
    return found


@pytest.fixture(scope="session")
def control_plane(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> ControlPlane:
    """The session's control plane (about 10 s to start, 600 MiB); see ``ControlPlane``."""
    return _shared(
        request.config,
        "control plane",
        lambda: ControlPlane.start(tmp_path_factory.mktemp("control-plane")),
    )


@pytest.fixture
def control_plane_factory(tmp_path: Path) -> Iterator[Callable[..., ControlPlane]]:
    """A function that starts a control plane of the test's own; keywords of ControlPlane.start."""
    started: list[ControlPlane] = []

    def start(**settings: Any) -> ControlPlane:
        started.append(ControlPlane.start(tmp_path / f"plane-{len(started)}", **settings))
        return started[-1]

    yield start
    for plane in started:
        plane.stop()


@pytest.fixture(scope="session")
def kube_state_metrics(
    request: pytest.FixtureRequest,
    control_plane: ControlPlane,
    tmp_path_factory: pytest.TempPathFactory,
) -> KubeStateMetrics:
    """The session's kube-state-metrics: ``url``, ``target``, ``page()``."""
    return _shared(
        request.config,
        "kube-state-metrics",
        lambda: KubeStateMetrics(
            control_plane, tmp_path_factory.mktemp("kube-state-metrics")
        ).start(),
    )


@pytest.fixture
def namespace(control_plane: ControlPlane) -> Iterator[str]:
    """A new namespace that pods can be created in; deleted after the test."""
    name = f"test-{secrets.token_hex(4)}"
    control_plane.create_namespace(name)
    yield name
    control_plane.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def nodes(control_plane: ControlPlane) -> Iterator[Callable[..., list[str]]]:
    """A function that adds nodes (see ``gpu_node``), waits until they are ready, names them."""
    made: list[Mapping[str, Any]] = []

    def add(*wanted: Mapping[str, Any]) -> list[str]:
        made.extend(wanted)
        control_plane.apply(wanted)
        names = [str(each["metadata"]["name"]) for each in wanted]
        control_plane.wait(" ".join(f"node/{name}" for name in names), "condition=Ready")
        return names

    yield add
    if made:
        control_plane.delete(made)


class StartPrometheus(Protocol):
    """How the ``prometheus`` fixture is called."""

    def __call__(
        self, config: str = "", *, history: Path | str | None = None, flags: Iterable[str] = ()
    ) -> Prometheus:
        """Start a server with this configuration and history (OpenMetrics text or a file)."""


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[StartPrometheus]:
    """A function that starts Prometheus 3 on a free port; stopped after the test."""
    started: list[Prometheus] = []

    def start(
        config: str = "", *, history: Path | str | None = None, flags: Iterable[str] = ()
    ) -> Prometheus:
        server = Prometheus(tmp_path / f"prometheus-{len(started)}", config, flags)
        started.append(server)
        if history is not None:
            write_history(history, server.data)
        return server.start()

    yield start
    for server in started:
        server.stop()


class RunHelm(Protocol):
    """How the ``helm`` fixture is called."""

    def __call__(
        self, *arguments: str, cluster: ControlPlane | None = None, user: str = "helm"
    ) -> str:
        """Run helm; its output. CommandFailed carries what it said and its status."""


def running_helm(program: str, folder: Path) -> RunHelm:
    """What the fixtures below hand out: ``program`` is helm or helm3, its data lie in ``folder``."""
    binary = need(program)[program]
    folders = {f"HELM_{kind}_HOME": str(folder / kind) for kind in ("CACHE", "CONFIG", "DATA")}

    def call(*arguments: str, cluster: ControlPlane | None = None, user: str = "helm") -> str:
        # Without a cluster it is given none: it must not find the developer's own.
        config = cluster.kubeconfig_of(user) if cluster else folder / "no-kubeconfig"
        return run([binary, *arguments], env={**folders, "KUBECONFIG": str(config)})

    return call


@pytest.fixture
def helm(tmp_path: Path) -> RunHelm:
    """A function that runs Helm 4 with folders of the test's own, against a cluster if given."""
    return running_helm("helm", tmp_path)


@pytest.fixture
def helm3(tmp_path: Path) -> RunHelm:
    """The same with Helm 3."""
    return running_helm("helm3", tmp_path / "three")
