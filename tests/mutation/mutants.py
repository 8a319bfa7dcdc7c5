"""Which changes of a module are worth a test run: cosmic-ray's operators, less what says nothing.

cosmic-ray offers a dozen replacements for each operator; most of them cannot even run (``a << b`` of
two floats), and a sample full of those would flatter the tests. Each place keeps the replacements
that still compute something. Left out as well are places that no behaviour shows: annotations and
aliases of types, options of decorators and of classes (``frozen=True``), numbers that only rank
(``order=``), what runs only by ``python -m``. Stars that are no multiplication (``*`` before named
arguments, ``*rest``) are no operators. Of comparisons those are left out that no input can
tell apart: of amounts, counts and times, which are never below zero, ``> 0`` and ``!= 0`` (and
``<= 0`` and ``== 0``); and an order of words or of members of an enumeration (``kind >= "Pod"``),
which have none.
"""

import ast
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

_ORDERINGS: Final = ("Eq", "NotEq", "Lt", "LtE", "Gt", "GtE")
_BINARY: Final = {
    "Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul", "FloorDiv_Div", "Mod_Mul", "Pow_Mul", "Add_Mul",
    "BitOr_BitAnd", "BitAnd_BitOr", "BitOr_Sub", "Sub_BitOr",
}  # fmt: skip
_OTHERS: Final = {
    "AddNot", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "ReplaceAndWithOr",
    "ReplaceOrWithAnd", "ReplaceBreakWithContinue", "ReplaceContinueWithBreak",
    "ExceptionReplacer", "NumberReplacer", "ZeroIterationForLoop",
    "ReplaceUnaryOperator_USub_UAdd", "ReplaceUnaryOperator_Delete_Not",
}  # fmt: skip
#: Keyword arguments whose value shows in no answer.
_UNSEEN: Final = {"order", "frozen", "slots", "kw_only", "gc", "strict", "maxsize"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change: the ``occurrence``-th place of an operator in a module."""

    module: str  # path inside the tree
    operator: str
    occurrence: int
    line: int
    column: int

    @property
    def name(self) -> str:
        """Where it is and what it does, for people."""
        return f"{self.module}:{self.line}:{self.column} {self.operator.removeprefix('core/')}"


def mutated(source: str, mutant: Mutant) -> str:
    """Return the module's text with the change; ``ValueError`` where the place is not there."""
    operator = get_operator(mutant.operator)()
    text: str | None = mutate_code(source, operator, mutant.occurrence)
    if text is None:
        raise ValueError(f"no such place: {mutant.name}")
    return text


def mutants(module: str, source: str) -> list[Mutant]:
    """Every change worth a run, in the order of the text."""
    tree, unseen, compared = get_ast(source), _unseen(source), list(_comparisons(source))
    computed = list(_computations(source))
    found = [
        Mutant(module, name, occurrence, *place)
        for name in sorted(filter(_worth, operator_names()))
        for occurrence, place in enumerate(_places(tree, get_operator(name)()))
        if not any(first <= place < last for first, last in unseen)
        and (
            not name.startswith("core/ReplaceBinaryOperator_")
            or any(first <= place < last for first, last in computed)
        )
        and not any(
            first <= place < last and _alike(name, right) for first, last, right in compared
        )
    ]
    return sorted(found, key=lambda one: (one.line, one.column, one.operator, one.occurrence))


def sampled(module: str, source: str, count: int | None, seed: int) -> list[Mutant]:
    """``count`` of them, the same ones for the same text and seed; all where it is None."""
    every = mutants(module, source)
    # The beginning of a shuffled list: a larger sample holds the smaller one.
    return random.Random(f"{seed}/{module}").sample(every, len(every))[:count]


def modules_under(root: Path, folders: tuple[str, ...]) -> Iterator[str]:
    """Python modules of these files or folders, as paths inside ``root``."""
    for folder in folders:
        path = root / folder
        found = sorted(path.rglob("*.py")) if path.is_dir() else [path]
        yield from (str(one.relative_to(root)) for one in found)


def _worth(operator: str) -> bool:
    name = operator.removeprefix("core/")
    if name.startswith("ReplaceComparisonOperator_"):
        old, new = name.split("_")[1:]
        return {old, new} <= set(_ORDERINGS) or {old, new} == {"Is", "IsNot"}
    if name.startswith("ReplaceBinaryOperator_"):
        return name.removeprefix("ReplaceBinaryOperator_") in _BINARY
    return name in _OTHERS


def _comparisons(source: str) -> Iterator[tuple[tuple[int, int], tuple[int, int], ast.expr]]:
    """Where each operator of a comparison stands, and what is on its right."""
    for part in ast.walk(ast.parse(source)):
        if isinstance(part, ast.Compare):
            for left, right in pairwise([part.left, *part.comparators]):
                yield (
                    (left.end_lineno, left.end_col_offset),
                    (right.lineno, right.col_offset),
                    right,
                )


def _computations(source: str) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Where the operators of sums, products and the like stand: between left and right."""
    for part in ast.walk(ast.parse(source)):
        if isinstance(part, ast.BinOp):
            left, right = part.left, part.right
            yield (left.end_lineno, left.end_col_offset), (right.lineno, right.col_offset)


def _alike(operator: str, right: ast.expr) -> bool:
    """Whether no input tells the comparison from the other one, by what is on its right."""
    name = operator.removeprefix("core/")
    if not name.startswith("ReplaceComparisonOperator_"):
        return False
    pair = set(name.split("_")[1:])
    if isinstance(right, ast.Constant) and right.value == 0 and type(right.value) in {int, float}:
        return pair in ({"Gt", "NotEq"}, {"LtE", "Eq"})
    return _is_word(right) and not pair <= {"Eq", "NotEq"}


def _is_word(part: ast.expr) -> bool:
    """A text, or a member of an enumeration (``Outcome.FAILED``); a list of such."""
    if isinstance(part, ast.List | ast.Tuple):
        return bool(part.elts) and all(map(_is_word, part.elts))
    if isinstance(part, ast.Attribute):
        return (
            part.attr.isupper() and isinstance(part.value, ast.Name) and part.value.id[0].isupper()
        )
    return isinstance(part, ast.Constant) and isinstance(part.value, str)


def _places(tree, operator) -> Iterator[tuple[int, int]]:
    for part in ast_nodes(tree):
        for start, _ in operator.mutation_positions(part):
            yield start


def _unseen(source: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Half-open spans (line, column) that no behaviour shows."""
    spans = []
    for part in ast.walk(ast.parse(source)):
        spans += [_span(one) for one in _unseen_parts(part)]
    return spans


def _unseen_parts(part: ast.AST) -> Iterator[ast.AST]:
    if isinstance(part, ast.AnnAssign | ast.arg) and part.annotation is not None:
        yield part.annotation
    if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
        yield from part.decorator_list
        if part.returns is not None:
            yield part.returns
    if isinstance(part, ast.ClassDef):
        yield from (*part.decorator_list, *part.keywords)
    if isinstance(part, ast.keyword) and part.arg in _UNSEEN:
        yield part
    if isinstance(part, ast.Assign) and _names_a_type(part):
        yield part
    if isinstance(part, ast.If) and {"TYPE_CHECKING", "__name__"} & set(_names(part.test)):
        yield part


def _names(part: ast.AST) -> Iterator[str]:
    yield from (one.id for one in ast.walk(part) if isinstance(one, ast.Name))


def _names_a_type(assigned: ast.Assign) -> bool:
    """``Answer = Finding | Silence``, ``_Pair = tuple[int, int]``: an alias of types."""
    value = assigned.value
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.BitOr):
        return all(isinstance(one, ast.Name | ast.BinOp | ast.Constant | ast.Subscript)
                   and ast.unparse(one)[:1].isupper() for one in (value.left, value.right))  # fmt: skip
    return isinstance(value, ast.Subscript) and ast.unparse(value.value) in {
        "tuple",
        "dict",
        "list",
    }


def _span(part: ast.AST) -> tuple[tuple[int, int], tuple[int, int]]:
    return (part.lineno, part.col_offset), (part.end_lineno, part.end_col_offset)
