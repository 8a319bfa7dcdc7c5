"""Kernels whose work is known beforehand, as PTX text that the driver itself compiles.

No compiler is needed where they run: ``cuModuleLoadDataEx`` takes PTX. Only what every driver since
R450 knows is used (PTX ISA 7.0). Facts are from NVIDIA's PTX ISA documentation:

- "Floating Point Instructions: fma": ``fma.rn.f32`` from sm_20 on; two operations each.
- "Matrix Fragments for mma.m16n8k8" and "… for mma.m16n8k16 with floating point type": registers of
  each thread. TF32 is four ``.b32`` for A and two for B; FP16 is four and two ``.f16x2``;
  accumulators are four ``.f32``. Both need sm_80 and PTX ISA 7.0 ("Multiply-and-Accumulate
  Instruction: mma"). A warp does 2 * M * N * K operations with one instruction.
- "Data Movement and Conversion Instructions: cvt": ``cvt.rna.tf32.f32`` from PTX ISA 7.0 and sm_80
  on, because a TF32 operand has to be rounded to be defined.
- "… ld" and "… st": ``.v4.u32`` at addresses that are multiples of 16 bytes.

Chains of eight independent accumulators hide the pipes' latency; inputs differ by thread, so that
no compiler knows the result, and results are stored, so that none may leave the work out. Values
stay finite: a card draws the power of numbers, not of NaN.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    """What a load works with."""

    FP32 = "fp32"
    TF32 = "tf32"  # tensor cores
    FP16 = "fp16"  # tensor cores, sums in FP32
    COPY = "copy"  # host <-> device; no kernel
    MEMORY = "memory"  # device memory


THREADS: Final = 256  # of a block
WARP: Final = 32
CHAINS: Final = 8
#: Instructions of each chain in one turn of the loop, so that its own three are few among them.
FMA_UNROLL: Final = 16
MMA_UNROLL: Final = 4
VECTOR_BYTES: Final = 16

ENTRIES: Final = {
    Kind.FP32: "fma_fp32",
    Kind.TF32: "mma_tf32",
    Kind.FP16: "mma_fp16",
    Kind.MEMORY: "stream",
}


@dataclass(frozen=True)
class Kernel:
    """One kernel and what a turn of its loop does.

    ``stream`` takes (from, to, vectors, turns), the others (result, turns); addresses are 64 bits,
    counts 32. ``blocks_per_processor`` fills a multiprocessor in one wave.
    """

    entry: str
    ptx: str
    capability: tuple[int, int]  # least compute capability
    blocks_per_processor: int
    operations_per_thread: float  # floating-point operations of one thread in one turn


def _lines(lines: Iterable[str]) -> str:
    return "\n".join(f"    {line}" for line in lines)


def _float(number: float) -> str:
    """A 32-bit literal: 0f and its bits in hexadecimal digits."""
    return f"0f{struct.pack('>f', number).hex().upper()}"


def _registers(name: str, first: int, count: int) -> str:
    """A vector of registers."""
    return "{" + ", ".join(f"%{name}{first + i}" for i in range(count)) + "}"


def _module(target: str, entry: str, parameters: str, body: str) -> str:
    """A module with one kernel. Every register that bodies use is declared here."""
    return f"""\
.version 7.0
.target {target}
.address_size 64

.visible .entry {entry}({parameters})
{{
    .reg .pred %p<2>;
    .reg .b16 %h<2>;
    .reg .b32 %r<16>;
    .reg .b64 %rd<8>;
    .reg .f32 %c<{4 * CHAINS}>;
    .reg .f32 %f<4>;

{body}
}}
"""


#: The thread's number in the grid to %r4, and as a float between 0 and 1/2 to %f0.
_WHO = (
    "mov.u32 %r1, %tid.x;",
    "mov.u32 %r2, %ctaid.x;",
    "mov.u32 %r3, %ntid.x;",
    "mad.lo.u32 %r4, %r2, %r3, %r1;",
    "and.b32 %r5, %r4, 1023;",
    "cvt.rn.f32.u32 %f0, %r5;",
    f"mul.f32 %f0, %f0, {_float(2**-11)};",
)


def _looping(turn: Iterable[str]) -> list[str]:
    """``turn`` as often as %r0 says; at least once."""
    end = ("sub.u32 %r0, %r0, 1;", "setp.ne.u32 %p0, %r0, 0;", "@%p0 bra TURN;")
    return ["TURN:", *turn, *end]


def _storing(sums: int) -> list[str]:
    """The sum of %c0… to the thread's place in the result at %rd0."""
    return [
        *(f"add.f32 %c0, %c0, %c{i};" for i in range(1, sums)),
        "mul.wide.u32 %rd2, %r4, 4;",
        "add.u64 %rd3, %rd1, %rd2;",
        "st.global.f32 [%rd3], %c0;",
        "ret;",
    ]


