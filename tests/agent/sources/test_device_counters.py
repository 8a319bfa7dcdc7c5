"""Counters of a device on a page: told with each container that holds it."""

from gputailor_exporter import metrics
from tests.agent.sources.test_exposition import ALLOCATED, HOLDER, only, page_text


def test_counters_of_a_device_are_told_with_each_of_its_holders() -> None:
    hot = f"{metrics.DEVICE_THROTTLED_SECONDS.name}"
    labels = 'node="n",gpu="0",gpu_uuid="GPU-1"'
    other = 'node="n",gpu="1",gpu_uuid="GPU-2"'
    (found,) = only(
        page_text(1.5, 2.5)
        + f'{hot}{{{labels},reason="hw_slowdown"}} 12\n'
        + f'{hot}{{{other},reason="hw_slowdown"}} 99\n'
        + f'{metrics.DEVICE_XID_ERRORS.name}{{{labels},xid="79"}} 1\n'
        + f'{metrics.DEVICE_ECC_ERRORS.name}{{{labels},severity="uncorrected"}} 3\n'
    ).containers
    assert found.device == {"throttled/hw_slowdown": 12.0, "xid/79": 1.0, "ecc/uncorrected": 3.0}
    assert found.conditions == {}


def test_a_slice_is_held_down_with_its_parent() -> None:
    holder = HOLDER.replace("GPU-1", "MIG-1")
    (found,) = only(
        f'{ALLOCATED}{{{holder},sharing="exclusive"}} 1\n'
        f'{metrics.DEVICE_INFO.name}{{node="n",gpu_uuid="MIG-1",parent_uuid="GPU-9"}} 1\n'
        f'{metrics.DEVICE_THROTTLED_SECONDS.name}{{node="n",gpu_uuid="GPU-9",reason="sync_boost"}} 5\n'
        f'{metrics.DEVICE_XID_ERRORS.name}{{node="n",gpu_uuid="MIG-1",xid="31"}} 2\n'
    ).containers
    assert found.device == {"throttled/sync_boost": 5.0, "xid/31": 2.0}
