"""``make mutate``: do the tests notice when a rule, the planner or the profiles are changed?

Works in a copy of the tree. ``--every`` runs all mutants (hours), else ``--count`` of each module.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Final

from tests.mutation.mutants import Mutant, modules_under, sampled
from tests.mutation.running import KILLED, LATE, SURVIVED, UNTOUCHED, Limits

REPOSITORY: Final = Path(__file__).resolve().parents[2]
FOLDERS: Final = tuple(f"agent/gputailor_agent/{one}" for one in ("rules", "planner", "profiles"))
TESTS: Final = ("tests/agent/rules", "tests/agent/planner", "tests/agent/profiles",
                "tests/agent/assessment", "tests/agent/test_*.py",
                "tests/agent/dialects/test_registry.py")  # fmt: skip
_COPIED: Final = ("agent", "exporter", "dashboards", "tests", "docs", "pyproject.toml")
_SEED: Final = 8


def stage(folder: Path) -> Path:
    """Copy what the tests need; nobody edits the copy."""
    for name in _COPIED:
        source = REPOSITORY / name
        if source.is_dir():
            unwanted = shutil.ignore_patterns("__pycache__", ".*", "node_modules")
            shutil.copytree(source, folder / name, ignore=unwanted)
        else:
            shutil.copy2(source, folder / name)
    return folder


def environment(staged: Path, **more: str) -> dict[str, str]:
    """Variables under which the staged code is the one that is imported."""
    roots = [str(staged / one) for one in ("agent", "exporter", "dashboards")]
    path = os.pathsep.join([*roots, str(staged)])
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1")
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPATH": path, **threads, **more}


def baseline(staged: Path, folder: Path, tests: list[str], *, tolerant: bool) -> None:
    """Run the tests once on the unchanged code; ``SystemExit`` unless all pass.

    ``tolerant``: tests that fail are left out, as long as all can be collected.
    """
    files = sorted({str(one.relative_to(staged)) for test in tests for one in staged.glob(test)})
    told = json.dumps({"folder": str(folder), "sources": [str(staged / one) for one in FOLDERS]})
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "--hypothesis-seed=0",
               "-pno:cacheprovider", "-pno:xdist", "-pno:cov", "-ptests.mutation.baseline",
        "-ptests.mutation.fewer",
               "-m", "not system", *files]  # fmt: skip
    done = subprocess.run(
        command, cwd=staged, env=environment(staged, GPUTAILOR_MUTATION_BASELINE=told),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode not in {0, 1} or (done.returncode == 1 and not tolerant):
        raise SystemExit(f"the tests fail without any mutation:\n{done.stdout[-4000:]}")


def options(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make mutate", description=__doc__)
    parser.add_argument("--count", type=int, default=6, help="mutants of each module (6)")
    parser.add_argument("--every", action="store_true", help="all mutants (hours)")
    parser.add_argument("--total", type=int, help="at most so many in all, spread over modules")
    parser.add_argument("--seed", type=int, default=_SEED)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--modules", nargs="*", default=list(FOLDERS), metavar="PATH")
    parser.add_argument("--tests", nargs="*", default=list(TESTS), metavar="GLOB")
    parser.add_argument("--output", type=Path, help="one JSON line for each mutant")
    parser.add_argument("--at-least", type=float, default=0.0, help="exit 3 below this share")
    parser.add_argument("--work", type=Path, help="keep the copy and its baseline here; used again")
    parser.add_argument("--tolerant", action="store_true", help="leave failing tests out")
    parser.add_argument("--staged", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def chosen(asked: argparse.Namespace, root: Path) -> list[Mutant]:
    """Mutants to run: of each module its first ones first, so that ``--total`` cuts evenly."""
    count = None if asked.every else asked.count
    by_module = [
        sampled(module, (root / module).read_text("utf-8"), count, asked.seed)
        for module in modules_under(root, tuple(asked.modules))
    ]
    deepest = max(map(len, by_module), default=0)
    spread = [one[place] for place in range(deepest) for one in by_module if place < len(one)]
    return spread[: asked.total]


def table(results: list[tuple[Mutant, str, str]]) -> str:
    """Figures by module, survivors' places, and the share killed."""
    modules = sorted({mutant.module for mutant, _, _ in results})
    lines = ["| module | mutants | killed | survived | no test |", "|---|---|---|---|---|"]
    for module in modules:
        ends = Counter(end for mutant, end, _ in results if mutant.module == module)
        name = module.removeprefix("agent/gputailor_agent/")
        lines.append(f"| `{name}` | {ends.total()} | {ends[KILLED] + ends[LATE]} "
                     f"| {ends[SURVIVED]} | {ends[UNTOUCHED]} |")  # fmt: skip
    alive = [mutant.name for mutant, end, _ in results if end in {SURVIVED, UNTOUCHED}]
    late = sum(end == LATE for _, end, _ in results)
    lines += ["", *(f"- survived: {name}" for name in sorted(alive)), ""]
    lines.append(f"{len(results)} mutants, {share(results):.1%} killed, {late} of them by time.")
    return "\n".join(lines)


def share(results: list[tuple[Mutant, str, str]]) -> float:
    """Killed of all; 1 of none."""
    killed = sum(end in {KILLED, LATE} for _, end, _ in results)
    return killed / len(results) if results else 1.0


def main(argv: list[str] | None = None) -> int:
    """Stage, run the baseline, and start the rest of this module in the copy."""
    asked = options(argv)
    if asked.staged is not None:
        return staged_main(asked)
    with tempfile.TemporaryDirectory(prefix="gputailor-mutate-") as name:
        work = asked.work or Path(name)
        staged, folder = work / "tree", work / "baseline"
        if not (folder / "seconds.json").exists():
            stage(staged)
            folder.mkdir(exist_ok=True)
            baseline(staged, folder, asked.tests, tolerant=asked.tolerant)
        told = [sys.executable, "-m", "tests.mutation", *(argv or sys.argv[1:]), "--staged", folder]
        if asked.output is not None:  # relative to where the user is
            told += ["--output", asked.output.resolve()]
        return subprocess.run(told, cwd=staged, env=environment(staged), check=False).returncode


def staged_main(asked: argparse.Namespace) -> int:
    """Run the mutants; the working folder is the copy."""
    from tests.mutation.running import Touching, prepare, run_all  # noqa: PLC0415 - in the copy

    root = Path.cwd()
    prepare()
    mutants, results, began = chosen(asked, root), [], time.monotonic()
    touching = Touching(asked.staged, root)
    for mutant, end, why in run_all(mutants, touching, root, jobs=asked.jobs, limits=Limits()):
        results.append((mutant, end, why))
        told = {"mutant": mutant.name, "end": end, "why": why}
        if asked.output is not None:
            with asked.output.open("a", encoding="utf-8") as file:
                file.write(f"{json.dumps(told)}\n")
    print(table(results))  # noqa: T201 - this is what it is for
    print(f"{time.monotonic() - began:.0f} s, seed {asked.seed}.")  # noqa: T201
    return 3 if share(results) < asked.at_least else 0


if __name__ == "__main__":
    sys.exit(main())
