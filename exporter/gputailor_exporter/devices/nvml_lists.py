"""Lists of the NVIDIA driver, each in one call with room kept from the call before.

The binding asks for each list twice, first how long it is, and makes new memory for it. These are
the slowest calls there are (1 to 5 ms each on a real driver, most of it CPU in the kernel), so that
asking once halves what a node pays. Structs and errors are the binding's.

Rows lie in the room and are overwritten by the next call: read them at once.
"""

import ctypes
from collections.abc import Callable
from typing import Any, Final

import pynvml

#: A list that grows between two calls is asked for again, so often.
_ATTEMPTS: Final = 3
#: No list is longer; a driver that wants more room is wrong.
MOST_ROWS: Final = 1 << 16


def _symbol(name: str) -> Any:
    """The function in the driver's library; raises ``NVMLError`` where it lacks it."""
    if pynvml.nvmlLib is None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_UNINITIALIZED)
    try:
        return getattr(pynvml.nvmlLib, name)
    except AttributeError:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND) from None


class Room:
    """Memory for rows of one list of one device; it grows and is kept."""

    def __init__(self, row: type[ctypes.Structure]) -> None:
        """``row`` is the struct of the binding."""
        self._row = row
        self._rows: Any = (row * 0)()

    def fill(self, ask: Callable[[Any, Any], int]) -> list[Any]:
        """Rows that ``ask`` wrote, given a reference to their number and the room.

        The room is None at first: the driver then tells the length alone. Raises ``NVMLError``.
        """
        result = pynvml.NVML_ERROR_INSUFFICIENT_SIZE
        for _ in range(_ATTEMPTS):
            room = len(self._rows)
            count = ctypes.c_uint(room)
            result = ask(ctypes.byref(count), self._rows if room else None)
            if result == pynvml.NVML_SUCCESS and count.value <= room:
                return list(self._rows[: count.value])
            if result not in {pynvml.NVML_SUCCESS, pynvml.NVML_ERROR_INSUFFICIENT_SIZE}:
                break
            self._grow(max(count.value, room))
        raise pynvml.NVMLError(result or pynvml.NVML_ERROR_UNKNOWN)

    def _grow(self, wanted: int) -> None:
        """Make room for ``wanted`` rows, and for what may come until they are asked for."""
        self._rows = (self._row * min(2 * wanted + 5, MOST_ROWS))()


class Lists:
    """The lists of one device, asked for by one thread."""

    def __init__(self) -> None:
        """Nothing is known of their lengths yet."""
        self._samples = Room(pynvml.c_nvmlSample_t)
        self._processes = Room(pynvml.c_nvmlProcessInfo_v3_t)
        self._utilization = Room(pynvml.c_nvmlProcessUtilizationSample_t)

    def samples(self, handle: Any, kind: int, since: int) -> tuple[int, list[Any]]:
        """``nvmlDeviceGetSamples``: number of the value's type, and samples after ``since``."""
        function, value_type = _symbol("nvmlDeviceGetSamples"), ctypes.c_uint()
        stamp = ctypes.c_ulonglong(since)
        rows = self._samples.fill(
            lambda count, room: function(handle, kind, stamp, ctypes.byref(value_type), count, room)
        )
        return value_type.value, rows

    def processes(self, kind: str, handle: Any) -> list[Any]:
        """``nvmlDeviceGet<kind>RunningProcesses_v3``."""
        function = _symbol(f"nvmlDeviceGet{kind}RunningProcesses_v3")
        return self._processes.fill(lambda count, room: function(handle, count, room))

    def utilization(self, handle: Any, since: int) -> list[Any]:
        """``nvmlDeviceGetProcessUtilization``: rows of processes after ``since``."""
        function, stamp = _symbol("nvmlDeviceGetProcessUtilization"), ctypes.c_ulonglong(since)
        return self._utilization.fill(lambda count, room: function(handle, room, count, stamp))
