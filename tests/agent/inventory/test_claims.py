"""Dynamic resource allocation: what is asked for is counted once, and monitors hold nothing."""

from hypothesis import given
from hypothesis import strategies as st

from gputailor_agent.inventory.documents import Document
from gputailor_agent.inventory.gathering import Gathering
from gputailor_agent.inventory.resources import pod_requests
from tests.agent.inventory.objects import NOON_SECONDS, container, inventory, pod, unhurried


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


def _results(*results):
    return {"allocation": {"devices": {"results": [dict(one) for one in results]}}}


def _made(tmp_path, requests, *results, more=()):
    """What a pod asks for by a claim of these requests, that got these devices."""
    claim = {
        "kind": "ResourceClaim",
        "metadata": {"name": "mine", "namespace": "team-a"},
        "spec": {"devices": {"requests": requests}},
        "status": _results(*results),
    }
    asking = container(resources={"claims": [{"name": "c"}]})
    claims = [{"name": "c", "resourceClaimName": "mine"}]
    (found,) = inventory(
        tmp_path, pod("a", containers=[asking], resourceClaims=claims), claim, *more
    ).pods
    return [
        (one.resource, one.count, one.kind, one.mig_profile, one.vendor)
        for one in pod_requests(found)
    ]


def _of_own_class(**more):
    return [{"name": "r", "exactly": {"deviceClassName": "big-cards", "count": 2, **more}}]


def test_a_class_of_the_cluster_s_own_is_known_by_the_driver_that_its_devices_came_from(tmp_path):
    got = [{"request": "r", "driver": "gpu.nvidia.com", "device": f"gpu-{n}"} for n in range(2)]
    assert _made(tmp_path, _of_own_class(), *got) == [("big-cards", 2.0, "shared", "", "nvidia")]


def test_a_class_of_the_cluster_s_own_is_known_by_the_driver_that_it_selects(tmp_path):
    chosen = {"cel": {"expression": 'device.driver == "gpu.amd.com"'}}
    made = {
        "kind": "DeviceClass",
        "metadata": {"name": "big-cards"},
        "spec": {"selectors": [chosen]},
    }
    expected = [("big-cards", 2.0, "shared", "", "amd")]
    assert _made(tmp_path, _of_own_class(), more=[made]) == expected
    assert _made(tmp_path, _of_own_class(selectors=[chosen])) == expected


def test_a_class_that_selects_slices_is_one_of_slices(tmp_path):
    chosen = {"cel": {"expression": "device.driver == 'gpu.nvidia.com' && "
              "device.attributes['gpu.nvidia.com'].type == 'mig' && "
              "device.attributes['gpu.nvidia.com'].profile == '1g.10gb'"}}  # fmt: skip
    (asked,) = _made(tmp_path, _of_own_class(selectors=[chosen]))
    assert asked == ("big-cards", 2.0, "mig", "1g.10gb", "nvidia")


def test_a_class_that_nothing_tells_of_is_no_accelerator(tmp_path):
    got = {"request": "r", "driver": "dra.net", "device": "eth1"}
    assert _made(tmp_path, _of_own_class(), got) == []


def _either():
    return [{"name": "r", "firstAvailable": [
        {"name": "big", "deviceClassName": "gpu.nvidia.com", "count": 4},
        {"name": "small", "deviceClassName": "mig.nvidia.com", "count": 1},
    ]}]  # fmt: skip


def test_of_alternatives_the_one_that_was_allocated_counts_else_the_first(tmp_path):
    got = {"request": "r/small", "driver": "gpu.nvidia.com", "device": "gpu-0-mig-1"}
    assert _made(tmp_path, _either(), got) == [("mig.nvidia.com", 1.0, "mig", "", "nvidia")]
    assert _made(tmp_path, _either()) == [("gpu.nvidia.com", 4.0, "shared", "", "nvidia")]


def test_a_device_that_several_claims_share_is_a_shared_one(tmp_path):
    template = _template()
    made = {"resourceClaimStatuses": [{"name": "mine", "resourceClaimName": "made"}]}
    claim = _claim("made", 1)
    claim["spec"]["devices"]["requests"][0]["exactly"]["allocationMode"] = "ExactCount"
    assert _asked(tmp_path, _pod(status=made), template, claim) == [("gpu.nvidia.com", 1.0, "gpu")]
    claim["status"]["allocation"]["devices"]["results"][0]["shareID"] = "1f0e"
    assert _asked(tmp_path, _pod(status=made), template, claim)[0][2] == "shared"


def test_a_class_asked_for_as_an_extended_resource_is_one_of_its_devices(tmp_path):
    resources = {"limits": {"deviceclass.resource.kubernetes.io/gpu.nvidia.com": 2}}
    found = _asked(tmp_path, pod("a", containers=[container(resources=resources)]))
    assert found == [("deviceclass.resource.kubernetes.io/gpu.nvidia.com", 2.0, "gpu")]


@unhurried
@given(st.permutations(range(4)))
def test_the_order_in_which_classes_claims_and_pods_are_read_does_not_matter(order):
    chosen = {"cel": {"expression": 'device.driver == "gpu.amd.com"'}}
    objects = [
        {"kind": "DeviceClass", "metadata": {"name": "big-cards"}, "spec": {"selectors": [chosen]}},
        {"kind": "ResourceClaim", "metadata": {"name": "mine", "namespace": "team-a"},
         "spec": {"devices": {"requests": _of_own_class()}}},
        pod("a", containers=[container(resources={"claims": [{"name": "c"}]})],
            resourceClaims=[{"name": "c", "resourceClaimName": "mine"}]),
        pod("b"),
    ]  # fmt: skip
    gathering = Gathering("lab")
    for place in order:
        one = objects[place]
        gathering.add(Document(where="x", kind=one["kind"], api_version="v1", content=one))
    pods = {one.name: pod_requests(one) for one in gathering.inventory(NOON_SECONDS).pods}
    assert [(one.resource, one.vendor) for one in pods["a"]] == [("big-cards", "amd")]
