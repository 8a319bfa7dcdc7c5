"""Compile: kernels run all the time and fill little of the card.

Kernel activity >= 0.5 (it hardly waits) while the SMs are busy for less than 0.3 of that time, and
memory for less than half: many small kernels, each too small for the card. Ordinary training of
language models has a median SM activity of 0.34 to 0.5, so the threshold lies below it. What else
looks so is told apart: a program that waits for its input, a full link, ranks that wait for a slow
one (a rank that waits runs a kernel, too), memory that is the wall (``bandwidth_bound``), and what
is compiled already. GPUs that talk to each other leave a doubt, since their waiting shows as a
kernel: then the confidence is low. First of all a profiler should be asked, so its command is part
of the advice. How much faster it gets is not measured: no saving is counted.
"""

from typing import Final

import msgspec

from gputailor_agent.model.inventory import TaskClass
from gputailor_agent.model.judgement import (
    Change,
    Confidence,
    Evidence,
    Finding,
    Interval,
    Message,
    Saving,
    Severity,
    Silence,
    SilenceKind,
)
from gputailor_agent.model.profile import Profile
from gputailor_agent.profiles.courses import stragglers
from gputailor_agent.rules.advising import (
    Advice,
    Case,
    containers_of,
    edit_code,
    opened,
    running_seconds,
)
from gputailor_agent.rules.base import (
    Context,
    Rule,
    Threshold,
    held_against,
    message,
    noted,
)
from gputailor_agent.rules.compiled import ENGINES, compile_sign, eager_sign
from gputailor_agent.rules.feeding import FEEDING_THRESHOLDS, feeding
from gputailor_agent.rules.gates import GATE_MESSAGES, SIZING_THRESHOLDS, steady_mean
from gputailor_agent.rules.running import RUNNING, held_while_running
from gputailor_agent.rules.snippets import family, snippet

_ID: Final = "compile"
_LINK: Final = "link_saturated"
_NSIGHT: Final = "https://docs.nvidia.com/nsight-systems/UserGuide/index.html"
_FORMULA: Final = "[1 - G + G SM, 1], G: share of time active; SM: mean while it runs"
#: Nsight Systems, around whatever the container runs.
_PROFILE: Final = (
    "# Nsight Systems: in front of the container's own command, for one minute after two\n"
    "# nsys profile --trace=cuda,nvtx,osrt --delay=120 --duration=60 --output=trace COMMAND\n"
    "# nsys stats --report cuda_gpu_kern_sum,cuda_api_sum trace.nsys-rep\n"
)

_THRESHOLDS: Final = (
    *SIZING_THRESHOLDS,
    Threshold("busy_least", 0.5, "ratio", "kernel activity: below it waits; own default"),
    Threshold("sm_below", 0.3, "ratio", "mean SM activity while it runs; own default"),
    Threshold("dram_below", 0.5, "ratio", "mean DRAM activity while it runs: above it is the wall"),
    Threshold("link_below", 0.2, "ratio", "active time with a full link: above that is the wall"),
    *FEEDING_THRESHOLDS,
)

