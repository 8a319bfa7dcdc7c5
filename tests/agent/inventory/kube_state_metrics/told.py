"""Series of kube-state-metrics for tests: a page of a real one, and single ones by hand."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from gputailor_agent.dialects.kube_state_metrics import KubeState, StateSample
from gputailor_agent.inventory.kube_state_metrics import inventory_of
from gputailor_agent.model.inventory import Inventory

HERE = Path(__file__).parent
#: When the real page was read, a few seconds after its objects were made (Unix seconds).
READ_AT = 1796052041.0
AT = 1_800_000_000.0
HOUR = 3600.0
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def samples_of(page: str) -> list[StateSample]:
    """The samples of an exposition page."""
    found = []
    for line in page.splitlines():
        name, _, rest = line.partition("{")
        labels, _, value = rest.rpartition("}")
        found.append(StateSample(name, dict(_LABEL.findall(labels)), float(value)))
    return found


def real_page() -> list[StateSample]:
    """What kube-state-metrics 2.18 said of a Deployment, Jobs, a custom resource's pod and so on.

    ``objects.json`` holds the same objects as the API server printed them. Made with the test bed.
    """
    return samples_of((HERE / "page.prom").read_text("utf-8"))


def sample(name: str, value: float = 1.0, **labels: str) -> StateSample:
    """One series of the namespace ``team``; names of labels may end in ``_``."""
    own = {key.rstrip("_"): text for key, text in labels.items()}
    return StateSample(name, {"namespace": "team", **own}, value)


def pod(
    name: str,
    *,
    phase: str = "Running",
    node: str = "node-1",
    owner: tuple[str, str] = ("", ""),
    resource: str = "nvidia_com_gpu",
    gpus: float = 1.0,
    began: float = AT - 8 * HOUR,
    ended: float | None = None,
) -> Iterator[StateSample]:
    """A pod with one container ``main``, as kube-state-metrics tells it by default."""
    who = {"pod": name, "uid": f"uid-{name}"}
    main = {**who, "container": "main"}
    yield sample("kube_pod_info", node=node, **who)
    yield sample(
        "kube_pod_owner",
        owner_kind=owner[0],
        owner_name=owner[1],
        owner_is_controller="true" if owner[0] else "",
        **who,
    )
    for each in ("Pending", "Running", "Succeeded", "Failed", "Unknown"):
        yield sample("kube_pod_status_phase", float(each == phase), phase=each, **who)
    asked = {"resource": resource, "unit": "integer", "node": node}
    yield sample("kube_pod_container_resource_requests", gpus, **asked, **main)
    yield sample("kube_pod_container_resource_limits", gpus, **asked, **main)
    yield sample("kube_pod_container_info", image="x", image_spec="pytorch/pytorch:2.6.0", **main)
    for metric in ("created", "start_time", "status_scheduled_time"):
        yield sample(f"kube_pod_{metric}", began, **who)
    yield sample("kube_pod_container_status_restarts_total", 0.0, **main)
    if ended is not None:
        yield sample("kube_pod_completion_time", ended, **who)


def inventory(*samples: StateSample | Iterable[StateSample], **state: object) -> Inventory:
    """The inventory of these series, as of ``AT``."""
    flat: list[StateSample] = []
    for one in samples:
        flat += [one] if isinstance(one, StateSample) else list(one)
    return inventory_of(KubeState(at=AT, samples=tuple(flat), **state), "lab")  # type: ignore[arg-type]
