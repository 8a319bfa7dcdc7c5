"""Units change nothing: one truth, told in each exporter's units, leads to the same verdicts.

Percent or a ratio, MiB, MB or bytes, watts or joules counted: rows hold the same figures, and every
rule says the same word for word. Each exporter is compared with our own, whose ratios, bytes and
joules need no scale, on what both can tell: signals that both have, without histograms and the
kind of the memory's peak, which say how finely somebody looked and are no units.
"""

from functools import cache

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputailor_agent.dialects.gauges import Measure, gauge_dialects
from gputailor_agent.model.judgement import Finding
from gputailor_agent.model.profile import Window
from gputailor_agent.model.usage import (
    ContainerCounters,
    Device,
    Page,
    SignalUse,
    UsageKey,
    UsageRow,
)
from gputailor_agent.rollup import CounterRollup
from gputailor_agent.rules import registry
from tests.agent.dialects.served import BEGIN, HOUR, history_of, samples_of
from tests.agent.factories import GIB, context, pod, profile
from tests.system.told_by import Truth, told_by

MIB = 1024**2
HOURS = 6
END = BEGIN + HOURS * HOUR
TOTAL_MIB = 81_920
CARD = Device(
    cluster="test", gpu_uuid="GPU-1", node="node-a", vendor="nvidia", model="A100",
    memory_total_bytes=TOTAL_MIB * MIB,
)  # fmt: skip
KEY = UsageKey(
    cluster="test", namespace="team-a", pod="train-0", pod_uid="", container="main",
    gpu_uuid="GPU-1", hour=BEGIN,
)  # fmt: skip
SIGNALS = (
    "kernel", "memcopy", "encoder", "decoder", "graphics", "sm", "occupancy", "tensor", "dram",
    "fp64", "fp32", "fp16",
)  # fmt: skip

percents = st.integers(0, 100)
truths = st.builds(
    lambda levels, mebibytes, watts: Truth(
        uuid="GPU-1", model="A100", node="node-a", namespace="team-a", pod="train-0",
        container="main",
        signals={name: level / 100 for name, level in zip(SIGNALS, levels, strict=True)},
        memory_used=float(mebibytes * MIB), memory_total=float(TOTAL_MIB * MIB), watts=float(watts),
    ),
    st.tuples(*[st.sampled_from([0, 0, 5, 40, 50, 90]) | percents for _ in SIGNALS]),
    st.integers(0, TOTAL_MIB),
    st.integers(0, 700),
)  # fmt: skip


def is_possible(truth):
    """Whether no source would call the profiling counters stuck: kernels run, so something does."""
    told = truth.signals
    return told["kernel"] < 0.05 or any(told[name] for name in ("graphics", "sm", "dram"))


def ours(truth):
    """The hour's row of our exporter, which counts active seconds, bytes and joules."""
    rollup = CounterRollup("test")
    for at in range(BEGIN, BEGIN + HOUR + 1, 300):
        seconds = float(at - BEGIN)
        counters = ContainerCounters(
            namespace="team-a", pod="train-0", pod_uid="", container="main", gpu_uuid="GPU-1",
            allocated=True, allocated_seconds=seconds,
            active={name: level * seconds for name, level in truth.signals.items()},
            observed=dict.fromkeys(truth.signals, seconds),
            memory_peak_bytes=round(truth.memory_used), energy_joules=truth.watts * seconds,
        )  # fmt: skip
        rollup.add(
            Page(at=float(at), exporter="a", process_started=float(BEGIN) - 1, devices=(CARD,),
                 containers=(counters,))
        )  # fmt: skip
    (row,) = [row for row in rollup.take_rows() if row.key.hour == BEGIN]
    return row


def theirs(dialect, truth):
    """The hour's row of an exporter of gauges, whoever it names as holder."""
    lines = (line.rsplit(" ", 1)[0] for line in told_by(dialect, truth, BEGIN))
    rows = history_of(samples_of("\n".join(lines) + "\n", job="gpu", instance="node-a:9")).rows
    (row,) = [row for row in rows if row.key.gpu_uuid]
    return row


def plainly(row, signals, *, powered):
    """What a row says apart from how finely somebody looked."""
    return UsageRow(
        key=KEY,
        dialect="any",
        allocated_seconds=row.allocated_seconds,
        signals={
            name: SignalUse(
                observed_seconds=use.observed_seconds, active_seconds=use.active_seconds
            )
            for name, use in row.signals.items()
            if name in signals
        },
        memory_peak_bytes=row.memory_peak_bytes,
        memory_total_bytes=row.memory_total_bytes,
        energy_joules=row.energy_joules if powered else None,
    )


@cache
def told_in_common(dialect):
    gauges = [gauge for gauge in dialect.gauges if gauge.measure is Measure.ACTIVITY]
    return {gauge.signal for gauge in gauges} & set(SIGNALS)


def verdicts(row):
    """Every rule's answer on six such hours, as values."""
    usage = [
        msgspec.structs.replace(row, key=msgspec.structs.replace(KEY, hour=hour))
        for hour in range(BEGIN, END, HOUR)
    ]
    window = Window(start=float(BEGIN), end=float(END))
    made, world = profile(usage, [pod(start=BEGIN)], devices=[CARD], window=window)
    around = context(world)
    return {rule.id: _said(rule.evaluate(made, around)) for rule in registry()}


def _said(answer):
    values = msgspec.to_builtins(answer)
    return type(answer) is Finding, msgspec.json.encode(_rounded(values))


def _rounded(value):
    """Sums of quantised seconds may differ in the last binary places."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("dialect", gauge_dialects(), ids=lambda one: one.name)
@given(truth=truths.filter(is_possible))
@settings(max_examples=6)
def test_one_truth_in_any_units_gives_the_same_figures_and_the_same_verdicts(dialect, truth):
    powered = any(gauge.measure is Measure.POWER for gauge in dialect.gauges)
    told = plainly(theirs(dialect, truth), told_in_common(dialect), powered=powered)
    mine = plainly(ours(truth), told.signals, powered=powered)
    assert "kernel" in told.signals
    for name, use in told.signals.items():
        assert use.active_seconds == pytest.approx(mine.signals[name].active_seconds, abs=0.02)
        assert use.observed_seconds == mine.signals[name].observed_seconds == HOUR
    assert told.memory_peak_bytes == mine.memory_peak_bytes
    assert told.memory_total_bytes == mine.memory_total_bytes == TOTAL_MIB * MIB
    assert told.energy_joules == pytest.approx(mine.energy_joules)
    assert verdicts(told) == verdicts(mine)


def test_the_dialects_do_tell_in_units_of_their_own():
    """Else nothing was compared: percent beside ratios, MiB beside bytes."""
    scales = {
        (gauge.measure, gauge.scale) for dialect in gauge_dialects() for gauge in dialect.gauges
    }
    assert {(Measure.ACTIVITY, 0.01), (Measure.ACTIVITY, 1.0)} <= scales
    assert {(Measure.MEMORY_USED, float(MIB)), (Measure.MEMORY_USED, 1.0)} <= scales


def test_memory_in_a_wrong_unit_would_be_another_verdict():
    truth = Truth(
        "GPU-1", "A100", "node-a", "team-a", "train-0", "main",
        dict.fromkeys(SIGNALS, 0.5), 4.0 * GIB, 80.0 * GIB, 300.0,
    )  # fmt: skip
    row = plainly(ours(truth), set(SIGNALS), powered=True)
    larger = msgspec.structs.replace(row, memory_peak_bytes=row.memory_peak_bytes * 19)
    assert verdicts(larger) != verdicts(row)
