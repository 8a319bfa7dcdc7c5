"""What a workload does and with what: task class, framework or engine, pre-allocation.

Every answer names the evidence that decided it. The knowledge is in ``classify.yaml`` and
``kinds.yaml``. Evidence in falling order: kinds made for one purpose, the container's command,
image and variables, kinds made for anything, ports. Nothing found is ``unknown``, not a guess.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from importlib import resources as packaged
from typing import Final

import msgspec
import yaml

from gputailor_agent.inventory.gathering import ENTRYPOINT_HINT, RUNTIME_HINT
from gputailor_agent.inventory.kinds import KindRow, known_kind
from gputailor_agent.model.inventory import ContainerSpec, TaskClass


class Classification(msgspec.Struct, frozen=True, kw_only=True):
    """What was found; evidence is '' where nothing was."""

    task_class: TaskClass = TaskClass.UNKNOWN
    task_evidence: str = ""
    framework: str = ""
    framework_evidence: str = ""
    preallocates: bool = False
    preallocates_evidence: str = ""


class ClassRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One row of the table; see ``classify.yaml``."""

    name: str = ""
    task: str = ""
    role: str = ""
    image: str = ""
    folder: str = ""
    command: str = ""
    env: str = ""
    runtime: str = ""
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    preallocates: bool = False
    unless_env: dict[str, str] = msgspec.field(default_factory=dict)
    unless_command: str = ""
    tell: str = ""
    default: str = ""


class PortRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ports a kind of server is known by."""

    ports: frozenset[int]
    task: str
    says: str


class ClassTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole of ``classify.yaml``."""

    frameworks: tuple[ClassRow, ...]
    tasks: tuple[ClassRow, ...]
    ports: tuple[PortRow, ...]


@cache
def class_table() -> ClassTable:
    """The packaged table of engines, frameworks and tasks."""
    text = packaged.files(__package__).joinpath("classify.yaml").read_text("utf-8")
    return msgspec.convert(yaml.safe_load(text), ClassTable)


