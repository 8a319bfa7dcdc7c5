"""Devices by claim on a real control plane: a real scheduler allocates what a driver would offer."""

import time

import pytest

from gputailor_agent.inventory.live import LiveInventory, LiveSettings, read_live_inventory
from gputailor_agent.inventory.resources import pod_requests
from tests.testbed import objects
from tests.testbed.fixtures import control_plane, control_plane_factory, namespace, nodes
from tests.testbed.servers import eventually

__all__ = ["control_plane", "control_plane_factory", "namespace", "nodes"]

pytestmark = [pytest.mark.system, pytest.mark.timeout(120)]

API = "resource.k8s.io/v1"
DRIVER = "gpu.nvidia.com"
NODE = "claims-a"


def _slice(cards):
    """What the driver of a node says of its devices."""
    return {
        "apiVersion": API,
        "kind": "ResourceSlice",
        "metadata": {"name": f"{NODE}-gpus"},
        "spec": {
            "driver": DRIVER,
            "nodeName": NODE,
            "pool": {"name": NODE, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"gpu-{number}"} for number in range(cards)],
        },
    }


def _class(name):
    chosen = {"cel": {"expression": f"device.driver == '{DRIVER}'"}}
    body = {"apiVersion": API, "kind": "DeviceClass", "metadata": {"name": name}}
    return {**body, "spec": {"selectors": [chosen]}}


def _template(name, request):
    spec = {"spec": {"devices": {"requests": [{"name": "cards", **request}]}}}
    return {
        "apiVersion": API,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": spec,
    }


def _pod(name, template):
    made = objects.pod(name, gpus=0)
    (container, *_) = made["spec"]["containers"]
    container["resources"] = {"claims": [{"name": "mine"}]}
    made["spec"]["resourceClaims"] = [{"name": "mine", "resourceClaimTemplateName": template}]
    return made


def _asked(live):
    found = live.snapshot(time.time()).pods
    return {one.name: [(r.resource, r.count, r.kind) for r in pod_requests(one)] for one in found}


def test_a_class_of_ones_own_is_known_by_the_allocation_also_after_claim_and_pod_are_gone(
    control_plane, namespace, nodes
):
    own = f"big-cards-{namespace}"
    nodes(objects.gpu_node(NODE, 0))
    either = [
        {"name": "many", "deviceClassName": own, "count": 64},
        {"name": "few", "deviceClassName": own, "count": 3},
    ]
    control_plane.apply([_slice(8), _class(own)])
    control_plane.apply(
        [
            _template("two", {"exactly": {"deviceClassName": own, "count": 2}}),
            _template("either", {"firstAvailable": either}),
            _pod("a", "two"),
            _pod("b", "either"),
        ],
        namespace,
    )
    expected = {"a": [(own, 2.0, "gpu")], "b": [(own, 3.0, "gpu")]}
    try:
        with LiveInventory(
            "lab",
            LiveSettings(kubeconfig=control_plane.kubeconfig, namespaces=(namespace,)),
        ) as live:
            eventually(lambda: _asked(live) == expected, "both claims are allocated", 60)
            control_plane.kubectl("delete", "pod", "a", "b", "-n", namespace, "--wait=false")
            eventually(
                lambda: all(one.finished for one in live.snapshot(time.time()).pods),
                "both pods are gone",
                60,
            )
            eventually(
                lambda: not control_plane.get("resourceclaims", namespace), "so are the claims", 60
            )
            assert _asked(live) == expected
    finally:
        control_plane.kubectl("delete", "resourceslice", f"{NODE}-gpus")
        control_plane.kubectl("delete", "deviceclass", own)


def test_a_class_of_ones_own_is_known_while_nothing_was_allocated_yet(control_plane, namespace):
    own = f"waited-for-{namespace}"
    control_plane.apply([_class(own)])
    wanted = {"exactly": {"deviceClassName": own, "count": 2}}
    control_plane.apply([_template("two", wanted), _pod("a", "two")], namespace)
    try:
        found = read_live_inventory(
            "lab", kubeconfig=control_plane.kubeconfig, namespaces=[namespace], at=time.time()
        )
        asked = {one.name: [(r.resource, r.count) for r in pod_requests(one)] for one in found.pods}
        assert asked == {"a": [(own, 2.0)]}
        assert found.problems == ()
    finally:
        control_plane.kubectl("delete", "deviceclass", own)
