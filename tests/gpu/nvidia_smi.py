"""What ``nvidia-smi`` says of one GPU at one moment."""

import csv
import shutil
import subprocess
from collections.abc import Mapping
from typing import Final

#: Our name -> nvidia-smi's field and its unit in base units.
FIELDS: Final[Mapping[str, tuple[str, float]]] = {
    "memory_used_bytes": ("memory.used", 1024.0 * 1024.0),
    "power_watts": ("power.draw", 1.0),
    "clock_sm_hertz": ("clocks.current.sm", 1e6),
    "clock_memory_hertz": ("clocks.current.memory", 1e6),
    "temperature_celsius": ("temperature.gpu", 1.0),
    "kernel": ("utilization.gpu", 0.01),
}
QUERY: Final = ",".join(field for field, _ in FIELDS.values())


def ask(gpu_uuid: str, environment: Mapping[str, str] | None = None) -> dict[str, float]:
    """Figures of a GPU in base units; none where there is no nvidia-smi, or it fails."""
    path = None if environment is None else environment.get("PATH")
    program = shutil.which("nvidia-smi", path=path)
    if program is None:
        return {}
    try:
        done = subprocess.run(
            [program, f"--id={gpu_uuid}", f"--query-gpu={QUERY}", "--format=csv"],
            capture_output=True,
            text=True,
            check=True,
            timeout=30,
            env=None if environment is None else dict(environment),
        )
    except (subprocess.SubprocessError, OSError):
        return {}
    return read(done.stdout)


def read(text: str) -> dict[str, float]:
    """Figures of the first GPU of a CSV with its header; what it cannot tell is left out."""
    rows = list(csv.reader(text.splitlines(), skipinitialspace=True))
    if len(rows) < 2:
        return {}
    said = {head.split(" [")[0]: cell for head, cell in zip(rows[0], rows[1], strict=False)}
    found = {}
    for name, (field, unit) in FIELDS.items():
        try:
            found[name] = float(said.get(field, "").split(" ")[0]) * unit
        except ValueError:  # [N/A], [Not Supported], [Unknown Error]
            continue
    return found