_MESSAGES: Final = {
    **GATE_MESSAGES,
    "compile.found": "kernels run for {busy:ratio} of the time and fill {sm:ratio} of the card's "
    "SMs: ask a profiler, then compile or fuse its many small kernels",
    "compile.eager": "kernels run for {busy:ratio} of the time and fill {sm:ratio} of the card's "
    "SMs: {option} keeps its engine from CUDA graphs, run it without",
    "compile.unquantified": "how much faster it gets is known only after one run",
    "compile.notebook": "a person works in it: what runs changes by the hour",
    "compile.no_signal": "unknown: {signals}: not read here, or for less than "
    "{threshold:ratio} of the time; dcgm-exporter has DRAM by default and SM activity once it is "
    "switched on, the GPU Tailor exporter has both on Hopper and later cards",
    "compile.nothing_ran": "nothing ran: see idle",
    "compile.waits": "it runs kernels for {busy:ratio} of the time only: what it waits for comes "
    "first",
    "compile.fills": "what it runs fills {sm:ratio} of the card's SMs: its kernels are not small",
    "compile.bandwidth": "its memory is busy for {dram:ratio} of the time it runs: see "
    "bandwidth_bound",
    "compile.input_bound": "it waits for its input: see input_bound",
    "compile.link_bound": "a link is full for {share:ratio} of the active time: see link_bound",
    "compile.straggler": "GPUs of one run are busy to different degrees, and ranks that wait run a "
    "kernel, too: see straggler",
    "compile.asked": "it is compiled already ({sign}): a profiler would tell what is left",
    "compile.engine": "its engine ({engine}) brings compiled kernels: larger batches fill them, "
    "see serving",
    "compile.risk_time": "the first steps take minutes longer, and each new shape compiles again",
    "compile.risk_result": "fused kernels add in another order: results differ in the last digits",
    "compile.risk_memory": "CUDA graphs keep memory of their own",
    "compile.risk_links": "its GPUs talk to each other, and waiting for one another shows as a "
    "kernel: the profiler tells which it is",
    "compile.not_batch": "a larger batch: it fills the card as well, but it changes how a model "
    "learns and needs memory",
    "compile.not_smaller": "a smaller card for the same small kernels: rules of size look at that",
}


def evaluate(profile: Profile, context: Context) -> Finding | Silence:
    """Say whether many small kernels leave the card mostly empty."""
    case = opened(RULE, profile, context)
    if isinstance(case, Silence):
        return case
    basis = case.basis
    limits = case.limits
    if profile.workload.task_class == TaskClass.NOTEBOOK:
        return case.silent(SilenceKind.NOT_APPLICABLE, message("compile.notebook"))
    if basis.use(basis.busy).active_seconds == 0:
        return case.silent(SilenceKind.NOT_APPLICABLE, message("compile.nothing_ran"))
    unread = case.missing("sm", "dram")
    if basis.busy not in RUNNING:
        unread += ("kernel",)
    if unread:
        least = limits["coverage"]
        why = message("compile.no_signal", signals=", ".join(unread), threshold=least)
        return case.silent(SilenceKind.UNKNOWN, why, missing=unread)
    return _judged(case)


def _judged(case: Case) -> Finding | Silence:
    busy = held_against(
        f"mean {case.basis.busy}", steady_mean(case.basis.uses, case.basis.busy), ">=",
        case.limits["busy_least"], unit="ratio", profile=case.profile, signal=case.basis.busy,
        formula="active / observed seconds without warm-up",
    )  # fmt: skip
    sm = held_while_running(case, "sm", "<", "sm_below")
    dram = held_while_running(case, "dram", "<", "dram_below")
    numbers = (busy, sm, dram)
    params = {"busy": busy.value, "sm": sm.value, "dram": dram.value}
    for one, key in ((busy, "waits"), (sm, "fills"), (dram, "bandwidth")):
        if not one.passed:
            return case.silent(SilenceKind.FINE, message(f"{_ID}.{key}", **params), numbers)
    full = _full_link(case)
    fed = feeding(case)
    why = _another_reason(case, full, bound=fed.bound)
    if why is not None:
        return case.silent(SilenceKind.FINE, why, (*numbers, full, *fed.evidence))
    return _unless_compiled(case, (*numbers, full), fed.unknown)


def _full_link(case: Case) -> Evidence:
    full, running = case.basis.total.conditions.get(_LINK), running_seconds(case.basis)
    return held_against(
        "active time with a full link",
        min(1.0, full / running) if full is not None and running else None,
        "<",
        case.limits["link_below"],
        unit="ratio",
        profile=case.profile,
        formula="seconds with a link at 0.6 or more / most seconds in which anything ran",
    )


def _another_reason(case: Case, full: Evidence, *, bound: bool) -> Message | None:
    """What else explains small kernels; what is not known is no reason, but leaves a doubt."""
    if bound:
        return message("compile.input_bound")
    if full.value is not None and not full.passed:
        return message("compile.link_bound", share=full.value)
    return message("compile.straggler") if stragglers(case.profile) else None


