"""A sample of ``make mutate`` that every suite runs: do tests still notice changes at all?"""

import json
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

#: Small modules whose own tests are quick; the whole set is ``make mutate``'s.
MODULES = ("rules/interruptions.py", "rules/deadlines.py", "rules/members.py", "rules/base.py",
           "planner/interplay.py", "profiles/edges.py")  # fmt: skip
TESTS = ("tests/agent/rules/test_spot.py", "tests/agent/rules/test_time_limit.py",
         "tests/agent/rules/test_too_many_replicas.py", "tests/agent/rules/test_bandwidth_bound.py",
         "tests/agent/rules/test_tables.py", "tests/agent/test_edges.py",
         "tests/agent/test_planner.py")  # fmt: skip
LEAST = 0.8


def test_of_twenty_changes_the_tests_notice_at_least_sixteen(repository, tmp_path):
    told = tmp_path / "mutants.jsonl"
    modules = [f"agent/gputailor_agent/{one}" for one in MODULES]
    command = [sys.executable, "-m", "tests.mutation", "--count", "4", "--total", "20",
               "--output", str(told), "--at-least", str(LEAST),
               "--modules", *modules, "--tests", *TESTS]  # fmt: skip
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    ends = [json.loads(line)["end"] for line in told.read_text("utf-8").splitlines()]
    assert len(ends) == 20
    assert "20 mutants" in done.stdout
