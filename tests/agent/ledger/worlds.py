"""One workload as a plan shows it, made by hand: what it asks for, its runs, what was found."""

from gputailor_agent.model.inventory import GpuRequest, Outcome, TaskClass, Workload
from gputailor_agent.model.judgement import (
    Change,
    Confidence,
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
from gputailor_agent.model.profile import Profile, RunUse, Window

DAY, HOUR, MONTH = 86_400.0, 3600.0, 730.0
T0 = 1_800_000_000.0
WEB = "team-a/Deployment/web/main"


def workload(id_: str = WEB, count: float = 1, resource: str = "nvidia.com/gpu") -> Workload:
    namespace, kind, name, container = id_.partition("#")[0].split("/")
    return Workload(
        id=id_,
        cluster="c1",
        namespace=namespace,
        kind=kind,
        name=name,
        container=container,
        task_class=TaskClass.INFERENCE,
        gpu_requests=(GpuRequest(resource=resource, count=count),),
    )


def finding(
    change: str = "set_replicas",
    *,
    id_: str = WEB,
    rule: str = "too_many_replicas",
    hours: float | None = MONTH,
    money: float | None = None,
    slowdown: Interval | None = None,
    **params,
) -> Finding:
    return Finding(
        id=f"c1/{id_}/{rule}",
        cluster="c1",
        workload_id=id_,
        rule=rule,
        severity=Severity.MEDIUM,
        message=Message(key=f"{rule}.found"),
        confidence=Confidence.HIGH,
        evidence=(),
        change=Change(kind=change, target=id_, params=params or {"replicas": 1}),
        saving=Saving(
            gpu_hours_per_month=hours,
            money_per_month=None if money is None else Money(amount=money),
        ),
        slowdown=slowdown,
        window=Window(start=T0 - 14 * DAY, end=T0),
    )


def run(
    name: str,
    started: float,
    *,
    seconds: float = 2 * HOUR,
    gpus: float = 1,
    outcome: Outcome = Outcome.SUCCEEDED,
) -> RunUse:
    return RunUse(
        id=name,
        started=started,
        finished=started + seconds,
        outcome=outcome,
        oom=False,
        gpus=gpus,
        pods=1,
        gpu_seconds=gpus * seconds,
        memory_peak_bytes=None,
        mean_sm=None,
        mean_kernel=None,
    )


class Seen:
    """A workload at one time."""

    def __init__(
        self,
        found: Finding | None = None,
        *,
        id_: str = WEB,
        pods: int = 2,
        per_pod: float = 1,
        gpus: float | None = None,
        resource: str = "nvidia.com/gpu",
        models: tuple[str, ...] = ("A100",),
        runs: tuple[RunUse, ...] = (),
        state: str = "",
        opted_out: str = "",
        rule: str = "too_many_replicas",
        price: float | None = None,
    ) -> None:
        self.id, self.found, self.pods, self.per_pod = id_, found, pods, per_pod
        self.gpus = pods * per_pod if gpus is None else gpus
        self.models, self.runs, self.price = models, runs, price
        self.workload = workload(id_, per_pod, resource)
        self.state = state or ("finding" if found else "ok")
        self.silences = ()
        if opted_out:
            told = Message(key="gate.opted_out", params={"reason": opted_out})
            self.silences = (
                Silence(rule=rule, workload_id=id_, kind=SilenceKind.OPTED_OUT, message=told),
            )

    def verdict(self) -> Verdict:
        return Verdict(
            workload=self.workload,
            primary=self.found,
            alternatives=(),
            silences=self.silences,
            gpu_hours=100.0,
            cost=None if self.price is None else Money(amount=100 * self.price),
            gpus_now=self.gpus,
            state=self.state,
        )

    def profile(self, now: float) -> Profile:
        return Profile(
            workload=self.workload,
            window=Window(start=now - 28 * DAY, end=now),
            gpus=(),
            runs=self.runs,
            gpus_per_pod=self.per_pod,
            pods_now=self.pods,
            pending_pods=0,
            allocated_seconds=1.0,
            allocated_clock="inventory",
            signals={},
            warmup={},
            conditions={},
            device_models=self.models,
            memory_peak_bytes=None,
            memory_peak_kind="peak",
            memory_total_bytes=None,
            energy_joules=None,
            last_active=None,
            allocated_since=None,
            full_days=14,
            oom_seen=False,
            dialects=(),
            samples=1,
            spread_seconds=0.0,
        )


def plan(now: float, *seen: Seen) -> tuple[Plan, list[Profile]]:
    verdicts = tuple(one.verdict() for one in seen)
    window = Window(start=now - 28 * DAY, end=now)
    made = Plan(cluster="c1", window=window, made_at=now, verdicts=verdicts)
    return made, [one.profile(now) for one in seen]
