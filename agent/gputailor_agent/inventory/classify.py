"""What a workload does and with what: task class, framework or engine, pre-allocation.

Every answer names the evidence that decided it, and whether that leaves another reading. The
knowledge is in ``classify.yaml`` and ``kinds.yaml``. Evidence in falling order: kinds made for one
purpose, the container's command, image and variables, names people gave, kinds made for anything,
ports. Nothing found is ``unknown``, not a guess.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from gputailor_agent.inventory.evidence import (
    ClassRow,
    Seen,
    class_table,
    compiled,
    see,
    split_image,
    strong_evidence,
    weak_evidence,
)
from gputailor_agent.inventory.kinds import KindRow, kind_table, known_kind
from gputailor_agent.model.inventory import ContainerSpec, TaskClass


class Classification(msgspec.Struct, frozen=True, kw_only=True):
    """What was found; evidence is '' where nothing was. ``…_sure``: it has no other reading."""

    task_class: TaskClass = TaskClass.UNKNOWN
    task_evidence: str = ""
    task_sure: bool = False
    framework: str = ""
    framework_evidence: str = ""
    framework_sure: bool = False
    preallocates: bool = False
    preallocates_evidence: str = ""


class _Framework(msgspec.Struct, frozen=True, kw_only=True):
    row: ClassRow | None = None
    name: str = ""
    evidence: str = ""
    sure: bool = False
    row_seen: bool = False  # by the container itself, not by its kind


class _Task(msgspec.Struct, frozen=True, kw_only=True):
    task: TaskClass = TaskClass.UNKNOWN
    evidence: str = ""
    sure: bool = False


def _framework(seen: Seen, kinds: Sequence[str]) -> _Framework:
    rows = class_table().frameworks
    passed: dict[int, str] = {}  # an engine's image, and in it a launcher of training
    for place, row in enumerate(rows):
        evidence = next(strong_evidence(row, seen), "") if row.sure else ""
        if evidence and row.role and seen.launched and not evidence.startswith("command"):
            passed[place] = evidence
        elif evidence:
            return _Framework(
                row=row, name=row.name, evidence=evidence, sure=not passed, row_seen=True
            )
    for place, row in enumerate(rows):  # what is sure was looked at
        strong = passed.get(place, "") if row.sure else next(strong_evidence(row, seen), "")
        if evidence := strong or next(weak_evidence(row, seen), ""):
            return _Framework(row=row, name=row.name, evidence=evidence, row_seen=True)
    for kind in kinds:
        if name := known_kind(kind).framework:
            known = next((row for row in rows if row.name == name), None)
            return _Framework(row=known, name=name, evidence=f"kind {kind}", sure=True)
    return _Framework()


def _preallocates(row: ClassRow | None, seen: Seen) -> tuple[bool, str]:
    if row is None or not row.preallocates:
        return False, ""
    for name, values in row.unless_env.items():
        if compiled(values).fullmatch(seen.env.get(name, "")):
            return False, f"environment {name}={seen.env[name]}"
    if row.unless_command and (found := compiled(row.unless_command).search(seen.command)):
        return False, f"argument {found.group(0)}"
    if row.tell:
        if found := compiled(row.tell).search(seen.command):
            return True, f"argument {found.group(0)}"
        if row.tell in seen.env:
            return True, f"environment {row.tell}={seen.env[row.tell]}"
    return True, f"{row.name}: {row.default}"


def _of_kinds(kinds: Sequence[str], *, weak: bool) -> _Task | None:
    for kind in kinds:
        row = known_kind(kind)
        if row.task and row.weak == weak:
            return _Task(task=TaskClass(row.task), evidence=f"kind {kind}", sure=not weak)
    return None


def _of_rows(seen: Seen, runs: KindRow | None, *, weak: bool, only: str = "") -> Iterator[_Task]:
    """What the rows say, in their order.

    A notebook's image in which something else is started is none in a run that ends, and perhaps
    one in a service.
    """
    for row in class_table().tasks:
        if only not in {"", row.task}:
            continue
        other = row.task == TaskClass.NOTEBOOK and seen.own_program
        by_image = not seen.idle and not (other and runs is not None)
        found = list(strong_evidence(row, seen, images=by_image))
        sure = row.sure and bool(found) and not (other and found[0].startswith("image"))
        found += list(weak_evidence(row, seen)) if weak else []
        if found:
            yield _Task(task=TaskClass(row.task), evidence=found[0], sure=sure)


def _of_engine(framework: _Framework, seen: Seen, runs: KindRow | None) -> _Task | None:
    if framework.row is None or not framework.row.role or seen.idle:
        return None
    if runs is None:
        role = TaskClass(framework.row.role)
        return _Task(task=role, evidence=framework.evidence, sure=framework.sure)
    server = compiled(class_table().servers).search(seen.command)
    if server is not None or not (runs.task or seen.own_program):  # a bare pod may well serve
        return _Task(task=TaskClass(framework.row.role), evidence=framework.evidence)
    # an engine that a program of one's own drives works a list off and ends
    return _Task(task=TaskClass.BATCH, evidence=f"{framework.evidence} in a run that ends")


def _of_container(seen: Seen, framework: _Framework, runs: KindRow | None) -> _Task | None:
    """A notebook is one whatever else it holds; variables of an engine give way to a command."""
    found = next(_of_rows(seen, runs, weak=True, only=TaskClass.NOTEBOOK), None)
    if found is None and not framework.sure:
        found = next(_of_rows(seen, runs, weak=False), None)
    return found or _of_engine(framework, seen, runs) or next(_of_rows(seen, runs, weak=True), None)


def _of_names(names: Sequence[str]) -> _Task | None:
    for name in names:
        for row in class_table().tasks:
            if row.name and compiled(row.name).search(name):
                return _Task(task=TaskClass(row.task), evidence=f"name {name}")
    return None


def _of_ports(ports: Sequence[int]) -> _Task | None:
    for row in class_table().ports:
        for port in ports:
            if port in row.ports:
                return _Task(task=TaskClass(row.task), evidence=f"port {port} ({row.says})")
    return None


def _task(
    seen: Seen,
    framework: _Framework,
    kinds: Sequence[str],
    names: Sequence[str],
    ports: Sequence[int],
) -> _Task:
    rows = [known_kind(kind) for kind in kinds if kind in kind_table().kinds]
    runs = next((one for one in rows if one.life in {"run", "recurring", "pipeline"}), None)
    serves = any(one.life == "service" for one in rows)
    inside = _of_container(seen, framework, None if serves else runs)
    made_for = _of_kinds(tuple(reversed(kinds)), weak=False)
    if made_for is not None:
        agrees = inside is None or inside.task in {made_for.task, TaskClass.BATCH}
        tested = inside is not None and inside.task is TaskClass.BATCH and not framework.row_seen
        return msgspec.structs.replace(made_for, sure=agrees and not tested)
    return (
        inside
        or _of_names(names)
        or _of_kinds(kinds, weak=True)
        or (_of_ports(ports) if serves else None)
        or _Task()
    )


def classify(
    container: ContainerSpec,
    kinds: Sequence[str] = (),
    labels: Mapping[str, str] | None = None,
    names: Sequence[str] = (),
) -> Classification:
    """Task class, framework and pre-allocation of a container.

    ``kinds`` are its owners' from the nearest to the root; ``labels`` its pod's and owners' labels
    and annotations; ``names`` what people called the container and its owners.
    """
    seen = see(container, labels or {})
    framework = _framework(seen, kinds)
    task = _task(seen, framework, kinds, names, container.ports)
    preallocates, preallocates_evidence = _preallocates(framework.row, seen)
    return Classification(
        task_class=task.task,
        task_evidence=task.evidence,
        task_sure=task.sure,
        framework=framework.name,
        framework_evidence=framework.evidence,
        framework_sure=framework.sure and (framework.row_seen or task.sure),
        preallocates=preallocates,
        preallocates_evidence=preallocates_evidence,
    )


__all__ = ["Classification", "class_table", "classify", "split_image"]
