"""What is read from arguments, variables, annotations, labels and versions, at each edge of it."""

import dataclasses
from datetime import UTC, datetime

import msgspec
import pytest

from gputailor_agent.model.inventory import ContainerSpec, Outcome
from gputailor_agent.model.judgement import Silence
from gputailor_agent.rules.checkpoints import checkpoint_sign
from gputailor_agent.rules.compiled import compile_sign, eager_sign
from gputailor_agent.rules.deadlines import deadline_of
from gputailor_agent.rules.environments import (
    capability_of,
    clashes,
    cuda_of,
    driver_of,
    environments,
    major,
)
from gputailor_agent.rules.opting_out import opted_out
from gputailor_agent.rules.requesting import asked_within, request_evidence
from tests.agent.factories import HOUR, NOW, context, device, node, pod, profile, rows, workload
from tests.agent.rules.service_parts import engine


def container(*args, command=(), **env):
    return ContainerSpec(name="main", command=tuple(command), args=args, env=env)


@pytest.mark.parametrize(
    ("args", "sign"),
    [
        (("--verbose", "--resume"), "argument --resume"),  # what says nothing is passed over
        (("--resume=no", "--save-steps=10"), "argument --save-steps"),  # and so is what says no
        (("--resume", "no", "--save_every", "5"), "argument --save_every"),
        (("--resume", "--verbose"), "argument --resume"),  # the next word is another option
        (("--resume", "'none'"), ""),
        (("--resume", "last.ckpt"), "argument --resume"),
        (("train.py", "--resume"), "argument --resume"),
        (("-resume",), "argument --resume"),
        (("--trainer.resume-from=x",), "argument --trainer.resume-from"),
        (("--gradient-checkpoint-every=2",), ""),
        (("--resumed",), ""),
    ],
)
def test_a_program_that_saves_its_state_is_told_by_its_arguments(args, sign):
    assert checkpoint_sign(container(*args), {}) == sign


def test_the_command_counts_like_arguments_and_variables_come_after_them():
    assert checkpoint_sign(container(command=("python", "--resume")), {}) == "argument --resume"
    told = {"B_CHECKPOINT_DIR": "/out", "A_RESUME": "off"}
    assert checkpoint_sign(container(**told), {}) == "variable B_CHECKPOINT_DIR"
    assert checkpoint_sign(container("--resume", **told), {}) == "argument --resume"


@pytest.mark.parametrize(
    ("args", "sign"),
    [
        (("--lr=1", "--compile"), "argument --compile"),
        (("--compile=no", "--xla"), "argument --xla"),
        (("--compile", "false", "--xla", "1"), "argument --xla"),
        (("--compile", "max-autotune"), "argument --compile"),
        (("false", "--compile"), "argument --compile"),  # the word before says nothing of it
        (("--compile", "--lr=1"), "argument --compile"),
        (("--compile=0",), ""),
        (("--decompile",), ""),
    ],
)
def test_a_compiled_program_is_told_by_its_arguments(args, sign):
    assert compile_sign(container(*args)) == sign


def test_an_engine_kept_from_graphs_is_told_by_the_first_such_word():
    said = container("serve", "--enforce-eager=1", "--disable-cuda-graph")
    assert eager_sign(said) == "--enforce-eager=1"
    assert eager_sign(container("--enforce-eager=0")) == ""


@pytest.mark.parametrize(
    ("hint", "label", "pods", "seconds"),
    [
        ("0.5", "", (), 0.5),
        ("1", "", (), 1.0),
        ("0", "", (), None),
        ("1.2.3", "", (), None),
        (".", "", (), None),
        ("12.5", "13", (), 12.5),
        ("14", "13", (), 13.0),
        ("", "", (7.0, None), 7.0),
        ("", "", (0.0,), None),
        ("soon", "", (9.0, 3.0), 3.0),
    ],
)
def test_the_lowest_time_limit_that_is_told_counts(hint, label, pods, seconds):
    work = workload(
        annotations={"gputailor.io/deadline-seconds": hint},
        labels={"kueue.x-k8s.io/max-exec-time-seconds": label},
    )
    members = [
        msgspec.structs.replace(pod(f"p{place}"), deadline_seconds=limit)
        for place, limit in enumerate(pods)
    ]
    assert deadline_of(work, members) == seconds


@pytest.mark.parametrize(
    ("version", "number"), [("550.54.15", 550), ("13", 13), ("", None), ("v1.2", None)]
)
def test_the_major_is_the_first_number(version, number):
    assert major(version) == number


def surroundings(capability="", driver="", *, image="", env=None, model="A100", node_driver=""):
    """One device with what its source, its node and its container say."""
    start = NOW - HOUR
    spec = ContainerSpec(name="main", image=image, env=env or {}, gpus=pod().containers[0].gpus)
    member = msgspec.structs.replace(pod(start=start), containers=(spec,))
    known = msgspec.structs.replace(
        device(model=model), compute_capability=capability, driver_version=driver
    )
    nodes = [node(driver_version=node_driver)]
    made, world = profile(rows(start, NOW), [member], devices=[known], nodes=nodes)
    return made, context(world)


@pytest.mark.parametrize(
    ("told", "read"),
    [("8.6", (8, 6)), ("9", (9, 0)), ("9.", (9, 0)), ("9.x", None), ("x.9", None), ("", (8, 0))],
)
def test_a_card_s_architecture_is_the_driver_s_word_else_the_catalogue_s(told, read):
    made, around = surroundings(told)
    assert capability_of(made.gpus[0], around) == read


