"""What the NVIDIA kernel driver and its DRA driver write about devices into files.

``/proc/driver/nvidia/gpus/<pci>/information`` has a GPU's UUID and minor number;
``/proc/driver/nvidia-caps/mig-minors`` the number of each MIG instance's capability device
(``gpu0/gi7/ci0/access 66`` is ``/dev/nvidia-caps/nvidia-cap66``). The DRA driver leaves the devices
of a claim in a CDI specification (``k8s.gpu.nvidia.com/claim=<claim>-gpu-0-mig-1g10gb-19-0``),
which is the only place on the node that leads from an allocated profile to the instance made of it
(https://github.com/NVIDIA/dcgm-exporter/issues/714, DataDog/datadog-agent#55271). What cannot be
read is nothing known.
"""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from gputailor_exporter.attribution.tracking import PROC
from gputailor_exporter.kubelet.device_ids import MigPlace

CDI: Final = Path("/var/run/cdi")
_FACT: Final = re.compile(r"^(?P<name>GPU UUID|Device Minor):\s*(?P<value>\S+)", re.MULTILINE)
_MIG_MINOR: Final = re.compile(
    r"^gpu(?P<gpu>\d+)/gi(?P<gi>\d+)(?:/ci(?P<ci>\d+))?/access (?P<number>\d+)$", re.MULTILINE
)
_CAPABILITY: Final = re.compile(r"/nvidia-caps/nvidia-cap(?P<number>\d+)$")
_KIND_PREFIX: Final = "k8s.gpu.nvidia.com"


class DriverFiles:
    """Reads the files when asked; specifications again only when their folder changed."""

    def __init__(self, proc_root: Path | str = PROC, cdi_root: Path | str = CDI) -> None:
        """``proc_root``: the host's ``/proc``; ``cdi_root``: the host's ``/var/run/cdi``."""
        self._driver = Path(proc_root) / "driver"
        self._cdi = Path(cdi_root)
        self._stamp: tuple[tuple[str, int], ...] | None = None
        self._capabilities: dict[str, tuple[int, ...]] = {}  # CDI device -> capability numbers

    def minors(self) -> Mapping[str, str]:
        """Return UUIDs by minor number; empty where the driver's files are not to be read."""
        found = {}
        for information in self._driver.glob("nvidia/gpus/*/information"):
            facts = {one["name"]: one["value"] for one in _FACT.finditer(_text(information))}
            if len(facts) == len(("GPU UUID", "Device Minor")):
                found[facts["Device Minor"]] = facts["GPU UUID"]
        return found

    def mig_place(self, cdi_name: str) -> MigPlace | None:
        """Return the MIG instance that a CDI device of a claim gives; None where unknown."""
        numbers = self._claims().get(cdi_name, ())
        if not numbers:
            return None
        places: dict[int, MigPlace] = {}
        for match in _MIG_MINOR.finditer(_text(self._driver / "nvidia-caps" / "mig-minors")):
            part = None if match["ci"] is None else int(match["ci"])
            places[int(match["number"])] = MigPlace(match["gpu"], int(match["gi"]), part)
        known = [places[number] for number in numbers if number in places]
        whole = [place for place in known if place.compute_instance is not None]
        return next(iter(whole or known), None)

    def _claims(self) -> Mapping[str, tuple[int, ...]]:
        stamp = tuple(sorted(self._specifications()))
        if stamp != self._stamp:
            self._stamp = stamp
            self._capabilities = {}
            for name, _ in stamp:
                self._capabilities.update(_read_specification(self._cdi / name))
        return self._capabilities

    def _specifications(self) -> Iterator[tuple[str, int]]:
        try:
            with os.scandir(self._cdi) as entries:
                for entry in entries:
                    if entry.name.startswith(_KIND_PREFIX):
                        yield entry.name, entry.stat().st_mtime_ns
        except OSError:
            return


def _read_specification(path: Path) -> dict[str, tuple[int, ...]]:
    """Capability numbers of each device in a CDI specification (YAML, or JSON, which is YAML)."""
    import yaml  # noqa: PLC0415 - only where several MIG instances of one profile are claimed

    try:
        document: Any = yaml.safe_load(_text(path))
        kind = document["kind"]
        found = {}
        for device in document["devices"]:
            nodes = device.get("containerEdits", {}).get("deviceNodes") or ()
            matches = [_CAPABILITY.search(str(node.get("path", ""))) for node in nodes]
            numbers = tuple(int(match["number"]) for match in matches if match is not None)
            found[f"{kind}={device['name']}"] = numbers
    except (yaml.YAMLError, KeyError, TypeError, AttributeError):
        return {}  # being written, or another's file
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""
