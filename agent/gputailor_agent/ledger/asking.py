"""What workloads and nodes look like in the inventory beside their devices.

Profiles do not hold it, and the ledger needs it to see whether a request or a time limit was
changed, or a node was taken out. It is found while the inventory is at hand, and is small: a line
for each workload.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from gputailor_agent.model.inventory import Inventory
from gputailor_agent.model.profile import GpuUse, Profile
from gputailor_agent.profiles import Holdings
from gputailor_agent.profiles.describing import container_spec
from gputailor_agent.rules.deadlines import deadline_of


class Request(msgspec.Struct, frozen=True, gc=False):
    """What the container of a workload's newest run asks for; None: nothing, or not known."""

    cpus: float | None = None
    memory_bytes: int | None = None
    deadline_seconds: float | None = None


NO_REQUEST: Final = Request()


@dataclass(frozen=True, slots=True)
class Asked:
    """Requests by workload id. ``open_nodes``: those that new pods can go to; None: not known."""

    requests: dict[str, Request] = field(default_factory=dict)
    open_nodes: frozenset[str] | None = None

    def of(self, workload_id: str) -> Request:
        """Return the workload's request."""
        return self.requests.get(workload_id, NO_REQUEST)

    def out(self, nodes: Iterable[str]) -> tuple[str, ...]:
        """Those of ``nodes`` that are cordoned or gone; none where nodes are not known."""
        known = self.open_nodes
        return () if known is None else tuple(sorted(set(nodes) - known))


NOTHING_ASKED: Final = Asked()


def asked_of(
    profiles: Iterable[Profile], inventory: Inventory, holdings: Holdings | None = None
) -> Asked:
    """Find what is asked for; ``holdings`` where the inventory's pods are indexed already.

    A workload whose newest run's pod the inventory no longer knows asks for nothing that is known.
    Nodes are known where the inventory is whole: else one that is absent may only not be listed.
    """
    index = holdings or Holdings(inventory)
    found = {profile.workload.id: _request(profile, index) for profile in profiles}
    whole = inventory.complete if inventory.complete is not None else not inventory.problems
    nodes = frozenset(node.name for node in inventory.nodes if node.schedulable)
    return Asked(
        requests={name: one for name, one in found.items() if one != NO_REQUEST},
        open_nodes=nodes if whole and inventory.nodes else None,
    )


def newest_use(profile: Profile) -> GpuUse | None:
    """Return a device of the newest run: the window may hold runs from before a change."""
    starts = {run.id: run.started or 0.0 for run in profile.runs}
    return max(
        profile.gpus,
        key=lambda use: (starts.get(use.run_id, 0.0), use.last_hour),
        default=None,
    )


def _request(profile: Profile, holdings: Holdings) -> Request:
    use = newest_use(profile)
    pod = None if use is None else holdings.find(use.namespace, use.pod, use.pod_uid)
    spec = None if use is None else container_spec(pod, use.container)
    return Request(
        cpus=None if spec is None else spec.cpu_request,
        memory_bytes=None if spec is None else spec.memory_request_bytes,
        deadline_seconds=deadline_of(profile.workload, () if pod is None else (pod,)),
    )
