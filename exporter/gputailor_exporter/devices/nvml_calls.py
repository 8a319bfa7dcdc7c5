"""Calls to the NVIDIA driver that never invent a value: each gives an answer or leaves a reason.

The driver's answers are checked here once for all: error codes become ``Reason``, sentinels and
impossible numbers are dropped. What a device does not support is remembered, so that it is asked
once and not each second. Functions are named by text, because older bindings and older drivers lack
some of them; both look like FUNCTION_NOT_FOUND.
"""

import ctypes
from collections.abc import Callable
from typing import Any, Final

import pynvml

from gputailor_exporter.devices.base import DeviceError, Reason
from gputailor_exporter.devices.nvml_counts import ImpossibleCount, counted, is_sentinel
from gputailor_exporter.metrics import Signal

_REASONS: Final[dict[int, Reason]] = {
    pynvml.NVML_SUCCESS: Reason.NO_SAMPLES,  # the binding's way to say that a list is empty
    pynvml.NVML_ERROR_NOT_SUPPORTED: Reason.NOT_SUPPORTED,
    pynvml.NVML_ERROR_VGPU_ECC_NOT_SUPPORTED: Reason.NOT_SUPPORTED,
    pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH: Reason.NOT_SUPPORTED,
    pynvml.NVML_ERROR_DEPRECATED: Reason.NOT_SUPPORTED,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: Reason.FUNCTION_NOT_FOUND,
    pynvml.NVML_ERROR_NO_PERMISSION: Reason.NO_PERMISSION,
    pynvml.NVML_ERROR_GPU_IS_LOST: Reason.GPU_IS_LOST,
    pynvml.NVML_ERROR_GPU_NOT_FOUND: Reason.GPU_IS_LOST,
    pynvml.NVML_ERROR_TIMEOUT: Reason.TIMEOUT,
    pynvml.NVML_ERROR_NOT_FOUND: Reason.NO_SAMPLES,
    pynvml.NVML_ERROR_NO_DATA: Reason.NO_SAMPLES,
    pynvml.NVML_ERROR_IN_USE: Reason.IN_USE,
}

#: The driver as a whole is gone or was replaced under us; no other call can succeed.
_DRIVER_GONE: Final = frozenset(
    {
        pynvml.NVML_ERROR_UNINITIALIZED,
        pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
        pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
    }
)

#: Answers that will not change while the device stays as it is: not asked again.
_LASTING: Final = frozenset({Reason.NOT_SUPPORTED, Reason.FUNCTION_NOT_FOUND})

#: After this long, what a device did not support is asked for again.
ROUND_SECONDS: Final = 600.0

#: How far above 1 a ratio may come out of the driver's own averaging; it is clamped to 1. Anything
#: beyond is nonsense (1.29 was seen on MIG) and dropped.
RATIO_TOLERANCE: Final = 0.02


def reason_of(error: "pynvml.NVMLError", *, mig: bool = False) -> Reason:
    """Translate an NVML error; a MIG handle where a GPU is wanted is often an invalid argument."""
    if mig and error.value == pynvml.NVML_ERROR_INVALID_ARGUMENT:
        return Reason.NOT_SUPPORTED
    return _REASONS.get(error.value, Reason.DRIVER_ERROR)


def driver_gone(error: "pynvml.NVMLError") -> bool:
    """Whether no call can succeed any more in this process."""
    return error.value in _DRIVER_GONE


def ratio(percent: float) -> float | None:
    """Percent as 0..1; None for a sentinel and for what lies outside by more than rounding."""
    value = percent / 100.0
    if is_sentinel(percent) or value < 0.0 or value > 1.0 + RATIO_TOLERANCE:
        return None
    return min(value, 1.0)


