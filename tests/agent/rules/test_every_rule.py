"""What every registered rule owes: a threshold that decides, a gate, a reason for each silence.

The tests go through the registry, so a rule that is added without worlds of its own
(``worlds``) or without a line for each threshold (``turning_points.csv``) fails here.
"""

import csv
import random
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import pytest

from gputailor_agent.model.judgement import (
    Finding,
    Silence,
    SilenceKind,
)
from gputailor_agent.model.usage import quantise
from gputailor_agent.rules import registry
from gputailor_agent.rules.gates import SIZING_THRESHOLDS
from tests.agent.factories import HOUR, NOW, row, use
from tests.agent.rules.advice_parts import check_words, no_stronger, number, without
from tests.agent.rules.world_parts import World
from tests.agent.rules.worlds import RULES, WORLDS, Built, built

GATES: Final = {threshold.name for threshold in SIZING_THRESHOLDS}
SIZING: Final = [rule.id for rule in registry() if {t.name for t in rule.thresholds} >= GATES]
EVERY: Final = [rule.id for rule in registry()]
SERVICES: Final = {"standby", "too_many_replicas", "serving", "reserve", "idle_notebook"}


class Turn(NamedTuple):
    """At which value of a threshold a world's answer turns, and what is said on either side.

    An answer is ``message/severity confidence`` or ``message/kind of silence``. ``exactly`` is ''
    where the measured number is no float that can be met; ``at`` is '' where the threshold changes
    a number of the answer and not the answer.
    """

    rule: str
    threshold: str
    world: str
    at: str
    below: str
    exactly: str
    above: str


def turns() -> list[Turn]:
    with Path(__file__).with_name("turning_points.csv").open(encoding="utf-8") as file:
        return [Turn(**line) for line in csv.DictReader(file)]


TURNS: Final = turns()
DECIDING: Final = [turn for turn in TURNS if turn.at]
GRADUAL: Final = [turn for turn in TURNS if not turn.at]


def said(answer: Finding | Silence) -> str:
    strength = (
        f"{answer.severity}{answer.confidence}" if isinstance(answer, Finding) else answer.kind
    )
    return f"{answer.message.key.partition('.')[2]}/{strength}"


def name(turn: Turn) -> str:
    return f"{turn.rule}-{turn.threshold}-{turn.at}"


def test_every_rule_has_a_world_in_which_it_fires():
    assert set(WORLDS) == set(EVERY)
    for rule in EVERY:
        assert isinstance(built(rule).answer(rule), Finding), rule


def test_every_threshold_of_every_rule_has_a_value_at_which_its_answer_turns():
    known = {(turn.rule, turn.threshold) for turn in TURNS}
    every = {
        (rule.id, threshold.name)
        for rule in registry()
        for threshold in rule.thresholds
        if not (rule.id in SIZING and threshold.name in GATES)
    }
    assert known == every


@pytest.mark.parametrize("turn", DECIDING, ids=name)
def test_a_value_on_either_side_of_a_threshold_changes_the_answer(turn):
    world, at = built(turn.rule, turn.world), float(turn.at)
    assert said(world.answer(turn.rule, **{turn.threshold: at * (1 - 1e-5)})) == turn.below
    assert said(world.answer(turn.rule, **{turn.threshold: at * (1 + 1e-5)})) == turn.above
    if turn.exactly:
        assert said(world.answer(turn.rule, **{turn.threshold: at})) == turn.exactly
    assert turn.below != turn.above


@pytest.mark.parametrize("turn", GRADUAL, ids=name)
def test_a_threshold_that_turns_no_answer_changes_a_number_of_it(turn):
    world = built(turn.rule, turn.world)
    default = next(t.default for t in RULES[turn.rule].thresholds if t.name == turn.threshold)
    answers = [
        msgspec.structs.replace(world.answer(turn.rule, **{turn.threshold: value}), evidence=())
        for value in (default, 0.8 * default)
    ]
    assert answers[0] != answers[1]


# --- the gates of all rules that size -----------------------------------------------------------


@pytest.mark.parametrize("rule", SIZING)
def test_below_its_coverage_a_rule_is_silent_and_says_which_signal_it_lacked(rule):
    world = WORLDS[rule]["fires"]()
    last = max(one.key.hour for one in world.usage)
    less = Built(gap := world.but(usage=[r for r in world.usage if r.key.hour < last]), *gap.made())
    coverage = number(less.answer(rule), "coverage").value
    assert 0 < coverage < 1
    at, above = less.answer(rule, coverage=coverage), less.answer(rule, coverage=coverage + 1e-6)
    assert at.message.key != "gate.coverage"
    assert isinstance(above, Silence)
    assert (above.kind, above.message.key) == (SilenceKind.UNKNOWN, "gate.coverage")
    assert above.missing_signals


