"""What was asked: pods and nodes as Kubernetes tells them, and the workloads they belong to."""

from enum import StrEnum

import msgspec


class GpuRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A count of one extended resource, e.g. 8 of ``nvidia.com/gpu`` or 1 of ``…/mig-1g.5gb``."""

    resource: str
    count: float
    kind: str = "gpu"  # "gpu", "mig", "shared", "fractional", "other"
    vendor: str = ""
    mig_profile: str = ""


class OwnerReference(msgspec.Struct, frozen=True, kw_only=True):
    """A controlling owner, by UID."""

    api_version: str
    kind: str
    name: str
    uid: str


class ContainerSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A container that was asked for. ``gpus`` is empty for those that hold no device."""

    name: str
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: dict[str, str] = msgspec.field(default_factory=dict)  # plain values only, never secrets
    ports: tuple[int, ...] = ()
    gpus: tuple[GpuRequest, ...] = ()
    cpu_request: float | None = None  # cores
    cpu_limit: float | None = None
    memory_request_bytes: int | None = None
    memory_limit_bytes: int | None = None
    init: bool = False


class Pod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod as last seen. Times are Unix seconds; None where the object does not say."""

    cluster: str
    namespace: str
    name: str
    uid: str
    node: str | None = None
    phase: str = "Unknown"
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    owners: tuple[OwnerReference, ...] = ()
    containers: tuple[ContainerSpec, ...] = ()
    created: float | None = None
    scheduled: float | None = None
    started: float | None = None
    finished: float | None = None
    reason: str = ""  # Completed, Error, OOMKilled, Evicted, …
    exit_code: int | None = None
    restarts: int = 0
    oom_killed: bool = False
    shared_memory_bytes: int | None = None  # of a memory emptyDir at /dev/shm
    priority_class: str = ""
    service_account: str = ""
    overhead: dict[str, float] = msgspec.field(default_factory=dict)  # cores and bytes
    tolerations: tuple[str, ...] = ()
    template: bool = False  # made from a controller's pod template: nothing is known to have run
    replicas: int = 1  # of a template
    deadline_seconds: float | None = None  # activeDeadlineSeconds of the pod itself


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """Any object that owns pods or owners: enough to walk to the root."""

    cluster: str
    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    owners: tuple[OwnerReference, ...] = ()
    replicas: int | None = None
    suspended: bool = False


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A node and its devices as Kubernetes tells them."""

    cluster: str
    name: str
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    capacity: dict[str, float] = msgspec.field(default_factory=dict)  # GPU resources only
    allocatable: dict[str, float] = msgspec.field(default_factory=dict)
    schedulable: bool = True
    ready: bool | None = None
    instance_type: str = ""
    capacity_type: str = ""  # "on-demand", "spot", …
    region: str = ""
    zone: str = ""
    gpu_product: str = ""
    gpu_memory_bytes: int | None = None
    gpu_count: int | None = None  # physical GPUs
    sharing_replicas: int = 1
    driver_version: str = ""
    cuda_version: str = ""
    cpus: float | None = None  # allocatable cores, as is the next
    memory_bytes: int | None = None
    pool: str = ""  # the cloud's or Karpenter's name of the group of equal nodes
    taints: tuple[str, ...] = ()  # "key=value:Effect"
    addresses: tuple[str, ...] = ()  # and host names, by which a scrape may know it


class Inventory(msgspec.Struct, frozen=True, kw_only=True):
    """Everything asked for, at one time. ``problems`` say what could not be read.

    ``complete``: every pod and node was listed, so that what is not here is gone; None: if and
    only if there are no problems.
    """

    cluster: str
    at: float
    pods: tuple[Pod, ...] = ()
    nodes: tuple[Node, ...] = ()
    owners: tuple[Owner, ...] = ()
    problems: tuple[str, ...] = ()
    complete: bool | None = None
    # their labels and our annotations
    namespaces: dict[str, dict[str, str]] = msgspec.field(default_factory=dict)


class TaskClass(StrEnum):
    """What a workload does, as far as kinds, images, ports and commands tell."""

    TRAINING = "training"
    INFERENCE = "inference"
    NOTEBOOK = "notebook"
    BATCH = "batch"
    UNKNOWN = "unknown"


class Outcome(StrEnum):
    """How a run ended."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    UNKNOWN = "unknown"


class Distribution(msgspec.Struct, frozen=True, kw_only=True):
    """How a workload is spread, as its commands and variables say; None where they do not.

    ``ranks``: processes with a device each. ``evidence`` names what said it, by field.
    """

    pods: int | None = None  # of the latest run
    ranks: int | None = None
    tensor: int | None = None
    pipeline: int | None = None
    data: int | None = None
    expert: int | None = None
    context: int | None = None
    sharding: str = ""  # "fsdp", "zero-3", …
    evidence: dict[str, str] = msgspec.field(default_factory=dict)


class Tracked(msgspec.Struct, frozen=True, kw_only=True):
    """A run or an experiment as a tracker knows it. ``link`` is '' where its address is unknown."""

    tracker: str  # "mlflow", "wandb", "kubeflow", "katib"
    experiment: str = ""
    run: str = ""
    link: str = ""


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """What a recommendation is made for: many runs of the same thing, one container of it."""

    id: str  # stable, readable: "namespace/kind/stem/container" (+ "#shape" when split)
    cluster: str
    namespace: str
    kind: str  # root owner's kind
    name: str  # root owner's name, or the stem of many runs
    container: str
    task_class: TaskClass = TaskClass.UNKNOWN
    task_evidence: str = ""
    framework: str = ""  # "pytorch", "vllm", … or ''
    framework_evidence: str = ""
    task_sure: bool = False  # the evidence leaves no other reading
    framework_sure: bool = False
    preallocates: bool = False  # takes most of the memory whatever it needs
    preallocates_evidence: str = ""
    image: str = ""
    gpu_requests: tuple[GpuRequest, ...] = ()
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    owner_api_version: str = ""
    team: str = ""  # as labels, annotations or the namespace name it
    queue: str = ""  # Kueue's, Volcano's, KAI's or Run:ai's
    service_account: str = ""
    priority_class: str = ""
    distribution: Distribution | None = None
    precision: str = ""  # "bf16", "fp16", "fp8", "int8", … as commands or variables ask for it
    precision_evidence: str = ""
    tracked: tuple[Tracked, ...] = ()  # the latest run's


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One Job, one pod-template-hash of a Deployment, or one bare pod."""

    id: str
    workload_id: str
    pods: tuple[str, ...]  # pod keys "namespace/name/uid"
    started: float | None = None
    finished: float | None = None
    outcome: Outcome = Outcome.UNKNOWN
    tracked: tuple[Tracked, ...] = ()


class PodAssignment(msgspec.Struct, frozen=True, kw_only=True):
    """Where a pod's container belongs; can be resolved again at any time."""

    cluster: str
    namespace: str
    pod: str
    pod_uid: str
    container: str
    workload_id: str
    run_id: str


class Resolution(msgspec.Struct, frozen=True, kw_only=True):
    """The whole mapping from pods to runs and workloads.

    ``roots``: by workload the top-level object of its latest run, where that object was seen.
    """

    workloads: tuple[Workload, ...] = ()
    runs: tuple[Run, ...] = ()
    assignments: tuple[PodAssignment, ...] = ()
    roots: dict[str, OwnerReference] = msgspec.field(default_factory=dict)
