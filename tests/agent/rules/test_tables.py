"""Tables of numbers that rules go by, as their sources tell them."""

import msgspec
import pytest

from gputailor_agent.inventory.hints import DEADLINE_HINT
from gputailor_agent.model.inventory import GpuRequest
from gputailor_agent.model.judgement import Finding
from gputailor_agent.rules.base import held_against
from gputailor_agent.rules.changes import resource_of
from gputailor_agent.rules.deadlines import deadline_of
from gputailor_agent.rules.environment_drift import RULE as DRIFT
from tests.agent.factories import HOUR, NOW, context, pod, profile, rows, workload
from tests.agent.rules.advice_parts import judged
from tests.agent.rules.test_environment_drift import imaged, pascal


def test_the_resource_asked_for_is_the_first_that_counts_devices():
    other = GpuRequest(resource="example.com/claim", count=1, kind="other", vendor="")
    slices = GpuRequest(resource="nvidia.com/mig-1g.10gb", count=1, kind="mig", vendor="nvidia")
    assert resource_of(workload(gpu_requests=(other, slices))) == "nvidia.com/mig-1g.10gb"
    assert resource_of(workload(gpu_requests=(other,))) == "nvidia.com/gpu"
    assert resource_of(workload(gpu_requests=())) == "nvidia.com/gpu"


@pytest.mark.parametrize(("model", "told"), [("P40", "P40"), ("", "model not known")])
def test_a_card_whose_model_nobody_tells_is_called_so(model, told):
    start = NOW - 5 * HOUR
    one = imaged("run", "nvcr.io/nvidia/cuda:13.0.1-base", start=start, hours=2)
    (card,) = pascal()
    answer = judged(
        DRIFT,
        rows(start, start + 2 * HOUR, pod="run"),
        [one],
        devices=[msgspec.structs.replace(card, model=model)],
        nodes=[],
    )
    assert isinstance(answer, Finding)
    assert answer.message.params["model"] == told


@pytest.mark.parametrize(
    ("comparison", "below", "equal", "above"),
    [
        ("<", True, False, False),
        ("<=", True, True, False),
        (">", False, False, True),
        (">=", False, True, True),
        ("==", False, True, False),
    ],
)
def test_what_a_number_is_held_against(comparison, below, equal, above):
    made, _ = profile([], [pod()])
    for value, passed in ((1.0, below), (2.0, equal), (3.0, above), (None, False)):
        told = held_against("x", value, comparison, 2.0, unit="count", profile=made, formula="f")
        assert (told.passed, told.comparison, told.threshold) == (passed, comparison, 2.0)


def test_facts_about_a_profile_are_its_own():
    one, world = profile([], [pod()])
    other = msgspec.structs.replace(one, pods_now=5)
    around = context(world)
    around.about(one)["fact"] = 1
    assert around.about(one) == {"fact": 1}
    assert around.about(other) == {}
    assert around.about(one) == {}  # one profile after another: no more is remembered


@pytest.mark.parametrize(
    ("annotation", "label", "pods", "deadline"),
    [
        ("", "", (), None),
        ("3600", "", (), 3600.0),
        ("3600", "1800", (7200.0,), 1800.0),
        ("0", "", (), None),
        ("0", "0.5", (), 0.5),
        ("soon", "", (None, 60.0), 60.0),
        ("", "", (0.0,), None),
    ],
)
def test_the_lowest_limit_that_is_told_ends_a_run(annotation, label, pods, deadline):
    work = workload(
        annotations={DEADLINE_HINT: annotation} if annotation else {},
        labels={"kueue.x-k8s.io/max-exec-time-seconds": label} if label else {},
    )
    told = [msgspec.structs.replace(pod(), deadline_seconds=one) for one in pods]
    assert deadline_of(work, told) == deadline