def _unless_compiled(
    case: Case, numbers: tuple[Evidence, ...], unknown: tuple[str, ...]
) -> Finding | Silence:
    specs = [spec for _, spec in containers_of(case.profile, case.context)]
    eager = next((option for spec in specs if (option := eager_sign(spec))), "")
    sign = next((sign for spec in specs if (sign := compile_sign(spec))), "")
    told = noted("sign of a compiler", sign or eager or None, profile=case.profile,
                 formula="arguments and variables of every known pod")  # fmt: skip
    engine = case.profile.workload.framework
    why = None
    if sign:
        why = message("compile.asked", sign=sign)
    elif engine in ENGINES and not eager:
        why = message("compile.engine", engine=engine)
    if why is not None:
        return case.silent(SilenceKind.FINE, why, (*numbers, told))
    return _finding(case, (*numbers, told), eager, unknown)


def _finding(
    case: Case, numbers: tuple[Evidence, ...], eager: str, unknown: tuple[str, ...]
) -> Finding:
    busy, sm = (float(item.value or 0.0) for item in numbers[:2])
    talking = _talking(case)
    confidence, reason = _confidence(case, talking=talking, eager=eager, unknown=unknown)
    why = message("compile.found", busy=busy, sm=sm)
    if eager:
        why = message("compile.eager", busy=busy, sm=sm, option=eager)
    risks = [message("compile.risk_time"), message("compile.risk_result")]
    if eager or family(case.profile.workload) == "PyTorch":
        risks.append(message("compile.risk_memory"))
    if talking:
        risks.append(message("compile.risk_links"))
    advice = Advice(
        severity=Severity.LOW if confidence is Confidence.LOW else Severity.MEDIUM,
        confidence=confidence,
        reason=reason,
        change=_change(case.profile, eager),
        saving=Saving(why=message("compile.unquantified"), formula=_FORMULA),
        slowdown=Interval(low=1.0 - busy + busy * sm, high=1.0),
        risks=tuple(risks),
        not_chosen=(message("compile.not_batch"), message("compile.not_smaller")),
    )
    return case.found(why, advice, numbers)


def _talking(case: Case) -> bool:
    """Whether several GPUs work on one run, as the number of its GPUs tells."""
    service = case.profile.workload.task_class == TaskClass.INFERENCE
    gpus = max((run.gpus for run in case.profile.runs), default=1.0)
    return case.profile.gpus_per_pod > 1 or (gpus > 1 and not service)


def _confidence(
    case: Case, *, talking: bool, eager: str, unknown: tuple[str, ...]
) -> tuple[Confidence, str]:
    if eager:
        return Confidence.MEDIUM, "the option is known and the SMs are empty; what it brings is not"
    if talking:
        return Confidence.LOW, "its GPUs talk to each other, and waiting shows as a kernel"
    if not family(case.profile.workload):
        return Confidence.LOW, "the framework is not known, so neither is what could compile it"
    if unknown:
        signs = ", ".join(unknown)
        return Confidence.LOW, f"whether it waits for its input is not known for certain: {signs}"
    return Confidence.MEDIUM, "activities were measured; what a compiler brings was not"


def _change(profile: Profile, eager: str) -> Change:
    if eager:
        return Change(
            kind="edit_arguments",
            target=edit_code(profile, snippet("compile", profile.workload)).target,
            params={"option": eager},
            code=f"# take {eager} out of the container's arguments\n{_PROFILE}",
            links=("https://docs.vllm.ai/en/latest/configuration/optimization.html", _NSIGHT),
            undo=f"put {eager} back",
        )
    served = profile.workload.task_class == TaskClass.INFERENCE
    topic = "compiled_serving" if served else "small_kernels"
    change = edit_code(profile, snippet(topic, profile.workload))
    code = f"{_PROFILE}{change.code}"
    return msgspec.structs.replace(change, code=code, links=(*change.links, _NSIGHT))


RULE: Final = Rule(
    id=_ID,
    title="Small kernels",
    summary="Kernels run all the time and leave most of the card empty: profile and compile.",
    signals=("sm", "kernel", "dram"),
    thresholds=_THRESHOLDS,
    messages=_MESSAGES,
    evaluate=evaluate,
    order=66,
)
