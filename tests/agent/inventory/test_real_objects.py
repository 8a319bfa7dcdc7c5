"""Public manifests and node labels, from outside the project; skipped by name where absent."""

import csv
import re

import pytest
import yaml

from gputailor_agent.inventory.files import read_inventory
from gputailor_agent.inventory.identity import resolve
from gputailor_agent.inventory.nodes import mig_counts, node_table
from gputailor_agent.inventory.resources import gpu_resource
from tests.agent.inventory.objects import NOON_SECONDS

pytestmark = pytest.mark.restricted

QUOTAS = {"ClusterQueue", "ResourceFlavor", "Queue", "ElasticQuota", "ResourceQuota", "LocalQueue"}


def _index(shared_data):
    with (shared_data / "manifests" / "INDEX.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _asked_in(part):
    """Accelerators in any ``limits`` or ``requests`` of plain YAML: an answer found another way."""
    if isinstance(part, dict):
        for key, child in part.items():
            if key in {"limits", "requests"} and isinstance(child, dict):
                yield from (name for name in child if gpu_resource(str(name)))
            yield from _asked_in(child)
    elif isinstance(part, list):
        for child in part:
            yield from _asked_in(child)


def test_every_public_manifest_is_read_and_its_requests_are_those_of_the_index(shared_data):
    rows = _index(shared_data)
    assert len(rows) >= 104
    for row in rows:
        file = shared_data / "manifests" / row["file"]
        found = read_inventory([file], "lab", NOON_SECONDS)
        asked = {gpu for pod in found.pods for one in pod.containers for gpu in one.gpus}
        names = {gpu.resource for gpu in asked if "/" in gpu.resource and gpu.kind != "other"}
        names -= {name for name in names if name.startswith("resourceclaims/")}
        assert names <= set(row["resources"].split()), row["file"]
        documents = [
            one
            for one in yaml.load_all(file.read_text("utf-8"), yaml.CSafeLoader)
            if isinstance(one, dict) and one.get("kind") not in QUOTAS | {"Node"}
        ]
        plain = {str(name) for one in documents for name in _asked_in(one)}
        assert plain <= {gpu.resource for gpu in asked}, row["file"]
        unread = [text for text in found.problems if "placeholder" not in text]
        assert all("no metadata.name" in text for text in unread), row["file"]
        assert len(resolve(found).assignments) == sum(
            bool(one.gpus) for pod in found.pods for one in pod.containers
        )


@pytest.mark.parametrize(
    ("file", "counts", "driver"),
    [
        ("node__fake-gpu-operator__3_instances.yaml", {"1g.5gb": 2, "2g.10gb": 1}, "520.56.06"),
        ("node__fake-gpu-operator__7g-40gb.yaml", {"7g.40gb": 1}, "520.56.06"),
        ("node__fake-gpu-operator__1_workload.yaml", {}, "525.60.13"),
    ],
)
def test_real_nodes_with_and_without_mig_are_read(shared_data, file, counts, driver):
    node = read_inventory([shared_data / "manifests" / file], "lab", NOON_SECONDS).nodes[0]
    assert mig_counts(node) == counts
    assert node.driver_version == driver
    assert node.ready is True
    assert node.gpu_count in {1, 2}


def test_every_nvidia_label_read_is_one_that_feature_discovery_writes(shared_data):
    written = set()
    for file in (shared_data / "node-labels").glob("gfd_*.txt"):
        for line in file.read_text("utf-8").splitlines():
            written.add(re.sub(r"\\", "", line.split("=", 1)[0]))
    table = node_table()
    read = {
        *table.product, *table.count, *table.replicas, *table.mig_strategy, *table.driver_version,
        *table.cuda_version, *(row.label for row in table.memory),
        *(key for keys in (*table.driver_version_parts, *table.cuda_version_parts) for key in keys),
    }  # fmt: skip
    assert {key for key in read if key.startswith("nvidia.com/")} <= written


def test_a_cluster_of_twelve_hundred_nodes_is_read(shared_data):
    file = shared_data / "node-labels" / "openb_node_list_gpu_node.yaml.gz"
    found = read_inventory([file], "openb", NOON_SECONDS)
    assert found.problems == ()
    assert len(found.nodes) == 1213
    assert all(node.gpu_product and node.gpu_count for node in found.nodes)
    assert sum(node.gpu_count for node in found.nodes) == 6212
