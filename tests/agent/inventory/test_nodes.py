import pytest
import yaml

from gputailor_agent.inventory import raw
from gputailor_agent.inventory.files import read_inventory
from gputailor_agent.inventory.nodes import mig_counts, mig_strategy, read_node
from tests.agent.inventory.objects import MANIFESTS, NOON_SECONDS, inventory


@pytest.fixture(scope="module")
def nodes():
    found = read_inventory([MANIFESTS / "nodes.yaml"], "lab", NOON_SECONDS)
    assert found.problems == ()
    return {node.name: node for node in found.nodes}


def test_a_plain_gpu_node_is_read_whole(nodes):
    node = nodes["plain"]
    assert (node.gpu_product, node.gpu_memory_bytes, node.gpu_count) == (
        "NVIDIA-L4",
        23034 * 2**20,
        4,
    )
    assert (node.capacity, node.allocatable) == ({"nvidia.com/gpu": 4.0}, {"nvidia.com/gpu": 3.0})
    assert (node.driver_version, node.cuda_version) == ("580.65.06", "13.0")
    assert (node.instance_type, node.region, node.zone) == (
        "g6.12xlarge",
        "eu-west-1",
        "eu-west-1b",
    )
    assert (node.capacity_type, node.ready, node.schedulable) == ("spot", True, True)


def test_a_time_sliced_node_counts_physical_devices(nodes):
    node = nodes["turns"]
    assert (node.gpu_count, node.sharing_replicas) == (2, 8)
    assert node.capacity == {"nvidia.com/gpu": 16.0}
    assert node.driver_version == "535.104.05"


def test_a_cordoned_node_that_stopped_reporting_is_neither_ready_nor_known_not_to_be(nodes):
    assert not nodes["turns"].schedulable
    assert nodes["turns"].ready is None
    assert nodes["slices-mixed"].ready is False


def test_mig_strategies_and_counts(nodes):
    assert mig_strategy(nodes["slices-mixed"]) == "mixed"
    assert mig_counts(nodes["slices-mixed"]) == {"1g.10gb": 14, "3g.40gb": 4}
    assert mig_strategy(nodes["slices-single"]) == "single"
    assert mig_counts(nodes["slices-single"]) == {"1g.5gb": 14}
    assert mig_counts(nodes["plain"]) == {}


def test_under_single_strategy_the_number_of_cards_is_unknown(nodes):
    assert nodes["slices-single"].gpu_count is None
    assert nodes["slices-mixed"].gpu_count == 8


@pytest.mark.parametrize(
    ("name", "kind"),
    [("plain", "spot"), ("turns", "on-demand"), ("slices-mixed", "spot"),
     ("slices-single", "reserved"), ("red", "on-demand"), ("no-gpu", "")],
)  # fmt: skip
def test_each_clouds_word_for_spot_is_understood(nodes, name, kind):
    assert nodes[name].capacity_type == kind


def test_an_amd_node_is_read(nodes):
    node = nodes["red"]
    assert node.gpu_product == "AMD_Instinct_MI300X_OAM"
    assert (node.gpu_memory_bytes, node.gpu_count) == (192 * 2**30, 8)


def test_a_label_that_only_names_the_vendor_is_no_product(nodes):
    assert nodes["no-gpu"].gpu_product == ""
    assert nodes["no-gpu"].gpu_count is None
    assert nodes["no-gpu"].ready is None


def _node(tmp_path, labels, capacity=None, **spec):
    amounts = capacity or {"nvidia.com/gpu": "8"}
    body = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n", "labels": labels},
        "spec": spec,
        "status": {"capacity": amounts, "allocatable": amounts},
    }
    (node,) = inventory(tmp_path, body).nodes
    return node


@pytest.mark.parametrize(
    "label",
    [
        "cloud.google.com/gke-nodepool",
        "eks.amazonaws.com/nodegroup",
        "kubernetes.azure.com/agentpool",
        "karpenter.sh/nodepool",
    ],
)
def test_each_clouds_pool_is_known(tmp_path, label):
    assert _node(tmp_path, {label: "training"}).pool == "training"
    assert _node(tmp_path, {}).pool == ""


def test_taints_read_as_kubectl_prints_them(tmp_path):
    taints = [
        {"key": "nvidia.com/gpu", "effect": "NoSchedule"},
        {"key": "team", "value": "vision", "effect": "NoExecute"},
    ]
    node = _node(tmp_path, {}, taints=taints)
    assert node.taints == ("nvidia.com/gpu:NoSchedule", "team=vision:NoExecute")


