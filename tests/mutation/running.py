"""One mutant, one forked process: the changed module lives in its memory only.

Started in a staging copy of the tree, whose files nobody else edits. Libraries and the agent are
imported once, before forking; a child imports the mutated module anew, and every module that
imports it. It runs the tests that touch the changed line, those of the module's own test file
first, and ends at the first that fails. Its time is the processor's, so that a busy machine kills
no mutant.
"""

import ast
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import resource
import signal
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from typing import Final

from coverage import CoverageData

from tests.mutation.mutants import Mutant, mutated

#: Packages of the agent that the tests use, imported before forking.
_LAYERS: Final = ("model", "metrics", "dialects", "catalog", "inventory", "sources", "store",
                  "profiles", "estimating", "rules", "planner", "assessment", "reports")  # fmt: skip
#: Test files of a first round, where none bears the module's name.
_NEAR: Final = 3
_LIBRARIES: Final = ("numpy", "hypothesis", "hypothesis.strategies", "msgspec", "yaml", "pytest",
                     "sqlalchemy", "_pytest.assertion.rewrite")  # fmt: skip
KILLED, SURVIVED, UNTOUCHED, LATE = "killed", "survived", "untouched", "late"
#: Plugins of pytest that only cost time here; the last one collects garbage at each end.
_PLUGINS: Final = ("cacheprovider", "xdist", "cov", "randomly", "unraisableexception")
_NOT_FOUND, _NONE_COLLECTED, _COLLECTING_FAILED = 4, 5, 2
#: pytest's exit status: all passed, some failed, collecting failed (the module cannot be imported).
_ENDS: Final = {0: SURVIVED, 1: KILLED, 2: KILLED}


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds of the processor: of all chosen tests by the baseline, and of the whole child.

    ``wall``: of the clock; only what sleeps for ever ends by it, however busy the machine is.
    """

    tests: float = 5.0
    child: int = 10
    wall: int = 1800


class Touching:
    """Which tests run a line."""

    def __init__(self, folder: Path, root: Path) -> None:
        """Read what the baseline plugin left in ``folder``."""
        self._root = root
        self._seconds: dict[str, float] = json.loads((folder / "seconds.json").read_text("utf-8"))
        self._data = CoverageData(str(folder / "coverage"))
        self._data.read()
        self._lines: dict[str, dict[int, list[str]]] = {}

    def rounds(self, mutant: Mutant, budget: float) -> list[list[str]]:
        """Tests of the mutant's line: its own test file's first, then the rest, quickest first.

        To collect a file costs more than most tests take, so the files with most tests of the line
        come first. Each round has as many tests as the budget (seconds) lets.
        """
        found = self._tests(mutant)
        files = Counter(name.partition("::")[0] for name in found)
        stem = Path(mutant.module).stem
        own = {file for file in files if Path(file).stem.startswith(f"test_{stem}")}
        near = own or {file for file, _ in files.most_common(_NEAR)}
        first = [name for name in found if name.partition("::")[0] in near]
        rest = [name for name in found if name.partition("::")[0] not in near]
        return [chosen for part in (first, rest) if (chosen := self._quickest(part, budget))]

    def _tests(self, mutant: Mutant) -> set[str]:
        lines = self._lines.get(mutant.module)
        if lines is None:
            path = str(self._root / mutant.module)
            lines = self._lines[mutant.module] = self._data.contexts_by_lineno(path)
        found = {name for name in lines.get(mutant.line, ()) if name in self._seconds}
        # without any: it runs at import, or inside a statement that began above
        return found or self._above(lines, mutant.line)

    def _quickest(self, tests: list[str], budget: float) -> list[str]:
        chosen, spent = [], 0.0
        for name in sorted(tests, key=lambda one: (self._seconds.get(one, 0.0), one)):
            spent += self._seconds.get(name, 0.0)
            if spent > budget and chosen:
                break
            chosen.append(name)
        return chosen

    def _above(self, lines: dict[int, list[str]], line: int) -> set[str]:
        """Tests of the statement's first line if a test runs it, else all of the module."""
        before = max((one for one in lines if one < line), default=0)
        near = set(lines.get(before, ())) if line not in lines else set()
        every = {name for names in lines.values() for name in names}
        return near & self._seconds.keys() or every & self._seconds.keys()


class _Changed(SourceFileLoader):
    """Loads a module from another text than its file's."""

    def __init__(self, name: str, path: str, text: str) -> None:
        super().__init__(name, path)
        self._code = compile(text, path, "exec")

    def get_code(self, fullname):
        return self._code


class _Finder(MetaPathFinder):
    """Finds one module."""

    def __init__(self, name: str, loader: _Changed) -> None:
        self._name, self._loader = name, loader

    def find_spec(self, fullname, path=None, target=None) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        package = self._loader.path.endswith("__init__.py")
        places = [str(Path(self._loader.path).parent)] if package else None
        return spec_from_file_location(
            fullname, self._loader.path, loader=self._loader, submodule_search_locations=places
        )


