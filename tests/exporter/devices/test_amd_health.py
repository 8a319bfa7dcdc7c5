"""Errors that an AMD board counts, block by block: a sum is whole or unknown."""

import pytest

from gputailor_exporter.devices import amd_health
from gputailor_exporter.devices.amd import AmdBackend
from gputailor_exporter.devices.base import Reason
from tests.fakes.amd_tree import Machine


@pytest.fixture
def board(tmp_path):
    """Card and a function: errors and the reason for their lack, at the next time of looking."""
    machine = Machine(tmp_path)
    card = machine.mi300x()
    backend = AmdBackend(machine.sys, machine.proc)
    (device,) = backend.devices()
    times = iter(range(1, 100))

    def look():
        reading = backend.read(device, next(times) * (amd_health._ERRORS_SECONDS + 1.0))
        return dict(reading.ecc_errors), reading.unavailable.get("ecc_errors")

    return card, look


WHOLE = ({"corrected": 3, "uncorrected": 1}, None)


@pytest.mark.parametrize("said", ["Query currently inaccessible", "", "ue: 1", "ue: x\nce: 0"])
def test_a_block_that_does_not_tell_now_makes_the_sum_unknown_not_smaller(board, said):
    card, look = board
    assert look() == WHOLE
    card.write(ras__gfx_err_count=said)
    assert look() == ({}, Reason.NO_SAMPLES)
    card.write(ras__gfx_err_count="ue: 4\nce: 0")
    assert look() == ({"corrected": 3, "uncorrected": 4}, None)


def test_a_block_that_has_vanished_makes_the_sum_unknown(board):
    card, look = board
    assert look() == WHOLE
    card.remove("ras/gfx_err_count")
    assert look() == ({}, Reason.NOT_SUPPORTED)


def test_a_block_that_is_not_accessible_from_the_start_is_waited_for(board):
    card, look = board
    card.write(ras__gfx_err_count="Query currently inaccessible")
    assert look() == ({}, Reason.NO_SAMPLES)
    card.write(ras__gfx_err_count="ue: 1\nce: 0")
    assert look() == WHOLE


def test_a_block_that_cannot_count_is_left_out(board):
    card, look = board
    card.remove("ras/gfx_err_count")
    (card.folder / "ras/gfx_err_count").symlink_to("nowhere")  # as a block that refuses: no file
    assert look() == ({"corrected": 3, "uncorrected": 0}, None)
