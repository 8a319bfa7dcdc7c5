"""What a container says of itself, and which rows of ``classify.yaml`` that matches.

Evidence is either strong (what is started, in which image, what a label declares) or weak: a
variable may be set for a library that is only a part, and a custom resource's words about its
server leave the choice to the operator.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from importlib import resources as packaged
from typing import Final

import msgspec
import yaml

from gputailor_agent.inventory.hints import ENTRYPOINT_HINT, RUNTIME_HINT
from gputailor_agent.model.inventory import ContainerSpec


class ClassRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One row of the table; see ``classify.yaml``."""

    name: str = ""
    task: str = ""
    role: str = ""
    image: str = ""
    folder: str = ""
    command: str = ""
    env: str = ""
    env_is: dict[str, str] = msgspec.field(default_factory=dict)
    runtime: str = ""
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    sure: bool = True
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
    servers: str
    launchers: str
    idle: str


@cache
def class_table() -> ClassTable:
    """The packaged table of engines, frameworks and tasks."""
    text = packaged.files(__package__).joinpath("classify.yaml").read_text("utf-8")
    return msgspec.convert(yaml.safe_load(text), ClassTable)


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a row may look at.

    ``idle``: it is told to wait for somebody; ``launched``: training is started by a launcher.
    """

    folder: str
    image: str
    command: str
    env: Mapping[str, str]
    runtime: str
    labels: Mapping[str, str]
    idle: bool
    launched: bool = False

    @property
    def own_program(self) -> bool:
        """Whether something is started instead of what the image starts by itself."""
        return bool(self.command) and not self.idle and not self.command.startswith("-")


_COMMAND_SHOWN: Final = 60
_SHELL: Final = re.compile(r"(?:\S*/)?(?:ba|da|z|a)?sh(?:\s+-\S+)*\s*")
_STATEMENTS: Final = re.compile(r"[;&|\n]+")


@lru_cache(maxsize=1024)
def compiled(pattern: str) -> re.Pattern[str]:
    """The pattern, blind to upper and lower case."""
    return re.compile(pattern, re.IGNORECASE)


def split_image(image: str) -> tuple[str, str]:
    """Folders and name:tag of an image reference, without registry host and digest.

    The first part is a host when it has a dot or a port or is ``localhost`` (the rule of the
    distribution reference grammar).
    """
    parts = image.split("@", 1)[0].split("/")
    if len(parts) > 1 and (re.search(r"[.:]", parts[0]) or parts[0] == "localhost"):
        parts = parts[1:]
    return "/".join(parts[:-1]).lower(), parts[-1].lower()


def _idle(words: Sequence[str]) -> bool:
    """Whether a command does nothing but wait; one that is not given runs the image's own."""
    command = " ".join(words).strip()
    started = _SHELL.match(command)
    statements = _STATEMENTS.split(command[started.end() :] if started else command)
    stripped = [re.sub(r"^(?:do|then|exec)\s+", "", one.strip()) for one in statements]
    spoken = [one for one in stripped if one]
    return bool(spoken) and all(compiled(class_table().idle).fullmatch(one) for one in spoken)


def see(container: ContainerSpec, labels: Mapping[str, str]) -> Seen:
    """A container as the table's rows look at it; ``labels`` with annotations and hints."""
    folder, image = split_image(container.image)
    words = (*container.command, *container.args)
    extra = [value for name, value in container.env.items() if name.endswith("_ARGS")]
    entry = labels.get(ENTRYPOINT_HINT, "")
    command = " ".join(part for part in (*words, entry, *extra) if part)
    return Seen(
        folder=folder,
        image=image,
        command=command,
        env=container.env,
        runtime=labels.get(RUNTIME_HINT, ""),
        labels=labels,
        idle=not entry and _idle(words),
        launched=compiled(class_table().launchers).search(command) is not None,
    )


def strong_evidence(row: ClassRow, seen: Seen, *, images: bool = True) -> Iterator[str]:
    """What of a container's command, image and labels matches the row."""
    if row.command and (found := compiled(row.command).search(seen.command)):
        yield f"command {_around(seen.command, found)!r}"
    if images and row.image and compiled(row.image).search(seen.image):
        yield f"image {seen.image}"
    if images and row.folder and compiled(row.folder).search(seen.folder):
        yield f"image {seen.folder}/{seen.image}"
    for key, pattern in row.labels.items():
        if key in seen.labels and compiled(pattern).fullmatch(seen.labels[key]):
            yield f"label {key}={seen.labels[key]}"


def weak_evidence(row: ClassRow, seen: Seen) -> Iterator[str]:
    """What of its variables, and of its custom resource's words, matches the row."""
    if row.env:
        for name in seen.env:
            if compiled(row.env).fullmatch(name):
                yield f"environment {name}"
    for name, pattern in row.env_is.items():
        if name in seen.env and compiled(pattern).fullmatch(seen.env[name]):
            yield f"environment {name}={seen.env[name]}"
    if row.runtime and compiled(row.runtime).search(seen.runtime):
        yield f"runtime {seen.runtime}"


def _around(command: str, found: re.Match[str]) -> str:
    """The matching words and what follows, short enough to print."""
    shown = command[found.start() :].strip().split("\n", 1)[0]
    return shown if len(shown) <= _COMMAND_SHOWN else shown[: _COMMAND_SHOWN - 1] + "…"
