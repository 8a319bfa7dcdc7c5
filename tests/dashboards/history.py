"""History for a Prometheus: pages of the small scenario as they would have been scraped.

``native`` is what our exporter wrote (``gputailor-exporter simulate``), with the labels that a
scrape adds, and what a simulation has not (``around``): errors, links, the agent, engines. ``dcgm``
and ``smi`` are page sets made up here in the form of dcgm-exporter's and nvidia_gpu_exporter's.
"""

import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.dashboards import around

NOW = 1795000000
HOURS = 3
START = NOW - HOURS * 3600
STEP = 60
SCENARIO = Path(__file__).with_name("scenario.yaml")
TIMES = range(START, NOW + 1, STEP)
_LINE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+ \S+)$")


def write_native(folder: Path) -> list[Path]:
    """Write OpenMetrics files, one a node and one for the rest."""
    pages = folder / "pages"
    subprocess.run(
        [
            *(sys.executable, "-m", "gputailor_exporter", "simulate", "--openmetrics"),
            *("--scenario", SCENARIO, "--out", pages, f"--start=-{HOURS}h"),
            *("--step", "30s", "--page-interval", f"{STEP}s", "--jobs", "1"),
        ],
        check=True,
        capture_output=True,
    )
    files = []
    for page in sorted(pages.iterdir()):
        target = f'instance="{page.stem}:9836",job="gputailor-exporter"'
        written = folder / f"scraped-{page.name}"
        lines = page.read_text("utf-8").splitlines()
        written.write_text("\n".join(scraped(line, target) for line in lines) + "\n", "utf-8")
        files.append(written)
    rest = folder / "rest.om"
    rest.write_text(_text([*around.exporters(TIMES), *around.rest(TIMES)]), "utf-8")
    return [*files, rest]


def scraped(line: str, target: str) -> str:
    """A line of an exporter's page with the labels that a scrape adds."""
    found = _LINE.match(line)
    if found is None:
        return line
    name, labels, value = found.groups()
    return f"{name}{{{target}{',' if labels else ''}{labels or ''}}} {value}"


_FIELDS = {
    "DCGM_FI_DEV_GPU_UTIL": 90,
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": 0.85,
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": 0.3,
    "DCGM_FI_PROF_DRAM_ACTIVE": 0.4,
    "DCGM_FI_DEV_FB_USED": 20000,
    "DCGM_FI_DEV_FB_FREE": 60000,
    "DCGM_FI_DEV_POWER_USAGE": 300,
    "DCGM_FI_DEV_XID_ERRORS": 0,
    "DCGM_FI_DEV_FB_RESERVED": 600,
    "DCGM_FI_DEV_GPU_TEMP": 61,
    "DCGM_FI_DEV_MEMORY_TEMP": 72,
    "DCGM_FI_DEV_SM_CLOCK": 1410,
    "DCGM_FI_DEV_MEM_CLOCK": 1593,
    "DCGM_FI_DEV_MEM_COPY_UTIL": 20,
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": 0,
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": 0,
    "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": 1,
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": 0,
}
_ENERGY = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"


def _gpu(host: str, name: str, number: int, extra: str) -> str:
    return (
        f'{host}="{name}",gpu="{number}",UUID="GPU-{name}-{number}",device="nvidia{number}"{extra}'
    )


def _held(namespace: str, pod: str, prefix: str = "") -> str:
    pairs = {"namespace": namespace, "pod": pod, "container": "main"}
    return "".join(f',{prefix}{key}="{value}"' for key, value in pairs.items())


_OPERATOR = ',namespace="gpu-operator",pod="nvidia-dcgm-exporter-abcde",container="exporter"'

