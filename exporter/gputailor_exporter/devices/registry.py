"""The back ends there are: built in, or brought by another package.

A package adds one by an entry point of the group ``gputailor_exporter.backends`` that names a
factory, a callable of ``BackendSettings`` that returns a ``Backend``: see docs/backends.md. Each is
imported only when it is asked for. Built-in names cannot be taken over.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gputailor_exporter.collectors import DEFAULT
from gputailor_exporter.devices.base import Backend, DeviceError, Reason

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP: Final = "gputailor_exporter.backends"

#: Name -> module and factory in it. ``simulated`` needs a scenario and is made elsewhere.
_BUILT_IN: Final = {
    "nvml": ("gputailor_exporter.devices.registry", "make_nvml"),
    "amd": ("gputailor_exporter.devices.registry", "make_amd"),
    "drm": ("gputailor_exporter.devices.registry", "make_drm"),
    "auto": ("gputailor_exporter.devices.several", "make_auto"),
}
BUILT_IN: Final = (*_BUILT_IN, "simulated")


@dataclass(frozen=True, slots=True)
class BackendSettings:
    """What a back end may want to know; later versions may add fields."""

    proc_root: Path = Path("/proc")  # the host's, for processes
    sys_root: Path = Path("/sys")  # the host's, for devices
    patience_seconds: float = 5.0  # how long one device may take before the others go on
    collectors: frozenset[str] = DEFAULT  # what is on, of collectors.COLLECTORS


Factory = Callable[[BackendSettings], Backend]


def make_nvml(settings: BackendSettings) -> Backend:
    """Return the NVIDIA back end, which the driver's own library tells all."""
    from gputailor_exporter.devices.nvml import NvmlBackend  # noqa: PLC0415 - only where asked for

    return NvmlBackend(
        patience_seconds=settings.patience_seconds,
        collectors=settings.collectors,
        proc_root=settings.proc_root,
    )


def make_amd(settings: BackendSettings) -> Backend:
    """Return the AMD back end."""
    from gputailor_exporter.devices.amd import AmdBackend  # noqa: PLC0415 - only where asked for

    return AmdBackend(settings.sys_root, settings.proc_root, settings.collectors)


def make_drm(settings: BackendSettings) -> Backend:
    """Return the back end for any other DRM driver."""
    from gputailor_exporter.devices.drm import DrmBackend  # noqa: PLC0415 - only where asked for

    return DrmBackend(settings.sys_root, settings.proc_root)


def _entry_points() -> "dict[str, EntryPoint]":
    from importlib.metadata import entry_points  # noqa: PLC0415 - 2 MB that most never need

    return {one.name: one for one in entry_points(group=GROUP) if one.name not in BUILT_IN}


def registered() -> tuple[str, ...]:
    """Return the names that other packages brought, sorted."""
    return tuple(sorted(_entry_points()))


def known(name: str) -> bool:
    """Tell whether there is a back end of that name; other packages are asked last."""
    return name in BUILT_IN or name in _entry_points()


def create(name: str, settings: BackendSettings) -> Backend:
    """Return a back end, not open yet; raises ``DeviceError`` where its package is broken."""
    if name in _BUILT_IN:
        module, attribute = _BUILT_IN[name]
        factory: Factory = getattr(import_module(module), attribute)
        return factory(settings)
    entry = _entry_points().get(name)
    if entry is None:
        names = ", ".join((*BUILT_IN, *registered()))
        raise DeviceError(Reason.DRIVER_ERROR, f"there is no back end {name!r}; known: {names}")
    try:
        made: Backend = entry.load()(settings)
    except DeviceError:
        raise
    except Exception as error:
        text = (
            f"the back end {name!r} ({entry.value}) cannot be made: {type(error).__name__}: "
            f"{error}. What to do: repair or remove the package that brings it"
        )
        raise DeviceError(Reason.DRIVER_ERROR, text) from error
    return made
