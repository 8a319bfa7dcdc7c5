"""Rules of the house that no linter holds."""

import ast
import re
import subprocess

import pytest

LONGEST_MODULE = 400
LONGEST_FUNCTION = 50


def tracked(repository, *patterns):
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", *patterns],
        cwd=repository,
        capture_output=True,
        check=False,
        text=True,
    )
    if listed.returncode:
        pytest.skip("this is no git checkout: git ls-files does not work here")
    return [repository / name for name in listed.stdout.split("\0") if name]


def test_no_module_is_longer_than_400_lines(repository):
    long = {
        str(path.relative_to(repository)): lines
        for path in tracked(repository, "*.py", "*.c", "*.h")
        if "_pb2" not in path.name
        and path.is_file()
        and (lines := len(path.read_text("utf-8").splitlines())) > LONGEST_MODULE
    }
    assert not long


#: Longer than 50 lines, and why.
LONG_FUNCTIONS: dict[str, str] = {}


def body_lines(function) -> int:
    """Lines from the first statement on: a signature with many options is no logic."""
    first = function.body[1] if ast.get_docstring(function) and function.body[1:] else None
    return function.end_lineno - (first or function.body[0]).lineno + 1


def test_no_function_is_longer_than_50_lines_without_a_reason(repository):
    long = set()
    for path in tracked(repository, "exporter/*.py", "agent/*.py", "dashboards/*.py"):
        if "_pb2" in path.name or not path.is_file():
            continue
        for part in ast.walk(ast.parse(path.read_text("utf-8"))):
            function = isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)
            if function and body_lines(part) > LONGEST_FUNCTION:
                long.add(f"{path.relative_to(repository)}:{part.name}")
    assert long == set(LONG_FUNCTIONS)


def test_constraints_pin_every_version_and_name_no_host(repository):
    text = (repository / "constraints.txt").read_text("utf-8")
    assert "://" not in text
    for line in text.splitlines():
        assert re.match(r"[a-z0-9._-]+(\[[a-z0-9,._-]+\])?==[^ ;]+( ; .+)?$", line), line


def test_no_lock_file_is_kept(repository):
    names = {path.name for path in tracked(repository)}
    assert not names & {"uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "package-lock.json"}


def test_the_readme_names_the_two_commands(repository):
    text = (repository / "README.md").read_text("utf-8")
    assert "make demo" in text
    assert "make test" in text
