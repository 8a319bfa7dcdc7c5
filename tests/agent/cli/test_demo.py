"""The demo as a person starts it: a report, live exporters, nothing left behind."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import msgspec
import psutil
import pytest

from gputailor_agent.cli.errors import CommandError
from gputailor_agent.cli.simulation import demo_scenario, running_exporters, write_history
from gputailor_agent.model.judgement import Message, Plan
from gputailor_agent.reports.wording import say

pytestmark = pytest.mark.system


@pytest.fixture
def scenario(tmp_path) -> Path:
    """The packaged scenario under a path of its own, by which its processes are known."""
    return Path(shutil.copy(demo_scenario(), tmp_path / "scenario.yaml"))


def every_message(plan: Plan) -> Iterator[Message]:
    """Whatever a plan wants to say, all of which must have words."""
    for verdict in plan.verdicts:
        yield from (silence.message for silence in verdict.silences)
        yield from filter(None, [verdict.cost_why])
        for finding in filter(None, (verdict.primary, *verdict.alternatives)):
            yield from (finding.message, *finding.risks, *finding.not_chosen)
            yield from filter(None, [finding.saving.why])


def start(scenario: Path, *options: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "gputailor_agent.cli.entry", "demo", "--days", "1"]
    return subprocess.Popen(
        [*command, "--scenario", str(scenario), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(scenario.parent)},
    )


def processes(scenario: Path) -> list[int]:
    return [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if str(scenario) in (process.info["cmdline"] or [])
    ]


def left(scenario: Path) -> list[Path]:
    return [path for path in scenario.parent.iterdir() if path.name.startswith("gputailor-demo")]


def test_once_reports_scrapes_live_and_leaves_nothing(scenario):
    process = start(scenario, "--once", "--output", "json")
    out, err = process.communicate(timeout=100)
    document = json.loads(out)
    assert process.returncode == 0, err
    assert document["plan"]["cluster"] == "demo"
    assert len(document["workloads"]) >= 12
    assert "5 exporters answered" in err
    assert "more observed" in err
    assert "8 x H100 80GB HBM3, 4 x L4, 1 x Tesla T4; 1 split by MIG (" in err
    assert "1 shared by several pods" in err
    assert all(check["holds"] for check in document["plan"]["checks"])
    for message in every_message(msgspec.convert(document["plan"], Plan)):
        assert say(message, strict=True)
    assert processes(scenario) == []
    assert left(scenario) == []
    (dashboards,) = re.findall(r"recording rules and alerts: (\S+)", err)
    assert {path.name for path in Path(dashboards).iterdir()} == {
        "dashboards",
        "kubernetes",
        "rules",
    }
    reports = [Path(path) for path in re.findall(r"weekly report: (\S+)", err)]
    assert {path.suffix for path in reports} == {".html", ".md", ".txt", ".json", ".csv"}
    for path in reports:
        assert "demo" in path.read_text("utf-8")
    weekly = json.loads(next(path for path in reports if path.suffix == ".json").read_text("utf-8"))
    advised = [one["id"] for one in weekly["workloads"] if one["state"] == "finding"]
    assert advised
    assert set(weekly["courses"]) == set(advised), "each with its use over the window, as sent"


def test_the_page_stays_until_ctrl_c_and_then_all_is_gone(scenario):
    process = start(scenario, "--listen", "127.0.0.1:0")
    try:
        url = None
        while url is None:
            line = process.stderr.readline()
            assert line, "the demo ended before its page was there"
            url = line.split()[2] if line.startswith("The page: ") else None
        page = httpx.get(url, trust_env=False).text
        assert "GPU Tailor report: demo" in page
        assert "5 of 5 exporters answered" in page
        assert {"A100", "H100", "L4", "T4"} <= set(re.findall("A100|H100|L4|T4", page))
        assert len(processes(scenario)) == 6  # the demo and five exporters
    finally:
        process.send_signal(signal.SIGINT)
        _, rest = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "Traceback" not in rest
    assert processes(scenario) == []
    assert left(scenario) == []


def test_a_demo_that_is_killed_leaves_nothing_either(scenario):
    process = start(scenario, "--listen", "127.0.0.1:0")
    while not processes(scenario)[5:]:  # the demo and its exporters
        assert process.poll() is None
        time.sleep(0.1)
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 30
    while (processes(scenario) or left(scenario)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert (processes(scenario), left(scenario)) == ([], [])


def test_a_broken_scenario_is_told(tmp_path):
    path = tmp_path / "scenario.yaml"
    path.write_text("nodes: 3\n")
    with pytest.raises(CommandError, match=r"the simulation failed: .*scenario\.yaml"):
        write_history(path, tmp_path, days=1)


def test_exporters_that_cannot_start_are_told_and_none_is_left(scenario, tmp_path):
    with (
        pytest.raises(CommandError, match="no-such-node"),
        running_exporters(scenario, ("t4-0", "no-such-node"), tmp_path / "logs"),
    ):
        pytest.fail("an exporter of an unknown node started")
    deadline = time.monotonic() + 5
    while processes(scenario) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert processes(scenario) == []
