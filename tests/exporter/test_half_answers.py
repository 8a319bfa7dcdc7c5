"""Kubelet after its start, answering by half: what it held is held on, for a bounded time."""

import pytest

from gputailor_exporter.attribution.allocations import Allocation
from tests.exporter.test_pods import DEVICES, GPU, UUID, asking, folder, holding, kubelet, ref
from tests.fakes.kubelet import Claim, Container, Pod

__all__ = ["folder", "kubelet"]

HELD = Allocation(ref(), UUID)
KUBE_PROXY = Pod("kube-system", "kube-proxy", [Container("main")])
RDMA = "rdma/hca"


@pytest.fixture
def source(kubelet):
    return asking(kubelet, keep_seconds=60.0)


def test_a_listed_pod_without_its_devices_still_holds_them(kubelet, source):
    kubelet.pods = [holding(GPU, UUID), KUBE_PROXY]
    assert source.allocations(DEVICES, 0.0) == (HELD,)
    kubelet.pods = [holding(RDMA, "mlx5_0"), KUBE_PROXY]
    assert source.allocations(DEVICES, 1.0) == (HELD,)
    assert source.allocations(DEVICES, 2.0) == (HELD,)
    assert source.problems == {"half_answer": 2}


def test_a_claim_that_is_missing_is_held_on_too(kubelet, source):
    kubelet.pods = [Pod("team", "train-0", [Container("main", claims=[Claim("gpu-0")])])]
    assert source.allocations(DEVICES, 0.0) == (HELD,)
    kubelet.pods = [Pod("team", "train-0", [Container("main")])]
    assert source.allocations(DEVICES, 1.0) == (HELD,)


def test_a_node_without_any_pod_is_half_an_answer(kubelet, source):
    kubelet.pods = [holding(GPU, UUID), KUBE_PROXY]
    source.allocations(DEVICES, 0.0)
    kubelet.pods = []
    assert source.allocations(DEVICES, 1.0) == (HELD,)
    kubelet.pods = [holding(GPU, UUID), KUBE_PROXY]
    assert source.allocations(DEVICES, 2.0) == (HELD,)
    assert source.problems == {"half_answer": 1}


def test_what_stays_missing_is_believed_in_the_end_and_counted(kubelet, source):
    kubelet.pods = [holding(GPU, UUID)]
    source.allocations(DEVICES, 0.0)
    kubelet.pods = [Pod("team", "train-0", [Container("main")])]
    for at in (1.0, 61.0):
        assert source.allocations(DEVICES, at) == (HELD,)
    assert source.allocations(DEVICES, 61.5) == ()
    assert source.allocations(DEVICES, 62.0) == ()
    assert source.problems == {"half_answer": 2, "half_answer_believed": 1}


def test_a_pod_that_left_the_list_ended_at_once(kubelet, source):
    kubelet.pods = [holding(GPU, UUID), KUBE_PROXY]
    source.allocations(DEVICES, 0.0)
    kubelet.pods = [KUBE_PROXY]
    assert source.allocations(DEVICES, 1.0) == ()
    assert not any(source.problems.values())


def test_another_device_of_the_same_resource_is_news_not_half_an_answer(kubelet, source):
    kubelet.pods = [holding(GPU, UUID)]
    source.allocations(DEVICES, 0.0)
    kubelet.pods = [holding(GPU, "GPU-of-another-node")]
    assert source.allocations(DEVICES, 1.0) == ()
    assert not any(source.problems.values())


def test_a_new_pod_is_told_at_once_beside_one_that_is_held_on(kubelet, source):
    kubelet.pods = [holding(GPU, f"{UUID}::0")]
    source.allocations(DEVICES, 0.0)
    kubelet.pods = [
        Pod("team", "train-0", [Container("main")]),
        holding(GPU, f"{UUID}::1", pod="train-1"),
    ]
    found = source.allocations(DEVICES, 1.0)
    assert {(one.holder.pod, one.share) for one in found} == {("train-0", 0.5), ("train-1", 0.5)}


def test_a_node_that_never_had_a_pod_is_no_half_answer(kubelet, source):
    kubelet.pods = []
    assert source.allocations(DEVICES, 0.0) == source.allocations(DEVICES, 1.0) == ()
    assert not any(source.problems.values())
