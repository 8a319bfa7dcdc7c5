"""The whole comparison on fakes: a real exporter, real loads, and drivers that agree with them.

So the harness is known to work before a GPU is at hand: the fake NVML tells what a card would that
runs the load, and a stand-in for nvidia-smi says the same.
"""

import json
import sys

import pytest

from tests.fakes import cuda
from tests.fakes.nvml import GIB, FakeDriver, FakeGpu, FakeProcess
from tests.gpu import comparing
from tests.gpu.comparing import Load, LoadError, exporter, observe
from tests.gpu.judging import judge, judge_sharing
from tests.gpu.kernels import Kind
from tests.gpu.table import SHARING, report

pytestmark = [pytest.mark.system, pytest.mark.timeout(120)]

#: NVML's numbers of GPM metrics; per cent, or MiB/s.
SM, TENSOR, DRAM, FP64, FP32, FP16, PCIE_TX, PCIE_RX = 2, 5, 10, 11, 12, 13, 20, 21

SMI = """#!{python}
import sys
assert sys.argv[1].startswith("--id=GPU-"), sys.argv
assert sys.argv[3] == "--format=csv", sys.argv
fields = sys.argv[2].removeprefix("--query-gpu=").split(",")
said = {said}
print(", ".join(fields))
print(", ".join(said[field] for field in fields))
"""
SAID = {
    "memory.used": "21504 MiB",
    "power.draw": "310.00 W",
    "clocks.current.sm": "1410 MHz",
    "clocks.current.memory": "1593 MHz",
    "temperature.gpu": "61",
    "utilization.gpu": "50 %",
}


@pytest.fixture
def beside(tmp_path, fake_nvml_library, fake_cuda_library, monkeypatch):
    """A function: the exporter on a fake card that shows this, beside whatever load is run."""
    monkeypatch.setattr(comparing, "SETTLE_SECONDS", 1.5)
    monkeypatch.setattr(comparing, "AFTER_SECONDS", 1.0)
    monkeypatch.setattr(comparing, "TRAIL_SECONDS", 0.5)
    smi = tmp_path / "bin" / "nvidia-smi"
    smi.parent.mkdir()
    smi.write_text(SMI.format(python=sys.executable, said=json.dumps(SAID)), encoding="utf-8")
    smi.chmod(0o755)

    def build(kernel, gpm):
        build.driver = driver = FakeDriver(tmp_path / "nvml-state")
        driver.add(
            FakeGpu(
                name="NVIDIA H200", architecture=9, compute_capability="9.0",
                util_gpu=kernel, memory_total=141 * GIB, memory_used=21.0 * GIB,
                power_watts=310.0, temperature_gpu=61.0, gpm=gpm,
                clocks_mhz={"graphics": 1410, "sm": 1410, "memory": 1593, "video": 585},
            )
        )  # fmt: skip
        driver.write()
        environment = cuda.environment(
            fake_cuda_library, driver.environment(fake_nvml_library), link_bytes_per_second=2**30
        )
        environment["PATH"] = f"{smi.parent}:{environment['PATH']}"
        return exporter(tmp_path, environment, ("--interval", "0.25"))

    return build


QUIET = dict.fromkeys((SM, TENSOR, DRAM, FP64, FP32, FP16), 0.0)


def test_a_load_and_the_driver_that_agree_keep_to_every_bound(beside):
    with beside(50.0, {**QUIET, SM: 50.0, TENSOR: 30.0}) as running:
        seen = observe(running, [Load(Kind.FP16, 0.5)], 2.0)
    verdicts = judge(seen)
    assert [str(one) for one in verdicts if one.kept is not True] == []
    assert {one.what for one in verdicts} >= {"load", "kernel", "tensor", "smi memory_used_bytes"}
    assert seen.done[0]["operations_per_busy_second"] > 1e12
    assert seen.smi["kernel"] == 0.5


def test_a_driver_that_tells_another_story_is_found_out(beside, capsys):
    with beside(95.0, {**QUIET, SM: 50.0, TENSOR: 30.0}) as running:
        assert report(running, [Load(Kind.FP32, 0.5)], 2.0, share=False) == 0
    said = capsys.readouterr().out
    for signal in ("kernel: 0.95", "tensor: 0.3", "fp32: 0"):
        assert f"- MISSED: fp32 50%: {signal}, expected" in said
    assert said.startswith("Fake GPU 0, compute capability 9.0, 132 SMs; driver 550.54.15, CUDA 12")


def test_bytes_that_the_link_counts_are_held_against_those_copied(beside):
    """2**30 bytes a second in turns: half of the time each way, 512 MiB/s."""
    with beside(0.0, {**QUIET, PCIE_TX: 540.0, PCIE_RX: 540.0}) as running:
        seen = observe(running, [Load(Kind.COPY, 1.0)], 2.0)
    copied = seen.done[0]["bytes_to_device"]
    assert copied == pytest.approx(2**29 * 5.0, rel=0.2)
    # the fake's link never rests, the load's does: before its first copy and after its last
    assert seen.link_bytes["rx"] > copied
    assert seen.link_bytes["rx"] == pytest.approx(seen.link_bytes["tx"], rel=0.01)


def test_two_loads_on_one_card_add_up_and_each_has_its_own(beside):
    """The fake lists each load as soon as it is started, with the memory that it asked to hold."""
    with beside(90.0, QUIET) as running:
        begin = running.begin

        def listed(load, seconds):
            process = begin(load, seconds)
            mine = FakeProcess(process.popen.pid, memory=load.hold_mib * 2**20, sm=45.0)
            beside.driver.gpus[0].processes.append(mine)
            beside.driver.write()
            return process

        running.begin = listed
        seen = observe(running, SHARING, 2.0)
    verdicts = judge_sharing(seen)
    assert [str(one) for one in verdicts if one.kept is not True] == []
    assert len(verdicts) == 6


def test_a_load_that_the_card_cannot_run_is_told(beside, capsys):
    with beside(0.0, {}) as running:
        running.environment = {**running.environment, "GPUTAILOR_FAKE_CUDA_major": "7"}
        with pytest.raises(LoadError, match=r"tf32 needs compute capability 8\.0"):
            observe(running, [Load(Kind.TF32, 0.5)], 1.0)
        assert report(running, [Load(Kind.TF32, 0.5)], 1.0, share=False) == 1
    assert "tf32 needs compute capability 8.0" in capsys.readouterr().err
