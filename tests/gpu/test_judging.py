"""What counts as right, on observations that are made up; and the table of them."""

from dataclasses import replace

import pytest

from tests.gpu import nvidia_smi
from tests.gpu.comparing import Load, Observation
from tests.gpu.judging import judge, judge_sharing
from tests.gpu.kernels import Kind
from tests.gpu.table import SHARING, lines, title
from tests.system.exporter_parts import read_page

UUID = "GPU-00000000-0000-4000-8000-000000000000"
DEVICE = f'gpu="0",gpu_uuid="{UUID}",node="n"'
NOTHING = read_page("", 0.0)
STILL = {
    "memory_used_bytes": 2.0 * 2**30, "power_watts": 300.0, "clock_sm_hertz": 1.7e9,
    "clock_memory_hertz": 1.6e9, "temperature_celsius": 50.0, "kernel": 0.5,
}  # fmt: skip
RESTING = {"tensor": 0.0, "fp64": 0.0, "fp32": 0.0, "fp16": 0.0, "dram": 0.01}
WORKING = {
    Kind.FP32: {"fp32": 0.8},
    Kind.TF32: {"tensor": 0.6},
    Kind.FP16: {"tensor": 0.6},
    Kind.MEMORY: {"dram": 0.85},
    Kind.COPY: {},
}


def truth(kind=Kind.FP32, duty=1.0):
    """What a card of the newest kind says of a load, without any fault."""
    moving = {name: value * duty for name, value in WORKING[kind].items()}
    busy = 0.0 if kind is Kind.COPY else duty
    done = {
        "held": duty, "operations_per_busy_second": 6e13, "bytes_per_busy_second": 0.0,
        "bytes_to_device": 1e9, "bytes_to_host": 1e9,
    }  # fmt: skip
    about = {"device": "H200", "capability": "9.0", "processors": 132, "cuda": "12.8"}
    return Observation(
        (Load(kind, duty),), (about,), (done,), UUID, NOTHING, NOTHING,
        {"kernel": busy, "sm": busy, "memcopy": 0.1, **RESTING, **moving},
        {}, {"rx": 1.1e9, "tx": 1.08e9}, dict(STILL), dict(STILL),
    )  # fmt: skip


def missed(seen):
    return {one.what for one in judge(seen) if one.kept is False}


@pytest.mark.parametrize("duty", [0.0, 0.25, 0.5, 0.75, 1.0])
@pytest.mark.parametrize("kind", list(Kind))
def test_the_truth_keeps_to_every_bound(kind, duty):
    assert missed(truth(kind, duty)) == set()
    assert all(one.kept is not None for one in judge(truth(kind, duty)))


@pytest.mark.parametrize(
    ("kind", "signal", "value"),
    [
        (Kind.FP32, "kernel", 0.44),
        (Kind.FP32, "kernel", 0.56),
        (Kind.FP32, "sm", 0.1),
        (Kind.FP32, "fp32", 0.02),
        (Kind.FP32, "tensor", 0.1),
        (Kind.FP32, "dram", 0.2),
        (Kind.TF32, "tensor", 0.01),
        (Kind.TF32, "fp32", 0.3),
        (Kind.FP16, "tensor", 0.0),
        (Kind.FP16, "fp16", 0.3),
        (Kind.MEMORY, "dram", 0.1),
        (Kind.COPY, "dram", 0.4),
    ],
)
def test_a_signal_that_does_not_say_so_misses_its_bounds(kind, signal, value):
    seen = truth(kind, 0.5)
    assert missed(replace(seen, means={**seen.means, signal: value})) == {signal}


def test_a_load_that_did_not_keep_its_duty_is_no_known_load():
    seen = truth(Kind.FP32, 0.5)
    slow = {**seen.done[0], "held": 0.4}
    means = {**seen.means, "kernel": 0.4, "sm": 0.4}
    assert missed(replace(seen, done=(slow,), means=means)) == {"load"}


@pytest.mark.parametrize("share", [0.9, 1.3, 2.0])
def test_bytes_over_the_link_are_those_that_were_copied(share):
    seen = replace(truth(Kind.COPY, 1.0), link_bytes={"rx": share * 1e9, "tx": 1e9})
    assert missed(seen) == {"PCIe rx / copied"}


def test_a_signal_that_cannot_be_read_is_no_miss_and_is_told():
    seen = truth(Kind.TF32, 0.5)
    means = {name: value for name, value in seen.means.items() if name != "tensor"}
    seen = replace(seen, means=means, unreadable={"tensor": "not_supported"})
    silent = [one for one in judge(seen) if one.kept is None]
    assert [str(one) for one in silent] == ["tensor: cannot be read (not_supported)"]
    assert "- tensor cannot be read: not_supported" in "\n".join(lines([seen], None))


@pytest.mark.parametrize(
    ("figure", "ours"),
    [
        ("memory_used_bytes", 3.0 * 2**30),
        ("power_watts", 200.0),
        ("clock_sm_hertz", 1.2e9),
        ("clock_memory_hertz", 2.6e9),
        ("temperature_celsius", 60.0),
    ],
)
def test_a_gauge_that_differs_from_nvidia_smi_misses(figure, ours):
    seen = truth(Kind.FP32, 1.0)
    assert missed(replace(seen, ours={**STILL, figure: ours})) == {f"smi {figure}"}


