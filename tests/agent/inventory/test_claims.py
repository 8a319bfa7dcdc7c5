"""Dynamic resource allocation: what is asked for is counted once, and monitors hold nothing."""

from gputailor_agent.inventory.resources import pod_requests
from tests.agent.inventory.objects import container, inventory, pod


def _template(**request):
    asked = {"deviceClassName": "gpu.nvidia.com", **request}
    requests = [{"name": "gpus", "exactly": asked}]
    spec = {"spec": {"devices": {"requests": requests}}}
    metadata = {"name": "wanted", "namespace": "team-a"}
    return {"kind": "ResourceClaimTemplate", "metadata": metadata, "spec": spec}


def _claim(name, devices):
    requests = [
        {"name": "gpus", "exactly": {"deviceClassName": "gpu.nvidia.com", "allocationMode": "All"}}
    ]
    results = [{"request": "gpus", "device": f"gpu-{number}"} for number in range(devices)]
    return {
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "team-a"},
        "spec": {"devices": {"requests": requests}},
        "status": {"allocation": {"devices": {"results": results}}},
    }


def _pod(**more):
    asking = container(resources={"claims": [{"name": "mine"}]})
    claims = [{"name": "mine", "resourceClaimTemplateName": "wanted"}]
    return pod("a", containers=[asking], resourceClaims=claims, **more)


def _asked(tmp_path, *objects):
    (found,) = inventory(tmp_path, *objects).pods
    return [(one.resource, one.count, one.kind) for one in pod_requests(found)]


def test_a_monitor_with_administrative_access_holds_no_device(tmp_path):
    template = _template(adminAccess=True, allocationMode="All")
    assert _asked(tmp_path, _pod(), template) == []


def test_all_devices_of_a_node_are_no_number_of_devices(tmp_path):
    template = _template(allocationMode="All")
    assert _asked(tmp_path, _pod(), template) == [("gpu.nvidia.com", 1.0, "other")]


def test_the_allocation_tells_how_many_all_are(tmp_path):
    made = {"resourceClaimStatuses": [{"name": "mine", "resourceClaimName": "a-mine-x2k4p"}]}
    objects = (_pod(status=made), _template(allocationMode="All"), _claim("a-mine-x2k4p", 8))
    assert _asked(tmp_path, *objects) == [("gpu.nvidia.com", 8.0, "gpu")]


def test_a_generated_claim_that_was_not_read_leaves_its_template_s_word(tmp_path):
    made = {"resourceClaimStatuses": [{"name": "mine", "resourceClaimName": "a-mine-x2k4p"}]}
    objects = (_pod(status=made), _template(count=2))
    assert _asked(tmp_path, *objects) == [("gpu.nvidia.com", 2.0, "gpu")]
