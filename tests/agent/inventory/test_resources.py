import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputailor_agent.inventory.resources import (
    annotation_requests,
    containers_ask,
    device_class,
    device_count,
    gpu_requests,
    gpu_resource,
    quantity,
    resource_table,
)
from gputailor_agent.model.inventory import ContainerSpec, GpuRequest
from tests.agent.inventory.objects import unhurried


@pytest.mark.parametrize(
    ("name", "vendor", "kind", "partition"),
    [
        ("nvidia.com/gpu", "nvidia", "gpu", ""),
        ("nvidia.com/gpu.shared", "nvidia", "shared", ""),
        ("nvidia.com/mig-1g.5gb", "nvidia", "mig", "1g.5gb"),
        ("nvidia.com/mig-1g.10gb.me", "nvidia", "mig", "1g.10gb.me"),
        ("nvidia.com/mig-3g.40gb.shared", "nvidia", "shared", "3g.40gb"),
        ("nvidia.com/gpumem", "nvidia", "other", ""),
        ("nvidia.com/gpumem-percentage", "nvidia", "other", ""),
        ("nvidia.com/gpucores", "nvidia", "other", ""),
        ("nvidia.com/gpu-10gb", "nvidia", "shared", ""),
        ("nvidia.com/gpu-h100", "nvidia", "gpu", ""),
        ("amd.com/gpu", "amd", "gpu", ""),
        ("amd.com/cpx_nps4", "amd", "mig", "cpx_nps4"),
        ("huawei.com/Ascend910", "ascend", "gpu", ""),
        ("huawei.com/Ascend310P", "ascend", "gpu", ""),
        ("huawei.com/Ascend310P-4c", "ascend", "mig", "4c"),
        ("huawei.com/Ascend910-10c.3cpu.16g", "ascend", "mig", "10c.3cpu.16g"),
        ("huawei.com/Ascend910A-memory", "ascend", "other", ""),
        ("huawei.com/Ascend910B4-1", "ascend", "gpu", ""),
        ("huawei.com/Ascend910B4-1-memory", "ascend", "other", ""),
        ("huawei.com/Ascend910B3-core", "ascend", "other", ""),
        ("huawei.com/Ascend310P-IPro", "ascend", "gpu", ""),
        ("amd.com/gpumem", "amd", "other", ""),
        ("hygon.com/hcunum", "hygon", "gpu", ""),
        ("hygon.com/hcumem", "hygon", "other", ""),
        ("iluvatar.ai/BI-V150.vMem", "iluvatar", "other", ""),
        ("enflame.com/drs-gcu", "enflame", "fractional", ""),
        ("koordinator.sh/gpu-memory-ratio", "", "other", ""),
        ("tke.cloud.tencent.com/qgpu-core", "nvidia", "other", ""),
        ("vke.volcengine.com/mgpu-memory", "nvidia", "other", ""),
        ("mthreads.com/gpu", "moore_threads", "gpu", ""),
        ("gpu.intel.com/i915", "intel", "gpu", ""),
        ("gpu.intel.com/xe", "intel", "gpu", ""),
        ("habana.ai/gaudi", "gaudi", "gpu", ""),
        ("cambricon.com/mlu", "cambricon", "gpu", ""),
        ("cambricon.com/vmlu", "cambricon", "fractional", ""),
        ("hygon.com/dcu", "hygon", "gpu", ""),
        ("google.com/tpu", "google", "gpu", ""),
        ("aws.amazon.com/neuron", "aws", "gpu", ""),
        ("volcano.sh/vgpu-number", "nvidia", "fractional", ""),
        ("volcano.sh/vgpu-memory", "nvidia", "other", ""),
        ("aliyun.com/gpu-mem", "nvidia", "other", ""),
    ],
)
def test_each_vendors_resource_names_are_known(name, vendor, kind, partition):
    known = gpu_resource(name)
    assert known is not None
    assert (known.vendor, known.kind, known.partition) == (vendor, kind, partition)


@pytest.mark.parametrize(
    "name",
    ["cpu", "memory", "rdma/hca", "vpc.amazonaws.com/efa", "nvidia.com/priority", "hugepages-2Mi"],
)
def test_other_resources_are_no_accelerators(name):
    assert gpu_resource(name) is None
    assert gpu_requests({name: 1}, {}) == ()


def test_every_kind_in_the_table_is_one_the_model_knows():
    table = resource_table()
    kinds = {row.kind for row in (*table.resources, *table.annotations, *table.device_classes)}
    assert kinds == {"gpu", "mig", "shared", "fractional", "other"}