def prepare() -> None:
    """Import once what most mutants leave as it is: libraries, and the whole agent."""
    for name in _LIBRARIES:
        importlib.import_module(name)
    for folder in _LAYERS:
        package = importlib.import_module(f"gputailor_agent.{folder}")
        for part in pkgutil.walk_packages(getattr(package, "__path__", ()), f"{package.__name__}."):
            # Alembic's run inside it only, and a __main__ would do what it is for.
            if "migrations" not in part.name and not part.name.endswith(".__main__"):
                importlib.import_module(part.name)


def importers(root: Path) -> dict[str, frozenset[str]]:
    """Each module of the agent with all that import it, however far away, and itself."""
    direct: dict[str, set[str]] = defaultdict(set)
    names = {module_name(str(path.relative_to(root))): path
             for path in (root / "agent").rglob("*.py")}  # fmt: skip
    for name, path in names.items():
        for part in ast.walk(ast.parse(path.read_text("utf-8"))):
            for used in _imported(part):
                direct[used].add(name)
    found: dict[str, frozenset[str]] = {}
    for name in names:
        reached, waiting = {name}, [name]
        while waiting:
            for one in direct[waiting.pop()] - reached:
                reached.add(one)
                waiting.append(one)
        found[name] = frozenset(reached)
    return found


def _imported(part: ast.AST) -> Iterator[str]:
    if isinstance(part, ast.Import):
        yield from (one.name for one in part.names)
    if isinstance(part, ast.ImportFrom) and part.module:
        yield part.module
        yield from (f"{part.module}.{one.name}" for one in part.names)


def _forget(name: str) -> None:
    """Let the module be imported anew; a package remembers its modules as attributes."""
    if sys.modules.pop(name, None) is not None:
        package, _, own = name.rpartition(".")
        if package in sys.modules:
            vars(sys.modules[package]).pop(own, None)


def _clear_caches() -> None:
    """Answers that were remembered before forking may be of the unchanged module."""
    for name, module in list(sys.modules.items()):
        if name.startswith("gputailor_agent"):
            for value in list(vars(module).values()):
                clear = getattr(value, "cache_clear", None)
                if callable(clear):
                    clear()


def module_name(path: str) -> str:
    """``agent/gputailor_agent/rules/idle.py`` -> ``gputailor_agent.rules.idle``."""
    parts = Path(path).with_suffix("").parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def run_all(
    mutants: Sequence[Mutant], touching: Touching, root: Path, *, jobs: int, limits: Limits
) -> Iterator[tuple[Mutant, str, str]]:
    """Each mutant with its end (killed, survived, untouched, late), and what killed it."""
    above = importers(root)
    waiting = [(mutant, touching.rounds(mutant, limits.tests)) for mutant in reversed(mutants)]
    running: dict[int, tuple[Mutant, list[list[str]]]] = {}
    while waiting or running:
        while waiting and len(running) < jobs:
            mutant, rounds = waiting.pop()
            if not rounds:
                yield mutant, UNTOUCHED, ""
                continue
            anew = above[module_name(mutant.module)]
            running[_forked(mutant, rounds[0], root, limits, anew)] = (mutant, rounds[1:])
        if running:
            pid, status = os.wait()
            mutant, more = running.pop(pid)
            end, why = _end(status)
            if end == SURVIVED and more:
                waiting.append((mutant, more))
            else:
                yield mutant, end, why


def _end(status: int) -> tuple[str, str]:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        slow = number in {signal.SIGXCPU, signal.SIGKILL, signal.SIGALRM}
        return (LATE if slow else KILLED), signal.Signals(number).name
    code = os.waitstatus_to_exitcode(status)
    if code not in _ENDS:  # a fault of ours must not count as a kill
        raise RuntimeError(f"a test run ended with {code}, which tells nothing of the mutant")
    return _ENDS[code], f"exit {code}"


def _forked(
    mutant: Mutant, tests: list[str], root: Path, limits: Limits, anew: frozenset[str]
) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 70
    try:
        with contextlib.suppress(BaseException):
            code = _child(mutant, tests, root, limits, anew)
    finally:
        os._exit(code)


def _child(
    mutant: Mutant, tests: list[str], root: Path, limits: Limits, anew: frozenset[str]
) -> int:
    resource.setrlimit(resource.RLIMIT_CPU, (limits.child, limits.child + 1))
    gc.disable()  # it lives for seconds
    signal.alarm(limits.wall)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    path = root / mutant.module
    changed = mutated(path.read_text("utf-8"), mutant)
    loader = _Changed(module_name(mutant.module), str(path), changed)
    for name in anew:
        _forget(name)
    _clear_caches()
    sys.meta_path.insert(0, _Finder(module_name(mutant.module), loader))
    import pytest  # noqa: PLC0415 - it is there already (prepare)

    options = ["-x", "-q", "--no-header", "--hypothesis-seed=0", "-ptests.mutation.fewer"]
    options += [f"-pno:{one}" for one in _PLUGINS]
    code = int(pytest.main([*options, *tests]))
    if code == _NOT_FOUND:  # the mutant changed the names of tests that it is a parameter of
        files = sorted({name.partition("::")[0] for name in tests})
        code = int(pytest.main([*options, *files]))
        if code == _NONE_COLLECTED:  # files that held these tests: they cannot be imported now
            code = _COLLECTING_FAILED
    return code
