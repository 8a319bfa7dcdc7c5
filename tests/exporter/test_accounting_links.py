"""Links of a device: when a container's seconds count as saturated, over PCIe and NVLink."""

import pytest

from gputailor_exporter import metrics as m
from gputailor_exporter.devices.base import DeviceState, PcieLink
from tests.exporter.machines import WALL, accounts, advance, holds, one, reading

FOUR_GB = DeviceState(nvlink_bytes_per_second=4e9)
SLOW = PcieLink(generation=1, width=4)  # 1e9 bytes per second and direction


def saturated(totals, state=FOUR_GB, **pcie):
    """Seconds that count as saturated while NVLink's rx counter shows ``totals`` at 0, 1, 2 … s."""
    made = accounts(allocations=[holds("a")])
    advance(
        made,
        [
            reading(float(at), nvlink_bytes={"rx": total, "tx": 0}, state=state, **pcie)
            for at, total in enumerate(totals)
        ],
    )
    snapshot = made.snapshot(WALL)
    return one(snapshot, m.CONTAINER_CONDITION_SECONDS, condition="link_saturated")


def test_nvlink_at_0_6_of_the_links_that_are_up_is_saturated():
    assert saturated([0, 2_400_000_000, 4_799_000_000, 4_799_000_000]) == 1.0


def test_nvlink_of_unknown_capacity_is_neither_saturated_nor_not():
    assert saturated([0, 9_000_000_000], DeviceState()) is None


def test_no_link_up_is_no_capacity():
    assert saturated([0, 0], DeviceState(nvlink_bytes_per_second=0.0)) is None


@pytest.mark.parametrize(("pcie", "expected"), [(0, 0.0), (700_000_000, 1.0)])
def test_the_busier_link_counts(pcie, expected):
    made = accounts(allocations=[holds("a")])
    for at in (0.0, 1.0):
        told = reading(
            at,
            nvlink_bytes={"rx": int(at * 1e9), "tx": 0},
            state=FOUR_GB,
            pcie_bytes={"rx": int(at * pcie), "tx": 0},
            pcie_link=SLOW,
        )
        advance(made, [told])
    condition = {"condition": "link_saturated"}
    assert one(made.snapshot(WALL), m.CONTAINER_CONDITION_SECONDS, **condition) == expected