class Calls:
    """Asks one device; ``reasons`` says why values of the present reading are missing.

    Not safe for several threads: each device has one reader.
    """

    def __init__(self, device: str, *, mig: bool = False) -> None:
        """``device`` names the device in error texts."""
        self._device = device
        self._mig = mig
        self._refused: dict[str, Reason] = {}
        self._since: float | None = None
        self.rounds = 0
        self.reasons: dict[str, Reason] = {}
        self.answers = 0

    def begin(self, at: float) -> None:
        """Start a reading at monotonic time ``at``: forget its predecessor's reasons.

        What is not supported is kept, but now and then a new round begins in which all is asked
        again (``rounds`` counts them): services of the driver may start after us.
        """
        self.reasons = {}
        self.answers = 0
        if self._since is None or at - self._since >= ROUND_SECONDS:
            self._since = at
            self._refused = {}
            self.rounds += 1

    def ask(
        self,
        value: str,
        function: str,
        *arguments: Any,
        variant: object = "",
        by: Callable[..., Any] | None = None,
    ) -> Any:
        """Call ``pynvml.<function>``; None, with the reason under ``value``, without an answer.

        ``variant`` tells calls of one function apart that a device may support separately. ``by``
        is called in the place of the binding's function of that name.

        Raises ``DeviceError`` where the device is lost or the driver is gone.
        """
        key = f"{function}/{variant}"
        refused = self._refused.get(key)
        if refused is not None:
            self.reasons[value] = refused
            return None
        try:
            answer = by(*arguments) if by is not None else call(function, *arguments)
        except pynvml.NVMLError as error:
            self._refuse(value, function, key, error)
            return None
        except (UnicodeDecodeError, ImpossibleCount):  # a name of random bytes; see counted
            self.reasons[value] = Reason.INVALID_VALUE
            return None
        self.answers += 1
        self.reasons.pop(value, None)
        return answer

    def refused(self, function: str, variant: object = "") -> Reason | None:
        """Why a function is not asked until the next round; None where it is."""
        return self._refused.get(f"{function}/{variant}")

    def first(self, value: str, *alternatives: tuple[Any, ...]) -> Any:
        """Answer of the first of several (function, arguments…) that has one."""
        for function, *arguments in alternatives:
            answer = self.ask(value, function, *arguments)
            if answer is not None:
                return answer
        return None

    def number(self, value: str, answer: float | None, low: float, high: float) -> float | None:
        """Return a number that is not None, no sentinel and within limits; else leave a reason."""
        if answer is None:
            return None
        if is_sentinel(answer) or not low <= answer <= high:
            self.reasons[value] = Reason.INVALID_VALUE
            return None
        return answer

    def count(self, value: str, answer: float, most: int) -> int | None:
        """Return a number that a loop may run to (see ``counted``), or leave a reason."""
        try:
            return counted(value, answer, most)
        except ImpossibleCount:
            self.reasons[value] = Reason.INVALID_VALUE
            return None

    def ratio(self, signal: Signal, percent: float | None) -> float | None:
        """Return percent as 0..1, or leave a reason."""
        if percent is None:
            return None
        value = ratio(percent)
        if value is None:
            self.reasons[signal] = Reason.INVALID_VALUE
        return value

    def _refuse(self, value: str, function: str, key: str, error: "pynvml.NVMLError") -> None:
        reason = reason_of(error, mig=self._mig)
        if reason is Reason.GPU_IS_LOST or driver_gone(error):
            text = f"{function} on {self._device}: {describe(error)}"
            raise DeviceError(reason, text, driver_replaced=driver_gone(error)) from error
        if reason in _LASTING:
            self._refused[key] = reason
        self.reasons[value] = reason


def call(function: str, *arguments: Any) -> Any:
    """Call ``pynvml.<function>``; a binding that lacks it behaves as a driver that lacks it."""
    found = getattr(pynvml, function, None)
    if found is None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
    return found(*arguments)


def describe(error: "pynvml.NVMLError") -> str:
    """Words and number of an NVML error."""
    return f"{error} (NVML error {error.value})"


def address_of(handle: Any) -> int:
    """Address of a device handle: each call wraps the same one anew. 0 for no handle."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
