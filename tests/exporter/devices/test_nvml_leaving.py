"""MIG instances that are taken apart leave nothing behind in the driver."""

import pynvml
import pytest

from gputailor_exporter.devices.base import DeviceError, Reason
from tests.fakes.nvml import FakeMig


@pytest.fixture
def freed(monkeypatch):
    given: list[object] = []
    free = pynvml.nvmlGpmSampleFree
    monkeypatch.setattr(pynvml, "nvmlGpmSampleFree", lambda one: (given.append(one), free(one)))
    return given


@pytest.fixture
def instance(rig):
    slice_ = FakeMig("MIG-a", "GPU MIG 1g.10gb", gi=7, gpm={2: 50.0})
    rig.add(mig_mode=1, gpm={2: 50.0}, mig=[slice_])
    device = rig.device("MIG-a")
    rig.second(device)
    return device


def test_its_samples_are_given_back(rig, instance, freed):
    rig.change(mig=[])
    rig.backend.devices()
    assert len(freed) == 2


def test_a_reader_that_is_still_at_work_keeps_them(rig, instance, freed):
    state = rig.backend._devices["MIG-a"]
    rig.change(mig=[])
    with state.reading:
        rig.backend.devices()
    assert freed == []


def test_a_last_reading_of_it_is_lost_and_harms_nothing(rig, instance):
    rig.change(mig=[])
    rig.backend.devices()
    with pytest.raises(DeviceError) as error:
        rig.step(instance)
    assert error.value.reason is Reason.GPU_IS_LOST
