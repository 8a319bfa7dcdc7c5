"""The fixed AMD machine whose whole /metrics page is kept in tests/exporter/golden/amd.prom.

``python -m tests.exporter.golden_amd`` writes the file anew; look at the diff before it is
committed. Two MI300X, read by the back end out of a tree of files for 65 s of a stopped clock: one
whole, held by a training that computes, one in two partitions, of which one is held; and a card of
an older kind that only has single files.
"""

import tempfile
from pathlib import Path

from gputailor_exporter.devices.amd import AmdBackend
from gputailor_exporter.metrics import Sharing
from gputailor_exporter.serving.exposition import render
from tests.exporter.fleets import whole
from tests.exporter.machines import WALL, accounts, holds
from tests.fakes.amd_tables import table
from tests.fakes.amd_tree import GIB, Card, Machine, client

FILE = Path(__file__).with_name("golden") / "amd.prom"
SECONDS = 65


def at_work(seconds: int, share: float, partitions: tuple[float, ...] = ()) -> bytes:
    """The table of a card that was busy ``share`` of the time, a tenth of it at its power limit."""
    ticks = seconds * 1000
    watts = 140 + round(610 * share)
    return table(
        7,
        tuple((int(ticks * 100 * one),) for one in partitions),
        temperature_hotspot=45 + round(40 * share),
        temperature_mem=40 + round(20 * share),
        curr_socket_power=watts,
        average_gfx_activity=round(100 * share),
        average_umc_activity=round(40 * share),
        energy_accumulator=seconds * watts * 2**16,
        system_clock_counter=ticks * 1_000_000,
        accumulation_counter=ticks,
        gfx_activity_acc=int(ticks * 100 * share),
        mem_activity_acc=int(ticks * 40 * share),
        ppt_residency_acc=int(ticks * share / 10),
        prochot_residency_acc=0,
        socket_thm_residency_acc=0,
        xgmi_read_data_acc=tuple([seconds * 1_000_000] * 7),
        xgmi_write_data_acc=tuple([seconds * 500_000] * 7),
        current_gfxclk=tuple([2100] * 8),
        current_uclk=1300,
    )


def machine(folder: Path) -> tuple[Machine, tuple[Card, ...]]:
    """The machine and its cards."""
    made = Machine(folder)
    first = made.mi300x(1, bus=0xC1, render=128)
    second = made.mi300x(2, bus=0xD1, render=136)
    first.write(mem_info_vram_used=str(151 * GIB))
    made.partitions(second, 0xD1, 2)
    old = made.card(9, "0000:e1:00.0", "amdgpu", render=150)
    old.write(
        vendor="0x1002",
        device="0x66a1",
        product_name="AMD Instinct MI60",
        power__runtime_status="active",
        gpu_busy_percent="20",
        mem_busy_percent="5",
        mem_info_vram_total=str(32 * GIB),
        mem_info_vram_used=str(3 * GIB),
        hwmon__hwmon7__power1_average="90000000",
        hwmon__hwmon7__temp1_input="38000",
        hwmon__hwmon7__temp1_label="edge",
    )
    made.computes(400, {128: 150 * GIB})
    made.computes(401, {137: 20 * GIB})
    made.opens(500, 150, client(11, pdev="0000:e1:00.0", engine_gfx="0 ns", memory_vram="64 MiB"))
    return made, (first, second)


def page(folder: Path) -> str:
    """The page after the machine ran."""
    made, (first, second) = machine(folder)
    backend = AmdBackend(made.sys, made.proc)
    devices = backend.devices()
    held = [
        holds("train-0", devices[0]),
        holds("notebook", devices[3], sharing=Sharing.MIG),
    ]
    account = accounts(devices, held)
    for second_now in range(SECONDS):
        first.write(gpu_metrics=at_work(second_now, 0.75))
        second.write(gpu_metrics=at_work(second_now, 0.25, (0.0, 0.5)))
        for device in devices:
            at = float(second_now)
            account.advance(device, backend.read(device, at), None, WALL + at)
    return render(whole(account)).decode()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        FILE.write_text(page(Path(temporary)), encoding="utf-8")
