import pytest

from gputailor_agent.inventory.files import read_inventory
from gputailor_agent.inventory.nodes import mig_counts, mig_strategy
from tests.agent.inventory.objects import MANIFESTS, NOON_SECONDS


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
