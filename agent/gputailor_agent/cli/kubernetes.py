"""Settings of what the agent writes into its cluster, and the part that does."""

import time
from collections.abc import Callable, Iterator

from pydantic import Field
from pydantic_settings import BaseSettings

from gputailor_agent.cli.clusters import ClusterAccess
from gputailor_agent.schedule.standing import ANNOTATION, EVENT
from gputailor_agent.schedule.telling import Telling
from gputailor_agent.store import Store


class KubernetesKeys(BaseSettings):
    """Keys of the agent's settings that let it write into the cluster; all are off by default."""

    kubernetes_events: bool = Field(
        default=False,
        description="Write an Event about a workload's owner when a recommendation for it is new "
        "or another one; needs create and patch on events.events.k8s.io (docs/kubernetes.md).",
    )
    kubernetes_annotations: bool = Field(
        default=False,
        description="Keep the current recommendation in the annotation gputailor.io/recommendation "
        "of a workload's owner; needs patch on owners (docs/kubernetes.md).",
    )

    @property
    def channels(self) -> tuple[str, ...]:
        """Names of what objects are told by."""
        asked = {EVENT: self.kubernetes_events, ANNOTATION: self.kubernetes_annotations}
        return tuple(name for name, wanted in asked.items() if wanted)

    @property
    def features(self) -> tuple[str, ...]:
        """Names of these settings that are on."""
        return tuple(name for name in KubernetesKeys.model_fields if getattr(self, name))


def nowhere_to_write(keys: KubernetesKeys, access: ClusterAccess) -> Iterator[str]:
    """The fault of settings that let the agent write where no live cluster is followed."""
    if keys.features and not access.asked:
        yield (
            f"{' and '.join(keys.features)}: no live cluster is followed, so there is nothing to "
            "write to; give --kubernetes, --context or --kubeconfig, or switch it off"
        )


def telling_of(
    keys: KubernetesKeys,
    access: ClusterAccess,
    store: Store,
    cluster: str,
    count: Callable[[str, str], None],
) -> Telling | None:
    """What tells objects; None where settings ask for nothing."""
    if not keys.channels or not access.asked:
        return None
    from gputailor_agent.inventory.live import connect  # noqa: PLC0415 - a second others need not
    from gputailor_agent.inventory.live.client import Timeouts  # noqa: PLC0415
    from gputailor_agent.inventory.live.waiting import Patience  # noqa: PLC0415
    from gputailor_agent.reports.delivery.kubernetes_writing import ObjectWriter  # noqa: PLC0415

    client = connect(
        access.kubeconfig,
        access.context,
        patience=Patience(attempts=1, attempts_unreachable=1),  # the outbox tries again
        timeouts=Timeouts(connect_seconds=5.0, read_seconds=15.0),
    )
    return Telling(
        keys.channels, store, cluster, ObjectWriter(client), clock=time.time, count=count
    )
