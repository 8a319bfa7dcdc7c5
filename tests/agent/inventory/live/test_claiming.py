"""What pods claim stays known: claims go with their pods, and servers refuse them for a while."""

from gputailor_agent.inventory.identity import resolve
from tests.agent.inventory.live.objects import AT
from tests.agent.inventory.live.test_following import phase, until, watched
from tests.agent.inventory.objects import container, pod


def _claiming_pod():
    request = {"name": "r", "firstAvailable": [
        {"name": "many", "deviceClassName": "gpu.nvidia.com", "count": 4},
        {"name": "two", "deviceClassName": "gpu.nvidia.com", "count": 2},
    ]}  # fmt: skip
    results = [{"request": "r/two", "driver": "gpu.nvidia.com", "device": f"gpu-{n}"} for n in "01"]
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "x-g-2x4", "namespace": "team-a"},
        "spec": {"devices": {"requests": [request]}},
        "status": {"allocation": {"devices": {"results": results}}},
    }
    wants = {"resourceClaims": [{"name": "g", "resourceClaimTemplateName": "any"}]}
    made = {"resourceClaimStatuses": [{"name": "g", "resourceClaimName": "x-g-2x4"}]}
    uses = container(resources={"claims": [{"name": "g"}]})
    return pod("x", containers=[uses], status=made, **wants), claim


def _claimed(live):
    (found,) = live.snapshot(AT).pods
    return [(one.resource, one.count, one.kind) for one in found.containers[0].gpus]


def test_what_a_pod_claimed_stays_known_when_its_claim_went_with_it(api, follow):
    asking, claim = _claiming_pod()
    api.put(asking, claim)
    live = follow()
    assert _claimed(live) == [("gpu.nvidia.com", 2.0, "gpu")]
    watched(api)
    api.delete(claim)
    assert _claimed(live) == [("gpu.nvidia.com", 2.0, "gpu")]
    api.delete(asking)
    until(lambda: phase(live, "x").finished)
    assert _claimed(live) == [("gpu.nvidia.com", 2.0, "gpu")]


def test_claims_that_a_server_refuses_for_a_while_change_nobody_s_workload(api, follow):
    asking, claim = _claiming_pod()
    api.put(asking, claim)
    live = follow()
    before = resolve(live.snapshot(AT)).workloads[0].id
    api.forbidden.add("resourceclaims")
    found = live.snapshot(AT)
    assert resolve(found).workloads[0].id == before
    assert any("resourceclaims.resource.k8s.io cannot be read" in one for one in found.problems)