def test_a_card_that_nobody_knows_has_no_architecture():
    made, around = surroundings(model="Foo")
    assert capability_of(made.gpus[0], around) is None


def test_the_device_s_driver_comes_before_the_node_s():
    assert driver_of(*_first(surroundings(driver="1.0", node_driver="2.0"))) == "1.0"
    assert driver_of(*_first(surroundings(node_driver="2.0"))) == "2.0"


def _first(told):
    made, around = told
    return made.gpus[0], around


def test_cuda_is_read_from_the_variable_before_the_image():
    assert cuda_of(None) is None
    assert cuda_of(container()) is None
    named = ContainerSpec(name="main", image="a:cuda12.4", env={"CUDA_VERSION": "11.8.0"})
    assert cuda_of(named) == 11
    assert cuda_of(ContainerSpec(name="main", image="a:cuda12.4")) == 12


def test_an_environment_is_what_each_run_s_images_and_drivers_are():
    made, around = surroundings(driver="550.1", image="a:1")
    (found,) = environments(made, around).values()
    assert (found.image, found.driver) == ("a:1", "550.1")
    assert environments(*surroundings()) == {}
    (found,) = environments(*surroundings(image="a:1")).values()
    assert (found.image, found.driver) == ("a:1", "")


@pytest.mark.parametrize(
    ("capability", "cuda", "driver", "kind"),
    [
        ("7.0", "13", "580.1", "dropped_cuda"),
        ("7.0", "14", "580.1", "dropped_cuda"),
        ("7.5", "13", "580.1", ""),
        ("7.4", "13", "579.9", "dropped_cuda"),
        ("7.0", "12", "580.1", ""),
        ("7.0", "12", "581.0", "dropped_driver"),
        ("7.0", "", "581.0", "dropped_driver"),
        ("7.5", "12", "581.0", ""),
        ("8.0", "13", "579.9", "old_driver"),
        ("8.0", "13", "580.1", ""),
        ("8.0", "12", "524.9", "old_driver"),
        ("8.0", "12", "525.0", ""),
        ("8.0", "11", "449.9", "old_driver"),
        ("8.0", "11", "450.0", ""),
        ("8.0", "10", "1.0", ""),  # of which nothing is known
        ("8.0", "12", "", ""),
        ("8.0", "", "400.0", ""),
    ],
)
def test_what_does_not_go_together_is_told_from_each_version_on(capability, cuda, driver, kind):
    env = {"CUDA_VERSION": cuda} if cuda else {}
    made, around = surroundings(capability, driver, env=env)
    assert [one.kind for one in clashes(made.gpus, around)] == ([kind] if kind else [])


# --- opt-outs -----------------------------------------------------------------------------------


def silenced(rule="idle", now=NOW, **annotations):
    told = {f"gputailor.io/{name.replace('_', '-')}": text for name, text in annotations.items()}
    made, world = profile(rows(NOW - HOUR, NOW), [pod()], workload(annotations=told))
    return opted_out(made, dataclasses.replace(context(world), now=float(now)), rule)


def moment(*parts):
    return datetime(*parts, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("until", "ends"),
    [
        ("2030-02-03", moment(2030, 2, 3)),
        ("20300203", moment(2030, 2, 3)),
        ("2030-02-03T04:05:06", moment(2030, 2, 3, 4, 5, 6)),
        ("2030-02-03T04:05:06Z", moment(2030, 2, 3, 4, 5, 6)),
        ("2030-02-03T04:05:06+02:00", moment(2030, 2, 3, 2, 5, 6)),
    ],
)
def test_an_opt_out_ends_at_its_moment_and_not_a_second_before(until, ends):
    before, after = (
        silenced(now=ends - 1, ignore_until=until),
        silenced(now=ends, ignore_until=until),
    )
    assert isinstance(before, Silence)
    assert before.ready_at == ends
    assert before.message.key == "gate.opted_out_until"
    assert before.message.params == {
        "annotation": "gputailor.io/ignore=all", "reason": "-", "until": until
    }  # fmt: skip
    assert after is None


def test_an_opt_out_without_an_end_says_so_and_one_that_cannot_be_read_stays():
    plain = silenced(ignore="idle", reason="demo")
    assert plain is not None
    assert (plain.message.key, plain.ready_at) == ("gate.opted_out", None)
    assert plain.message.params["reason"] == "demo"
    odd = silenced(ignore="idle", ignore_until="next week, or later")
    assert odd is not None
    assert (odd.message.key, odd.ready_at) == ("gate.opted_out_until", None)
    assert silenced(ignore="too-many-gpus, spot") is None
    assert silenced("too_many_gpus", ignore="spot , too-many-gpus") is not None
    assert silenced() is None


# --- requests -----------------------------------------------------------------------------------


def asked(says):
    made, _ = profile(rows(NOW - HOUR, NOW), [pod()], outcomes={"run-1": Outcome.RUNNING})
    return msgspec.structs.replace(made, engine=says)


@pytest.mark.parametrize(
    ("last", "within"),
    [(NOW, HOUR), (NOW + 10, HOUR), (NOW - HOUR, 2 * HOUR), (NOW - 30, HOUR + 30)],
)
def test_a_request_is_known_by_its_hour(last, within):
    assert asked_within(asked(engine(last_request=float(last)))) == within


def test_who_tells_of_no_request_tells_of_none():
    assert asked_within(asked(None)) is None
    assert asked_within(asked(engine())) is None
    assert request_evidence(asked(None)) == ()
    (one,) = request_evidence(asked(engine(requests=5.0)))
    assert (one.value, one.unit) == (5.0, "requests")
    assert "(vllm)" in one.formula
