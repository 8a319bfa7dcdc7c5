"""Public manifests by file input, against a table written by hand; skipped where they are absent."""

import pytest

from gputailor_agent.inventory.files import read_inventory
from gputailor_agent.inventory.nodes import mig_counts, mig_strategy
from tests.agent.inventory.hand_table import accuracy, observe, table, wrong
from tests.agent.inventory.objects import NOON_SECONDS

pytestmark = pytest.mark.restricted


@pytest.fixture(scope="module")
def read(shared_data, tmp_path_factory):
    """Each file's name with its inventory, placeholders filled."""
    folder = tmp_path_factory.mktemp("manifests")
    found = {}
    for name, file in table().items():
        path = folder / f"{name}.yaml"
        path.write_text(file.text(shared_data / "manifests" / name), "utf-8")
        found[name] = read_inventory([path], "lab", NOON_SECONDS)
    return found


@pytest.fixture(scope="module")
def compared(read):
    return [(name, list(file.rows), observe(read[name])) for name, file in table().items()]


def test_the_table_has_every_manifest(shared_data):
    files = {one.name for one in (shared_data / "manifests").glob("*.y*ml")}
    assert files == set(table())


def test_owners_and_requests_are_those_written_by_hand(compared):
    assert wrong(compared, "asks", "pods", "pod_asks", "team", "queue") == []


def test_framework_and_task_class_are_right_and_never_wrong_where_they_are_sure(compared):
    told = accuracy(compared)
    assert told.rows >= 100
    assert told.wrong_but_sure == []
    assert told.task >= 0.95, told
    assert told.framework >= 0.95, told


def test_nodes_are_read_as_written_by_hand(read):
    for name, file in table().items():
        if file.node is not None:
            (node,) = read[name].nodes
            assert file.node_of(node, mig_counts(node), mig_strategy(node)) == file.node, name