@pytest.mark.parametrize("rule", SIZING)
def test_without_enough_history_a_rule_watches(rule):
    world = built(rule)
    numbers = {one.name: one.value for one in world.answer(rule).evidence}
    if "full days" in numbers:
        days = numbers["full days"]
        assert world.answer(rule, service_days=days).message.key.partition(".")[0] != "gate"
        answer = world.answer(rule, service_days=days + 1)
        keys = {"gate.service_days", "gate.window_too_short"}
    else:
        runs, longest = numbers["completed runs"], numbers["longest run"]
        for told in ({"batch_runs": runs}, {"batch_run_seconds": longest}):
            least = {"batch_runs": runs + 1, "batch_run_seconds": longest + 1, **told}
            assert world.answer(rule, **least).message.key.partition(".")[0] != "gate"
        answer = world.answer(rule, batch_runs=runs + 1, batch_run_seconds=longest + 1)
        keys = {"gate.batch_runs"}
    assert isinstance(answer, Silence)
    assert answer.kind == SilenceKind.WATCHING
    assert answer.message.key in keys


def ended(world: World) -> World:
    """The world with its pods over: what they used stays."""
    last = max(one.key.hour for one in world.usage) + HOUR
    over = {
        one.uid: msgspec.structs.replace(one, finished=float(last), phase="Succeeded")
        for one in world.pods
    }
    runs = {
        run: [over[one.uid] for one in members]
        for run, members in world.options.get("runs", {"run-1": world.pods}).items()
    }
    return world.but(pods=list(over.values()), options={**world.options, "runs": runs})


@pytest.mark.parametrize("rule", [rule for rule in SIZING if rule not in {*SERVICES, "straggler"}])
def test_a_run_shorter_than_the_least_is_too_short_to_judge(rule):
    world = ended(WORLDS[rule]["fires"]())
    over = Built(world, *world.made())
    longest = number(over.answer(rule), "longest run").value
    assert over.answer(rule, least_run_seconds=longest).message.key != "gate.too_short"
    answer = over.answer(rule, least_run_seconds=longest + 1)
    assert isinstance(answer, Silence)
    assert (answer.kind, answer.message.key) == (SilenceKind.WATCHING, "gate.too_short")


def quiet(world: World, watts: float) -> World:
    """The same pods, whose counters say that nothing ran, at so many watts."""
    usage = [
        msgspec.structs.replace(
            row(one.key.hour, pod=one.key.pod, gpu=one.key.gpu_uuid),
            energy_joules=quantise(watts * one.allocated_seconds),
        )
        for one in world.usage
    ]
    return world.but(usage=usage)


@pytest.mark.parametrize("rule", SIZING)
@pytest.mark.parametrize("limits", [{"power_share": 0.25}, {"power_floor_watts": 100.0}], ids=str)
def test_power_that_contradicts_the_counters_silences_a_rule(rule, limits):
    """A quarter of an A100's 400 W, or 100 W: at that it may be idle, above it is unknown."""
    fires = WORLDS[rule]["fires"]()
    limits = {"power_share": 0.0, "power_floor_watts": 0.0, **limits}
    for watts, contradicts in ((100.0, False), (100.5, True)):
        world = quiet(fires, watts).but(options={**fires.options, "devices": None})
        answer = Built(world, *world.made()).answer(rule, **limits)
        assert (answer.message.key == "gate.power") is contradicts
        if contradicts:
            assert isinstance(answer, Silence)
            assert answer.kind == SilenceKind.UNKNOWN


# --- signals that are missing -------------------------------------------------------------------


def poorer(world: Built) -> dict[str, Any]:
    """The world's profile without one thing that is known in it, by its name."""
    made = world.profile
    conditions = {name for use in made.gpus for name in use.conditions}
    without_power = [msgspec.structs.replace(use, energy_joules=None) for use in made.gpus]
    without_memory = [msgspec.structs.replace(use, memory_peak_bytes=None) for use in made.gpus]
    return {
        **{lost: without(made, lost) for lost in {*made.signals, *conditions}},
        "host": msgspec.structs.replace(made, host=None),
        "engine": msgspec.structs.replace(made, engine=None),
        "memory": msgspec.structs.replace(made, memory_peak_bytes=None, gpus=tuple(without_memory)),
        "power": msgspec.structs.replace(made, energy_joules=None, gpus=tuple(without_power)),
    }


