"""Environment drift: what cannot work together, and what made runs slower."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputailor_agent.model.inventory import ContainerSpec, Outcome, TaskClass
from gputailor_agent.model.judgement import Confidence, Finding, Severity, SilenceKind
from gputailor_agent.reports.wording import say
from gputailor_agent.rules.environment_drift import RULE
from gputailor_agent.rules.environments import cuda_of, major
from tests.agent.factories import (
    DAY,
    HOUR,
    NOW,
    context,
    device,
    node,
    pod,
    profile,
    rows,
    workload,
)
from tests.agent.rules.advice_parts import check_words, judged, key, number

OLD, NEW = "repo/train:1", "repo/train:2"


def imaged(name, image, *, start, hours, gpus=1, env=None, **fields):
    one = pod(name, gpus=gpus, start=start, finished=start + hours * HOUR, **fields)
    container = msgspec.structs.replace(one.containers[0], image=image, env=env or {})
    return msgspec.structs.replace(one, containers=(container,))


def runs(
    *shapes, driver="550.54.15", devices=None, outcomes=None, work=None, kernel=0.9, **options
):
    """A run per (image, hours), one a day, the last one yesterday."""
    usage, by_run = [], {}
    for place, (image, hours) in enumerate(shapes):
        start = NOW - (len(shapes) - place) * DAY
        name = f"run-{place}"
        usage += rows(start, int(start + hours * HOUR), pod=name, kernel=kernel)
        by_run[name] = [imaged(name, image, start=start, hours=hours)]
    known = [msgspec.structs.replace(device(), driver_version=driver)]
    pods = [one for members in by_run.values() for one in members]
    return judged(
        RULE, usage, pods, work or workload(kind="CronJob"), runs=by_run, outcomes=outcomes,
        devices=known if devices is None else devices, **options,
    )  # fmt: skip


SLOWER = [(OLD, 2.0), (OLD, 2.1), (OLD, 2.0), (NEW, 3.0), (NEW, 3.1), (NEW, 3.0)]


def test_runs_that_take_longer_since_the_image_changed_are_told_with_the_way_back():
    answer = runs(*SLOWER)
    assert isinstance(answer, Finding)
    assert key(answer) == "environment_drift.slower"
    assert answer.message.params["ratio"] == pytest.approx(1.5)
    assert (answer.severity, answer.confidence) == (Severity.MEDIUM, Confidence.MEDIUM)
    assert "image: repo/train:1" in answer.change.patch
    assert answer.change.undo
    assert answer.slowdown is not None
    assert 2 / 3.1 <= answer.slowdown.low <= answer.slowdown.high < 1
    assert "the image changed from repo/train:1 to repo/train:2" in say(answer.message)


def test_the_saving_is_the_slower_runs_part_by_the_nearer_ends_of_the_middle_halves():
    answer = runs(*SLOWER)
    assert isinstance(answer, Finding)
    window_hours = 2.0 + 2.1 + 2.0 + 3.0 + 3.1 + 3.0
    whole = window_hours * 730 / (14 * 24)
    share = 9.1 / window_hours * (1 - 2.05 / 3.0)
    assert answer.saving.gpu_hours_per_month == pytest.approx(whole * share, rel=0.01)


@pytest.mark.parametrize(("longer", "fires"), [(2.4, True), (2.29, False)])
def test_fifteen_hundredths_longer_is_the_least_that_is_told(longer, fires):
    answer = runs((OLD, 2), (OLD, 2), (OLD, 2), (NEW, longer), (NEW, longer), (NEW, longer))
    assert isinstance(answer, Finding) is fires
    if not fires:
        assert (answer.kind, key(answer)) == (SilenceKind.FINE, "environment_drift.same_speed")


def test_run_times_that_overlap_are_chance():
    answer = runs((OLD, 1), (OLD, 2), (OLD, 5), (OLD, 6), (NEW, 2), (NEW, 5), (NEW, 8))
    assert key(answer) == "environment_drift.same_speed"


def test_a_change_that_made_runs_faster_is_no_drift():
    answer = runs((OLD, 3), (OLD, 3), (OLD, 3), (NEW, 2), (NEW, 2), (NEW, 2))
    assert key(answer) == "environment_drift.same_speed"


def test_runs_that_had_grown_before_say_nothing_of_the_change():
    answer = runs((OLD, 2.0), (OLD, 2.4), (OLD, 2.8), (NEW, 3.2), (NEW, 3.6), (NEW, 4.0))
    assert (answer.kind, key(answer)) == (SilenceKind.FINE, "environment_drift.grows")


def test_two_runs_of_the_new_image_are_too_few():
    answer = runs(*SLOWER[:5])
    assert (answer.kind, key(answer)) == (SilenceKind.WATCHING, "environment_drift.few_runs")


def test_failed_runs_are_not_compared():
    answer = runs(*SLOWER, outcomes={"run-5": Outcome.FAILED})
    assert key(answer) == "environment_drift.few_runs"


def test_runs_of_other_cards_or_more_gpus_are_not_compared():
    usage, by_run = [], {}
    for place, (image, hours) in enumerate(SLOWER):
        start = NOW - (len(SLOWER) - place) * DAY
        name, card = f"run-{place}", "G0" if place < 3 else "G1"
        usage += rows(start, int(start + hours * HOUR), pod=name, gpu=card, kernel=0.9)
        by_run[name] = [imaged(name, image, start=start, hours=hours)]
    pods = [one for members in by_run.values() for one in members]
    cards = [device("G0", model="A100"), device("G1", model="L4")]
    answer = judged(RULE, usage, pods, workload(kind="CronJob"), runs=by_run, devices=cards)
    assert key(answer) == "environment_drift.one"


def test_by_driver_alone_it_is_only_a_trial_since_drivers_are_known_as_they_are_now():
    usage, by_run = [], {}
    for place, (_, hours) in enumerate(SLOWER):
        start = NOW - (len(SLOWER) - place) * DAY
        name, card = f"run-{place}", "G0" if place < 3 else "G1"
        usage += rows(start, int(start + hours * HOUR), pod=name, gpu=card, kernel=0.9)
        by_run[name] = [imaged(name, OLD, start=start, hours=hours)]
    pods = [one for members in by_run.values() for one in members]
    cards = [
        msgspec.structs.replace(device("G0"), driver_version="550.54.15"),
        msgspec.structs.replace(device("G1"), driver_version="550.90.07"),
    ]
    answer = judged(RULE, usage, pods, workload(kind="CronJob"), runs=by_run, devices=cards)
    assert isinstance(answer, Finding)
    assert key(answer) == "environment_drift.slower"
    assert answer.message.params["what"] == "the driver"
    assert answer.confidence == Confidence.LOW
    assert answer.saving.money_per_month is None


def pascal(driver="580.10", capability="6.1"):
    return [
        msgspec.structs.replace(
            device(model="P40"), driver_version=driver, compute_capability=capability
        )
    ]


def test_cuda_13_on_a_card_older_than_turing_will_fail():
    answer = runs(("nvcr.io/nvidia/cuda:13.0.1-base", 2), devices=pascal(), kernel=0.0)
    assert isinstance(answer, Finding)
    assert key(answer) == "environment_drift.dropped_cuda"
    assert (answer.severity, answer.confidence) == (Severity.HIGH, Confidence.HIGH)
    assert answer.change.code
    assert answer.change.links
    assert "CUDA 13" in say(answer.message)


def test_what_runs_there_all_the_same_does_not_fail():
    answer = runs(("nvcr.io/nvidia/cuda:13.0.1-base", 2), devices=pascal(), kernel=0.5)
    assert not isinstance(answer, Finding)


@pytest.mark.parametrize(
    ("driver", "capability", "said"),
    [
        ("590.01", "6.1", "environment_drift.dropped_driver"),
        ("580.01", "6.1", "environment_drift.one"),
        ("590.01", "7.5", "environment_drift.one"),
    ],
)
def test_a_driver_above_r580_leaves_out_pascal_and_volta(driver, capability, said):
    answer = runs((OLD, 2), devices=pascal(driver, capability), kernel=0.0)
    assert key(answer) == said


@pytest.mark.parametrize(
    ("image", "driver", "fires"),
    [
        ("pytorch/pytorch:2.4.0-cuda12.4-cudnn9-runtime", "524.99", True),
        ("pytorch/pytorch:2.4.0-cuda12.4-cudnn9-runtime", "525.60", False),
        ("repo/train:cu118", "449.0", True),
        ("repo/train:cu118", "450.80", False),
        ("nvidia/cuda:13.0.0-base", "570.1", True),
        ("nvidia/cuda:13.0.0-base", "580.1", False),
        ("repo/train:latest", "390.1", False),
    ],
)
def test_a_driver_older_than_cuda_asks_for_is_degraded(image, driver, fires):
    answer = runs((image, 2), driver=driver)
    assert isinstance(answer, Finding) is fires
    if fires:
        assert key(answer) == "environment_drift.old_driver"
        assert answer.severity == Severity.LOW
        assert "cuda-compat" in answer.change.code


def test_two_driver_generations_are_drift():
    start = NOW - 6 * HOUR
    usage = [o for i in range(2) for o in rows(start, NOW, gpu=f"G{i}", pod=f"p{i}", kernel=0.9)]
    cards = [
        msgspec.structs.replace(device(f"G{i}"), driver_version=version)
        for i, version in enumerate(["550.54.15", "570.10"])
    ]
    pods = [pod(f"p{i}", start=start) for i in range(2)]
    answer = judged(RULE, usage, pods, devices=cards)
    assert isinstance(answer, Finding)
    assert key(answer) == "environment_drift.drift"
    assert answer.severity == Severity.INFO
    assert number(answer, "driver generations").value == 2
    minor = [cards[0], msgspec.structs.replace(cards[1], driver_version="550.90")]
    assert key(judged(RULE, usage, pods, devices=minor)) == "environment_drift.one"


def test_a_node_tells_the_driver_where_no_exporter_does():
    start = NOW - 6 * HOUR
    answer = judged(
        RULE, rows(start, NOW, kernel=0.9), [imaged("train-0", "x:cu121", start=start, hours=7)],
        nodes=[node(driver_version="470.1")],
    )  # fmt: skip
    assert key(answer) == "environment_drift.old_driver"


def test_without_images_and_drivers_nothing_is_known():
    start = NOW - 6 * HOUR
    answer = judged(RULE, rows(start, NOW, kernel=0.9), [pod(start=start)])
    assert (answer.kind, key(answer)) == (SilenceKind.UNKNOWN, "environment_drift.unknown")
    assert answer.missing_signals == ("image", "driver_version")


def test_a_service_is_not_judged_by_the_length_of_its_runs():
    web = workload("web", "Deployment", TaskClass.INFERENCE)
    answer = runs(*SLOWER, work=web)
    assert (answer.kind, key(answer)) == (SilenceKind.FINE, "environment_drift.one")


def test_one_environment_is_fine():
    answer = runs((OLD, 2), (OLD, 9))
    assert (answer.kind, key(answer)) == (SilenceKind.FINE, "environment_drift.one")


def test_a_workload_that_never_held_a_gpu_is_unknown():
    made, world = profile([], [pod(phase="Pending", node=None)])
    answer = RULE.evaluate(made, context(world))
    check_words(answer)
    assert answer.kind == SilenceKind.UNKNOWN


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("nvidia/cuda:12.4.1-devel", 12),
        ("pytorch/pytorch:2.1-cuda11.8-cudnn8", 11),
        ("repo/x:cu121", 12),
        ("repo/x:cuda-13.0", 13),
        ("repo/x:py310-cu128", 12),
        ("repo/x:latest", None),
        ("repo/cucumber:12", None),
        ("nvcr.io/nvidia/pytorch:24.05-py3", None),
        ("", None),
    ],
)
def test_cuda_as_images_name_it(image, version):
    assert cuda_of(ContainerSpec(name="c", image=image)) == version


def test_a_variable_that_names_cuda_counts_more():
    told = ContainerSpec(name="c", image="repo/x:cu118", env={"CUDA_VERSION": "12.4.1"})
    assert cuda_of(told) == 12
    assert cuda_of(None) is None
    assert major("") is None


@given(scale=st.floats(0.2, 5.0))
def test_other_units_of_time_change_nothing(scale):
    shapes = [(image, hours * scale) for image, hours in SLOWER]
    answer = runs(*shapes)
    assert isinstance(answer, Finding)
    assert answer.message.params["ratio"] == pytest.approx(1.5)


def test_a_run_of_more_gpus_is_not_compared_with_those_of_one():
    """It took a third of the time, as it should."""
    usage, by_run = [], {}
    for place, (image, hours, gpus) in enumerate([(*one, 1) for one in SLOWER] + [(NEW, 1.0, 2)]):
        start = NOW - (len(SLOWER) + 1 - place) * DAY
        name = f"run-{place}"
        for gpu in range(gpus):
            usage += rows(start, int(start + hours * HOUR), pod=name, gpu=f"G{gpu}", kernel=0.9)
        by_run[name] = [imaged(name, image, start=start, hours=hours, gpus=gpus)]
    pods = [one for members in by_run.values() for one in members]
    answer = judged(RULE, usage, pods, workload(kind="CronJob"), runs=by_run)
    assert key(answer) == "environment_drift.slower"
    assert answer.message.params["ratio"] == pytest.approx(1.5)
    assert answer.message.params["slow_runs"] == 3
