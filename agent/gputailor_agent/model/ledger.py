"""What became of findings: each one's life, what was foretold, and what came after.

An entry is kept per cluster, workload, rule and number: a finding that comes again after its change
was made begins a new entry. None is unknown, never 0.
"""

from enum import StrEnum

import msgspec

from gputailor_agent.model.judgement import Interval, Money, Scalar


class State(StrEnum):
    """Where in its life a finding is."""

    NEW = "new"  # found within the last day
    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"  # somebody took it on
    APPLIED = "applied"  # the request really changed
    EXPIRED = "expired"  # not found any more, without the change
    DISMISSED = "dismissed"  # somebody said why not


class Result(StrEnum):
    """What a change that was made came to."""

    WAITING = "waiting"  # too little has run since
    REAL = "real"  # at least half of what was foretold, and nothing worse
    PARTLY = "partly"  # less than half
    NONE = "none"  # nothing was saved
    SLOWER = "slower"  # runs take longer than foretold
    FAILED = "failed"  # runs fail since
    UNKNOWN = "unknown"  # nothing to compare with


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """What a workload asked for: per pod, how many pods hold devices, and whole GPUs held."""

    gpus_per_pod: float
    pods: int
    gpus: float  # held now; slices and shares count as their part
    models: tuple[str, ...] = ()
    shape: str = ""  # e.g. "1xmig-1g.10gb"
    # of its newest run's container; None: nothing, or not known
    cpus: float | None = None
    memory_bytes: int | None = None
    deadline_seconds: float | None = None
    out_nodes: tuple[str, ...] = ()  # of those that the finding names: cordoned or gone


class RunFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Runs of one set-up: counts, and medians over those that were completed."""

    completed: int = 0
    failed: int = 0
    gpu_hours: float | None = None  # of one run
    seconds: float | None = None  # of one run
    per_month: float | None = None  # runs completed, per 730 h


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """What the finding said when it was last made before the change."""

    made_at: float
    confidence: str
    gpu_hours_per_month: float | None
    money_per_month: Money | None
    slowdown: Interval | None
    change: str  # kind of the change, e.g. "set_gpus"
    params: dict[str, Scalar] = msgspec.field(default_factory=dict)
    primary: bool = True


class Period(msgspec.Struct, frozen=True, kw_only=True):
    """A workload before or after its change."""

    setup: Setup
    runs: RunFigures = RunFigures()
    price_per_gpu_hour: Money | None = None
    followed_seconds: float = 0.0  # how long ``gpu_seconds`` was followed, plan by plan
    gpu_seconds: float = 0.0  # held meanwhile


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One finding's life. Times are Unix seconds."""

    cluster: str
    workload_id: str
    rule: str
    number: int
    state: State
    opened_at: float
    changed_at: float  # of the state
    seen_at: float  # when a plan last found it
    updated_at: float
    prediction: Prediction
    before: Period
    reason: str = ""  # why it was dismissed, or how it ended
    until: float | None = None  # a dismissal's end
    missing_since: float | None = None  # not found since, though its workload was looked at
    applied_at: float | None = None
    in_full: bool = True  # the whole change was made, not a part of it
    after: Period | None = None
    result: Result | None = None
    realised_gpu_hours_per_month: float | None = None
    realised_money_per_month: Money | None = None
    slowdown: float | None = None  # median length of runs after / before

    @property
    def key(self) -> tuple[str, str]:
        """Workload and rule."""
        return self.workload_id, self.rule


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody decided about a workload's findings of a rule ("all": of every rule)."""

    workload_id: str
    rule: str
    kind: str  # "dismissed" or "acknowledged"
    reason: str
    decided_by: str
    decided_at: float
    until: float | None = None

    def holds(self, now: float) -> bool:
        """Whether it is in force at ``now`` (Unix seconds)."""
        return self.until is None or now < self.until


class RuleRecord(msgspec.Struct, frozen=True, kw_only=True):
    """How a rule's findings fared. Sums are over entries whose figures are known."""

    rule: str
    states: dict[str, int]
    judged: int  # changes made whose result is known
    real: int  # of those: the saving came true and nothing got worse
    precision: float | None  # real / judged
    predicted_gpu_hours_per_month: float  # of changes made and judged
    realised_gpu_hours_per_month: float
    realised_money_per_month: tuple[Money, ...] = ()
