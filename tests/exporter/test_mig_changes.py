"""MIG instances are made and taken apart while the exporter runs."""

import pytest

from gputailor_exporter import metrics as m
from gputailor_exporter.devices.nvml_reading import SAME_SECONDS
from gputailor_exporter.metrics import Sharing
from tests.exporter.fake_nodes import FakeNode, rich_gpu
from tests.exporter.golden_machines import held
from tests.exporter.machines import one, samples
from tests.fakes.fixtures import fake_driver, fake_nvml_library, preloaded_nvml
from tests.fakes.nvml import GIB, FakeMig

__all__ = ["fake_driver", "fake_nvml_library", "preloaded_nvml"]


def instance(uuid, gi, sm):
    """An instance at work, and so with a context's memory in use; or one at rest."""
    name, working = "NVIDIA H100 80GB HBM3 MIG 1g.10gb", sm > 0.0
    used = sm * GIB / 10
    return FakeMig(uuid, name, gi=gi, memory_used=used, gpm={1: 90.0 * working, 2: sm})


@pytest.fixture
def node(preloaded_nvml, tmp_path):
    slices = [instance("MIG-a", 7, 50.0), instance("MIG-b", 8, 20.0)]
    preloaded_nvml.add(rich_gpu(mig_mode=1, mig=slices, power_watts=400.0))
    made = FakeNode(preloaded_nvml, tmp_path)
    made.discover()
    yield made
    made.close()


def devices(node):
    return {
        row[2]
        for row in samples(
            node.snapshot(),
            m.DEVICE_UP,
        )
    }


def test_a_new_cut_replaces_its_instances_and_leaves_the_board_as_it_was(node):
    board = node.driver.gpus[0]
    node.hold(held("old", "MIG-a", Sharing.MIG))
    node.run(11)
    energy = one(node.snapshot(), m.DEVICE_ENERGY, gpu_uuid=board.uuid)
    board.mig = [instance("MIG-c", 7, 40.0)]
    node.driver.write()
    node.run(2)  # before it is noticed, nothing of MIG-c is told under the name of MIG-a
    assert one(node.snapshot(), m.DEVICE_UP, gpu_uuid="MIG-a") == 0.0
    old = one(node.snapshot(), m.DEVICE_ACTIVE_SECONDS, gpu_uuid="MIG-a", signal="sm")
    assert old == pytest.approx(5.0)
    node.discover()
    node.hold(held("new", "MIG-c", Sharing.MIG))
    node.run(11)
    assert devices(node) == {board.uuid, "MIG-c"}
    found = one(node.snapshot(), m.CONTAINER_ACTIVE_SECONDS, pod="new", signal="sm")
    assert found == pytest.approx(4.0)
    risen = one(node.snapshot(), m.DEVICE_ENERGY, gpu_uuid=board.uuid) - energy
    assert risen == pytest.approx(13 * 400.0)


def test_a_gpu_that_leaves_mig_mode_is_whole_again(node):
    board = node.driver.gpus[0]
    node.run(3)
    board.mig, board.mig_mode, board.util_gpu = [], 0, 60.0
    node.driver.write()
    node.discover()
    node.run(11)
    assert devices(node) == {board.uuid}
    whole = one(node.snapshot(), m.DEVICE_ACTIVE_SECONDS, signal="kernel")
    assert whole == pytest.approx(6.6)
    assert one(node.snapshot(), m.DEVICE_MODE_ENABLED, mode="mig") == 0.0


def test_an_instance_at_rest_whose_place_another_takes_is_missed_within_seconds(node):
    board = node.driver.gpus[0]
    board.mig = [instance("MIG-a", 7, 0.0)]
    node.driver.write()
    node.discover()
    node.run(10)
    board.mig = [instance("MIG-c", 7, 0.0)]
    node.driver.write()
    node.run(int(SAME_SECONDS))
    assert one(node.snapshot(), m.DEVICE_UP, gpu_uuid="MIG-a") == 0.0
    assert one(node.snapshot(), m.DEVICE_ACTIVE_SECONDS, gpu_uuid="MIG-a", signal="sm") == 0.0


def test_nothing_is_counted_for_an_instance_when_work_begins_in_another_in_its_place(node):
    board = node.driver.gpus[0]
    board.mig = [instance("MIG-a", 7, 0.0)]
    node.driver.write()
    node.discover()
    node.run(10)
    board.mig = [instance("MIG-c", 7, 40.0)]
    node.driver.write()
    node.run(1)
    assert one(node.snapshot(), m.DEVICE_UP, gpu_uuid="MIG-a") == 0.0
    assert one(node.snapshot(), m.DEVICE_ACTIVE_SECONDS, gpu_uuid="MIG-a", signal="sm") == 0.0
