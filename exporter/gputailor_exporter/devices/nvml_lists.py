"""Lists of the NVIDIA driver, each in one call with room kept from the call before.

The binding asks for each list twice, first how long it is, and makes new memory for it. These are
the slowest calls there are (1 to 5 ms each on a real driver, most of it CPU in the kernel), so that
asking once halves what a node pays. Structs and errors are the binding's.

Rows lie in the room and are overwritten by the next call: read them at once.
"""

import ctypes
import math
import struct
from collections.abc import Callable
from typing import Any, Final

import pynvml

from gputailor_exporter.devices.nvml_counts import MOST_ROWS, counted

#: A list that grows between two calls is asked for again, so often.
_ATTEMPTS: Final = 3
#: A sample by the number of its value's type. Reading memory is ten times as fast as the attributes
#: of the binding's structs, and there are some thirty samples a second.
_SAMPLES: Final = {
    pynvml.NVML_VALUE_TYPE_DOUBLE: struct.Struct("=Qd"),
    pynvml.NVML_VALUE_TYPE_UNSIGNED_INT: struct.Struct("=QI4x"),
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG: struct.Struct("=QQ"),
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: struct.Struct("=QQ"),
    pynvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG: struct.Struct("=Qq"),
    pynvml.NVML_VALUE_TYPE_SIGNED_INT: struct.Struct("=Qi4x"),
    pynvml.NVML_VALUE_TYPE_UNSIGNED_SHORT: struct.Struct("=QH6x"),
}
_ANY_SAMPLE: Final = struct.Struct("=QQ")


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
        """Rows that ``ask`` wrote; see ``fill_bytes``."""
        count = self._fill(ask)  # which may make new room
        return list(self._rows[:count])

    def fill_bytes(self, ask: Callable[[Any, Any], int]) -> bytes:
        """Memory of the rows that ``ask`` wrote, given their number (it changes it) and the room.

        The room is None at first: the driver then tells the length alone. Raises ``NVMLError``, and
        ``ImpossibleCount`` where the driver wants more room than there can be rows.
        """
        count = self._fill(ask)  # which may make new room
        return ctypes.string_at(self._rows, count * ctypes.sizeof(self._row))

    def _fill(self, ask: Callable[[Any, Any], int]) -> int:
        result = pynvml.NVML_ERROR_INSUFFICIENT_SIZE
        for _ in range(_ATTEMPTS):
            room = len(self._rows)
            count = ctypes.c_uint(room)
            result = ask(count, self._rows if room else None)
            if result == pynvml.NVML_SUCCESS and count.value <= room:
                return int(count.value)
            if result not in {pynvml.NVML_SUCCESS, pynvml.NVML_ERROR_INSUFFICIENT_SIZE}:
                break
            self._grow(max(counted("rows", count.value, MOST_ROWS), room))
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
        self._utilization_info = Room(pynvml.c_nvmlProcessUtilizationInfo_v1_t)

    def samples(self, handle: Any, kind: int, since: int) -> list[tuple[int, float]]:
        """``nvmlDeviceGetSamples``: time (microseconds) and value of samples after ``since``.

        A value of a type that is not known is NaN.
        """
        function, value_type = _symbol("nvmlDeviceGetSamples"), ctypes.c_uint()
        stamp = ctypes.c_ulonglong(since)
        rows = self._samples.fill_bytes(
            lambda count, room: function(
                handle, kind, stamp, ctypes.byref(value_type), ctypes.byref(count), room
            )
        )
        row = _SAMPLES.get(value_type.value)
        if row is None:
            return [(when, math.nan) for when, _ in _ANY_SAMPLE.iter_unpack(rows)]
        return list(row.iter_unpack(rows))

    def processes(self, kind: str, handle: Any) -> list[Any]:
        """``nvmlDeviceGet<kind>RunningProcesses_v3``."""
        function = _symbol(f"nvmlDeviceGet{kind}RunningProcesses_v3")
        return self._processes.fill(lambda count, room: function(handle, ctypes.byref(count), room))

    def utilization(self, handle: Any, since: int) -> list[Any]:
        """``nvmlDeviceGetProcessUtilization``: rows of processes after ``since``."""
        function, stamp = _symbol("nvmlDeviceGetProcessUtilization"), ctypes.c_ulonglong(since)
        return self._utilization.fill(
            lambda count, room: function(handle, room, ctypes.byref(count), stamp)
        )

    def utilization_info(self, handle: Any, since: int) -> list[Any]:
        """``nvmlDeviceGetProcessesUtilizationInfo``: the same of newer drivers."""
        function = _symbol("nvmlDeviceGetProcessesUtilizationInfo")
        info = pynvml.c_nvmlProcessesUtilizationInfo_v1_t()
        info.version = pynvml.ProcessesUtilizationInfo_v1
        info.lastSeenTimeStamp = since

        def ask(count: Any, room: Any) -> int:
            info.processSamplesCount = count.value
            if room is not None:
                info.procUtilArray = ctypes.cast(room, type(info.procUtilArray))
            result: int = function(handle, ctypes.byref(info))
            count.value = info.processSamplesCount
            return result

        return self._utilization_info.fill(ask)


def count_retired_pages(handle: Any, cause: int) -> int:
    """``nvmlDeviceGetRetiredPages`` without their addresses; raises as ``Room.fill`` does."""
    count = ctypes.c_uint()
    result = _symbol("nvmlDeviceGetRetiredPages")(handle, cause, ctypes.byref(count), None)
    if result not in {pynvml.NVML_SUCCESS, pynvml.NVML_ERROR_INSUFFICIENT_SIZE}:
        raise pynvml.NVMLError(result)
    return counted("retired pages", count.value, MOST_ROWS)