#: Labels, and the values that differ from the usual: busy, idle, free, a MIG slice, a shared GPU.
DCGM_ROWS = (
    (_gpu("Hostname", "old", 0, _held("research", "train-25p6k")), {}),
    (
        _gpu("Hostname", "old", 1, _held("lab", "forgotten")),
        {"DCGM_FI_DEV_GPU_UTIL": 0, "DCGM_FI_PROF_GR_ENGINE_ACTIVE": 0.0},
    ),
    (_gpu("Hostname", "old", 2, ""), {"DCGM_FI_DEV_GPU_UTIL": 0}),
    (
        _gpu(
            "hostname",
            "new",
            0,
            _OPERATOR + _held("web", "serve-4lnjsrlgtj-hpmzw", "exported_"),
        ),
        {"DCGM_FI_DEV_XID_ERRORS": 31},
    ),
    (_gpu("hostname", "new", 1, _OPERATOR), {}),
    (
        _gpu(
            "hostname",
            "new",
            2,
            ',GPU_I_PROFILE="1g.10gb",GPU_I_ID="7"'
            + _OPERATOR
            + _held("web", "slice-0", "exported_"),
        ),
        {"DCGM_FI_DEV_GPU_UTIL": None, "DCGM_FI_DEV_POWER_USAGE": None},
    ),
    (_gpu("Hostname", "shared", 0, _held("team", "first-0")), {}),
    (_gpu("Hostname", "shared", 0, _held("team", "second-0")), {}),
    (
        _gpu("Hostname", "blank", 0, _held("team", "blank-0")),
        dict.fromkeys(
            ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"), 9223372036854775794
        ),
    ),
)


def write_dcgm(folder: Path) -> list[Path]:
    """Write one OpenMetrics file in the form of dcgm-exporter, with the agent's metrics."""
    lines = []
    target = 'job="dcgm",instance="a:9400"'
    for at in TIMES:
        lines.append(f"up{{{target}}} 1 {at}")
        for labels, changes in DCGM_ROWS:
            for field, usual in _FIELDS.items():
                value = changes.get(field, usual)
                if value is not None:
                    lines.append(f"{field}{{{target},{labels}}} {value} {at}")
            joules = 300 * (at - START)
            lines.append(f"{_ENERGY}{{{target},{labels}}} {joules * 1000} {at}")
    path = folder / "dcgm.om"
    path.write_text(_text([*lines, *around.rest(TIMES)]), "utf-8")
    return [path]


#: What nvidia_gpu_exporter says of a card; counters rise by the figure a minute.
SMI_FIELDS = {
    "utilization_gpu_ratio": 0.9,
    "utilization_memory_ratio": 0.3,
    "memory_used_bytes": 20e9,
    "memory_total_bytes": 80e9,
    "memory_reserved_bytes": 6e8,
    "power_draw_watts": 300,
    "temperature_gpu": 61,
    "temperature_memory": 72,
    "clocks_current_sm_clock_hz": 1.41e9,
    "clocks_current_memory_clock_hz": 1.59e9,
    "ecc_errors_uncorrected_volatile_total": 0,
    "ecc_errors_corrected_volatile_total": 2,
    "remapped_rows_failure": 0,
    "remapped_rows_pending": 0,
}
_HELD_DOWN = (
    "sw_power_cap", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown",
)  # fmt: skip


def write_smi(folder: Path) -> list[Path]:
    """Write one OpenMetrics file in the form of nvidia_gpu_exporter, two nodes of two cards."""
    lines = []
    for at in TIMES:
        for host in ("10.0.0.1:9835", "smi-b:9835"):
            target = f'job="smi",instance="{host}"'
            lines.append(f"up{{{target}}} 1 {at}")
            for number in (0, 1):
                card = f'{target},uuid="{host[:5]}-{number}"'
                info = f'{card},index="{number}",name="NVIDIA L40S",driver_version="580.95.05"'
                lines.append(f"nvidia_smi_gpu_info{{{info}}} 1 {at}")
                lines += [
                    f"nvidia_smi_{name}{{{card}}} {value} {at}"
                    for name, value in SMI_FIELDS.items()
                ]
                lines += [
                    f"nvidia_smi_clocks_event_reasons_counters_{reason}_seconds{{{card}}} "
                    f"{(at - START) * 0.1} {at}"
                    for reason in _HELD_DOWN
                ]
    path = folder / "smi.om"
    path.write_text(_text([*lines, *around.rest(TIMES)]), "utf-8")
    return [path]


def lines_of(files: Iterable[Path]) -> list[str]:
    """The samples of OpenMetrics files, without comments: a store that takes lines reads these."""
    return [
        line
        for file in files
        for line in file.read_text("utf-8").splitlines()
        if line and not line.startswith("#")
    ]


def _text(lines: list[str]) -> str:
    return "\n".join([*lines, "# EOF"]) + "\n"