def test_power_inside_of_bursts_is_not_compared():
    seen = truth(Kind.FP32, 0.5)
    assert missed(replace(seen, ours={**STILL, "power_watts": 100.0})) == set()


def test_without_nvidia_smi_nothing_is_held_against_it():
    seen = replace(truth(), smi={})
    assert not any(one.what.startswith("smi") for one in judge(seen))
    assert "no nvidia-smi on this machine" in "\n".join(lines([seen], None))


def shared(two_memory=2304, rest=0.0, whole=10.0):
    """Two sharers, each with half of the device's ten active seconds; memory in MiB."""
    first, second = (one.name for one in SHARING)
    rows = [
        f'gputailor_device_active_seconds_total{{{DEVICE},signal="kernel"}} {whole}',
        f'gputailor_device_unattributed_active_seconds_total{{{DEVICE},signal="kernel"}} {rest}',
        f"gputailor_device_energy_joules_total{{{DEVICE}}} 3000",
        f"gputailor_device_unattributed_energy_joules_total{{{DEVICE}}} 0",
        f"gputailor_device_memory_used_bytes{{{DEVICE}}} {(1280 + two_memory) * 2**20}",
        f"gputailor_device_unattributed_memory_used_bytes{{{DEVICE}}} 0",
    ]
    for name, memory in ((first, 1280), (second, two_memory)):
        own = (
            f'container="{name}",gpu_uuid="{UUID}",namespace="me",node="n",pod="{name}",pod_uid=""'
        )
        rows += [
            f'gputailor_container_gpu_active_seconds_total{{{own},signal="kernel"}} 5',
            f'gputailor_container_gpu_observed_seconds_total{{{own},signal="kernel"}} 10',
            f"gputailor_container_gpu_energy_joules_total{{{own}}} 1500",
            f"gputailor_container_gpu_memory_used_bytes{{{own}}} {memory * 2**20}",
        ]
    return replace(truth(), loads=SHARING, closing=read_page("\n".join(rows) + "\n", 0.0))


def of(verdicts, *, kept):
    return [one.what for one in verdicts if one.kept is kept]


def test_sharers_that_add_up_keep_to_every_bound():
    verdicts = judge_sharing(shared())
    assert len(of(verdicts, kept=True)) == len(verdicts) == 6


def test_sums_that_are_not_the_device_are_missed():
    assert of(judge_sharing(shared(rest=1.0)), kept=False) == [
        "sharers and rest, active_seconds_total"
    ]
    assert of(judge_sharing(shared(whole=5.0)), kept=False) == [
        "sharers and rest, active_seconds_total"
    ]


def test_a_copy_of_one_sharers_memory_for_the_other_is_missed():
    [told] = of(judge_sharing(shared(two_memory=1280)), kept=False)
    assert told.startswith("memory of sharer-two above that of sharer-one")


def test_sharers_that_are_not_told_are_unknown():
    seen = replace(shared(), closing=NOTHING)
    assert len(of(judge_sharing(seen), kept=None)) == 3


def test_the_table_has_a_row_for_each_load_and_says_what_missed():
    right, wrong = truth(Kind.TF32, 0.25), truth(Kind.FP32, 0.5)
    wrong = replace(wrong, means={**wrong.means, "kernel": 0.9})
    text = "\n".join(lines([right, wrong], shared()))
    head, rule, first, second, *_ = text.splitlines()
    assert {row.count("|") for row in (head, rule, first, second)} == {head.count("|")}
    assert first.startswith("| tf32 25% | 0.250 | 60 TFLOP/s | 0.250 |")
    assert first.endswith("| 2048 / 2048 MiB | 300 / 300 W | 1700 / 1700 MHz | kept |")
    assert second.endswith("| 1 missed |")
    assert "- MISSED: fp32 50%: kernel: 0.9, expected 0.45 to 0.55" in text
    assert "- kernel of sharer-one: 0.5, expected 0.1 to 1" in text


def test_the_title_says_machine_and_driver():
    info = f'gputailor_device_info{{{DEVICE},driver_version="570.1"}} 1\n'
    said = title(replace(truth(), closing=read_page(info, 0.0)))
    assert said.startswith("H200, compute capability 9.0, 132 SMs; driver 570.1, CUDA 12.8; 20")


def test_nvidia_smi_is_read_in_base_units_and_what_it_cannot_tell_is_left_out():
    text = (
        "memory.used [MiB], power.draw [W], clocks.current.sm [MHz], clocks.current.memory [MHz], "
        "temperature.gpu, utilization.gpu [%]\n"
        "1024 MiB, 70.50 W, 1980 MHz, [N/A], 41, 25 %\n"
    )
    assert nvidia_smi.read(text) == {
        "memory_used_bytes": 2**30,
        "power_watts": 70.5,
        "clock_sm_hertz": 1.98e9,
        "temperature_celsius": 41.0,
        "kernel": 0.25,
    }
    assert nvidia_smi.read("No devices were found\n") == {}
