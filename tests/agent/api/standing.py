"""A running agent as the pages see it, and a store's word, made up: shared by tests of pages."""

import string
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Gauge

from gputailor_agent.api.doors import Doors
from gputailor_agent.api.kept import NodeUse, Strip, Told
from gputailor_agent.cli.web import WebKeys, doors
from gputailor_agent.ledger import decidable
from gputailor_agent.model.inventory import Node
from gputailor_agent.model.judgement import Plan, Verdict
from gputailor_agent.model.ledger import Decision, Entry, RuleRecord
from gputailor_agent.model.profile import Window
from gputailor_agent.model.usage import Device
from gputailor_agent.rules.base import RuleSettings
from gputailor_agent.schedule.service import ScrapeRound
from gputailor_agent.store import KeptReport
from gputailor_agent.store.tasks import Task
from tests.agent.reports.plans import DAY, END, UNSEEN, finding, verdict

PERIOD = "2026-01-05T07:00"
TOKEN = "0123456789abcdef-of-ops"
OTHER = "fedcba9876543210-of-team-a"
HOUR = 3600


class State:
    """A running agent's state."""

    def __init__(self, plan: Plan | None) -> None:
        self.plan = plan
        self.registry = CollectorRegistry()
        Gauge("gputailor_agent_test", "A gauge.", registry=self.registry).set(1)

    def latest_plan(self) -> Plan | None:
        return self.plan

    rules = RuleSettings()

    def not_ready(self) -> str:
        return "" if self.plan else "no plan yet"

    def troubles(self) -> list[str]:
        return []

    def tasks(self) -> list[Task]:
        return [Task(job="report", outcome="failed", reason="disk is full", started_at=1.8e9)]

    def ledger(self) -> tuple[list[Entry], list[RuleRecord]]:
        return [], []

    def last_round(self) -> ScrapeRound | None:
        return ScrapeRound(at=1767610805.0, answered=4, failed=1) if self.plan else None

    def reports(self) -> list[KeptReport]:
        window = Window(start=1766386800.0, end=1767596400.0)
        kept = KeptReport(period=PERIOD, made_at=1767596461.0, window=window)
        return [kept] if self.plan else []

    def report(self, period: str) -> tuple[str, str] | None:
        return ('{"kind": "report"}\n', "# Report\n") if period == PERIOD else None


class Book:
    """What a store keeps beside plans: two devices by the hour, a run, a node, decisions."""

    def __init__(self) -> None:
        self.made: dict[tuple[str, str], Decision] = {}

    def strips(self, workload, window):
        if workload.id == UNSEEN:
            return [], 0
        device = Device(
            cluster="test",
            gpu_uuid="GPU-1",
            node="node-1",
            index="0",
            model="NVIDIA A100-SXM4-40GB",
            memory_total_bytes=40 * 2**30,
        )
        first = int(window.start)
        hours = tuple(
            (first + at * HOUR, 3600.0, 3600.0 if at % 5 else 0.0, 1800.0 if at % 5 else 0.0)
            for at in range(24 * 14)
        )
        idle = tuple((start, held, held, 0.0) for start, held, _, _ in hours)
        return [
            Strip("pod-0", "GPU-1", device, hours, 10 * 2**30, 40 * 2**30),
            Strip("pod-0", "GPU-2", None, idle, None, None),
        ], 3

    def runs(self, workload):
        return [
            Told("run-2", END - DAY, None, "running", None, (("mlflow", "javascript:alert(1)"),))
        ]

    def nodes(self, at):
        offers = {"nvidia.com/gpu": 8.0, "nvidia.com/mig-1g.10gb": 7.0}
        node = Node(cluster="test", name="node-1", allocatable=offers, ready=True)
        whole = {"nvidia.com/gpu": 5.0}
        return [NodeUse(node, whole, {"nvidia.com/gpu": 3}, 3, ())]

    def decisions(self):
        return list(self.made.values())

    def decidable(self, verdict):
        return decidable(verdict, (), self.decisions())

    def decide(self, decision):
        self.made[decision.workload_id, decision.rule] = decision

    def withdraw(self, workload_id, rule):
        return self.made.pop((workload_id, rule), None) is not None


def guarded(tmp_path, *, access: str = "", proxies: Iterable[str] = ()) -> Doors:
    """Doors that two tokens open, as settings would make them."""
    file = tmp_path / "tokens"
    file.write_text(f"# who comes in\nops {TOKEN}\nteam-a {OTHER}\n", encoding="utf-8")
    given = {"web_token_file": file, "web_trusted_proxies": tuple(proxies)}
    if access:
        (tmp_path / "access.yaml").write_text(access, encoding="utf-8")
        given["web_access_file"] = tmp_path / "access.yaml"
    return doors(WebKeys(**given), "0.0.0.0")


def many(count: int) -> tuple[Verdict, ...]:
    """So many workloads of every state, with equal and unknown figures among them."""
    made = []
    states = ("finding", "ok", "ok", "watching", "unknown")
    for at in range(count):
        name = "".join(string.ascii_lowercase[(at // 26**place) % 26] for place in range(4))
        identity = f"team-{at % 40}/Deployment/{name}-{at}/main"
        state = states[at % 5]
        known = state != "unknown"
        primary = finding(identity, "idle", float(at % 977)) if state == "finding" else None
        made.append(
            verdict(
                identity,
                state,
                primary=primary,
                mean_kernel=(at % 101) / 100 if known else None,
                coverage=1.0 if known else 0.0,
                gpu_hours=float(at % 503),
            )
        )
    return tuple(made)
