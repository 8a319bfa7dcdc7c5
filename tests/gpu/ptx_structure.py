"""What can be wrong with a PTX text, found without NVIDIA's compiler.

No compiler: it knows the few instructions that our kernels use, with the type of each operand, from
NVIDIA's PTX ISA documentation ("Instruction Statements", "Operands", "Instruction Set"), and finds
what is misspelt: a register that is not declared or of another type, a label or a parameter that is
not there, a statement without its end, an instruction that the target does not have.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

_DECLARED: Final = re.compile(r"\.reg \.(\w+) %([a-z]+)<(\d+)>;")
_PARAMETER: Final = re.compile(r"\.param \.(u32|u64) (\w+)")
_LABEL: Final = re.compile(r"(\w+):")
_REGISTER: Final = re.compile(r"%([a-z]+)(\d+)")
_SPECIAL: Final = {"%tid.x", "%ctaid.x", "%ntid.x", "%nctaid.x"}
_LITERAL: Final = re.compile(r"\d+|0f[0-9A-F]{8}")

#: Instruction -> classes of its operands: a register class, several for a vector of them, "@" for an
#: address in a register, "#" for a parameter, ":" for a label, "s" for a special register.
INSTRUCTIONS: Final[dict[str, tuple[str | tuple[str, ...], ...]]] = {
    "ld.param.u64": ("b64", "#u64"),
    "ld.param.u32": ("b32", "#u32"),
    "cvta.to.global.u64": ("b64", "b64"),
    "mov.u32": ("b32", "b32"),
    "mov.b32": ("b32", "b32"),
    "mov.f32": ("f32", "f32"),
    "mad.lo.u32": ("b32",) * 4,
    "mul.lo.u32": ("b32",) * 3,
    "mul.wide.u32": ("b64", "b32", "b32"),
    "and.b32": ("b32",) * 3,
    "add.u32": ("b32",) * 3,
    "sub.u32": ("b32",) * 3,
    "add.u64": ("b64",) * 3,
    "add.f32": ("f32",) * 3,
    "mul.f32": ("f32",) * 3,
    "fma.rn.f32": ("f32",) * 4,
    "cvt.rn.f32.u32": ("f32", "b32"),
    "cvt.rn.f16.f32": ("b16", "f32"),
    "cvt.rna.tf32.f32": ("b32", "f32"),
    "setp.ne.u32": ("pred", "b32", "b32"),
    "setp.ge.u32": ("pred", "b32", "b32"),
    "setp.lt.u32": ("pred", "b32", "b32"),
    "bra": (":",),
    "ret": (),
    "st.global.f32": ("@b64", "f32"),
    "ld.global.v4.u32": (("b32",) * 4, "@b64"),
    "st.global.v4.u32": ("@b64", ("b32",) * 4),
    "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32": (
        ("f32",) * 4, ("b32",) * 4, ("b32",) * 2, ("f32",) * 4,
    ),
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32": (
        ("f32",) * 4, ("b32",) * 4, ("b32",) * 2, ("f32",) * 4,
    ),
}  # fmt: skip
#: Beginning of an instruction -> least target; all others are older than any target here.
LEAST_TARGET: Final = {"mma.sync": 80, "cvt.rna.tf32": 80, "cvt.rn.f16": 53}
#: Two halves make one 32-bit register.
_PACKED: Final = ("b16", "b16")


def problems(text: str) -> list[str]:
    """What is wrong, each with its line; empty: nothing was found."""
    return list(_problems(text))


def _problems(text: str) -> Iterator[str]:
    head = text.splitlines()[:3]
    if not re.fullmatch(r"\.version \d\.\d", head[0]):
        yield "line 1: expected .version"
    target = re.fullmatch(r"\.target sm_(\d+)", head[1])
    if target is None:
        yield "line 2: expected .target"
        return
    if head[2] != ".address_size 64":
        yield "line 3: expected .address_size 64"
    if text.count("{") != text.count("}") or text.count("(") != text.count(")"):
        yield "brackets are not in pairs"
        return
    body = Body(text, int(target[1]))
    yield from body.problems()


class Body:
    """The kernel of a module, line by line."""

    def __init__(self, text: str, target: int) -> None:
        """Note what is declared."""
        self._lines = text.splitlines()
        self._target = target
        self._registers = {
            name: (kind, int(count)) for kind, name, count in _DECLARED.findall(text)
        }
        self._parameters = {name: kind for kind, name in _PARAMETER.findall(text)}
        self._labels = {found[1] for line in self._lines if (found := self._label(line))}

    def problems(self) -> Iterator[str]:
        """See ``problems``."""
        last = ""
        for number, line in self._statements():
            if self._label(line):
                continue
            if not line.endswith(";"):
                yield f"line {number}: a statement without its semicolon: {line}"
                continue
            last = line
            yield from (f"line {number}: {what}" for what in self._statement(line[:-1]))
        if last != "ret;":
            yield "the kernel does not end in ret"

    @staticmethod
    def _label(line: str) -> re.Match[str] | None:
        return _LABEL.fullmatch(line.strip())

    def _statements(self) -> Iterator[tuple[int, str]]:
        """Lines inside the kernel's braces that are no declaration."""
        begin, end = self._lines.index("{"), self._lines.index("}")
        for number, line in enumerate(self._lines[begin + 1 : end], begin + 2):
            if line.strip() and not line.strip().startswith(".reg"):
                yield number, line.strip()

    def _statement(self, statement: str) -> Iterator[str]:
        if statement.startswith("@"):
            guard, _, statement = statement.partition(" ")
            yield from self._operand("pred", guard[1:])
        opcode, _, rest = statement.partition(" ")
        wanted = INSTRUCTIONS.get(opcode)
        if wanted is None:
            yield f"unknown instruction {opcode}"
            return
        for beginning, least in LEAST_TARGET.items():
            if opcode.startswith(beginning) and self._target < least:
                yield f"{opcode} needs sm_{least}, the target is sm_{self._target}"
        operands = re.findall(r"\{[^}]*\}|[^,\s][^,]*", rest)
        if len(operands) != len(wanted):
            yield f"{opcode} has {len(wanted)} operands, not {len(operands)}"
            return
        for kind, operand in zip(wanted, operands, strict=True):
            yield from self._operand(kind, operand.strip())

    def _operand(self, kind: str | Sequence[str], operand: str) -> Iterator[str]:
        if operand.startswith("{"):
            yield from self._vector(_PACKED if kind == "b32" else kind, operand)
        elif not isinstance(kind, str):
            yield f"{operand}: expected a vector of {len(kind)}"
        elif kind == ":":
            if operand not in self._labels:
                yield f"no label {operand}"
        elif kind.startswith("#"):
            if self._parameters.get(operand.strip("[]")) != kind[1:]:
                yield f"no parameter {operand} of type {kind[1:]}"
        elif kind.startswith("@"):
            if operand != f"[{operand.strip('[]')}]":
                yield f"{operand}: expected an address in brackets"
            yield from self._register(kind[1:], operand.strip("[]"))
        elif operand not in _SPECIAL and not _LITERAL.fullmatch(operand):
            yield from self._register(kind, operand)

    def _vector(self, kinds: str | Sequence[str], operand: str) -> Iterator[str]:
        parts = [part.strip() for part in operand.strip("{}").split(",")]
        if isinstance(kinds, str) or len(parts) != len(kinds):
            yield f"{operand}: expected {kinds}"
            return
        for kind, part in zip(kinds, parts, strict=True):
            yield from self._register(kind, part)

    def _register(self, kind: str, name: str) -> Iterator[str]:
        found = _REGISTER.fullmatch(name)
        declared = self._registers.get(found[1]) if found else None
        if found is None or declared is None or int(found[2]) >= declared[1]:
            yield f"{name} is not declared"
        elif declared[0] != kind:
            yield f"{name} is .{declared[0]}, expected .{kind}"
