"""The inventory of a live cluster, where a command line asks for one.

``inventory.live`` is imported only then: its transport takes a moment that other commands must not
pay.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gputailor_agent.model.inventory import Inventory

if TYPE_CHECKING:
    from gputailor_agent.inventory.live import LiveInventory

_IN_POD: Final = "KUBERNETES_SERVICE_HOST"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAccess:
    """Which live cluster to ask; ``kubernetes``: the current context's, or the pod's own."""

    kubeconfig: Path | None = None
    context: str | None = None
    namespaces: tuple[str, ...] = ()
    kubernetes: bool = False

    @property
    def asked(self) -> bool:
        """Whether a live cluster is to be asked at all."""
        return self.kubernetes or bool(self.kubeconfig or self.context or self.namespaces)

    def read(self, cluster: str, at: float) -> Inventory:
        """Read it once; raises ``ClusterError`` in words for a person."""
        from gputailor_agent.inventory.live import read_live_inventory  # noqa: PLC0415 - see above

        return read_live_inventory(
            cluster,
            kubeconfig=self.kubeconfig,
            context=self.context,
            namespaces=self.namespaces or None,
            at=at,
        )

    def follow(self, cluster: str) -> "LiveInventory":
        """Something that follows it; not started. Raises ``AccessError`` without a way to it."""
        from gputailor_agent.inventory.live import LiveInventory, LiveSettings  # noqa: PLC0415

        return LiveInventory(
            cluster,
            LiveSettings(
                kubeconfig=self.kubeconfig,
                context=self.context,
                namespaces=self.namespaces or None,
            ),
        )


def in_pod(environment: Mapping[str, str] | None = None) -> bool:
    """Whether this process runs in a pod of a cluster."""
    return bool((os.environ if environment is None else environment).get(_IN_POD))
