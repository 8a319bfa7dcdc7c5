"""What is said about a workload: findings, silences with their reason, the plan.

Nothing here is a sentence: a ``Message`` is a key with parameters, so that it can be said in any
language. Money always carries its currency.
"""

from enum import StrEnum

import msgspec

from gputailor_agent.model.inventory import Workload
from gputailor_agent.model.profile import Window

Scalar = str | float | int | bool | None


class Message(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A key of a rule's or report's message table, and what fills it."""

    key: str
    params: dict[str, Scalar] = msgspec.field(default_factory=dict)


class Evidence(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One number that decided: what it is, where it comes from, what it was held against."""

    name: str
    value: Scalar
    unit: str = ""  # "ratio", "bytes", "seconds", "count", "usd_per_hour", …
    comparison: str = ""  # "<", "<=", ">=", "==", or '' when it only informs
    threshold: Scalar = None
    passed: bool | None = None
    window: Window | None = None
    samples: int | None = None
    coverage: float | None = None
    formula: str = ""


class Interval(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Closed interval; ``low <= high``."""

    low: float
    high: float


class Money(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An amount per month."""

    amount: float
    currency: str = "USD"


class Saving(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Expected saving per month of 730 h; a None field is unquantified and ``why`` says why."""

    gpu_hours_per_month: float | None = None
    money_per_month: Money | None = None
    why: Message | None = None
    formula: str = ""


class Change(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What to do; ``patch`` is a YAML strategic-merge patch a person can apply, or ''."""

    kind: str  # "release", "set_gpus", "set_gpu_type", …
    target: str  # "Deployment team-a/web"
    patch: str = ""
    command: str = ""  # a kubectl line that applies it, or ''
    params: dict[str, Scalar] = msgspec.field(default_factory=dict)
    # what to write in a program or a configuration that is no patch, or ''
    code: str = ""
    links: tuple[str, ...] = ()  # documentation of those whose words ``code`` and ``patch`` use
    undo: str = ""  # how it is taken back


class Severity(StrEnum):
    """How urgent; the order is rising."""

    INFO = "info"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class Confidence(StrEnum):
    """How sure; a ``low`` finding counts no saving."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class Finding(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A recommendation of one rule for one workload."""

    id: str  # "cluster/workload/rule"
    cluster: str
    workload_id: str
    rule: str
    severity: Severity
    message: Message
    confidence: Confidence
    evidence: tuple[Evidence, ...]
    change: Change
    saving: Saving
    slowdown: Interval | None = None
    risks: tuple[Message, ...] = ()
    not_chosen: tuple[Message, ...] = ()
    window: Window


class SilenceKind(StrEnum):
    """Why a rule says nothing."""

    NOT_APPLICABLE = "not_applicable"  # the rule is not about such a workload
    FINE = "fine"  # looked, and nothing to say
    WATCHING = "watching"  # not enough yet; ``ready_at`` says when
    UNKNOWN = "unknown"  # data is missing or contradicts itself
    OPTED_OUT = "opted_out"


class Silence(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A rule's reason to say nothing, with the numbers behind it."""

    rule: str
    workload_id: str
    kind: SilenceKind
    message: Message
    evidence: tuple[Evidence, ...] = ()
    ready_at: float | None = None  # Unix seconds
    missing_signals: tuple[str, ...] = ()
    not_chosen: tuple[Message, ...] = ()


class Verdict(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Everything said about one workload: one primary finding, the rest as alternatives."""

    workload: Workload
    primary: Finding | None
    alternatives: tuple[Finding, ...]
    silences: tuple[Silence, ...]
    gpu_hours: float  # allocated inside the window
    cost: Money | None  # of the window; None where no price is known
    cost_why: Message | None = None
    coverage: float | None = None
    mean_kernel: float | None = None
    mean_sm: float | None = None
    memory_peak_bytes: int | None = None
    memory_total_bytes: int | None = None
    device_models: tuple[str, ...] = ()
    gpus_now: float = 0.0
    spread_seconds: float = 0.0  # observed GPU-seconds placed by spreading over a gap
    state: str = "ok"  # "finding", "ok", "watching", "unknown"
    dialects: tuple[str, ...] = ()  # who measured
    # signal or figure -> who told it, where the device's own source could not
    filled: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)


class CapacityLine(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """GPUs of one model: allocated + free + unavailable + unknown = capacity."""

    model: str
    capacity: float
    allocated: float
    free: float
    unavailable: float
    unknown: float
    usd_per_gpu_hour: float | None = None
    price_per_gpu_hour: Money | None = None  # the mean over its GPUs; None: not all of one currency


class CostLine(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Money of the window: workloads + free + unavailable + unknown = nodes. None: no price."""

    currency: str
    nodes: float
    workloads: float
    free: float
    unavailable: float
    unknown: float
    unpriced_gpus: float  # GPUs for which no price is known; not in the sums


class OtherMoney(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is priced in another currency than the plan's, and so in none of its sums.

    ``gpus`` of nodes, their ``models`` and what these ``nodes`` cost in the window, 0 where the
    cluster itself is not shown; ``workloads``: what was taken of them.
    """

    currency: str
    gpus: float
    models: tuple[str, ...]
    nodes: float
    workloads: float
    saving_per_month: float


class Serving(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Devices that a change would free on one node, where a pod that waits could run."""

    workload_id: str
    rule: str
    node: str
    devices: float


class Waiting(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Pods of one owner that wait for devices, alike in what they ask for."""

    namespace: str
    owner: str  # "Job/train", or "Pod/name" of a pod without one
    resource: str
    devices: float  # asked for by one pod
    pods: int
    since: float | None  # Unix seconds: when the first of them was made
    queue: str = ""
    reasons: tuple[Message, ...] = ()  # why they fit nowhere, as far as is known
    served_pods: int = 0  # of them, by what primary findings would free
    served_by: tuple[Serving, ...] = ()


class FreePool(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Whole GPUs of one model and pool that nobody asks for.

    ``known_hours``: whole hours up to the window's end of which the pool's occupation is known, 0
    where only now is; the next figures are of these. ``by_hour``: mean by UTC hour of the day.
    """

    model: str
    pool: str  # '' where the nodes do not say
    nodes: int
    gpus: float
    free_now: float
    known_hours: int
    free_gpu_hours: float | None
    least_free: float | None
    by_hour: tuple[float | None, ...] = ()


class Check(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One conservation check: both sides and whether they agree."""

    name: str
    left: float
    right: float
    holds: bool


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What the whole cluster should do. ``saving`` sums primaries of counted confidence only."""

    cluster: str
    window: Window
    made_at: float
    verdicts: tuple[Verdict, ...]
    capacity: tuple[CapacityLine, ...] = ()
    cost: CostLine | None = None
    checks: tuple[Check, ...] = ()
    saving_gpu_hours_per_month: float = 0.0
    saving_money_per_month: Money | None = None
    other_money: tuple[OtherMoney, ...] = ()
    problems: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    # of the cluster itself; ``workload_id`` is '' and no saving is in the sums above
    cluster_findings: tuple[Finding, ...] = ()
    cluster_silences: tuple[Silence, ...] = ()
    free_pools: tuple[FreePool, ...] = ()
    waiting: tuple[Waiting, ...] = ()  # what waits longest first
