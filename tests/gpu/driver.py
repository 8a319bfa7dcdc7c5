"""NVIDIA's driver library, ``libcuda.so.1``, as far as the loads need it.

Called directly, because where a card is tried there may be neither a toolkit nor a framework. The
functions and numbers are those of NVIDIA's CUDA Driver API documentation: "Initialization", "Device
Management", "Context Management", "Module Management", "Memory Management", "Execution Control",
"Event Management" and the enumerations of "Data types used by CUDA driver". A name with ``_v2`` is
what the header's macro of the plain name stands for; drivers keep exporting it.

Everything that a ``Context`` hands out is given back when it is left, newest first, whatever
happened inside. Every call is of the thread that entered it. Drivers from R470 on (``cuDeviceGetUuid_v2``).
"""

import ctypes
import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from ctypes import POINTER, byref, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from types import TracebackType
from typing import Any, Final, Self

LIBRARY: Final = "libcuda.so.1"

#: Function -> types of its arguments; each returns a CUresult. CUdevice is an int, CUdeviceptr 64
#: bits; contexts, modules, functions, streams and events are pointers.
SIGNATURES: Final[Mapping[str, tuple[Any, ...]]] = {
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (POINTER(c_int),),
    "cuGetErrorName": (c_int, POINTER(c_char_p)),
    "cuGetErrorString": (c_int, POINTER(c_char_p)),
    "cuDeviceGetCount": (POINTER(c_int),),
    "cuDeviceGet": (POINTER(c_int), c_int),
    "cuDeviceGetName": (c_char_p, c_int, c_int),
    "cuDeviceGetUuid_v2": (c_char_p, c_int),
    "cuDeviceGetAttribute": (POINTER(c_int), c_int, c_int),
    "cuCtxCreate_v2": (POINTER(c_void_p), c_uint, c_int),
    "cuCtxDestroy_v2": (c_void_p,),
    "cuModuleLoadDataEx": (POINTER(c_void_p), c_char_p, c_uint, POINTER(c_int), POINTER(c_void_p)),
    "cuModuleUnload": (c_void_p,),
    "cuModuleGetFunction": (POINTER(c_void_p), c_void_p, c_char_p),
    "cuMemGetInfo_v2": (POINTER(c_size_t), POINTER(c_size_t)),
    "cuMemAlloc_v2": (POINTER(c_uint64), c_size_t),
    "cuMemFree_v2": (c_uint64,),
    "cuMemsetD8_v2": (c_uint64, ctypes.c_ubyte, c_size_t),
    "cuMemHostAlloc": (POINTER(c_void_p), c_size_t, c_uint),
    "cuMemFreeHost": (c_void_p,),
    "cuMemcpyHtoDAsync_v2": (c_uint64, c_void_p, c_size_t, c_void_p),
    "cuMemcpyDtoHAsync_v2": (c_void_p, c_uint64, c_size_t, c_void_p),
    "cuLaunchKernel": (
        c_void_p, *(c_uint,) * 7, c_void_p, POINTER(c_void_p), POINTER(c_void_p)
    ),
    "cuEventCreate": (POINTER(c_void_p), c_uint),
    "cuEventDestroy_v2": (c_void_p,),
    "cuEventRecord": (c_void_p, c_void_p),
    "cuEventSynchronize": (c_void_p,),
    "cuEventElapsedTime": (POINTER(c_float), c_void_p, c_void_p),
}  # fmt: skip

#: CU_CTX_SCHED_BLOCKING_SYNC: who waits for the card sleeps.
_BLOCKING: Final = 4
#: CU_EVENT_BLOCKING_SYNC.
_EVENT_BLOCKING: Final = 1
#: CU_JIT_ERROR_LOG_BUFFER and its size in bytes.
_ERROR_LOG: Final = 5
_ERROR_LOG_BYTES: Final = 6
_LOG_BYTES: Final = 8192
#: CU_DEVICE_ATTRIBUTE_…: MULTIPROCESSOR_COUNT, COMPUTE_CAPABILITY_MAJOR and …_MINOR.
_PROCESSORS: Final = 16
_MAJOR: Final = 75
_MINOR: Final = 76
_NAME_BYTES: Final = 256
_UUID_BYTES: Final = 16


class CudaError(Exception):
    """A call that failed: which, and what the driver says."""


class Library:
    """The driver library with its functions typed."""

    def __init__(self, path: str = LIBRARY) -> None:
        """Load it; ``CudaError`` where it cannot be, or lacks a function."""
        try:
            self.raw = ctypes.CDLL(path)
            for name, arguments in SIGNATURES.items():
                function = getattr(self.raw, name)
                function.argtypes, function.restype = arguments, c_int
        except (OSError, AttributeError) as error:
            raise CudaError(f"no usable CUDA driver: {error}") from error

    def call(self, name: str, *arguments: Any) -> None:
        """Call; ``CudaError`` in the driver's words where it fails."""
        code = getattr(self.raw, name)(*arguments)
        if code != 0:
            raise CudaError(f"{name}: {self._words(code)}")

    def count(self) -> int:
        """Number of devices that CUDA may use."""
        self.call("cuInit", 0)
        found = c_int()
        self.call("cuDeviceGetCount", byref(found))
        return found.value

    def version(self) -> str:
        """Newest CUDA version that the driver knows."""
        found = c_int()
        self.call("cuDriverGetVersion", byref(found))
        return f"{found.value // 1000}.{found.value % 1000 // 10}"

    def _words(self, code: int) -> str:
        texts = []
        for function in ("cuGetErrorName", "cuGetErrorString"):
            text = c_char_p()
            known = getattr(self.raw, function)(code, byref(text)) == 0 and text.value
            texts.append(known.decode("utf-8", "replace") if known else "unknown error")
        return f"{texts[0]} ({code}): {texts[1]}"


