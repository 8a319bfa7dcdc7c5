"""What looks like a finding and is none: each confounder put upon the world of every rule.

A rule whose premise the confounder takes away answers with the key named here; every other rule
says exactly what it said, for a rule that changes its mind without a reason is as wrong.
"""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec
import pytest

from gputailor_agent.model.inventory import Pod
from gputailor_agent.model.judgement import Finding, Silence, SilenceKind
from gputailor_agent.model.usage import UsageRow, quantise
from tests.agent.factories import DAY, HOUR, NOW, use
from tests.agent.rules.advice_parts import host, seconds_told
from tests.agent.rules.circumstances import with_pods
from tests.agent.rules.world_parts import CALM, EMPTY, FED, FP32, World, ranks
from tests.agent.rules.worlds import RULES, WORLDS, Built, built


def takes_memory_in_advance(world: World) -> World:
    told = {"preallocates": True, "preallocates_evidence": "XLA_PYTHON_CLIENT_PREALLOCATE"}
    return world.but(work=msgspec.structs.replace(world.work, **told))


def tensor_cores_in_use(world: World) -> World:
    """TF32 is on: matrix products in FP32 run on the tensor cores while kernels run."""

    def told(row: UsageRow) -> UsageRow:
        kernel = row.signals["kernel"]
        busy = use(0.3 if kernel.active_seconds else 0.0, kernel.observed_seconds)
        return msgspec.structs.replace(row, signals={**row.signals, "tensor": busy})

    return world.but(usage=[told(row) for row in world.usage])


def waits_for_its_input(world: World) -> World:
    if world.host is not None:
        return world.but(host=msgspec.structs.replace(world.host, cpu_of_limit=0.97))
    return world.but(host=host(**{**CALM, "cpu_of_limit": 0.97}))


def killed_for_memory(world: World) -> World:
    return with_pods(world, lambda pod: msgspec.structs.replace(pod, oom_killed=True))


def forty_seconds_long(world: World) -> World:
    """Of each pod the first forty seconds, and then it is over."""
    first: dict[tuple[str, str], UsageRow] = {}
    for row in sorted(world.usage, key=lambda row: row.key.hour):
        first.setdefault((row.key.pod, row.key.gpu_uuid), row)

    def cut(row: UsageRow) -> UsageRow:
        return msgspec.structs.replace(
            row,
            allocated_seconds=quantise(40),
            signals={name: use(told.mean or 0.0, 40) for name, told in row.signals.items()},
            energy_joules=quantise((row.energy_joules or 0.0) * 40 / HOUR),
            conditions={name: told * 40 / HOUR for name, told in row.conditions.items()},
        )

    over = with_pods(
        world,
        lambda pod: msgspec.structs.replace(
            pod, finished=(pod.started or NOW) + 40, phase="Succeeded"
        ),
    )
    return over.but(usage=[cut(row) for row in first.values()])


def five_days_old(world: World) -> World:
    """Nobody has seen a whole week of it."""
    start = NOW - 5 * DAY

    def later(pod: Pod) -> Pod:
        told = {
            name: max(getattr(pod, name), start) for name in ("created", "scheduled", "started")
        }
        return msgspec.structs.replace(pod, **told)

    young = [row for row in world.usage if row.key.hour >= start]
    return with_pods(world, later).but(usage=young)


