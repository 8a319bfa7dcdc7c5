"""Which pods hold devices, and when.

Requests stay in a pod's object after it ended; the device does not. A pod holds its devices from
the moment it is bound to a node until its containers ended, and at no other time.
"""

from gputailor_agent.model.inventory import Pod

#: Phases in which a bound pod holds what it asked for. A bound Pending pod (pulling its image)
#: already holds the device; Succeeded and Failed pods hold none; Unknown is unknown.
HOLDING_PHASES = frozenset({"Pending", "Running"})


def asks_for_devices(pod: Pod) -> bool:
    """Whether any container asks for an accelerator, or for a share of one."""
    return any(container.gpus for container in pod.containers)


def holding(pod: Pod) -> bool:
    """Whether the pod holds accelerators now: bound to a node, Pending or Running, not ended."""
    return (
        not pod.template
        and bool(pod.node)
        and pod.phase in HOLDING_PHASES
        and pod.finished is None
        and asks_for_devices(pod)
    )


def held_interval(pod: Pod, until: float) -> tuple[float, float] | None:
    """From when to when (Unix seconds) the pod held its devices, cut at ``until``.

    None when it never held any, or when its object does not say: a pod that ended at an unknown
    time is unknown, not "until now".
    """
    if pod.template or not pod.node or not asks_for_devices(pod):
        return None
    begins = [at for at in (pod.scheduled, pod.started, pod.created) if at is not None]
    if not begins:
        return None
    start = begins[0]
    end = until if pod.finished is None and holding(pod) else pod.finished
    if end is None:
        return None
    end = min(end, until)
    return (start, end) if end > start else None