class Context:
    """A context on one device, and what was made in it."""

    def __init__(self, library: Library, index: int = 0) -> None:
        """``index``: the device's, as CUDA counts (``CUDA_VISIBLE_DEVICES``)."""
        self._call = library.call
        self._index = index
        self._device = 0
        self._made = ExitStack()

    def __enter__(self) -> Self:
        """Open it; nothing is left where that fails."""
        device, context = c_int(), c_void_p()
        self._call("cuInit", 0)
        self._call("cuDeviceGet", byref(device), self._index)
        self._device = device.value
        self._call("cuCtxCreate_v2", byref(context), _BLOCKING, device)
        self._made.callback(self._call, "cuCtxDestroy_v2", context)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give everything back; what then fails too, after an error, is not the news."""
        try:
            self._made.close()
        except CudaError:
            if error is None:
                raise

    @property
    def name(self) -> str:
        """Model, in the driver's words."""
        text = ctypes.create_string_buffer(_NAME_BYTES)
        self._call("cuDeviceGetName", text, _NAME_BYTES, self._device)
        return text.value.decode("utf-8", "replace")

    @property
    def uuid(self) -> str:
        """UUID without the kind before it (GPU- or MIG-)."""
        text = ctypes.create_string_buffer(_UUID_BYTES)
        self._call("cuDeviceGetUuid_v2", text, self._device)
        return str(uuid.UUID(bytes=text.raw))

    @property
    def processors(self) -> int:
        """Streaming multiprocessors."""
        return self._attribute(_PROCESSORS)

    @property
    def capability(self) -> tuple[int, int]:
        """Compute capability."""
        return self._attribute(_MAJOR), self._attribute(_MINOR)

    def _attribute(self, number: int) -> int:
        value = c_int()
        self._call("cuDeviceGetAttribute", byref(value), number, self._device)
        return value.value

    def free_bytes(self) -> int:
        """Device memory that nobody holds."""
        free, total = c_size_t(), c_size_t()
        self._call("cuMemGetInfo_v2", byref(free), byref(total))
        return free.value

    def function(self, ptx: str, entry: str) -> c_void_p:
        """A kernel of a PTX text; ``CudaError`` with the compiler's log where it is refused."""
        module, function = c_void_p(), c_void_p()
        log = ctypes.create_string_buffer(_LOG_BYTES)
        options = (c_int * 2)(_ERROR_LOG, _ERROR_LOG_BYTES)
        values = (c_void_p * 2)(ctypes.addressof(log), _LOG_BYTES)
        try:
            self._call("cuModuleLoadDataEx", byref(module), ptx.encode(), 2, options, values)
        except CudaError as error:
            said = log.value.decode("utf-8", "replace").strip() or "nothing"
            raise CudaError(f"kernel {entry}: {error}; its compiler says: {said}") from error
        self._made.callback(self._call, "cuModuleUnload", module)
        self._call("cuModuleGetFunction", byref(function), module, entry.encode())
        return function

    def allocate(self, size: int) -> int:
        """``size`` bytes of device memory, zeroed; its address."""
        address = c_uint64()
        self._call("cuMemAlloc_v2", byref(address), size)
        self._made.callback(self._call, "cuMemFree_v2", address.value)
        self._call("cuMemsetD8_v2", address, 0, size)
        return address.value

    def allocate_host(self, size: int) -> int:
        """``size`` bytes of host memory that the card reaches by itself (pinned); its address."""
        address = c_void_p()
        self._call("cuMemHostAlloc", byref(address), size, 0)
        self._made.callback(self._call, "cuMemFreeHost", address)
        return address.value or 0

    def copy_to_device(self, device: int, host: int, size: int) -> None:
        """Enqueue a copy."""
        self._call("cuMemcpyHtoDAsync_v2", device, host, size, None)

    def copy_to_host(self, host: int, device: int, size: int) -> None:
        """Enqueue a copy."""
        self._call("cuMemcpyDtoHAsync_v2", host, device, size, None)

    def launch(self, function: c_void_p, blocks: int, threads: int, values: Sequence[Any]) -> None:
        """Enqueue a kernel; ``values`` are ctypes numbers of its parameters' very sizes."""
        pointers = (c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        shape = (blocks, 1, 1, threads, 1, 1)
        self._call("cuLaunchKernel", function, *shape, 0, None, pointers, None)

    def event(self) -> c_void_p:
        """A mark that can be set in the queue."""
        made = c_void_p()
        self._call("cuEventCreate", byref(made), _EVENT_BLOCKING)
        self._made.callback(self._call, "cuEventDestroy_v2", made)
        return made

    def record(self, event: c_void_p) -> None:
        """Set a mark behind what is enqueued so far."""
        self._call("cuEventRecord", event, None)

    def wait(self, event: c_void_p) -> None:
        """Sleep until the card has come to a mark."""
        self._call("cuEventSynchronize", event)

    def seconds_between(self, first: c_void_p, second: c_void_p) -> float:
        """Seconds, by the card's clock, from one mark it has passed to another."""
        milliseconds = c_float()
        self._call("cuEventElapsedTime", byref(milliseconds), first, second)
        return milliseconds.value / 1000
