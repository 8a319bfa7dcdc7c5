"""A machine's /sys and /proc as files: AMD's GPUs, other DRM devices, and their processes.

Where the shapes come from:
- sysfs files of amdgpu and their units: the kernel's Documentation/gpu/amdgpu/{driver-misc,thermal}
  and Documentation/hwmon/sysfs-interface;
- KFD's topology of an MI300X (ids, gfx_target_version 90402, 1216 SIMDs, partitions as nodes with
  their own render nodes, platform devices amdgpu_xcp_N): public captures of such nodes, and
  issue #157 of ROCm/k8s-device-plugin;
- fdinfo of amdgpu, i915 and xe: examples in the kernel's drm-usage-stats and xe-drm-usage-stats;
- the table of a Navi 10: Ricks-Lab/gpu-utils issue #122.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path

GIB = 1 << 30
MI300X_BYTES = 206_141_652_992


@dataclass
class Card:
    """One device and its files; ``folder`` is its place in /sys/devices."""

    folder: Path
    number: int
    render: int

    def write(self, **files: str | bytes) -> None:
        """Write files; two underscores in a name stand for a slash."""
        for name, content in files.items():
            put(self.folder / name.replace("__", "/"), content)

    def remove(self, *names: str) -> None:
        for name in names:
            (self.folder / name).unlink()


def put(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else f"{content}\n".encode())


@dataclass
class Machine:
    """``root`` holds sys and proc."""

    root: Path
    cards: list[Card] = field(default_factory=list)

    def __post_init__(self) -> None:
        put(self.proc / "sys/kernel/osrelease", "6.8.0-52-generic")
        put(self.sys / "module/amdgpu/version", "6.12.12")
        self.process(1, "systemd")
        self.process(2, "kthreadd")

    @property
    def sys(self) -> Path:
        return self.root / "sys"

    @property
    def proc(self) -> Path:
        return self.root / "proc"

    # -- devices -----------------------------------------------------------------------------

    def card(
        self, number: int, name: str, driver: str, *, render: int = 0, folder: str = "pci0000:00"
    ) -> Card:
        """Add a DRM device at ``name`` (a PCI address, or a platform device's name)."""
        made = Card(self.sys / "devices" / folder / name, number, render)
        (made.folder / f"drm/card{number}").mkdir(parents=True)
        (made.folder / f"drm/card{number}/device").symlink_to("../..")
        if render:
            (made.folder / f"drm/renderD{render}").mkdir()
        module = self.sys / "bus/drivers" / driver
        module.mkdir(parents=True, exist_ok=True)
        (made.folder / "driver").symlink_to(os.path.relpath(module, made.folder))
        entry = self.sys / f"class/drm/card{number}"
        entry.parent.mkdir(parents=True, exist_ok=True)
        entry.symlink_to(os.path.relpath(made.folder / f"drm/card{number}", entry.parent))
        self.cards.append(made)
        return made

    def mi300x(self, number: int = 1, bus: int = 0xC1, render: int = 128) -> Card:
        """Add an MI300X in one partition, busy at nothing."""
        card = self.card(number, f"0000:{bus:02x}:00.0", "amdgpu", render=render)
        card.write(
            vendor="0x1002",
            device="0x74a1",
            revision="0x00",
            product_name="AMD Instinct MI300X OAM",
            unique_id=f"21b6d61638a8{bus:04x}",
            current_compute_partition="SPX",
            current_memory_partition="NPS1",
            power__runtime_status="active",
            gpu_busy_percent="0",
            mem_busy_percent="0",
            mem_info_vram_total=str(MI300X_BYTES),
            mem_info_vram_used=str(297_000_960),
            pp_dpm_sclk="0: 132Mhz *\n1: 2100Mhz",
            pp_dpm_mclk="0: 900Mhz *\n1: 1300Mhz",
            current_link_speed="32.0 GT/s PCIe",
            max_link_speed="32.0 GT/s PCIe",
            current_link_width="16",
            max_link_width="16",
            ras__umc_err_count="ue: 0\nce: 3",
            ras__gfx_err_count="ue: 1\nce: 0",
            hwmon__hwmon5__power1_average="140000000",
            hwmon__hwmon5__power1_cap="750000000",
            hwmon__hwmon5__temp2_input="45000",
            hwmon__hwmon5__temp2_label="junction",
            hwmon__hwmon5__temp3_input="39000",
            hwmon__hwmon5__temp3_label="mem",
            hwmon__hwmon5__freq1_input="132000000",
            hwmon__hwmon5__freq1_label="sclk",
            config=b"\x02\x10\xa1\x74",
        )
        self.compute_node(number, bus, render, memory=MI300X_BYTES)
        return card

    def compute_node(
        self, node: int, bus: int, render: int, partition: int = 0, memory: int = 0
    ) -> None:
        """Add what KFD says of a device; its gpu_id is 1000 and its render node's number."""
        folder = self.sys / f"class/kfd/kfd/topology/nodes/{node}"
        put(folder / "gpu_id", str(1000 + render))
        facts = {
            "cpu_cores_count": 0,
            "simd_count": 1216,
            "gfx_target_version": 90402,
            "vendor_id": 4098,
            "device_id": 29857,
            "location_id": (bus << 8) | (partition << 28),
            "domain": 0,
            "drm_render_minor": render,
            "num_xcc": 8,
            "unique_id": 2429046123456789504 + partition,
        }
        put(folder / "properties", "\n".join(f"{name} {value}" for name, value in facts.items()))
        bank = f"heap_type 1\nsize_in_bytes {memory}\nflags 0\nwidth 8192"
        put(folder / "mem_banks/0/properties", bank)

    def partitions(self, card: Card, bus: int, count: int) -> None:
        """Cut an MI300X in CPX: its own node is the first, platform devices are the others."""
        card.write(current_compute_partition="CPX", current_memory_partition="NPS4")
        for place in range(count):
            render = card.render + place
            if place:
                name = f"amdgpu_xcp_{place - 1}"
                self.card(card.number + place, name, "amdgpu", render=render, folder="platform")
            memory = MI300X_BYTES // count
            self.compute_node(card.number + place, bus, render, place, memory)

    # -- processes ---------------------------------------------------------------------------

    def process(self, pid: int, name: str = "python") -> None:
        put(self.proc / f"{pid}/comm", name)
        (self.proc / f"{pid}/fd").mkdir(exist_ok=True)

    def opens(self, pid: int, render: int, fdinfo: str, file: int = 5) -> None:
        """Let a process have the device open; ``fdinfo`` is what its driver says of it."""
        if not (self.proc / str(pid)).exists():
            self.process(pid)
        link = self.proc / f"{pid}/fd/{file}"
        if not link.is_symlink():
            link.symlink_to(f"/dev/dri/renderD{render}")
        put(self.proc / f"{pid}/fdinfo/{file}", f"pos:\t0\nflags:\t02100002\n{fdinfo}")

    def ends(self, pid: int) -> None:
        for path in sorted((self.proc / str(pid)).rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
        (self.proc / str(pid)).rmdir()

    def computes(self, pid: int, held: dict[int, int]) -> None:
        """Let a process use KFD; ``held``: bytes by render node of the device."""
        if not (self.proc / str(pid)).exists():
            self.process(pid)
        for render, size in held.items():
            put(self.sys / f"class/kfd/kfd/proc/{pid}/vram_{1000 + render}", str(size))


def client(number: int, driver: str = "amdgpu", pdev: str = "", **keys: str | int) -> str:
    """Return the fdinfo of a client; underscores in keys stand for dashes."""
    lines = [f"drm-driver:\t{driver}", f"drm-client-id:\t{number}"]
    if pdev:
        lines.append(f"drm-pdev:\t{pdev}")
    lines += [f"drm-{key.replace('_', '-')}:\t{value}" for key, value in keys.items()]
    return "\n".join(lines)
