"""Texts of the parts below the reports that reach people as they are, found in the source.

Rules name their numbers and formulas, sources and the inventory say what could not be read: in
plain text, since those parts know no languages. A text is a literal with two words in it, or
one given where only texts for people stand (``_NUMBERS``, ``_BESIDE``); an f-string is one with
places (``peak x {factor}``). What is raised, logged or documents a function, and what is written
in YAML or for a shell, is none. ``translating`` says them in the language spoken.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

#: What is searched, below the package: a folder with everything in it, or a file.
SEARCHED: Final = (
    "assessment.py",
    "estimating",
    "inventory",
    "planner",
    "rollup/history.py",
    "rollup/hours.py",
    "rollup/means.py",
    "rollup/sentences.py",
    "rules",
    "schedule/backfill.py",
    "schedule/jobs/report.py",
    "schedule/judging.py",
    "sources/archive.py",
    "sources/exposition.py",
    "sources/logs",
    "sources/problems.py",
    "sources/prometheus/containers.py",
    "sources/prometheus/failing.py",
    "sources/prometheus/source.py",
)
#: Of these: what is written into documentation, names of columns, and queries.
_PASSED: Final = frozenset(
    {
        *("rules/exporters.py", "rules/container_sources.py", "rules/documenting.py"),
        *("inventory/live/rbac.py", "inventory/live/configuring.py"),
        *("sources/logs/names.py", "sources/logs/cells.py", "sources/logs/foreign.py"),
    }
)
_NUMBERS: Final = frozenset({"noted", "held_against", "Evidence", "Part"})
_BESIDE: Final = frozenset({"formula", "undo"})
#: Calls whose texts are found elsewhere, or are not for people.
_OTHERS: Final = frozenset(
    {
        *("Message", "Threshold", "message"),
        *("debug", "exception", "info", "warning"),
        *("cast", "compile", "partition", "rpartition", "split"),
    }
)
#: Tables of message templates, and texts for developers.
_TABLES: Final = frozenset({"MESSAGES", "_MESSAGES", "_OTHERS", "description", "summary"})
#: Two words that nobody reads: names of what is remembered, parts of other programs' errors.
_UNSAID: Final = frozenset(
    {
        *("asked by containers", "card choice", "card need", "gpu hours"),
        *("HTTP request to an HTTPS server", "PEM LIB"),
        *("nvidia-smi csv", "nvidia-smi dmon", "nvidia-smi pmon"),
    }
)
_WORDS: Final = re.compile(r"[A-Za-z]{2,}(?:'s|s')?,? [A-Za-z]{2,}")
_CODE: Final = re.compile(
    r"\n|^\{?kubectl\}? |\{\w+:\w+\}|^[a-z_ ]+_[a-z_ ]+$|\bby \(|--type=|^\w+\["
)
_NAME: Final = re.compile(r"[a-z]\w*")
#: What joins a text to the one before it.
_EDGES: Final = ";,. "


def told_texts(package: Path) -> Iterator[tuple[str, str]]:
    """Every such text with where it stands: ``told/`` and the module's path."""
    for name in SEARCHED:
        place = package / name
        for path in sorted(place.rglob("*.py")) if place.is_dir() else (place,):
            told = path.relative_to(package).as_posix()
            if told not in _PASSED:
                for text in of_module(path.read_text(encoding="utf-8")):
                    yield text, f"told/{told}"


def of_module(source: str) -> Iterator[str]:
    """The texts of one module's source."""
    yield from _of(ast.parse(source), under=False)


def _of(node: ast.AST, *, under: bool) -> Iterator[str]:
    """Texts below a node; ``under``: it stands where only texts for people stand."""
    if isinstance(node, ast.JoinedStr) or _is_text(node):
        text = template(node).strip(_EDGES)
        said = (under or _WORDS.search(text)) and not _CODE.search(text)
        if said and text not in _UNSAID:
            yield text
        for part in ast.iter_child_nodes(node):
            if isinstance(part, ast.FormattedValue):  # a text chosen inside of another
                yield from _of(part.value, under=False)
        return
    if _is_none(node):
        return
    if isinstance(node, ast.Call):
        yield from _of_call(node)
        return
    for child in ast.iter_child_nodes(node):
        yield from _of(child, under=False)


def _of_call(call: ast.Call) -> Iterator[str]:
    name = called(call)
    first = call.args[0] if call.args and name in _NUMBERS else None
    for child in (call.func, *call.args):
        yield from _of(child, under=child is first)
    for word in call.keywords:
        if word.arg in _TABLES:
            continue
        told = word.arg in _BESIDE or (name in _NUMBERS and word.arg == "name")
        yield from _of(word.value, under=told)
        if word.arg == "unit" and isinstance(word.value, ast.Constant):
            yield str(word.value.value).replace("_", " ")


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _is_none(node: ast.AST) -> bool:
    """Whether nothing below the node reaches people as it is."""
    if isinstance(node, ast.Raise | ast.Compare):
        return True
    if isinstance(node, ast.Expr):
        return _is_text(node.value)
    if isinstance(node, ast.Call):
        return called(node) in _OTHERS
    if isinstance(node, ast.Assign):
        return any(isinstance(one, ast.Name) and one.id in _TABLES for one in node.targets)
    if isinstance(node, ast.AnnAssign):
        return isinstance(node.target, ast.Name) and node.target.id in _TABLES
    return False


def called(call: ast.Call) -> str:
    """The name of what is called, without what it belongs to."""
    return call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")


def template(node: ast.AST) -> str:
    """A literal as it is, an f-string with a named place for each expression in it."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    text, used = "", list[str]()
    for part in getattr(node, "values", ()):
        if isinstance(part, ast.Constant):
            text += str(part.value).replace("{", "{{").replace("}", "}}")
            continue
        name = _named(getattr(part, "value", part))
        name += str(used.count(name) + 1) if name in used else ""
        used.append(name)
        text += f"{{{name}}}"
    return text


def _named(node: ast.AST) -> str:
    """What an expression is called: its variable's or attribute's name."""
    name = node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")
    name = name.strip("_").lower()
    return name if _NAME.fullmatch(name) else "value"