@pytest.mark.parametrize(
    ("rule", "world"), [(rule, name) for rule, named in WORLDS.items() for name in named]
)
def test_what_is_not_told_never_makes_an_answer_stronger_and_is_named(rule, world):
    known = built(rule, world)
    whole = known.answer(rule)
    if isinstance(whole, Silence):
        return
    for lost, profile in poorer(known).items():
        less = RULES[rule].evaluate(profile, known.context(rule, {}))
        check_words(less)
        assert no_stronger(less, whole), (lost, less.message)


@pytest.mark.parametrize("rule", [rule for rule in EVERY if RULES[rule].signals])
def test_without_the_signal_that_a_rule_cannot_do_without_it_is_silent_or_says_what_stands_in(rule):
    known = built(rule)
    first = RULES[rule].signals[0]
    whole = known.answer(rule)
    less = RULES[rule].evaluate(without(known.profile, first), known.context(rule, {}))
    if isinstance(less, Silence):
        assert less.kind == SilenceKind.UNKNOWN
        assert first in less.missing_signals
        return
    words = {word for one in less.evidence for word in f"{one.name} {one.formula}".split()}
    assert less.message.key.startswith(whole.message.key.partition(".")[0])
    assert words & {"sm", "SM", "kernel"}, "what stands in for it is named"


#: They go by the times of runs and pods, which the inventory tells.
BY_TIMES: Final = {"time_limit", "spot", "environment_drift"}


@pytest.mark.parametrize("rule", EVERY)
def test_without_any_measurement_a_rule_is_silent_and_does_not_say_fine(rule):
    world = WORLDS[rule]["fires"]()
    usage = [
        msgspec.structs.replace(
            one, signals={}, conditions={}, energy_joules=None, memory_peak_bytes=None
        )
        for one in world.usage
    ]
    blind = world.but(usage=usage, host=None, engine=None)
    answer = Built(blind, *blind.made()).answer(rule)
    assert isinstance(answer, Finding) is (rule in BY_TIMES)
    if isinstance(answer, Silence):
        assert answer.kind in {SilenceKind.UNKNOWN, SilenceKind.WATCHING}


# --- what must not matter -----------------------------------------------------------------------


def shuffled(world: World, order: random.Random) -> World:
    """The same with whatever has an order in another one: rows, pods, runs, nodes, devices."""

    def mixed(items: Any) -> list[Any]:
        return order.sample(list(items), len(items))

    options = dict(world.options)
    for name in {"nodes", "devices"} & options.keys():
        options[name] = mixed(options[name])
    if "runs" in options:
        options["runs"] = {run: mixed(options["runs"][run]) for run in mixed(options["runs"])}
    return world.but(usage=mixed(world.usage), pods=mixed(world.pods), options=options)


@pytest.mark.parametrize(
    ("rule", "world"), [(rule, name) for rule, named in WORLDS.items() for name in named]
)
def test_the_order_of_rows_pods_runs_nodes_and_devices_changes_no_answer(rule, world):
    order = random.Random(f"{rule}/{world}")
    other = shuffled(WORLDS[rule][world](), order)
    assert Built(other, *other.made()).answer(rule) == built(rule, world).answer(rule)


def without_histograms(world: World) -> World:
    """Sources that tell means only, of GPUs on which nothing ran."""
    usage = []
    for one in world.usage:
        told = {name: use(0.0, with_histogram=False) for name in one.signals}
        usage.append(msgspec.structs.replace(one, signals=told, energy_joules=None))
    return world.but(usage=usage)


@pytest.mark.parametrize(
    "rule", [rule for rule in EVERY if f"{rule}.nothing_ran" in RULES[rule].messages]
)
def test_where_nothing_ran_a_rule_about_programs_says_so_whatever_the_source_tells(rule):
    world = without_histograms(WORLDS[rule]["fires"]())
    answer = Built(world, *world.made()).answer(rule)
    assert answer.message.key == f"{rule}.nothing_ran"
    assert isinstance(answer, Silence)
    assert answer.kind == SilenceKind.NOT_APPLICABLE


@pytest.mark.parametrize("rule", EVERY)
def test_a_pod_that_only_just_began_breaks_no_rule(rule):
    """Its GPUs were held for no time yet: no share of it can be told."""
    world = WORLDS[rule]["fires"]()
    usage = [
        msgspec.structs.replace(one, allocated_seconds=0.0, signals={}, conditions={})
        for one in world.usage[:1]
    ]
    begun = [
        msgspec.structs.replace(one, created=float(NOW), scheduled=float(NOW), started=float(NOW),
                                finished=None, phase="Running")
        for one in world.pods[:1]
    ]  # fmt: skip
    young = world.but(usage=usage, pods=begun, options={**world.options, "runs": {"run-1": begun}})
    assert isinstance(Built(young, *young.made()).answer(rule), Silence)
