"""The table written by hand (by_hand.yaml), and what an inventory says in the same words."""

import fnmatch
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import msgspec
import yaml

from gputailor_agent.inventory.identity import resolve
from gputailor_agent.inventory.owners import OwnerIndex, root_of
from gputailor_agent.inventory.resources import pod_requests

TABLE = Path(__file__).with_name("by_hand.yaml")
Asks = dict[str, float | str]


class Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One container's expected or observed line; see by_hand.yaml."""

    root: str
    asks: Asks
    pods: int
    namespace: str = "default"
    container: str = ""
    pod_asks: Asks | None = None
    task: str = "unknown"
    framework: str = ""
    team: str = ""
    queue: str = ""
    live: bool = True

    def moved(self, namespace: str) -> "Row":
        """The same in another namespace."""
        return msgspec.structs.replace(self, namespace=namespace)


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """A row as the program says it, and of which answers it is sure."""

    row: Row
    task_sure: bool
    framework_sure: bool


class File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is expected of one manifest file."""

    fill: dict[str, str] = {}
    refused: dict[str, str] = {}
    rows: tuple[Row, ...] = ()
    node: dict[str, object] | None = None

    def text(self, file: Path) -> str:
        """The manifest with its placeholders filled."""
        text = file.read_text("utf-8")
        for placeholder in sorted(self.fill, key=len, reverse=True):
            text = text.replace(placeholder, self.fill[placeholder])
        return text

    @staticmethod
    def node_of(node, mig, strategy) -> dict[str, object]:
        """What an inventory says of a node, in the table's words."""
        return {
            "name": node.name,
            "product": node.gpu_product,
            "memory_mib": node.gpu_memory_bytes and node.gpu_memory_bytes // 2**20,
            "cards": node.gpu_count,
            "replicas": node.sharing_replicas,
            "capacity": {name: count for name, count in node.capacity.items() if count},
            "mig": mig,
            "strategy": strategy,
            "driver": node.driver_version,
            "cuda": node.cuda_version,
        }


class Accuracy(msgspec.Struct, frozen=True, kw_only=True):
    """Shares of right answers (0..1) over so many rows."""

    rows: int
    task: float
    framework: float
    task_sure: float
    framework_sure: float
    misses: list[str]
    wrong_but_sure: list[str]


def table() -> dict[str, File]:
    """Every manifest file's name with what is expected of it."""
    return msgspec.convert(yaml.safe_load(TABLE.read_text("utf-8")), dict[str, File])


def _asks(requests) -> Asks:
    found: Asks = {}
    for one in requests:
        of_class = "/" not in one.resource and "." in one.resource
        name = f"{one.resource} {one.mig_profile}".strip() if of_class else one.resource
        found[name] = "all" if of_class and one.kind == "other" else one.count
    return found


def _root(pod, index) -> str:
    root = root_of(pod, index)
    group = root.api_version.rpartition("/")[0]
    return f"{root.kind}.{group}/{root.name}" if group else f"{root.kind}/{root.name}"


def observe(inventory) -> list[Observed]:
    """Every asking container of an inventory, pods of one root counted together."""
    index = OwnerIndex(inventory.owners, inventory.pods)
    resolution = resolve(inventory)
    workloads = {one.id: one for one in resolution.workloads}
    of = {
        (one.namespace, one.pod, one.pod_uid, one.container): workloads[one.workload_id]
        for one in resolution.assignments
    }
    pods: dict[tuple[str, str, str, str], int] = defaultdict(int)
    last = {}
    for pod in inventory.pods:
        for container in (one for one in pod.containers if one.gpus):
            key = (_root(pod, index), pod.namespace, container.name, str(_asks(container.gpus)))
            pods[key] += pod.replicas
            last[key] = (pod, container, of[pod.namespace, pod.name, pod.uid, container.name])
    return [_observed(key, pods[key], *last[key]) for key in pods]


def _observed(key, count, pod, container, workload) -> Observed:
    root, namespace, name, _ = key
    return Observed(
        row=Row(
            root=root,
            namespace=namespace,
            container=name,
            asks=_asks(container.gpus),
            pods=count,
            pod_asks=_asks(pod_requests(pod)),
            task=workload.task_class.value,
            framework=workload.framework,
            team=workload.team,
            queue=workload.queue,
        ),
        task_sure=workload.task_sure,
        framework_sure=workload.framework_sure,
    )


def _is(expected: Row, seen: Row) -> bool:
    return (
        fnmatch.fnmatchcase(seen.root, expected.root)
        and seen.namespace == expected.namespace
        and expected.container in {"", seen.container}
    )


def paired(expected: list[Row], seen: list[Observed]) -> list[tuple[Row, Observed | None]]:
    """Each expected row with what was seen of it; what nobody expected raises."""
    left, pairs = list(seen), []
    for row in expected:
        found = next((one for one in left if _is(row, one.row)), None)
        pairs.append((row, found))
        if found is not None:
            left.remove(found)
    assert not left, f"nobody expected {left}"
    return pairs


Compared = Iterable[tuple[str, list[Row], list[Observed]]]


def wrong(compared: Compared, *fields: str) -> list[str]:
    """Every expected row that is missing or differs in one of these fields, in words."""
    found = []
    for name, rows, seen in compared:
        for row, one in paired(rows, seen):
            if one is None:
                found.append(f"{name}: {row.root} {row.container} is missing")
                continue
            for field in fields:
                expected, got = getattr(row, field), getattr(one.row, field)
                if expected != got and not (field == "pod_asks" and expected is None):
                    found.append(f"{name}: {row.root} {row.container}: {field}: {got}")
    return found


def accuracy(compared: Compared) -> Accuracy:
    """How often task class and framework are right, and where a sure answer is wrong."""
    pairs = [pair for _, rows, seen in compared for pair in paired(rows, seen)]
    right = {"task": 0, "framework": 0}
    sure = {"task": 0, "framework": 0}
    misses, wrong_but_sure = [], []
    for row, one in pairs:
        for field in right:
            said = getattr(one.row, field) if one else None
            is_sure = bool(one) and getattr(one, f"{field}_sure")
            sure[field] += is_sure
            if said == getattr(row, field):
                right[field] += 1
            else:
                misses.append(f"{row.root} {row.container}: {field}: {said}")
                wrong_but_sure += misses[-1:] if is_sure else []
    count = len(pairs)
    return Accuracy(
        rows=count,
        task=right["task"] / count,
        framework=right["framework"] / count,
        task_sure=sure["task"] / count,
        framework_sure=sure["framework"] / count,
        misses=misses,
        wrong_but_sure=wrong_but_sure,
    )
