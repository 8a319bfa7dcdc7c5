"""What every rule says in each of its worlds, to the last number: ``answers/<rule>.txt``.

Beside the formulas' own tests: nothing of an answer may change unseen, be it a threshold it names,
a number in a message, a line of a patch or what it saves. Of the first world of each rule there is
also how its answer changes with the circumstances (``+`` and ``-`` lines); of circumstances that
change nothing there is nothing. Whoever changes a rule runs ``python -m tests.agent.rules.answers``
and reads the difference before committing it.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from gputailor_agent.model.judgement import Change, Evidence, Finding, Message, Silence
from gputailor_agent.rules import changes, scaling
from tests.agent.factories import DAY, NOW, context, pod, profile, rows
from tests.agent.rules.circumstances import CIRCUMSTANCES
from tests.agent.rules.pool_parts import POOLS, in_pool
from tests.agent.rules.worlds import WORLDS, Built, built

FOLDER: Final = Path(__file__).with_name("answers")
#: Kinds of owners, each with a template, a way to be scaled or a way to be stopped of its own.
KINDS: Final = ("Deployment", "StatefulSet", "ReplicaSet", "DaemonSet", "Job", "CronJob",
                "PyTorchJob", "MPIJob", "Notebook", "Pod", "Service", "InferenceService",
                "RayCluster")  # fmt: skip
PLAIN, _world = profile(rows(NOW - DAY, NOW), [pod(start=NOW - DAY)])
AROUND: Final = context(_world)


def exact(value: Any) -> str:
    """A value as it is compared: floats to nine digits, so that every machine agrees."""
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def _message(said: Message) -> str:
    params = ", ".join(f"{name}={exact(value)}" for name, value in sorted(said.params.items()))
    return f"{said.key} ({params})"


def _number(one: Evidence) -> str:
    held = f" {one.comparison} {exact(one.threshold)}: {one.passed}" if one.comparison else ""
    seen = "" if one.coverage is None else f" coverage {exact(one.coverage)}"
    count = "" if one.samples is None else f" of {one.samples} samples"
    return f"  {one.name} = {exact(one.value)} {one.unit}{held}{seen}{count}"


def _block(title: str, text: str) -> Iterator[str]:
    if text:
        yield f"  {title}:"
        yield from (f"    {line}".rstrip() for line in text.splitlines())


def _change(change: Change) -> Iterator[str]:
    params = ", ".join(f"{name}={exact(value)}" for name, value in sorted(change.params.items()))
    yield f"  change {change.kind} of {change.target} ({params})"
    for title in ("patch", "command", "code", "undo"):
        yield from _block(title, getattr(change, title))
    yield from (f"  see {link}" for link in change.links)


def _advice(finding: Finding) -> Iterator[str]:
    saving, slower = finding.saving, finding.slowdown
    money = saving.money_per_month
    hours = exact(saving.gpu_hours_per_month)
    yield (
        f"  saves {hours} GPU-hours, "
        + ("no money told" if money is None else f"{exact(money.amount)} {money.currency}")
        + f" [{saving.formula}]"
    )
    if saving.why is not None:
        yield f"  because {_message(saving.why)}"
    if slower is not None:
        yield f"  slowdown {exact(slower.low)} to {exact(slower.high)}"
    yield from _change(finding.change)
    yield from (f"  risk {_message(one)}" for one in finding.risks)


def written(answer: Finding | Silence) -> list[str]:
    """An answer, line by line."""
    if isinstance(answer, Finding):
        head = f"{_message(answer.message)} {answer.severity}, {answer.confidence} confidence"
    else:
        head = f"{_message(answer.message)} {answer.kind}"
    lines = [head, *map(_number, answer.evidence)]
    if isinstance(answer, Finding):
        lines += _advice(answer)
    else:
        ready = [] if answer.ready_at is None else [f"  ready at {exact(answer.ready_at)}"]
        missing = [f"  missing {name}" for name in answer.missing_signals]
        lines += [*ready, *missing]
    return [*lines, *(f"  not chosen {_message(one)}" for one in answer.not_chosen)]


def in_world(rule: str, name: str) -> list[str]:
    """What the rule says in one of its worlds."""
    return written(built(rule, name).answer(rule))


def changed_by(rule: str, circumstance: str) -> list[str]:
    """How a circumstance changes what the rule says where it fires; nothing where it does not."""
    world = CIRCUMSTANCES[circumstance](WORLDS[rule]["fires"]())
    other, plain = written(Built(world, *world.made()).answer(rule)), in_world(rule, "fires")
    more = [f"+ {line.strip()}" for line in other if line not in plain]
    if other[0].split()[0] != plain[0].split()[0]:  # another answer: what it is not is no news
        return more
    return more + [f"- {line.strip()}" for line in plain if line not in other]


def changes_of(kind: str) -> list[str]:
    """Every change that a rule may advise for a workload of this kind, as an owner is told it."""
    world = msgspec.structs.replace(PLAIN.workload, kind=kind)
    made = msgspec.structs.replace(PLAIN, workload=world)
    links = ("https://kubernetes.io/",)
    told = [
        changes.release(made, AROUND),
        changes.set_replicas(made, 2),
        changes.set_gpus(made, 3),
        changes.set_time_limit(made, 1800, 86_400.0, links),
        scaling.to_zero(made, 1234.5),
    ]
    if kind == KINDS[0]:  # of these only the place of the pods' template differs by kind
        told += [
            changes.set_gpu_type(made, "L4", "NVIDIA-L4", "NVIDIA", ""),
            changes.set_gpu_type(made, "MI300X", "MI300X", "AMD", ""),
            changes.set_gpu_type(made, "A100 1g.10gb", "A100", "NVIDIA", "1g.10gb"),
            changes.set_cpu_limit(made, 12.5, 4.0),
            changes.set_requests(made, 1.5, None, links),
            changes.set_requests(made, None, 12, links),
            changes.mount_shared_memory(made, 8),
            changes.select_nodes(made, "use_spot", {"capacity": "spot"}, {"hours": 2.0}),
            changes.cordon(("node-a", "node-b"), "nvidia-smi -q", links),
            changes.cordon((), "nvidia-smi -q", links),
        ]
    return [line for change in told for line in _change(change)]


def pages() -> dict[str, dict[str, list[str]]]:
    """All that is written, by file and title."""
    told = {rule: _of_rule(rule) for rule in WORLDS}
    pools = {name: of_pool(name) for name in POOLS}
    return {**told, "changes": {kind: changes_of(kind) for kind in KINDS}, "unallocated": pools}


def of_pool(name: str) -> list[str]:
    """What is said of GPUs that nobody holds, in one of the pools."""
    return [line for answer in in_pool(name) for line in written(answer)]


def _of_rule(rule: str) -> dict[str, list[str]]:
    parts = {name: in_world(rule, name) for name in WORLDS[rule]}
    other = {f"with {name}": changed_by(rule, name) for name in CIRCUMSTANCES}
    return {**parts, **{name: lines for name, lines in other.items() if lines}}


def read(file: str) -> dict[str, list[str]]:
    """What was written into a file: lines by world, and by ``with`` a circumstance."""
    text = (FOLDER / f"{file}.txt").read_text("utf-8")
    parts = [part.splitlines() for part in text.removeprefix("== ").split("\n\n== ")]
    return {lines[0]: lines[1:] for lines in parts}


def main() -> None:
    """Write the files anew."""
    FOLDER.mkdir(exist_ok=True)
    for file, parts in pages().items():
        text = "\n\n".join("\n".join([f"== {title}", *lines]) for title, lines in parts.items())
        (FOLDER / f"{file}.txt").write_text(f"{text}\n", "utf-8")


if __name__ == "__main__":
    main()
