"""The bed's own tests use the bed as other tests do."""

from tests.testbed.fixtures import (
    control_plane,
    control_plane_factory,
    helm,
    helm3,
    kube_state_metrics,
    namespace,
    nodes,
    prometheus,
)

__all__ = [
    "control_plane",
    "control_plane_factory",
    "helm",
    "helm3",
    "kube_state_metrics",
    "namespace",
    "nodes",
    "prometheus",
]
