"""The kernels' PTX, as far as it can be checked without a GPU; by NVIDIA's assembler where it is."""

import re
import shutil
import site
import subprocess
from pathlib import Path

import pytest

from tests.gpu.kernels import CHAINS, FMA_UNROLL, KERNELS, MMA_UNROLL, WARP, Kind
from tests.gpu.ptx_structure import problems

EVERY = pytest.mark.parametrize("kind", list(KERNELS))
#: Compute capabilities that are tried where the assembler knows them.
TARGETS = ("sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")


@EVERY
def test_all_that_a_kernel_uses_is_declared(kind):
    assert problems(KERNELS[kind].ptx) == []


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (".reg .f32 %f<4>;", ".reg .f32 %f<1>;", "%f1 is not declared"),
        ("TURN:", "AGAIN:", "no label TURN"),
        ("[fma_fp32_turns]", "[fma_fp32_turn]", "no parameter"),
        ("ret;", "ret", "without its semicolon"),
        ("fma.rn.f32 %c0, %c0, %f1, %f2;", "fma.rn.f32 %c0, %c0, %r1, %f2;", "expected .f32"),
        ("fma.rn.f32 %c0, %c0, %f1, %f2;", "fma.rn.f32 %c0, %c0, %f1;", "4 operands, not 3"),
        ("fma.rn.f32 %c0", "fma.f32 %c0", "unknown instruction fma.f32"),
        ("st.global.f32 [%rd3]", "st.global.f32 %rd3", "in brackets"),
        ("ret;", "add.u32 %r0, %r0, 1;", "does not end in ret"),
        (".target sm_60", ".target", "expected .target"),
        ("{\n", "", "not in pairs"),
    ],
)
def test_what_is_misspelt_is_found(old, new, found):
    text = KERNELS[Kind.FP32].ptx
    assert old in text
    broken = text.replace(old, new, 1)
    assert any(found in one for one in problems(broken)), problems(broken)


def test_a_target_that_lacks_an_instruction_is_found():
    text = KERNELS[Kind.TF32].ptx.replace("sm_80", "sm_75")
    assert any("needs sm_80" in one for one in problems(text))


@EVERY
def test_the_target_is_what_the_kernel_says_it_needs(kind):
    major, minor = KERNELS[kind].capability
    assert f".target sm_{major}{minor}\n" in KERNELS[kind].ptx
    assert f".visible .entry {KERNELS[kind].entry}(" in KERNELS[kind].ptx


def test_operations_of_a_turn_are_those_of_its_instructions():
    fma = len(re.findall(r"\bfma\.rn\.f32", KERNELS[Kind.FP32].ptx))
    assert fma == CHAINS * FMA_UNROLL
    assert KERNELS[Kind.FP32].operations_per_thread == 2 * fma
    for kind, (m, n, k) in {Kind.TF32: (16, 8, 8), Kind.FP16: (16, 8, 16)}.items():
        mma = len(re.findall(rf"mma\.sync\.aligned\.m{m}n{n}k{k}\.", KERNELS[kind].ptx))
        assert mma == CHAINS * MMA_UNROLL
        assert KERNELS[kind].operations_per_thread * WARP == 2 * m * n * k * mma


def assembler() -> str:
    """NVIDIA's ptxas, from a toolkit or from its package in this environment."""
    found = shutil.which("ptxas")
    for folder in site.getsitepackages():
        for one in sorted(Path(folder).glob("nvidia/*/bin/ptxas")):
            found = found or str(one)
    if found is None:
        pytest.skip("NVIDIA's assembler is not on this machine: ptxas not found")
    return found


@pytest.mark.gpu
@EVERY
def test_nvidias_assembler_takes_the_kernel(kind, tmp_path):
    ptxas, source = assembler(), tmp_path / "kernel.ptx"
    source.write_text(KERNELS[kind].ptx, encoding="utf-8")
    known = subprocess.run([ptxas, "--help"], capture_output=True, text=True, check=True).stdout
    least = int("".join(map(str, KERNELS[kind].capability)))
    tried = [one for one in TARGETS if f"'{one}'" in known and int(one[3:]) >= least]
    assert tried
    for target in tried:
        command = [ptxas, f"-arch={target}", str(source), "-o", str(tmp_path / target)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
