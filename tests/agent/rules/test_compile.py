"""Compile: many small kernels that leave the card mostly empty."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputailor_agent.model.inventory import ContainerSpec, TaskClass
from gputailor_agent.model.judgement import Confidence, Finding, Interval, SilenceKind
from gputailor_agent.reports.wording import say
from gputailor_agent.rules.compile import RULE
from gputailor_agent.rules.compiled import compile_sign, eager_sign
from tests.agent.factories import DAY, HOUR, NOW, context, pod, profile, rows, workload
from tests.agent.rules.advice_parts import host, job, judged, key, number, seconds_told, without
from tests.agent.rules.service_parts import answered, commanded, service, web

SMALL = {"kernel": 0.9, "sm": 0.18, "dram": 0.18}  # a fifth of the SMs and of bandwidth
FED = {"zero_inside_active_minute": 0.0, "link_saturated": 0.0}
HOST = host(cpu_of_limit=0.3, throttled_ratio=0.0, pressure={"io/some": 0.0})


def small(hours=6, **levels):
    return job(hours, FED, **{**SMALL, **levels})


def of(usage, pods, work=None, **options):
    return judged(RULE, usage, pods, work, with_host=HOST, **options)


def test_small_kernels_are_told_to_be_profiled_and_compiled():
    answer = of(*small())
    assert isinstance(answer, Finding)
    assert say(answer.message) == (
        "kernels run for 90 % of the time and fill 20 % of the card's SMs: ask a profiler, then "
        "compile or fuse its many small kernels"
    )
    assert answer.confidence == Confidence.MEDIUM
    assert answer.slowdown == Interval(low=pytest.approx(0.1 + 0.9 * 0.2), high=1.0)
    assert answer.saving.gpu_hours_per_month is None
    for word in ("nsys profile", "torch.profiler", "TensorBoard", "torch.compile"):
        assert word in answer.change.code
    assert any("nsight" in link for link in answer.change.links)
    assert answer.change.undo


@pytest.mark.parametrize(
    ("framework", "word"),
    [
        ("tensorflow", "jit_compile=True"),
        ("jax", "jax.lax.scan"),
        ("mindspore", "GRAPH_MODE"),
    ],
)
def test_each_framework_gets_its_own_lines(framework, word):
    answer = of(*small(), workload(framework=framework))
    assert isinstance(answer, Finding)
    assert word in answer.change.code


def test_a_server_is_compiled_by_tensorrt():
    answer = answered(RULE, *service(**SMALL))
    assert isinstance(answer, Finding)
    assert "torch_tensorrt" in answer.change.code


@pytest.mark.parametrize(
    ("levels", "fires", "why"),
    [
        ({"kernel": 0.5, "sm": 0.1, "dram": 0.1}, True, "found"),
        ({"kernel": 0.499, "sm": 0.1, "dram": 0.1}, False, "waits"),
        ({"kernel": 1.0, "sm": 0.299}, True, "found"),
        ({"kernel": 1.0, "sm": 0.3}, False, "fills"),
        ({"kernel": 1.0, "dram": 0.499}, True, "found"),
        ({"kernel": 1.0, "dram": 0.5}, False, "bandwidth"),
    ],
)
def test_the_thresholds_are_exact(levels, fires, why):
    answer = of(*small(**levels))
    assert isinstance(answer, Finding) is fires
    assert key(answer) == f"compile.{why}"
    if not fires:
        assert answer.kind == SilenceKind.FINE


def test_a_program_that_waits_for_its_input_is_not_helped():
    answer = judged(RULE, *small(), with_host=host(cpu_of_limit=0.95))
    assert (answer.kind, key(answer)) == (SilenceKind.FINE, "compile.input_bound")


@pytest.mark.parametrize(("share", "fires"), [(0.199, True), (0.2, False)])
def test_a_full_link_explains_empty_sms(share, fires):
    """Kernels ran in every second."""
    usage, pods = job(6, {**FED, "link_saturated": share}, **SMALL)
    answer = of(usage, pods)
    assert isinstance(answer, Finding) is fires
    if not fires:
        assert key(answer) == "compile.link_bound"


def ranks(levels):
    """One run of several GPUs, each with its own SM activity; all run kernels all the time."""
    start = NOW - 6 * HOUR
    usage = [
        one
        for place, sm in enumerate(levels)
        for one in rows(start, NOW, gpu=f"G{place}", kernel=1.0, sm=sm, dram=0.1)
    ]
    return seconds_told(usage, FED), [pod(gpus=len(levels), start=start)]


def test_one_straggler_explains_the_others_waiting():
    answer = of(*ranks([0.1, 0.1, 0.1, 0.6]))
    assert (answer.kind, key(answer)) == (SilenceKind.FINE, "compile.straggler")


def test_gpus_that_talk_to_each_other_leave_a_doubt():
    answer = of(*ranks([0.1] * 4))
    assert isinstance(answer, Finding)
    assert answer.confidence == Confidence.LOW
    assert "compile.risk_links" in {risk.key for risk in answer.risks}
    assert "talk to each other" in number(answer, "confidence").formula


@pytest.mark.parametrize(
    ("pods", "work", "talks"),
    [
        (1, workload(), False),
        (2, workload(), True),
        (2, workload(kind="Deployment", task=TaskClass.INFERENCE), False),
    ],
)
def test_pods_of_one_run_talk_and_replicas_of_a_service_do_not(pods, work, talks):
    start = NOW - 8 * DAY
    made = [pod(f"p{place}", start=start) for place in range(pods)]
    usage = [
        one
        for place in range(pods)
        for one in rows(
            start, NOW, pod=f"p{place}", gpu=f"G{place}", kernel=0.9, sm=0.18, dram=0.18
        )
    ]
    answer = of(seconds_told(usage, FED), made, work)
    assert isinstance(answer, Finding)
    assert ("compile.risk_links" in {risk.key for risk in answer.risks}) is talks


def test_what_is_not_known_of_its_input_leaves_a_doubt():
    answer = judged(RULE, *small())
    assert isinstance(answer, Finding)
    assert answer.confidence == Confidence.LOW
    assert "CPU used of its limit" in number(answer, "confidence").formula


def test_an_unknown_framework_gets_pages_and_the_profiler_only():
    answer = of(*small(), workload(framework=""))
    assert isinstance(answer, Finding)
    assert answer.confidence == Confidence.LOW
    assert "nsys profile" in answer.change.code
    assert "import" not in answer.change.code
    assert "torch" not in answer.change.code


def test_what_is_compiled_already_is_left_to_a_profiler():
    usage, pods = small()
    answer = of(usage, commanded(pods, "train.py", "--torch-compile"))
    assert (answer.kind, key(answer)) == (SilenceKind.FINE, "compile.asked")
    assert answer.message.params["sign"] == "argument --torch-compile"


def test_an_engine_with_kernels_of_its_own_is_told_apart_unless_it_is_kept_from_them():
    work = web(framework="vllm")
    usage, pods = service(**SMALL)
    own = answered(RULE, usage, pods, work)
    assert (own.kind, key(own)) == (SilenceKind.FINE, "compile.engine")
    eager = answered(RULE, usage, commanded(pods, "serve", "M", "--enforce-eager"), work)
    assert isinstance(eager, Finding)
    assert key(eager) == "compile.eager"
    assert eager.change.params["option"] == "--enforce-eager"
    assert eager.change.undo == "put --enforce-eager back"


@pytest.mark.parametrize(
    ("args", "env", "sign"),
    [
        (["--compile"], {}, "argument --compile"),
        (["--model.compile=true"], {}, "argument --model.compile"),
        (["--compile", "false"], {}, ""),
        (["--jit_compile=0"], {}, ""),
        (["--compiler-flags", "x"], {}, ""),
        ([], {"TF_XLA_FLAGS": "--tf_xla_auto_jit=2"}, "variable TF_XLA_FLAGS"),
        ([], {"TF_XLA_FLAGS": "--tf_xla_auto_jit=0"}, ""),
        ([], {"ACCELERATE_DYNAMO_BACKEND": "inductor"}, "variable ACCELERATE_DYNAMO_BACKEND"),
        ([], {"ACCELERATE_DYNAMO_BACKEND": "no"}, ""),
        ([], {"TORCH_COMPILE": "1"}, "variable TORCH_COMPILE"),
        ([], {}, ""),
    ],
)
def test_signs_of_a_compiler(args, env, sign):
    assert compile_sign(ContainerSpec(name="c", args=tuple(args), env=env)) == sign


def test_only_a_switch_that_is_on_keeps_an_engine_from_graphs():
    def eager(*args):
        return eager_sign(ContainerSpec(name="c", args=args))

    assert eager("--enforce-eager") == "--enforce-eager"
    assert eager("--disable_cuda_graph") == "--disable_cuda_graph"
    assert eager("--enforce-eager=false") == ""
    assert eager("serve") == ""


@pytest.mark.parametrize("signal", ["sm", "dram"])
def test_a_signal_that_cannot_be_read_is_named(signal):
    levels = {name: level for name, level in SMALL.items() if name != signal}
    answer = of(*job(6, FED, **levels))
    assert (answer.kind, key(answer)) == (SilenceKind.UNKNOWN, "compile.no_signal")
    assert answer.missing_signals == (signal,)


def test_without_kernel_activity_it_is_not_known_how_long_anything_ran():
    made, world = profile(*small(), workload(framework="pytorch"))
    answer = RULE.evaluate(without(made, "kernel"), context(world))
    assert answer.kind == SilenceKind.UNKNOWN
    assert "kernel" in answer.missing_signals


def test_below_the_gate_it_watches_and_a_short_run_is_too_short():
    assert key(of(*small(hours=0.5))) == "gate.batch_runs"
    assert key(of(*small(observed=0.8 * HOUR))) == "gate.coverage"


def test_a_notebook_and_what_never_ran_are_not_judged():
    notebook = workload("nb", "Notebook", TaskClass.NOTEBOOK)
    assert key(answered(RULE, *service(**SMALL), notebook)) == "compile.notebook"
    assert key(of(*small(kernel=0.0, sm=0.0, dram=0.0))) == "compile.nothing_ran"


def test_tf32_that_keeps_tensor_cores_busy_changes_nothing_here():
    assert isinstance(of(*small(tensor=0.1)), Finding)


def test_memory_taken_in_advance_changes_nothing_here():
    assert isinstance(of(*small(memory_gib=76), workload(framework="pytorch", preallocates=True)),
                      Finding)  # fmt: skip


@given(
    kernel=st.sampled_from([0.2, 0.6, 1.0]),
    sm=st.sampled_from([0.1, 0.28, 0.4]),
    dram=st.sampled_from([0.1, 0.6]),
    lost=st.sampled_from(["kernel", "sm", "dram"]),
)
@settings(max_examples=50, deadline=None)
def test_a_signal_that_is_lost_never_makes_a_finding(kernel, sm, dram, lost):
    usage, pods = job(3, FED, kernel=kernel, sm=sm * kernel, dram=dram * kernel)
    made, world = profile(usage, pods, workload(framework="pytorch"))
    made = msgspec.structs.replace(made, host=HOST)
    if isinstance(RULE.evaluate(without(made, lost), context(world)), Finding):
        assert isinstance(RULE.evaluate(made, context(world)), Finding)