def _arithmetic(
    entry: str, target: str, prepare: Iterable[str], turn: Iterable[str], sums: int
) -> str:
    """A module of a kernel that only calculates, in ``sums`` accumulators."""
    body = [
        f"ld.param.u64 %rd0, [{entry}_result];",
        f"ld.param.u32 %r0, [{entry}_turns];",
        "cvta.to.global.u64 %rd1, %rd0;",
        *_WHO,
        *(f"add.f32 %c{i}, %f0, {_float(i / 64)};" for i in range(sums)),
        *prepare,
        *_looping(turn),
        *_storing(sums),
    ]
    parameters = f".param .u64 {entry}_result, .param .u32 {entry}_turns"
    return _module(target, entry, parameters, _lines(body))


def _fma() -> str:
    # x * 0.999 + 0.001 goes to 1 from anywhere
    constants = (f"mov.f32 %f1, {_float(0.999)};", f"mov.f32 %f2, {_float(0.001)};")
    turn = [f"fma.rn.f32 %c{i}, %c{i}, %f1, %f2;" for i in range(CHAINS)] * FMA_UNROLL
    return _arithmetic(ENTRIES[Kind.FP32], "sm_60", constants, turn, CHAINS)


def _mma(kind: Kind, shape: str, types: str, convert: Iterable[str]) -> str:
    """``convert`` makes one operand register, %r6, of %f0; all six hold the same."""
    one = f"mma.sync.aligned.{shape}.row.col.f32.{types}.f32"
    operands = f"{_registers('r', 6, 4)}, {_registers('r', 10, 2)}"
    chains = [_registers("c", 4 * chain, 4) for chain in range(CHAINS)]
    turn = [f"{one} {sums}, {operands}, {sums};" for sums in chains] * MMA_UNROLL
    copies = [f"mov.b32 %r{i}, %r6;" for i in range(7, 12)]
    return _arithmetic(ENTRIES[kind], "sm_80", [*convert, *copies], turn, 4 * CHAINS)


def _stream() -> str:
    """Copy ``vectors`` of 16 bytes, each changed a little, the whole of it every turn."""
    entry = ENTRIES[Kind.MEMORY]
    parameters = (
        f".param .u64 {entry}_from, .param .u64 {entry}_to, "
        f".param .u32 {entry}_vectors, .param .u32 {entry}_turns"
    )
    words = _registers("r", 10, 4)
    body = [
        f"ld.param.u64 %rd0, [{entry}_from];",
        f"ld.param.u64 %rd1, [{entry}_to];",
        f"ld.param.u32 %r6, [{entry}_vectors];",
        f"ld.param.u32 %r0, [{entry}_turns];",
        "cvta.to.global.u64 %rd0, %rd0;",
        "cvta.to.global.u64 %rd1, %rd1;",
        *_WHO[:4],
        "mov.u32 %r7, %nctaid.x;",
        "mul.lo.u32 %r7, %r7, %r3;",  # threads of the grid: the stride
        "TURN:",
        "mov.u32 %r8, %r4;",
        "setp.ge.u32 %p1, %r8, %r6;",
        "@%p1 bra DONE;",
        "NEXT:",
        "mul.wide.u32 %rd2, %r8, 16;",
        "add.u64 %rd3, %rd0, %rd2;",
        "add.u64 %rd4, %rd1, %rd2;",
        f"ld.global.v4.u32 {words}, [%rd3];",
        "add.u32 %r10, %r10, %r0;",
        f"st.global.v4.u32 [%rd4], {words};",
        "add.u32 %r8, %r8, %r7;",
        "setp.lt.u32 %p1, %r8, %r6;",
        "@%p1 bra NEXT;",
        "sub.u32 %r0, %r0, 1;",
        "setp.ne.u32 %p0, %r0, 0;",
        "@%p0 bra TURN;",
        "DONE:",
        "ret;",
    ]
    return _module("sm_60", entry, parameters, _lines(body))


def _mma_operations(m: int, n: int, k: int) -> float:
    """Operations of one thread in one turn; the warp's are shared out evenly."""
    return 2.0 * m * n * k * CHAINS * MMA_UNROLL / WARP


KERNELS: Final = {
    Kind.FP32: Kernel(
        ENTRIES[Kind.FP32], _fma(), (6, 0), 4, operations_per_thread=2.0 * CHAINS * FMA_UNROLL
    ),
    Kind.TF32: Kernel(
        ENTRIES[Kind.TF32],
        _mma(Kind.TF32, "m16n8k8", "tf32.tf32", ["cvt.rna.tf32.f32 %r6, %f0;"]),
        (8, 0),
        2,
        operations_per_thread=_mma_operations(16, 8, 8),
    ),
    Kind.FP16: Kernel(
        ENTRIES[Kind.FP16],
        _mma(
            Kind.FP16,
            "m16n8k16",
            "f16.f16",
            ["cvt.rn.f16.f32 %h0, %f0;", "mov.b32 %r6, {%h0, %h0};"],
        ),
        (8, 0),
        2,
        operations_per_thread=_mma_operations(16, 8, 16),
    ),
    Kind.MEMORY: Kernel(ENTRIES[Kind.MEMORY], _stream(), (6, 0), 8, operations_per_thread=0.0),
}
