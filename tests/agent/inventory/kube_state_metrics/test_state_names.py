"""Names that Prometheus has spelled in its own way, back in Kubernetes' own."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputailor_agent.inventory.kube_state_metrics.names import (
    accelerator_pattern,
    real_key,
    real_resource,
)
from gputailor_agent.inventory.resources import gpu_resource
from gputailor_agent.inventory.spelling import spelled

NAMES = (
    "nvidia.com/gpu",
    "nvidia.com/gpu.shared",
    "nvidia.com/mig-1g.5gb",
    "nvidia.com/mig-1g.5gb.shared",
    "nvidia.com/mig-1g.10gb.me",
    "nvidia.com/mig-1g.12gb.me.all",
    "nvidia.com/mig-1c.3g.40gb",
    "nvidia.com/gpumem-percentage",
    "nvidia.com/gpu-10gb",
    "nvidia.com/gpu-tesla-t4",
    "nvidia.com/GRID_T4-16Q",
    "amd.com/gpu",
    "amd.com/cpx_nps4",
    "huawei.com/Ascend910",
    "huawei.com/Ascend310P-4c",
    "huawei.com/Ascend910-10c.3cpu",
    "huawei.com/Ascend910B-memory",
    "mthreads.com/sgpu-memory",
    "gpu.intel.com/memory.max",
    "habana.ai/gaudi",
    "cambricon.com/mlu370.smlu.vmemory",
    "google.com/tpu",
    "aws.amazon.com/neuroncore",
    "metax-tech.com/sgpu",
    "volcano.sh/vgpu-memory-percentage",
    "aliyun.com/gpu-core.percentage",
)


@pytest.mark.parametrize("name", NAMES)
def test_a_resource_is_found_again(name):
    assert real_resource(spelled(name)) == name
    assert re.fullmatch(accelerator_pattern(), spelled(name))


@given(st.integers(1, 7), st.integers(5, 300), st.sampled_from(["", ".me", ".gfx"]))
def test_every_mig_profile_is_found_again(slices, gigabytes, end):
    name = f"nvidia.com/mig-{slices}g.{gigabytes}gb{end}"
    assert real_resource(spelled(name)) == name


@given(st.from_regex(r"(nvidia|amd|huawei)_com_[a-zA-Z0-9_]{1,12}", fullmatch=True))
def test_what_is_found_is_an_accelerator_that_is_spelled_so(label):
    name = real_resource(label)
    if name is not None:
        assert spelled(name) == label
        assert gpu_resource(name) is not None


@pytest.mark.parametrize(
    "label", ["cpu", "memory", "ephemeral_storage", "nvidia_com_", "hugepages_2Mi", "acme_com_fpga"]
)
def test_what_is_no_accelerator_stays_out(label):
    assert real_resource(label) is None


@pytest.mark.parametrize(
    ("told", "key"),
    [
        ("nvidia_com_gpu_product", "nvidia.com/gpu.product"),
        ("eks_amazonaws_com_capacity_type", "eks.amazonaws.com/capacityType"),
        ("eks_amazonaws_com_capacityType", "eks.amazonaws.com/capacityType"),
        ("pod_template_hash", "pod-template-hash"),
        ("gputailor_io_ignore_until", "gputailor.io/ignore-until"),
        ("dag_id", "dag_id"),
        ("gputailor_io_team", "gputailor.io/team"),
        ("kueue_x_k8s_io_queue_name", "kueue.x-k8s.io/queue-name"),
        ("cloud_google_com_gke_nodepool", "cloud.google.com/gke-nodepool"),
        ("team", "team"),
    ],
)
def test_keys_of_labels_that_are_looked_for_are_found_again(told, key):
    assert real_key(told) == key
