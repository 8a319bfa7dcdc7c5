"""What the rules cost: 20,000 workloads with fourteen days of hours, every rule, one core.

``python tests/benchmarks/test_bench_rules.py WORKLOADS`` judges them in a process of its own and
prints one line of JSON: CPU seconds of each rule and of all of them, and of a whole plan. A fact
that several rules ask for is found by the first of them and counts as its own. Steps (lines run)
stand for seconds where a machine under load must not decide: they are the same each time.
"""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gputailor_agent.model.collecting import rare_collections
from gputailor_agent.model.judgement import Finding
from gputailor_agent.model.profile import Profile
from gputailor_agent.planner import make_plan
from gputailor_agent.rules import Context, Rule, evaluate_all, registry
from gputailor_agent.rules.opting_out import opted_out
from tests.benchmarks import judged_cluster

ROOT = Path(__file__).resolve().parents[2]
WORKLOADS, MOST_SECONDS = 20_000, 30.0
#: Lines run for a workload of the mix, all rules together: 9,900 when this was written.
MOST_STEPS = 14_000
_OPTING_OUT = "opt-outs"


def judged(made: judged_cluster.Cluster) -> dict[str, Any]:
    """Ask every rule about every workload; CPU seconds by rule."""
    seconds, found, answers = Counter[str](), Counter[str](), 0
    rules, context = registry(), made.context
    at = time.process_time()
    for profile in made.profiles:
        for rule in rules:
            opted_out(profile, context, rule.id)
        now = time.process_time()
        seconds[_OPTING_OUT] += now - at
        at = now
        for rule in rules:
            answer = rule.evaluate(profile, context)
            now = time.process_time()
            seconds[rule.id] += now - at
            at = now
            found[rule.id] += isinstance(answer, Finding)
            answers += 1
    return {"answers": answers, "seconds": dict(seconds), "found": dict(found)}


def measured(workloads: int) -> dict[str, Any]:
    """Build the cluster, judge it rule by rule, and then make its plan."""
    with rare_collections():
        made = judged_cluster.cluster(workloads, judged_cluster.patterns())
        figures = judged(made)
        at = time.process_time()
        plan = make_plan(
            made.profiles,
            made.context,
            window=judged_cluster.WINDOW,
            made_at=judged_cluster.WINDOW.end,
        )
        plan_seconds = time.process_time() - at
    return {
        "workloads": workloads,
        "gpus": sum(size * count for size, count in made.sizes.items()),
        "sizes": {str(size): count for size, count in sorted(made.sizes.items())},
        "verdicts": len(plan.verdicts),
        **figures,
        "cpu_seconds": round(sum(figures["seconds"].values()), 1),
        "plan_cpu_seconds": round(plan_seconds, 1),
    }


def table(figures: dict[str, Any]) -> str:
    """The figures by rule as docs/benchmarks.md has them, dearest first."""
    rows = sorted(figures["seconds"].items(), key=lambda row: -row[1])
    lines = [
        f"| `{rule}` | {seconds:.2f} | {1e6 * seconds / figures['workloads']:.0f} "
        f"| {figures['found'].get(rule, '')} |"
        for rule, seconds in rows
    ]
    head = ["| rule | CPU, s | µs per workload | findings |", "|---|---|---|---|"]
    return "\n".join([*head, *lines, f"| all | {figures['cpu_seconds']} | | |"])


@pytest.mark.bench
@pytest.mark.timeout(600)
def test_20000_workloads_are_judged_with_all_rules_in_30_seconds_of_one_core(capsys):
    run = subprocess.run(
        [sys.executable, __file__, str(WORKLOADS)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert run.returncode == 0, run.stderr
    figures = json.loads(run.stdout)
    with capsys.disabled():
        sys.stdout.write(f"{run.stdout}{table(figures)}\n")
    assert figures["answers"] == WORKLOADS * len(registry())
    assert figures["verdicts"] == WORKLOADS
    assert figures["sizes"] == {"1": 12_000, "4": 5_000, "8": 3_000}
    assert figures["cpu_seconds"] <= MOST_SECONDS  # the wall clock tells of other work, too


@pytest.fixture(scope="module")
def patterns():
    return judged_cluster.patterns()


def sample(made: judged_cluster.Cluster, size: int, count: int = 10) -> list[Profile]:
    """The first workloads that hold so many GPUs."""
    return [one for one in made.profiles if one.pods_now * one.gpus_per_pod == size][:count]


def steps(profiles: list[Profile], context: Context) -> Counter[str]:
    """Lines of Python that rules run for these workloads, by rule; what is remembered is there."""
    for profile in (*profiles, *profiles):  # twice: what is remembered may have been full
        evaluate_all(profile, context)
    counted = Counter[str]()
    for profile in profiles:
        for rule in registry():
            counted[rule.id] += lines_run(rule, profile, context)
    return counted


def lines_run(rule: Rule, profile: Profile, context: Context) -> int:
    """Lines of ours run by one rule about one workload; each turn of a loop counts."""
    count = 0

    def trace(frame, event, arg):
        nonlocal count
        count += event == "line"
        return trace if "gputailor_agent" in frame.f_code.co_filename else None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        rule.evaluate(profile, context)
    finally:
        sys.settrace(before)
    return count


@pytest.mark.timeout(120)
@pytest.mark.parametrize("size", [1, 4, 8])
def test_a_workload_costs_the_same_in_a_cluster_ten_times_as_large(patterns, size):
    """No rule looks through the whole cluster for each workload."""
    small, large = (judged_cluster.cluster(count, patterns) for count in (100, 1_000))
    few, many = sample(small, size), sample(large, size)
    assert [one.workload.id for one in few] == [one.workload.id for one in many]
    assert steps(few, small.context) == steps(many, large.context)


@pytest.mark.timeout(120)
def test_the_steps_of_a_workload_stay_in_their_bound_and_grow_no_faster_than_its_gpus(patterns):
    made = judged_cluster.cluster(200, patterns)
    by_size = {size: steps(sample(made, size), made.context).total() / 10 for size in (1, 4, 8)}
    assert by_size[8] < 8 * by_size[1]
    mix = 0.6 * by_size[1] + 0.25 * by_size[4] + 0.15 * by_size[8]
    assert mix < MOST_STEPS


def test_the_cluster_makes_rules_speak(patterns):
    """Else what they cost would be that of silence."""
    made = judged_cluster.cluster(200, patterns)
    found = judged(made)["found"]
    speaking = {rule for rule, count in found.items() if count > 0}
    assert speaking >= {"idle", "idle_notebook", "smaller_gpu", "standby", "too_many_gpus"}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(measured(int(sys.argv[1]))) + "\n")
