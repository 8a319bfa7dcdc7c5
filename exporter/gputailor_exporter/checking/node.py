"""What of the node itself the exporter needs: user, host's processes, log folders, kubelet."""

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from gputailor_exporter.attribution.allocations import AllocationError, AllocationSource
from gputailor_exporter.devices.base import DeviceIdentity
from gputailor_exporter.options import Options
from gputailor_exporter.sampling.bounded import BoundedCalls

KUBELET_SECONDS: Final = 10.0

_SOCKET: Final = (
    "mount the folder /var/lib/kubelet/pod-resources of the node (--pod-resources-socket names the "
    "socket in it) and run as root; outside Kubernetes use --attribution process"
)
_HOST_PID: Final = (
    "run in the host's pid namespace (hostPID: true in Kubernetes, --pid=host for docker) or name "
    "the host's with --proc-root; without it the sharers of one GPU are not told apart"
)
_LOGS: Final = (
    "mount the node's /var/log/pods and /var/log/containers read-only (--pod-logs-root names the "
    "first); without them processes lead to no pod's name"
)


@dataclass(frozen=True, slots=True)
class NodeFinding:
    """One thing of the node that is there or not."""

    name: str
    fine: bool
    text: str
    hint: str = ""


def node_findings(options: Options) -> tuple[NodeFinding, ...]:
    """Look at the user, the host's processes and the pods' log folders."""
    return tuple(_findings(options))


def _findings(options: Options) -> Iterator[NodeFinding]:
    user = os.geteuid()
    yield NodeFinding("user", fine=True, text=f"uid {user}" + ("" if user else " (root)"))
    if options.backend == "simulated" or options.attribution == "none":
        return
    seen = _sees_the_host(options)
    text = "the host's processes are seen" if seen else f"{options.proc_root} is not the host's"
    yield NodeFinding("host processes", seen, text, "" if seen else _HOST_PID)
    if options.attribution != "kubernetes":
        return
    there = options.pod_logs_root.is_dir()
    text = f"{options.pod_logs_root}" + ("" if there else " is not here")
    yield NodeFinding("pod log folders", there, text, "" if there else _LOGS)


def _sees_the_host(options: Options) -> bool:
    """Process 2 is the kernel's own thread daemon in the first pid namespace, and only there.

    Source: ``rest_init`` of Linux (init/main.c) starts init and then kthreadd.
    """
    try:
        return (options.proc_root / "2" / "comm").read_text(encoding="utf-8").strip() == "kthreadd"
    except (OSError, UnicodeDecodeError):
        return False


def kubelet_finding(
    source: AllocationSource | None, devices: Sequence[DeviceIdentity]
) -> tuple[NodeFinding, ...]:
    """Ask for the allocations; none where nobody is to be asked."""
    if source is None:
        return ()
    try:
        found = BoundedCalls("allocations").ask(
            lambda: source.allocations(devices, time.monotonic()), KUBELET_SECONDS
        )
    except (AllocationError, TimeoutError) as error:
        return (NodeFinding(source.name, fine=False, text=str(error), hint=_SOCKET),)
    unmatched = sum(source.unmatched.values())
    text = f"{len(found)} allocations"
    text += f"; {unmatched} ids that name no device of this node" if unmatched else ""
    return (NodeFinding(source.name, fine=True, text=text),)
