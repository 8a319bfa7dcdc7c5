"""What the weekly report costs: 20,000 workloads and 200, every format, in a process of its own.

``python -m tests.benchmarks.test_bench_report plan WORKLOADS FILE`` judges a cluster as the rules'
benchmark does and keeps its plan; ``... report FILE FORMAT...`` reads it and writes those formats,
and prints one line of JSON: CPU seconds, bytes, and how much memory the process took at most beyond
what it takes with the plan, which the agent holds anyway.
"""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

ROOT = Path(__file__).resolve().parents[2]
LARGE, MOST_SECONDS, MOST_MIB = 20_000, 30.0, 500.0
SMALL, SMALL_SECONDS = 200, 1.0
MOST_HTML_BYTES = 1_000_000
#: What a weekly report is made of: what is kept (JSON, Markdown) and what is mailed.
WEEKLY = ("json", "markdown", "mail", "text")


def keep_plan(workloads: int, path: Path) -> None:
    """Judge so many workloads and keep the plan."""
    from gputailor_agent.model.collecting import rare_collections  # noqa: PLC0415 - not below
    from gputailor_agent.planner import make_plan  # noqa: PLC0415
    from tests.benchmarks import judged_cluster  # noqa: PLC0415

    with rare_collections():
        made = judged_cluster.cluster(workloads, judged_cluster.patterns())
        window = judged_cluster.WINDOW
        plan = make_plan(made.profiles, made.context, window=window, made_at=window.end)
    path.write_bytes(msgspec.msgpack.encode(plan))


def written(path: Path, names: list[str]) -> dict[str, Any]:
    """Read a plan as the store keeps it and write it in these formats."""
    from gputailor_agent.model.judgement import Plan  # noqa: PLC0415 - not above
    from gputailor_agent.reports.formats import render  # noqa: PLC0415

    plan = msgspec.msgpack.decode(path.read_bytes(), type=Plan)
    Path("/proc/self/clear_refs").write_text("5")  # the highest memory is counted from here on
    held = _mib("VmRSS")
    figures: dict[str, Any] = {"workloads": len(plan.verdicts), "plan_mib": held}
    began = time.process_time()
    for name in names:
        at = time.process_time()
        text = render(plan, name)
        figures[name] = {
            "seconds": round(time.process_time() - at, 2),
            "bytes": len(text.encode()),
            "mib": round(_mib("VmHWM") - held, 1),
        }
        del text
    most = round(_mib("VmHWM") - held, 1)
    return figures | {"seconds": round(time.process_time() - began, 2), "most_mib": most}


def _mib(name: str) -> float:
    """Resident memory of this process, now or at most."""
    lines = Path("/proc/self/status").read_text().splitlines()
    told = next(line for line in lines if line.startswith(f"{name}:"))
    return round(int(told.split()[1]) / 1024, 1)


def in_a_process(*words: str) -> str:
    """Run this file's command in a process of its own; its output."""
    command = [sys.executable, "-m", "tests.benchmarks.test_bench_report", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.bench
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("workloads", "seconds", "mib"),
    [(SMALL, SMALL_SECONDS, MOST_MIB), (LARGE, MOST_SECONDS, MOST_MIB)],
)
def test_the_weekly_report_is_made_in_time_and_memory(tmp_path, workloads, seconds, mib):
    path = tmp_path / "plan"
    in_a_process("plan", str(workloads), str(path))
    figures = json.loads(in_a_process("report", str(path), *WEEKLY, "html", "csv"))
    sys.stdout.write(f"\n{json.dumps(figures)}\n")
    assert sum(figures[name]["seconds"] for name in WEEKLY) <= seconds
    assert figures["most_mib"] <= mib
    assert figures["html"]["bytes"] < MOST_HTML_BYTES


if __name__ == "__main__":
    if sys.argv[1] == "plan":
        keep_plan(int(sys.argv[2]), Path(sys.argv[3]))
    else:
        sys.stdout.write(json.dumps(written(Path(sys.argv[2]), sys.argv[3:])) + "\n")
