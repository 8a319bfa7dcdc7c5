"""The calls of libcuda, against a fake one that keeps the real one's order."""

import ctypes
import re

import pytest

from tests.fakes.cuda import SOURCES
from tests.gpu.driver import SIGNATURES, Context, CudaError, Library
from tests.gpu.kernels import KERNELS, Kind

FP32 = KERNELS[Kind.FP32]
#: C type of a declaration, without const and the name -> ctypes.
C_TYPES = {
    "unsigned int": ctypes.c_uint,
    "int": ctypes.c_int,
    "CUresult": ctypes.c_int,
    "CUdevice": ctypes.c_int,
    "CUdevice_attribute": ctypes.c_int,
    "CUjit_option": ctypes.c_int,
    "unsigned char": ctypes.c_ubyte,
    "size_t": ctypes.c_size_t,
    "float": ctypes.c_float,
    "CUdeviceptr": ctypes.c_uint64,
    "char": ctypes.c_char,
    "CUcontext": ctypes.c_void_p,
    "CUmodule": ctypes.c_void_p,
    "CUfunction": ctypes.c_void_p,
    "CUevent": ctypes.c_void_p,
    "CUstream": ctypes.c_void_p,
}


def declarations():
    """Function -> C types of its arguments, as the fake's sources declare them."""
    text = "".join(path.read_text("utf-8") for path in SOURCES.glob("cuda*.c"))
    found = re.findall(r"EXPORT CUresult (cu\w+)\(([^)]*)\)", text)
    return {name: [one.strip() for one in said.split(",")] for name, said in found}


def as_ctypes(declared):
    words = re.sub(r"\bconst\b|\w+$", "", declared)
    stars, base = words.count("*"), words.replace("*", "").strip()
    if base == "void":
        return ctypes.c_void_p if stars == 1 else ctypes.POINTER(ctypes.c_void_p)
    if base == "CUuuid":
        return ctypes.c_char_p
    found = C_TYPES[base]
    if found is ctypes.c_char and stars:
        found, stars = ctypes.c_char_p, stars - 1
    return ctypes.POINTER(found) if stars else found


@pytest.mark.parametrize("name", list(SIGNATURES))
def test_arguments_are_typed_as_the_function_is_declared(name):
    declared = [as_ctypes(one) for one in declarations()[name]]
    typed = list(SIGNATURES[name])
    if name == "cuModuleLoadDataEx":  # a text is handed over where the header says void
        assert typed[1] is ctypes.c_char_p
        typed[1] = ctypes.c_void_p
    if name == "cuLaunchKernel":
        assert len(typed) == 11
    assert typed == declared


@pytest.fixture
def library(fake_cuda):
    return Library(str(fake_cuda.path))


def test_a_context_tells_what_the_card_is(library):
    with Context(library) as card:
        assert card.name == "Fake GPU 0"
        assert card.uuid == "00000000-0000-4000-8000-000000000000"
        assert card.capability == (9, 0)
        assert card.processors == 132
    assert library.count() == 1
    assert library.version() == "12.4"


def test_all_that_was_made_is_given_back(library, fake_cuda):
    with Context(library) as card:
        card.function(FP32.ptx, FP32.entry)
        card.allocate(4096)
        card.allocate_host(4096)
        card.event()
        assert set(fake_cuda.held()) == {
            "contexts", "modules", "buffers", "host_buffers", "events"
        }  # fmt: skip
    assert fake_cuda.held() == {}


def test_all_is_given_back_after_an_error_too(library, fake_cuda):
    def work():
        with Context(library) as card:
            card.allocate(4096)
            card.event()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert fake_cuda.held() == {}


def test_the_first_error_is_told_where_giving_back_fails_as_well(library, fake_cuda):
    def work():
        with Context(library) as card:
            card.event()
            fake_cuda.fail("cuEventDestroy_v2", 201)
            card.allocate(1 << 50)

    with pytest.raises(CudaError, match="cuMemAlloc_v2"):
        work()
    assert set(fake_cuda.held()) == {"events"}


def test_giving_back_that_fails_alone_is_told(library, fake_cuda):
    def work():
        with Context(library) as card:
            card.event()
            fake_cuda.fail("cuEventDestroy_v2", 201)

    with pytest.raises(CudaError, match="cuEventDestroy_v2"):
        work()


def test_a_kernel_that_is_refused_is_told_in_the_compilers_words(library, fake_cuda):
    fake_cuda.refuse_ptx("ptxas application ptx input, line 7; error : Unknown symbol 'x'")
    with pytest.raises(CudaError) as caught, Context(library) as card:
        card.function(FP32.ptx, FP32.entry)
    assert str(caught.value) == (
        "kernel fma_fp32: cuModuleLoadDataEx: CUDA_ERROR_INVALID_PTX (218): a PTX JIT compilation"
        " failed; its compiler says: ptxas application ptx input, line 7; error :"
        " Unknown symbol 'x'"
    )
    assert fake_cuda.held() == {}


def test_a_kernel_that_the_text_does_not_have_is_told(library):
    with (
        pytest.raises(CudaError, match=r"cuModuleGetFunction: CUDA_ERROR_NOT_FOUND \(500\)"),
        Context(library) as card,
    ):
        card.function(FP32.ptx, "another")


def test_an_error_that_the_driver_has_no_name_for_is_told_by_its_number(library, fake_cuda):
    fake_cuda.fail("cuCtxCreate_v2", 4711)
    with pytest.raises(CudaError, match=r"cuCtxCreate_v2: unknown error \(4711\)"):
        Context(library).__enter__()
    assert fake_cuda.held() == {}


def test_a_library_that_is_not_there_is_told(tmp_path):
    with pytest.raises(CudaError, match=r"no usable CUDA driver: .*libcuda\.so\.1"):
        Library(str(tmp_path / "libcuda.so.1"))


def test_a_library_of_another_kind_is_told(fake_nvml_library):
    with pytest.raises(CudaError, match=r"no usable CUDA driver: .*cuInit"):
        Library(str(fake_nvml_library))


def test_the_cards_clock_times_what_is_enqueued(library, fake_cuda):
    with Context(library) as card:
        function = card.function(FP32.ptx, FP32.entry)
        result = ctypes.c_uint64(card.allocate(4096))
        first, last = card.event(), card.event()
        card.record(first)
        card.launch(function, 4, 256, [result, ctypes.c_uint(300)])
        card.record(last)
        card.wait(last)
        assert card.seconds_between(first, last) == pytest.approx(300 * 1e-5)
    assert fake_cuda.get("launches") == 1