class _Seen(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a row may look at."""

    folder: str
    image: str
    command: str
    env: Mapping[str, str]
    runtime: str
    labels: Mapping[str, str]


_COMMAND_SHOWN: Final = 60


def split_image(image: str) -> tuple[str, str]:
    """Folders and name:tag of an image reference, without registry host and digest.

    The first part is a host when it has a dot or a port or is ``localhost`` (the rule of the
    distribution reference grammar).
    """
    parts = image.split("@", 1)[0].split("/")
    if len(parts) > 1 and (re.search(r"[.:]", parts[0]) or parts[0] == "localhost"):
        parts = parts[1:]
    return "/".join(parts[:-1]).lower(), parts[-1].lower()


def _seen(container: ContainerSpec, labels: Mapping[str, str]) -> _Seen:
    folder, image = split_image(container.image)
    command = " ".join((*container.command, *container.args))
    extra = [value for name, value in container.env.items() if name.endswith("_ARGS")]
    entry = labels.get(ENTRYPOINT_HINT, "")
    return _Seen(
        folder=folder,
        image=image,
        command=" ".join(part for part in (command, entry, *extra) if part),
        env=container.env,
        runtime=labels.get(RUNTIME_HINT, ""),
        labels=labels,
    )


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


def _evidence(row: ClassRow, seen: _Seen) -> str:
    """What of a container matches the row; '' when nothing does."""
    return next(_all_evidence(row, seen), "")


def _all_evidence(row: ClassRow, seen: _Seen) -> Iterator[str]:
    if row.command and (found := _compiled(row.command).search(seen.command)):
        yield f"command {_around(seen.command, found)!r}"
    if row.image and _compiled(row.image).search(seen.image):
        yield f"image {seen.image}"
    if row.folder and _compiled(row.folder).search(seen.folder):
        yield f"image {seen.folder}/{seen.image}"
    if row.env:
        for name in seen.env:
            if _compiled(row.env).fullmatch(name):
                yield f"environment {name}"
    if row.runtime and _compiled(row.runtime).search(seen.runtime):
        yield f"runtime {seen.runtime}"
    for key, pattern in row.labels.items():
        if key in seen.labels and _compiled(pattern).fullmatch(seen.labels[key]):
            yield f"label {key}={seen.labels[key]}"


def _around(command: str, found: re.Match[str]) -> str:
    """The matching words and what follows, short enough to print."""
    shown = command[found.start() :].strip().split("\n", 1)[0]
    return shown if len(shown) <= _COMMAND_SHOWN else shown[: _COMMAND_SHOWN - 1] + "…"


def _framework(seen: _Seen, kinds: Sequence[str]) -> tuple[ClassRow | None, str, str]:
    for row in class_table().frameworks:
        if evidence := _evidence(row, seen):
            return row, row.name, evidence
    for kind in kinds:
        if name := known_kind(kind).framework:
            known = next((row for row in class_table().frameworks if row.name == name), None)
            return known, name, f"kind {kind}"
    return None, "", ""


def _preallocates(row: ClassRow | None, seen: _Seen) -> tuple[bool, str]:
    if row is None or not row.preallocates:
        return False, ""
    for name, values in row.unless_env.items():
        if _compiled(values).fullmatch(seen.env.get(name, "")):
            return False, f"environment {name}={seen.env[name]}"
    if row.unless_command and (found := _compiled(row.unless_command).search(seen.command)):
        return False, f"argument {found.group(0)}"
    if row.tell:
        if found := _compiled(row.tell).search(seen.command):
            return True, f"argument {found.group(0)}"
        if row.tell in seen.env:
            return True, f"environment {row.tell}={seen.env[row.tell]}"
    return True, f"{row.name}: {row.default}"


def _of_kinds(kinds: Sequence[str], *, weak: bool) -> tuple[TaskClass, str] | None:
    for kind in kinds:
        row = known_kind(kind)
        if row.task and row.weak == weak:
            return TaskClass(row.task), f"kind {kind}"
    return None


def _of_container(
    seen: _Seen, framework: ClassRow | None, framework_evidence: str, runs: KindRow | None
) -> tuple[TaskClass, str] | None:
    for row in class_table().tasks:
        if row.task == TaskClass.NOTEBOOK and (evidence := _evidence(row, seen)):
            return TaskClass.NOTEBOOK, evidence
    if framework is not None and framework.role:
        if runs is not None:  # an engine inside a Job works a list off and ends
            return TaskClass.BATCH, f"{framework_evidence} in a run that ends"
        return TaskClass(framework.role), framework_evidence
    for row in class_table().tasks:
        if evidence := _evidence(row, seen):
            return TaskClass(row.task), evidence
    return None


def _of_ports(ports: Sequence[int]) -> tuple[TaskClass, str] | None:
    for row in class_table().ports:
        for port in ports:
            if port in row.ports:
                return TaskClass(row.task), f"port {port} ({row.says})"
    return None


def classify(
    container: ContainerSpec, kinds: Sequence[str] = (), labels: Mapping[str, str] | None = None
) -> Classification:
    """Task class, framework and pre-allocation of a container.

    ``kinds`` are its owners' from the nearest to the root; ``labels`` its pod's and owners' labels
    and annotations.
    """
    seen = _seen(container, labels or {})
    row, framework, framework_evidence = _framework(seen, kinds)
    rows = [known_kind(kind) for kind in kinds]
    runs = next((one for one in rows if one.life in {"run", "recurring", "pipeline"}), None)
    serves = any(one.life == "service" for one in rows)
    found = (
        _of_kinds(tuple(reversed(kinds)), weak=False)
        or _of_container(seen, row, framework_evidence, None if serves else runs)
        or _of_kinds(kinds, weak=True)
        or (_of_ports(container.ports) if serves else None)
        or (TaskClass.UNKNOWN, "")
    )
    preallocates, preallocates_evidence = _preallocates(row, seen)
    return Classification(
        task_class=found[0],
        task_evidence=found[1],
        framework=framework,
        framework_evidence=framework_evidence,
        preallocates=preallocates,
        preallocates_evidence=preallocates_evidence,
    )
