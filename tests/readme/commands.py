"""The README's commands, run as a reader types them: in a shell, in a folder of the reader's own.

Every indented line of the README is a command. A test says by ``runs`` which of them it runs, and
``test_readme.py`` fails when one is run by none. A command is changed only by ``elsewhere``, for
what this machine cannot have (a host, a port, a name in somebody's cluster); all else that a shell
has round it (environment, programs on PATH) is said where the test begins it.
"""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from tests.processes import Process

REPOSITORY = Path(__file__).resolve().parents[2]
README = REPOSITORY / "README.md"
#: The README's boxes were taken from a terminal of this width.
WIDTH = 100

_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_DATE = re.compile(r"20\d\d-\d\d-\d\d \d\d:\d\d")
_COMMENT = re.compile(r"\s{2,}# .*$")
Test = TypeVar("Test", bound=Callable[..., object])


def text() -> str:
    """The README."""
    return README.read_text("utf-8")


def shown() -> list[str]:
    """The commands: lines indented by four, outside of boxes, without their comments."""
    lines = _FENCED.sub("", text()).splitlines()
    return [_COMMENT.sub("", line).strip() for line in lines if line.startswith("    ")]


def box(first_line: str) -> str:
    """The box that begins with a line like this (a regular expression)."""
    found = [
        one
        for one in _FENCED.findall(text())
        if re.match(first_line, one.split("\n", 1)[1], re.MULTILINE)
    ]
    assert len(found) == 1, f"boxes that begin with {first_line!r}: {len(found)}"
    return str(found[0]).split("\n", 1)[1].removesuffix("```")


def undated(told: str) -> str:
    """The text without what is another at any other time."""
    return _DATE.sub("DATE", told)


def runs(*commands: str) -> Callable[[Test], Test]:
    """Mark a test as the one that runs these commands of the README; each must stand there."""
    missing = [command for command in commands if command not in shown()]

    def mark(test: Test) -> Test:
        assert not missing, f"not in the README: {missing}"
        test.readme_commands = commands  # type: ignore[attr-defined]
        return test

    return mark


def elsewhere(command: str, places: Mapping[str, str]) -> str:
    """The command with other places in it, each of which it names once; nothing else differs."""
    typed = command
    for there, here in places.items():
        assert command.count(there) == 1, f"{there!r} stands {command.count(there)} times there"
        typed = typed.replace(there, here)
    back = typed
    for there, here in places.items():
        back = back.replace(here, there)
    assert back == command
    return typed


def surroundings(folder: Path, *programs: Path, **more: str) -> dict[str, str]:
    """A new user's environment: this project's programs and ``programs`` (folders) come first."""
    own = (*map(str, programs), str(Path(sys.executable).parent))
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GPUTAILOR_")}
    kept.pop("KUBECONFIG", None)
    path = os.pathsep.join((*own, os.environ["PATH"]))
    return {**kept, "PATH": path, "HOME": str(folder), "COLUMNS": str(WIDTH), **more}


def run(command: str, folder: Path, env: Mapping[str, str], *, seconds: float = 100.0) -> str:
    """Run a command in a shell to its end; what it printed. Anything but success is a failure."""
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=dict(env),
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr
    return done.stdout


def begin(command: str, folder: Path, env: Mapping[str, str], log: Path) -> Process:
    """Start a command that goes on until it is asked to end, as by Ctrl-C."""
    # `exec`: the shell becomes the program, so that a signal reaches it.
    return Process(["bash", "-c", f"exec {command}"], log, env, folder)
