"""What looks unused while its memory or arithmetic units work, and signs that say the opposite."""

import pytest

from gputailor_agent.model.inventory import ContainerSpec
from gputailor_agent.rules.checkpoints import checkpoint_sign
from gputailor_agent.rules.commitments import _working
from gputailor_agent.rules.idleness import works_elsewhere
from gputailor_agent.rules.members import never_worked
from tests.agent.factories import HOUR, NOW, context, pod, profile, row, rows

START = NOW - 6 * HOUR


def use(**levels):
    made, _ = profile(rows(START, NOW, kernel=0.0, sm=0.0, **levels), [pod(start=START)])
    (found,) = made.gpus
    return found


@pytest.mark.parametrize("signal", ["dram", "fp64", "fp32", "fp16", "integer"])
def test_a_gpu_whose_units_work_was_not_unused(signal):
    assert works_elsewhere(use(**{signal: 0.4}))
    assert not never_worked(use(**{signal: 0.4}), 0.9)
    assert never_worked(use(**{signal: 0.01}), 0.9), "a resting card's reading is no work"


@pytest.mark.parametrize(
    "arguments",
    [
        ("--no-resume",),
        ("--disable-resume",),
        ("--dont-resume",),
        ("--no-save-checkpoint",),
        ("--save-steps=-1",),
        ("--save-steps", "-1"),
        ("--resume=null",),
        ("--checkpoint-interval=inf",),
        ("--teacher-checkpoint-path", "x"),
    ],
)
def test_a_refusal_to_save_or_resume_is_no_sign_of_it(arguments):
    assert checkpoint_sign(ContainerSpec(name="main", image="x", args=arguments), {}) == ""


@pytest.mark.parametrize("name", ["NO_RESUME", "WANDB_RESUME"])
def test_nor_is_a_variable_that_says_so_or_is_a_tracker_s(name):
    container = ContainerSpec(name="main", image="x", env={name: "allow"})
    assert checkpoint_sign(container, {}) == ""


@pytest.mark.parametrize("arguments", [("--save-steps=500",), ("--resume", "--seed=1"),
                                       ("--checkpoint-dir", "/ckpt"), ("--auto-resume",)])  # fmt: skip
def test_what_saves_or_resumes_still_is(arguments):
    assert checkpoint_sign(ContainerSpec(name="main", image="x", args=arguments), {})


@pytest.mark.parametrize(("level", "hours"), [(1 / 3600, 0), (0.04, 0), (0.06, 1)])
def test_a_gpu_that_hardly_works_is_not_one_to_reserve(level, hours):
    made, world = profile([row(NOW - HOUR, kernel=level)], [pod(start=NOW - HOUR)])
    assert len(_working(context(world), made.gpus)) == hours
