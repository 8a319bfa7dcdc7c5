"""What AMD's compute driver (KFD) knows: instruction sets, partitions, and compute processes.

``/sys/class/kfd/kfd/topology/nodes/N/properties`` describes each compute node ("name value" a
line), ``/sys/class/kfd/kfd/proc/<pid>/vram_<gpu_id>`` the memory each compute process holds on it.
All of it can be read by any user. A card in several partitions has one node each; which is which
follows from the order of their render nodes (the driver gives them in turn).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gputailor_exporter.devices.base import Reason
from gputailor_exporter.devices.drm_sysfs import names_in, read_file, read_text, reason_of

_KFD: Final = Path("class/kfd/kfd")
_BUS_AND_DEVICE: Final = 0xFFF8  # of a PCI address in 16 bits; the lowest three are the function
#: Heap types of ``mem_banks`` that are the device's own memory: public and private frame buffer.
_FRAME_BUFFERS: Final = frozenset({1, 2})


@dataclass(frozen=True, slots=True)
class ComputeNode:
    """One compute node. ``partition``: its place in its card, of ``partitions``."""

    gpu_id: int
    address: str  # of the card: "0000:c1:00"
    render: int  # minor of its render node
    architecture: str  # "gfx942"
    unique_id: int
    memory_bytes: int | None
    partition: int = 0
    partitions: int = 1


def instruction_set(version: int) -> str:
    """Return the name of a ``gfx_target_version``: 90402 is gfx942, 90010 is gfx90a.

    Two decimal digits each of minor and step, written in hexadecimal.
    """
    major, minor, step = version // 10000, version // 100 % 100, version % 100
    return f"gfx{major}{minor:x}{step:x}" if version > 0 else ""


def compute_nodes(sys: Path) -> tuple[ComputeNode, ...]:
    """Return the GPUs that KFD drives; none where it is not loaded."""
    root = sys / _KFD / "topology" / "nodes"
    found: list[ComputeNode] = []
    for name in names_in(root):
        node = _node(root / name)
        if node is not None:
            found.append(node)
    found.sort(key=lambda node: node.render)
    cards: dict[str, list[ComputeNode]] = {}
    for node in found:
        cards.setdefault(node.address, []).append(node)
    return tuple(
        ComputeNode(
            node.gpu_id,
            node.address,
            node.render,
            node.architecture,
            node.unique_id,
            node.memory_bytes,
            partition,
            len(nodes),
        )
        for nodes in cards.values()
        for partition, node in enumerate(nodes)
    )


def _properties(file: Path) -> dict[str, int]:
    found: dict[str, int] = {}
    for line in read_text(file).splitlines():
        name, _, value = line.partition(" ")
        if value.isdecimal():
            found[name] = int(value)
    return found


def _node(folder: Path) -> ComputeNode | None:
    facts = _properties(folder / "properties")
    gpu_id = read_text(folder / "gpu_id")
    render = facts.get("drm_render_minor", 0)
    if not facts.get("simd_count") or render <= 0 or not gpu_id.isdecimal():
        return None  # a CPU, or a GPU that this container may not see
    place = facts.get("location_id", 0) & _BUS_AND_DEVICE
    address = f"{facts.get('domain', 0):04x}:{place >> 8:02x}:{place >> 3 & 31:02x}"
    return ComputeNode(
        gpu_id=int(gpu_id),
        address=address,
        render=render,
        architecture=instruction_set(facts.get("gfx_target_version", 0)),
        unique_id=facts.get("unique_id", 0),
        memory_bytes=_memory(folder / "mem_banks"),
    )


def _memory(banks: Path) -> int | None:
    sizes = [
        facts.get("size_in_bytes", 0)
        for name in names_in(banks)
        if (facts := _properties(banks / name / "properties")).get("heap_type") in _FRAME_BUFFERS
    ]
    return sum(sizes) or None


class ComputeProcesses:
    """Compute processes by device. Not safe for several threads: each device has its own."""

    def __init__(self, sys: Path, gpu_id: int | None) -> None:
        """``gpu_id``: KFD's number of the device; None where KFD does not drive it."""
        self.opened = 0  # files and folders, in the last reading
        self._root = f"{sys / _KFD}/proc"
        self._gpu_id = gpu_id

    def read(self) -> tuple[Mapping[int, int], Reason | None]:
        """Return bytes held on the device by pid, and why some are missing.

        A process that holds nothing on the device does not use it: the runtime opens every GPU.
        """
        found: dict[int, int] = {}
        missing: Reason | None = None
        self.opened = 0
        if self._gpu_id is None:
            return found, None
        self.opened = 1
        for name in names_in(self._root):
            if not name.isdecimal():
                continue
            self.opened += 1
            try:
                text = read_file(f"{self._root}/{name}/vram_{self._gpu_id}")
            except OSError as error:
                reason = reason_of(error)
                if reason is not Reason.NOT_SUPPORTED:  # else it ended, or does not know the GPU
                    missing = reason
                continue
            held = int(text) if text.strip().isdigit() else 0
            if held > 0:
                found[int(name)] = held
        return found, missing
