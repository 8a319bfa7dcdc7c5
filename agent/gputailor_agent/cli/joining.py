"""Whose log is it: recorded logs joined to the pods of an inventory.

A log names devices only. With one GPU workload in the manifests there is no doubt; with several
the user says which, and is shown the choices. A pod template is enough: the manifest of a Job that
has not run here can still be held against a log of it.
"""

from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Final

import msgspec

from gputailor_agent.cli.errors import UsageError
from gputailor_agent.inventory.resources import device_count
from gputailor_agent.model.inventory import GpuRequest, Inventory, PodAssignment, Resolution
from gputailor_agent.reports.plurals import counted
from gputailor_agent.sources.logs import Log

_SHOWN: Final = 20


class Join(msgspec.Struct, frozen=True, kw_only=True):
    """One ``--for``: an assignment wanted for a log, or for every log (``log`` None)."""

    target: str  # "namespace/name" or "namespace/name/container"
    log: str | None = None


class Joined(msgspec.Struct, frozen=True, kw_only=True):
    """A log, the container it belongs to, and whether that was our conclusion."""

    log: Log
    assignment: PodAssignment
    concluded: bool


def assumptions(joined: Joined, devices: int, inventory: Inventory) -> list[str]:
    """What joining the log to the container takes for granted, and what speaks against it."""
    owner = joined.assignment
    said = []
    if joined.concluded:
        said.append(
            f"joined to {owner.workload_id}, the only GPU workload in the inventory (assumed; "
            "--for says otherwise)"
        )
    asked = _asked(owner, inventory)
    names = ", ".join(f"{ask.count:g} x {ask.resource}" for ask in asked)
    if any(ask.vendor and ask.vendor.casefold() != "nvidia" for ask in asked):
        said.append(f"it asks for {names}, while nvidia-smi wrote the log: is it the right one?")
    elif any(ask.kind not in {"gpu", "other"} for ask in asked):
        said.append(f"it asks for {names}, a part of a device, while the log is of whole devices")
    elif (count := device_count(asked)) and count != devices:
        hint = "nothing is known of the others"
        if devices > count:
            hint = "is it of the whole machine? All of them are counted as this workload's"
        held = counted(devices, "GPU")
        said.append(f"each pod asks for {names}, while the log holds {held}: {hint}")
    return said


def _asked(owner: PodAssignment, inventory: Inventory) -> tuple[GpuRequest, ...]:
    """GPUs that the container of the assignment asks for."""
    for pod in inventory.pods:
        if (pod.namespace, pod.name, pod.uid) == (owner.namespace, owner.pod, owner.pod_uid):
            for container in pod.containers:
                if container.name == owner.container:
                    return container.gpus
    return ()


def parse_join(text: str) -> Join:
    """``NAMESPACE/NAME[/CONTAINER]`` or ``LOG=NAMESPACE/NAME[/CONTAINER]``."""
    log, equals, target = text.rpartition("=")
    if target.count("/") not in {1, 2} or not all(target.split("/")) or (equals and not log):
        raise UsageError(
            f"--for: expected NAMESPACE/NAME[/CONTAINER] or LOG=NAMESPACE/NAME[/CONTAINER], "
            f"found {text!r}"
        )
    return Join(target=target, log=log if equals else None)


def join_logs(
    logs: Sequence[Log], inventory: Inventory, resolution: Resolution, wanted: Sequence[Join]
) -> list[Joined]:
    """Each log with its container; raises ``UsageError`` with the choices where it is unclear."""
    choices = gpu_assignments(inventory, resolution)
    if logs and not choices:
        raise UsageError(
            "--inventory: no pod or template there asks for a GPU, so no log can be joined to one"
        )
    unused = [join for join in wanted if join.log and not any(_names(join, log) for log in logs)]
    if unused:
        read = ", ".join(str(log.path) for log in logs) or "none"
        raise UsageError(f"--for: no log is called {unused[0].log!r}; logs read: {read}")
    return [_join(log, choices, wanted) for log in logs]


def gpu_assignments(inventory: Inventory, resolution: Resolution) -> list[PodAssignment]:
    """Assignments of containers that ask for a GPU, one per workload (templates included)."""
    asking = {
        (pod.namespace, pod.name, pod.uid, container.name)
        for pod in inventory.pods
        for container in pod.containers
        if container.gpus
    }
    one_each: dict[str, PodAssignment] = {}
    for item in resolution.assignments:
        if (item.namespace, item.pod, item.pod_uid, item.container) in asking:
            one_each.setdefault(item.workload_id, item)
    return list(one_each.values())


def _join(log: Log, choices: list[PodAssignment], wanted: Sequence[Join]) -> Joined:
    own = [join for join in wanted if _names(join, log)] or [
        join for join in wanted if join.log is None
    ]
    if own:
        return Joined(log=log, assignment=_find(own[-1], choices), concluded=False)
    if len(choices) == 1:
        return Joined(log=log, assignment=choices[0], concluded=True)
    raise UsageError(
        f"{log.path} could belong to {len(choices)} GPU workloads; say which with "
        f"--for {PurePath(log.path).name}=NAMESPACE/NAME:{_listed(choices)}"
    )


def _names(join: Join, log: Log) -> bool:
    path = Path(log.path)
    return join.log is not None and join.log in {str(path), path.name, path.stem}


def _find(join: Join, choices: list[PodAssignment]) -> PodAssignment:
    namespace, name, *container = join.target.split("/")
    fits = [
        choice
        for choice in choices
        if choice.namespace == namespace
        and name in {choice.pod, _workload_name(choice)}
        and (not container or choice.container == container[0])
    ]
    if not fits:
        raise UsageError(f"--for: no GPU workload is {join.target}; there are:{_listed(choices)}")
    if len(fits) > 1:
        raise UsageError(
            f"--for: {join.target} has several containers with GPUs, add one as "
            f"NAMESPACE/NAME/CONTAINER:{_listed(fits)}"
        )
    return fits[0]


def _workload_name(choice: PodAssignment) -> str:
    """Third part of ``namespace/kind/stem/container``."""
    parts = choice.workload_id.split("/")
    return parts[2] if len(parts) > 2 else parts[-1]  # noqa: PLR2004 - the id's shape


def _listed(choices: list[PodAssignment]) -> str:
    names = sorted(
        f"\n  {choice.namespace}/{_workload_name(choice)}/{choice.container}" for choice in choices
    )
    more = len(names) - _SHOWN
    return "".join(names[:_SHOWN]) + (f"\n  … and {more} more" if more > 0 else "")
