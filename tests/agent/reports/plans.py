"""A small hand-built plan: one workload of each state, hostile names, unknown beside zero."""

from gputailor_agent.model.inventory import GpuRequest, Workload
from gputailor_agent.model.judgement import (
    CapacityLine,
    Change,
    Check,
    Confidence,
    CostLine,
    Evidence,
    Finding,
    Interval,
    Message,
    Money,
    Plan,
    Saving,
    Severity,
    Silence,
    SilenceKind,
    Verdict,
)
from gputailor_agent.model.profile import Window

DAY = 86400.0
END = 1_764_547_200.0  # 2025-12-01 00:00 UTC
WINDOW = Window(start=END - 14 * DAY, end=END)
GIB = 1024**3


def workload(identity: str, **more) -> Workload:
    namespace, kind, name, container = identity.split("/")
    return Workload(
        id=identity,
        cluster="test",
        namespace=namespace,
        kind=kind,
        name=name,
        container=container,
        gpu_requests=(GpuRequest(resource="nvidia.com/gpu", count=1),),
        **more,
    )


def finding(identity: str, rule: str, money: float | None, **more) -> Finding:
    settings = {
        "severity": Severity.HIGH,
        "confidence": Confidence.HIGH,
        "message": Message(key="report.ok"),
        "saving": Saving(
            gpu_hours_per_month=730.0,
            money_per_month=None if money is None else Money(amount=money),
            formula="GPU-hours per month x price",
        ),
        "evidence": (
            Evidence(
                name="kernel mean",
                value=0.0,
                unit="ratio",
                comparison="<=",
                threshold=0.02,
                passed=True,
                samples=336,
                coverage=0.995,
                window=WINDOW,
                formula="active / observed",
            ),
            Evidence(name="power", value=None, unit="watts"),
        ),
        "change": Change(
            kind="release", target="Deployment team-a/old", patch="spec:\n  replicas: 0\n"
        ),
    }
    return Finding(
        id=f"test/{identity}/{rule}",
        cluster="test",
        workload_id=identity,
        rule=rule,
        window=WINDOW,
        **(settings | more),
    )


def silence(identity: str, rule: str, kind: SilenceKind, **more) -> Silence:
    settings = {"message": Message(key="report.ok")}
    return Silence(rule=rule, workload_id=identity, kind=kind, **(settings | more))


def verdict(identity: str, state: str, **more) -> Verdict:
    settings = {
        "workload": workload(identity),
        "primary": None,
        "alternatives": (),
        "silences": (),
        "gpu_hours": 336.0,
        "cost": Money(amount=1000.0),
        "coverage": 1.0,
        "mean_kernel": 0.5,
        "memory_peak_bytes": 10 * GIB,
        "memory_total_bytes": 40 * GIB,
        "device_models": ("NVIDIA A100-SXM4-40GB",),
        "gpus_now": 1.0,
        "state": state,
    }
    return Verdict(**(settings | more))


IDLE = "team-a/Deployment/old/main"
FEWER = "team-b/Job/train/trainer"
WATCHED = "team-b/Deployment/new/web"
UNSEEN = "team-c/StatefulSet/dark/main"
FINE = "team-c/Job/good/main"


def sample_plan(**more) -> Plan:
    """Two findings, one watched, one unknown, one fine; 8 GPUs, conservation holds."""
    verdicts = (
        verdict(FINE, "ok", silences=(silence(FINE, "idle", SilenceKind.FINE),)),
        verdict(
            UNSEEN,
            "unknown",
            coverage=0.0,
            mean_kernel=None,
            memory_peak_bytes=None,
            memory_total_bytes=None,
            cost=None,
            silences=(
                silence(UNSEEN, "smaller_gpu", SilenceKind.NOT_APPLICABLE),
                silence(
                    UNSEEN,
                    "idle",
                    SilenceKind.UNKNOWN,
                    missing_signals=("kernel",),
                    message=Message(key="report.no_workloads"),
                ),
            ),
        ),
        verdict(
            WATCHED,
            "watching",
            silences=(silence(WATCHED, "smaller_gpu", SilenceKind.WATCHING, ready_at=END + DAY),),
        ),
        verdict(
            FEWER,
            "finding",
            primary=finding(FEWER, "too_many_gpus", 500.0, slowdown=Interval(low=1.0, high=1.25)),
        ),
        verdict(
            IDLE,
            "finding",
            mean_kernel=0.0,
            primary=finding(IDLE, "idle", 2000.0),
            alternatives=(finding(IDLE, "smaller_gpu", 1500.0),),
        ),
    )
    settings = {
        "cluster": "test",
        "window": WINDOW,
        "made_at": END,
        "verdicts": verdicts,
        "capacity": (
            CapacityLine(
                model="NVIDIA A100-SXM4-40GB",
                capacity=8,
                allocated=5,
                free=2,
                unavailable=0,
                unknown=1,
                usd_per_gpu_hour=3.0,
                price_per_gpu_hour=Money(amount=3.0),
            ),
        ),
        "cost": CostLine(
            currency="USD",
            nodes=8064,
            workloads=5040,
            free=2016,
            unavailable=0,
            unknown=1008,
            unpriced_gpus=0,
        ),
        "checks": (Check(name="GPUs", left=8, right=8, holds=True),),
        "saving_gpu_hours_per_month": 1460.0,
        "saving_money_per_month": Money(amount=2500.0),
        "problems": ("node-3: no page since 2025-11-30 12:00 UTC",),
        "sources": ("gputailor",),
    }
    return Plan(**(settings | more))
