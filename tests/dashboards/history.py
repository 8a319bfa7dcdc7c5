"""History for a Prometheus: pages of the small scenario as they would have been scraped.

``native`` is what our exporter wrote (``gputailor-exporter simulate``), with the labels that a
scrape adds, and what a simulation has not: Xid errors, ages of sources, ``up``, the agent's own
metrics. ``dcgm`` is a page set made up here in the form of dcgm-exporter's.
"""

import re
import subprocess
import sys
from itertools import product
from pathlib import Path

from gputailor_agent import metrics as agent
from gputailor_exporter import metrics as exporter

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
        scraped = folder / f"scraped-{page.name}"
        lines = page.read_text("utf-8").splitlines()
        scraped.write_text("\n".join(_scraped(line, target) for line in lines) + "\n", "utf-8")
        files.append(scraped)
    rest = folder / "rest.om"
    rest.write_text(_text([*_exporters(), *_agent()]), "utf-8")
    return [*files, rest]


def _scraped(line: str, target: str) -> str:
    found = _LINE.match(line)
    if found is None:
        return line
    name, labels, value = found.groups()
    return f"{name}{{{target}{',' if labels else ''}{labels or ''}}} {value}"


def _exporters() -> list[str]:
    lines = []
    gpu = 'gpu="0",gpu_uuid="GPU-dcea8cc3-4fae-4f5b-9891-4efd4825e105",node="node-a"'
    for node in ("node-a", "node-b"):
        target = f'instance="{node}:9836",job="gputailor-exporter"'
        for at in TIMES:
            lines += [
                f"up{{{target}}} 1 {at}",
                f'{exporter.EXPORTER_LAST_SUCCESS.name}{{{target},source="kubelet"}} {at - 4} {at}',
                f'{exporter.EXPORTER_ERRORS.name}{{{target},source="kubelet",reason="timeout"}} 2 {at}',
            ]
            if node == "node-a":
                xid = f'{target},{gpu},xid="31"'
                lines += [
                    f"{exporter.DEVICE_XID_ERRORS.name}{{{xid}}} 3 {at}",
                    f"{exporter.DEVICE_XID_LAST.name}{{{xid}}} {START} {at}",
                ]
    return lines


FOUND = '{namespace="lab",kind="Job",workload="forgotten",rule="idle",severity="high"}'
_VALUES = {
    agent.FINDINGS.name: ('{rule="idle"}', 2),
    agent.FINDING.name: (FOUND, 1),
    agent.FINDING_SAVING.name: (FOUND, 730),
    agent.WORKLOADS.name: ('{state="finding"}', 2),
    agent.SAVING_GPU_HOURS.name: ("", 730),
    agent.SAVING_MONEY.name: ('{currency="USD"}', 2900),
    agent.PLAN_TIME.name: ("", NOW - 1200),
    agent.RUNS.name: ('{job="gputailor",exported_job="rollup",outcome="done"}', 42),
}


def _agent() -> list[str]:
    return [
        f"{name}{labels} {value} {at}"
        for at, (name, (labels, value)) in product(TIMES, _VALUES.items())
    ]


_FIELDS = {
    "DCGM_FI_DEV_GPU_UTIL": 90,
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": 0.85,
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": 0.3,
    "DCGM_FI_PROF_DRAM_ACTIVE": 0.4,
    "DCGM_FI_DEV_FB_USED": 20000,
    "DCGM_FI_DEV_FB_FREE": 60000,
    "DCGM_FI_DEV_POWER_USAGE": 300,
    "DCGM_FI_DEV_XID_ERRORS": 0,
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
    path.write_text(_text([*lines, *_agent()]), "utf-8")
    return [path]


def _text(lines: list[str]) -> str:
    return "\n".join([*lines, "# EOF"]) + "\n"