SHORT: Final = dict.fromkeys(
    ("too_many_gpus", "smaller_gpu", "mig_slice", "share", "memory_bound", "input_bound",
     "straggler", "link_bound", "mixed_precision", "bandwidth_bound", "compile",
     "excess_cpu_memory", "other_vendor"),
    "gate.too_short",
)  # fmt: skip
YOUNG: Final = dict.fromkeys(
    ("idle_notebook", "standby", "too_many_replicas", "serving", "reserve"), "gate.service_days"
)
MEMORY: Final = ("smaller_gpu", "mig_slice", "share", "memory_bound", "other_vendor")
#: Each confounder: what it does, the rules whose answer it changes with the new answer's key, and
#: the rules to which it does something else than to confound them.
CONFOUNDERS: Final[
    Mapping[str, tuple[Callable[[World], World], Mapping[str, str], frozenset[str]]]
] = {
    "a pre-allocator": (
        takes_memory_in_advance,
        {rule: f"{rule}.preallocates" for rule in MEMORY},
        frozenset(),
    ),
    "TF32 on": (
        tensor_cores_in_use,
        {"mixed_precision": "mixed_precision.in_use"},
        frozenset({"smaller_gpu", "mig_slice"}),  # a busier resource: another slowdown
    ),
    "input-bound": (
        waits_for_its_input,
        {rule: f"{rule}.input_bound" for rule in ("mixed_precision", "compile")},
        frozenset({"input_bound"}),  # it is its finding
    ),
    "OOM seen": (
        killed_for_memory,
        {
            **dict.fromkeys((*SHORT, *YOUNG, "spot"), "gate.only_failed"),
            "time_limit": "time_limit.few_runs",
            "environment_drift": "environment_drift.one",
        },
        frozenset(),
    ),
    "a short run": (
        forty_seconds_long,
        {
            **SHORT,
            **YOUNG,
            "idle": "idle.not_running",
            "health": "health.short",
            "spot": "spot.small",
            "environment_drift": "environment_drift.same_speed",
        },
        frozenset({"time_limit"}),  # short runs are what it looks for
    ),
    "a weekend": (
        five_days_old,
        {**YOUNG, "environment_drift": "environment_drift.few_runs"},
        frozenset({"share", "spot", "mig_slice"}),  # a batch of fewer hours: another saving
    ),
}  # fmt: skip


@pytest.mark.parametrize("confounder", CONFOUNDERS)
@pytest.mark.parametrize("rule", sorted(RULES))
def test_a_confounder_silences_the_rules_that_it_confounds_and_no_other(rule, confounder):
    change, silenced, changed = CONFOUNDERS[confounder]
    before = built(rule).answer(rule)
    world = change(WORLDS[rule]["fires"]())
    answer = Built(world, *world.made()).answer(rule)
    if rule in changed:
        assert isinstance(answer, Finding)
    elif rule in silenced:
        assert isinstance(answer, Silence)
        assert answer.message.key == silenced[rule]
    else:
        plain = [msgspec.structs.replace(one, evidence=()) for one in (before, answer)]
        assert plain[0] == plain[1]


def straggling(levels: Mapping[str, float]) -> Built:
    """Three ranks that wait for a fourth, which is busy; what is asked of a rule is there."""
    made = ranks((0.1, 0.1, 0.1, 0.75))
    usage = []
    for row in made.usage:
        told = {name: use(level) for name, level in levels.items() if name not in {"kernel", "sm"}}
        usage.append(msgspec.structs.replace(row, signals={**row.signals, **told}))
    told = {**FED, "amp_candidate": 0.5}
    world = made.but(usage=seconds_told(usage, told), host=host(**CALM))
    return Built(world, *world.made())


def test_one_straggler_is_told_and_what_it_makes_of_the_others_is_not():
    """Their kernels run and wait: neither too many GPUs nor small kernels nor slow input."""
    world = straggling(EMPTY)
    assert isinstance(world.answer("straggler"), Finding)
    for rule, key in {
        "too_many_gpus": "all_active",
        "compile": "straggler",
        "input_bound": "no_sign",
        "idle": "not_running",
    }.items():
        answer = world.answer(rule)
        assert isinstance(answer, Silence)
        assert answer.message.key == f"{rule}.{key}"


def test_the_busiest_rank_decides_what_a_smaller_card_does_to_all():
    """A mean of four would make the card look a third as busy as the rank that all wait for."""
    world = straggling({**FP32, "memory": 0})
    assert world.answer("smaller_gpu").kind == SilenceKind.FINE
