"""Another vendor: a note, and only where it is allowed."""

import msgspec
import pytest

from gputailor_agent.catalog import load_catalogue
from gputailor_agent.model.inventory import TaskClass
from gputailor_agent.model.judgement import Confidence, Finding, Severity, SilenceKind
from gputailor_agent.reports.wording import say
from gputailor_agent.rules import evaluate_all, registry
from gputailor_agent.rules.other_vendor import RULE, build_for, vendor_table
from tests.agent.factories import HOUR, FakeCatalogue, context, profile, spec, workload
from tests.agent.rules.advice_parts import job, judged, key

BUSY = {"kernel": 0.8, "sm": 0.6, "dram": 0.5, "tensor": 0.3, "memory_gib": 100, "total_gib": 141}
ALLOWED = {"allowed": 1.0}


def catalogue(*others):
    made = FakeCatalogue()
    made.devices = (*made.devices, *others)
    return made


def other(key_, vendor, memory, **figures):
    return msgspec.structs.replace(spec(key_, memory, compute_capability="", **figures),
                                   vendor=vendor)  # fmt: skip


MI = other("MI", "AMD", 192, bandwidth_bytes_per_second=5e12, fp16_tensor_flops=1300e12)
ASCEND = other("Ascend", "Huawei", 128, bandwidth_bytes_per_second=3e12, fp16_tensor_flops=700e12)


def told(usage, pods, work=None, *, cards=(MI, ASCEND), thresholds=ALLOWED):
    return judged(RULE, usage, pods, work or workload(framework="pytorch"),
                  thresholds=thresholds, catalogue=catalogue(*cards))  # fmt: skip


def test_by_default_no_other_vendor_is_named():
    answer = told(*job(6, **BUSY), thresholds=None)
    assert (answer.kind, key(answer)) == (SilenceKind.NOT_APPLICABLE, "other_vendor.not_allowed")
    assert next(one.default for one in RULE.thresholds if one.name == "allowed") == 0


def test_where_it_is_allowed_it_is_a_note_without_a_saving():
    answer = told(*job(6, **BUSY))
    assert isinstance(answer, Finding)
    assert (answer.severity, answer.confidence) == (Severity.INFO, Confidence.LOW)
    assert answer.saving.gpu_hours_per_month is None
    assert "Ascend of Huawei would hold it (115.0 GiB needed)" in say(answer.message)
    assert "torch_npu" in answer.change.code
    assert [say(one) for one in answer.not_chosen if one.key == "other_vendor.also"] == [
        "MI of AMD holds it as well, at up to 1.00x the time"
    ]
    assert "other_vendor.no_price" in {risk.key for risk in answer.risks}


@pytest.mark.parametrize(("memory", "fires"), [(118, True), (117, False)])
def test_the_need_with_headroom_must_fit(memory, fires):
    """100 GiB x 1.15 = 115 GiB, of 0.98 of the nominal memory."""
    card = msgspec.structs.replace(MI, usable_memory_bytes=int(memory * 0.98 * 1024**3))
    assert isinstance(told(*job(6, **BUSY), cards=[card]), Finding) is fires


@pytest.mark.parametrize(("bandwidth", "fires"), [(2.0e12 / 1.62, True), (2.0e12 / 1.64, False)])
def test_the_work_may_take_half_as_long_again_and_no_more(bandwidth, fires):
    """Active for 0.8 of the time: 0.2 + 0.8 x 1.62 < 1.5 < 0.2 + 0.8 x 1.64."""
    card = msgspec.structs.replace(MI, bandwidth_bytes_per_second=bandwidth)
    answer = told(*job(6, **BUSY), cards=[card])
    assert isinstance(answer, Finding) is fires
    if not fires:
        assert (answer.kind, key(answer)) == (SilenceKind.FINE, "other_vendor.none")


def test_a_card_without_figures_is_not_guessed_at():
    bare = msgspec.structs.replace(MI, bandwidth_bytes_per_second=None)
    assert key(told(*job(6, **BUSY), cards=[bare])) == "other_vendor.none"


def test_a_vendor_without_a_build_of_the_framework_is_left_out():
    answer = told(*job(6, **BUSY), workload(framework="tensorflow"), cards=[ASCEND])
    assert key(answer) == "other_vendor.none"
    mind = told(*job(6, **BUSY), workload(framework="mindspore"), cards=[ASCEND])
    assert isinstance(mind, Finding)
    assert "mindspore.set_device" in mind.change.code


@pytest.mark.parametrize(
    ("work", "levels", "why"),
    [
        (workload(framework=""), {}, "no_software"),
        (workload(framework="jax", preallocates=True), {}, "preallocates"),
        (workload(framework="pytorch"), {"memory_gib": None}, "no_memory"),
    ],
)
def test_what_is_not_known_is_said(work, levels, why):
    answer = told(*job(6, **{**BUSY, **levels}), work)
    assert (answer.kind, key(answer)) == (SilenceKind.UNKNOWN, f"other_vendor.{why}")


def test_what_never_ran_or_was_not_watched_is_not_judged():
    idle = told(*job(6, **{**BUSY, "kernel": 0.0, "sm": 0.0, "dram": 0.0, "tensor": 0.0}))
    assert key(idle) == "other_vendor.nothing_ran"
    assert key(told(*job(6, **BUSY, observed=0.8 * HOUR))) == "gate.coverage"


def test_an_out_of_memory_kill_raises_the_need():
    usage, pods = job(6, **BUSY)
    killed = [msgspec.structs.replace(pods[0], oom_killed=True)]
    made, world = profile(usage, killed, workload(framework="pytorch"))
    answer = RULE.evaluate(made, context(world, catalogue(MI), other_vendor=ALLOWED))
    assert not isinstance(answer, Finding)  # nothing is taken from a run that failed


def test_in_no_plan_another_vendor_is_mentioned_unless_it_is_allowed():
    made, world = profile(*job(6, **BUSY), workload(framework="pytorch", task=TaskClass.TRAINING))
    answers = evaluate_all(made, context(world, catalogue(MI)))
    assert not [one for one in answers if one.rule == "other_vendor" and isinstance(one, Finding)]
    assert "other_vendor" in {rule.id for rule in registry()}


def test_every_vendor_is_one_of_the_catalogue_and_every_page_is_a_page():
    known = {device.vendor for device in load_catalogue().devices}
    assert set(vendor_table()) <= known
    for builds in vendor_table().values():
        for lines in builds.values():
            assert lines.link.startswith("https://")
            assert lines.code.strip()


def test_the_engine_counts_before_its_framework():
    assert build_for(workload(framework="vllm"), "AMD") is not None
    assert build_for(workload(framework="deepspeed"), "AMD") == (
        "PyTorch",
        vendor_table()["AMD"]["PyTorch"],
    )
    assert build_for(workload(framework="triton"), "AMD") is None