def test_hami_amounts_make_the_device_fractional_and_are_not_devices():
    asked = gpu_requests(
        {"nvidia.com/gpu": 2, "nvidia.com/gpumem": 1024, "nvidia.com/gpucores": "30"}, {}
    )
    kinds = {request.resource: request.kind for request in asked}
    assert kinds == {
        "nvidia.com/gpu": "fractional",
        "nvidia.com/gpucores": "other",
        "nvidia.com/gpumem": "other",
    }
    assert device_count(asked) == 2


def test_ascend_memory_makes_its_own_model_fractional():
    asked = gpu_requests({"huawei.com/Ascend910B": 1, "huawei.com/Ascend910B-memory": 2000}, {})
    assert [request.kind for request in asked] == ["fractional", "other"]


def test_a_limit_is_the_request_and_a_request_alone_counts():
    assert gpu_requests({"nvidia.com/gpu": 2}, {})[0].count == 2
    assert gpu_requests({}, {"nvidia.com/gpu": "3"})[0].count == 3
    assert gpu_requests({"nvidia.com/gpu": 4}, {"nvidia.com/gpu": 4})[0].count == 4


def test_zero_is_not_a_request():
    assert gpu_requests({"nvidia.com/gpu": "0"}, {}) == ()


def test_an_unfilled_placeholder_counts_as_one_and_is_told():
    problems: list[str] = []
    asked = gpu_requests({"nvidia.com/gpu": "$GPUS"}, {}, problems)
    assert asked[0].count == 1
    assert "'$GPUS' is not a number" in problems[0]


@pytest.mark.parametrize(
    ("value", "number"),
    [
        ("500m", 0.5), (2, 2.0), ("16Gi", 16 * 2**30), ("1e3", 1000.0), ("2E", 2e18), ("1.5", 1.5),
        ("100k", 1e5), ("250u", 0.00025), (0.5, 0.5), (".5", 0.5),
        ("", None), ("many", None), (None, None), (True, None), ("1 Gi", None), ("--3", None), ("1e999", None), (float("inf"), None),
    ],
)  # fmt: skip
def test_quantities_follow_kubernetes_grammar(value, number):
    assert quantity(value) == (pytest.approx(number) if number is not None else None)


def _container(name, gpus, *, init=False):
    request = GpuRequest(resource="nvidia.com/gpu", count=gpus)
    return ContainerSpec(name=name, gpus=(request,) if gpus else (), init=init)


def test_init_containers_reuse_devices_and_sidecars_do_not():
    asked = containers_ask(
        [
            _container("sidecar", 1),
            _container("prepare", 4, init=True),
            _container("main", 2),
        ]
    )
    assert asked[0].count == 5  # prepare (4) ran beside the sidecar (1); later 1 + 2 = 3


def test_containers_of_a_pod_add_up():
    assert containers_ask([_container("a", 2), _container("b", 3)])[0].count == 5


@unhurried
@given(st.lists(st.tuples(st.integers(0, 8), st.booleans()), max_size=6))
def test_a_pod_never_asks_for_less_than_any_container_nor_more_than_all(parts):
    ordered = sorted(parts, key=lambda part: not part[1])
    containers = [_container(f"c{n}", gpus, init=init) for n, (gpus, init) in enumerate(ordered)]
    asked = device_count(containers_ask(containers))
    assert max([gpus for gpus, _ in parts], default=0) <= asked <= sum(gpus for gpus, _ in parts)
    assert asked >= sum(gpus for gpus, init in parts if not init)


def test_annotations_of_sharing_schedulers_are_requests():
    name, asked = annotation_requests(
        {
            "gpu-fraction": "0.25",
            "gpu-fraction-num-devices": "2",
            "gpu-fraction-container-name": "x",
        }
    )
    assert name == "x"
    assert [(one.resource, one.count, one.kind) for one in asked] == [
        ("gpu-fraction", 0.5, "fractional")
    ]


def test_a_mig_profile_asked_by_annotation_is_a_partition():
    _, asked = annotation_requests({"nvidia.com/mig-2g.10gb": "1", "other": "1"})
    assert [(one.kind, one.mig_profile) for one in asked] == [("mig", "2g.10gb")]


def test_device_classes_are_known_by_vendor():
    assert device_class("gpu.nvidia.com").kind == "gpu"
    assert device_class("mig-1g-12gb.gpu.nvidia.com").kind == "mig"
    assert device_class("compute-domain-channel.nvidia.com") is None