@pytest.mark.restricted
@pytest.mark.parametrize("machine", ["a100", "b200", "gb200", "gb300", "h100", "l40s", "t4"])
def test_machines_as_feature_discovery_would_label_them(shared_data, tmp_path, machine):
    """Labels as GPU feature discovery writes them, out of the inventory of a simulated machine."""
    file = shared_data / "node-labels" / f"mock-nvml-config-{machine}.yaml"
    told = yaml.safe_load(file.read_text("utf-8"))
    system, device = told["system"], told["device_defaults"]
    labels = {
        "nvidia.com/gpu.product": device["name"].replace(" ", "-"),
        "nvidia.com/gpu.memory": str(device["memory"]["total_bytes"] // 2**20),
        "nvidia.com/gpu.count": str(len(told["devices"])),
        "nvidia.com/gpu.replicas": "1",
        "nvidia.com/cuda.driver-version.full": system["driver_version"],
        "nvidia.com/cuda.runtime-version.full": system["cuda_version"],
        "nvidia.com/mig.strategy": "none",
    }
    written = "".join(
        one.read_text("utf-8") + "\n" for one in (shared_data / "node-labels").glob("gfd_*.txt")
    )
    names = {line.replace("\\", "").partition("=")[0] for line in written.splitlines()}
    assert set(labels) <= names
    node = _node(tmp_path, labels, {"nvidia.com/gpu": str(len(told["devices"]))})
    assert node.gpu_product == labels["nvidia.com/gpu.product"]
    assert node.gpu_memory_bytes == device["memory"]["total_bytes"]
    assert node.gpu_count == len(told["devices"])
    assert (node.driver_version, node.cuda_version) == (
        system["driver_version"],
        str(system["cuda_version"]),
    )


@pytest.mark.restricted
@pytest.mark.parametrize(
    ("file", "strategy", "counts"),
    [("mig-mixed", "mixed", {"1g.5gb": 7}), ("mig-single", "single", {"1g.5gb": 7}),
     ("mig-none", "none", {})],
)  # fmt: skip
def test_every_label_that_feature_discovery_can_write_is_read_without_harm(
    shared_data, tmp_path, file, strategy, counts
):
    """Each documented label with a value that its pattern allows."""
    labels = {}
    text = (shared_data / "node-labels" / f"gfd_expected-output-{file}.txt").read_text("utf-8")
    for line in filter(None, text.splitlines()):
        name, _, pattern = line.partition("=")
        name = name.replace("\\", "").replace("mig-[0-9]+g.[0-9]+gb", "mig-1g.5gb")
        labels[name] = "7" if "[0-9]" in pattern else "x"
    product = "NVIDIA-A100-SXM4-40GB" + ("-MIG-1g.5gb" if strategy == "single" else "")
    labels |= {"nvidia.com/gpu.product": product, "nvidia.com/mig.strategy": strategy}
    resource = "nvidia.com/mig-1g.5gb" if strategy == "mixed" else "nvidia.com/gpu"
    node = _node(tmp_path, labels, {resource: "7"})
    assert mig_strategy(node) == strategy
    assert mig_counts(node) == counts
    assert node.gpu_count == (None if strategy == "single" else 7)


def _offering(capacity, labels=None, annotations=None):
    metadata = raw.RawMetadata(name="n", labels=labels, annotations=annotations)
    status = raw.RawNodeStatus(capacity=capacity, allocatable=capacity)
    return read_node(raw.RawNode(metadata=metadata, status=status), "lab")


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("hami.io/node-nvidia-register",
         '[{"id":"GPU-1","count":10,"devmem":32768,"type":"NVIDIA-V100"},{"id":"GPU-2","count":10}]'),
        ("hami.io/node-nvidia-register",
         "GPU-1,10,32768,100,NVIDIA-V100,0,true:GPU-2,10,32768,100,NVIDIA-V100,0,true:"),
        ("volcano.sh/node-vgpu-register",
         "GPU-1,10,32768,NVIDIA-V100,true,hami-core:GPU-2,10,32768,NVIDIA-V100,true,hami-core"),
    ],
)  # fmt: skip
def test_cards_that_a_sharing_scheduler_lists_are_counted_and_not_its_shares(key, told):
    node = _offering({"nvidia.com/gpu": "20"}, annotations={key: told})
    assert (node.gpu_count, node.gpu_product) == (2, "NVIDIA-V100")


@pytest.mark.parametrize("told", ["", "[", "[1]", "{}", "x:y", "a,b", ":"])
def test_a_list_of_cards_in_no_known_form_is_passed_over(told):
    node = _offering({"nvidia.com/gpu": "8"}, annotations={"hami.io/node-nvidia-register": told})
    assert node.gpu_count == 8


def test_chips_that_a_plugin_offers_under_several_names_are_there_once():
    names = {"neuron": "16", "neurondevice": "16", "neuroncore": "32"}
    offered = {f"aws.amazon.com/{name}": count for name, count in names.items()}
    node = _offering(offered)
    assert node.gpu_count == 16
    assert node.capacity == {"aws.amazon.com/neuroncore": 32.0}
    assert len(node.allocatable) == 3  # pods may ask for any of them
    without = {name: count for name, count in offered.items() if "core" not in name}
    assert _offering(without).capacity == {"aws.amazon.com/neuron": 16.0}


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({"eks.amazonaws.com/instance-gpu-name": "l40s", "eks.amazonaws.com/instance-gpu-count": "4",
          "eks.amazonaws.com/instance-gpu-memory": "45776"}, ("l40s", 4, 45776 * 2**20, "")),
        ({"k8s.amazonaws.com/accelerator": "nvidia-tesla-t4"}, ("nvidia-tesla-t4", 1, None, "")),
        ({"karpenter.azure.com/sku-gpu-name": "A100", "karpenter.azure.com/sku-gpu-count": "2"},
         ("A100", 2, None, "")),
        ({"doks.digitalocean.com/gpu-model": "h100"}, ("h100", 1, None, "")),
        ({"gpu.intel.com/product": "Max_1100"}, ("Max_1100", 1, None, "")),
        ({"oci.oraclecloud.com/oke-is-preemptible": "true"}, ("", 1, None, "spot")),
    ],
)  # fmt: skip
def test_the_clouds_own_labels_are_read(labels, expected):
    node = _offering({"nvidia.com/gpu": "1"}, labels)
    told = (node.gpu_product, node.gpu_count, node.gpu_memory_bytes, node.capacity_type)
    assert told == expected
