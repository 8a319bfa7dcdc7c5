"""What containers did beside their devices, as ``gputailor explain`` tells it."""

import msgspec

from gputailor_agent.cli.host_facts import host_facts
from gputailor_agent.model.containers import HostUse
from tests.agent.factories import NOW, device, pod, profile, row

NOTHING = HostUse.of({"cadvisor"}, {"restarts": 0.0}, {}, {})
MUCH = msgspec.structs.replace(
    NOTHING,
    observed_seconds=7200.0,
    cpu_used_seconds=10_800.0,
    cpu_of_limit=0.75,
    throttled_ratio=0.3,
    memory_peak_bytes=3.0 * 2**30,
    memory_limit_bytes=4.0 * 2**30,
    pressure={"io/some": 0.2},
    restarts=1,
    oom_kills=0,
)


def facts(use):
    found, _ = profile([row(NOW - 3600, kernel=0.5)], [pod("train-0", gpus=1)], devices=[device()])
    return {one.label: one.text for one in host_facts(msgspec.structs.replace(found, host=use))}


def test_every_figure_is_told():
    assert facts(MUCH) == {
        "beside its GPUs": "seen over 2 h of all its containers together",
        "CPUs used by a container, mean": "1.5, 75 % of the limit",
        "time throttled, of the CPU quota's": "30 %",
        "memory of a container, highest": "3.0 GiB of 4.0 GiB",
        "waiting for input and output": "20 %",
        "restarts": "1",
        "killed for memory": "0",
    }


def test_what_nobody_told_is_unknown_and_a_zero_is_told():
    assert facts(NOTHING) == {
        "CPUs used by a container, mean": "unknown",
        "time throttled, of the CPU quota's": "unknown",
        "memory of a container, highest": "unknown",
        "waiting for input and output": "unknown",
        "restarts": "0",
        "killed for memory": "unknown",
    }


def test_without_a_source_nothing_is_said():
    assert facts(None) == {}
    assert host_facts(None) == ()
