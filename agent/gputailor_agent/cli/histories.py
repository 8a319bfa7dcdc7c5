"""Usage out of a Prometheus, where a command line or the agent's settings name one.

Its client and the store are imported only then: other commands must not pay for them.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gputailor_agent.cli.errors import CommandError, UsageError
from gputailor_agent.cli.windows import DEFAULT_DAYS, check_data, window_of
from gputailor_agent.model.containers import CONTAINER_ITSELF
from gputailor_agent.model.inventory import Inventory
from gputailor_agent.model.usage import UsageRow

if TYPE_CHECKING:
    from gputailor_agent.model.profile import Window
    from gputailor_agent.rollup.history import History
    from gputailor_agent.sources.prometheus import Access, Budget, PrometheusSource
    from gputailor_agent.sources.prometheus.client import PrometheusClient
    from gputailor_agent.sources.prometheus.container_readings import AskedContainer
    from gputailor_agent.sources.prometheus.kube_state import KubeStateReader
    from gputailor_agent.store import Store

_DAY_SECONDS: Final = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusAccess:
    """Which Prometheus to ask, and how; user and password may stand in the URL."""

    url: str = ""
    bearer_token_file: Path | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)
    ca_file: Path | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None
    samples_per_second: float | None = None  # None: the source's own limit
    # of a server that is asked through the cluster's API server:
    credentials: "Callable[[], Mapping[str, str]] | None" = None
    verify: bool = True

    @property
    def asked(self) -> bool:
        """Whether one is to be asked at all."""
        return bool(self.url)

    def source(
        self,
        cluster: str,
        *,
        attempts: int = 5,
        asked: "Callable[[], Collection[AskedContainer]]" = tuple,
    ) -> "PrometheusSource":
        """The server as a source, to be closed; raises ``PrometheusError`` for a wrong address.

        ``asked``: gives the containers of the inventory that asked, for a server in which no
        kube-state-metrics tells of them.
        """
        from gputailor_agent.inventory.kube_state_metrics import (  # noqa: PLC0415
            accelerator_pattern,
        )
        from gputailor_agent.sources.prometheus import PrometheusSource  # noqa: PLC0415

        return PrometheusSource(
            self.url,
            cluster,
            access=self._access(attempts),
            budget=self._budget(),
            labels=self.labels,
            accelerators=accelerator_pattern(),
            asked=asked,
        )

    def states(self, *, attempts: int = 5) -> "KubeStateReader":
        """The server's series of kube-state-metrics, to be closed; raises like ``source``."""
        from gputailor_agent.sources.prometheus.kube_state import (  # noqa: PLC0415
            KubeStateReader,
        )

        return KubeStateReader(
            self.url, access=self._access(attempts), budget=self._budget(), labels=self.labels
        )

    def client(self, *, attempts: int = 1) -> "PrometheusClient":
        """The server itself, to be closed; raises like ``source``."""
        from gputailor_agent.sources.prometheus.client import PrometheusClient  # noqa: PLC0415

        return PrometheusClient(self.url, self._access(attempts), budget=self._budget())

    def _access(self, attempts: int) -> "Access":
        from gputailor_agent.sources.prometheus import Access  # noqa: PLC0415

        return Access(
            bearer_token_file=self.bearer_token_file,
            headers=dict(self.headers),
            parameters=dict(self.parameters),
            credentials=self.credentials,
            verify=self.verify,
            ca_file=self.ca_file,
            certificate_file=self.certificate_file,
            key_file=self.key_file,
            attempts=attempts,
        )

    def _budget(self) -> "Budget":
        from gputailor_agent.sources.prometheus import Budget  # noqa: PLC0415

        if self.samples_per_second is None:
            return Budget()
        return Budget(samples_per_second=self.samples_per_second)


def access_of(
    url: str | None,
    *,
    bearer_token_file: Path | None = None,
    headers: Sequence[str] = (),
    labels: Sequence[str] = (),
    parameters: Sequence[str] = (),
    ca_file: Path | None = None,
    certificate_file: Path | None = None,
    key_file: Path | None = None,
) -> PrometheusAccess:
    """What options say; raises ``UsageError`` for those that mean nothing."""
    files = bearer_token_file or ca_file or certificate_file or key_file
    if not url and (headers or labels or parameters or files):
        raise UsageError("options of a Prometheus were given, but not which: add --prometheus-url")
    if key_file and not certificate_file:
        raise UsageError("--prometheus-key-file: give --prometheus-certificate-file, too")
    return PrometheusAccess(
        url=url or "",
        bearer_token_file=bearer_token_file,
        headers=pairs("--prometheus-header", ":", headers),
        labels=pairs("--prometheus-label", "=", labels),
        parameters=pairs("--prometheus-parameter", "=", parameters),
        ca_file=ca_file,
        certificate_file=certificate_file,
        key_file=key_file,
    )


def pairs(option: str, sign: str, texts: Sequence[str]) -> dict[str, str]:
    """Names and values of ``NAME: VALUE`` or ``NAME=VALUE``."""
    found: dict[str, str] = {}
    for text in texts:
        name, there, value = text.partition(sign)
        if not there or not name.strip():
            # what stands there may be a secret: it is not repeated
            raise UsageError(f"{option}: expected NAME{sign}VALUE, found no '{sign}' after a name")
        if name.strip() in found:  # nobody could tell which of the two counts
            raise UsageError(f"{option}: {name.strip()} was given twice; give it once")
        found[name.strip()] = value.strip()
    return found


def asked_window(since: str | None, until: str | None, now: float) -> "Window":
    """The window asked for, as far as is known before the server is asked."""
    if since is None:
        since = f"{DEFAULT_DAYS}d"
    return window_of(since, until, first_data=None, last_data=None, now=now)


def read_history(
    access: PrometheusAccess,
    cluster: str,
    window: "Window",
    *,
    inventory: Inventory | None = None,
    store: "Store | None" = None,
    progress: Callable[[int, int], None] | None = None,
) -> "History":
    """Read the window; raises ``PrometheusError``, and ``CommandError`` where it holds nothing.

    ``inventory``: whose containers are read, too, where no exporter names them.
    """
    from gputailor_agent.rollup.history import read_window  # noqa: PLC0415 - see above

    reachable(access, now=window.end)  # a wrong address is told at once, not after many attempts
    with access.source(cluster, asked=partial(asked_containers, inventory)) as source:
        _check_span(source, window)
        found = read_window(source, window.start, window.end, store, progress)
        if not found.rows:
            told = "".join(f"\n  {problem}" for problem in found.problems)
            raise CommandError(
                f"{source.address} has GPU metrics, but none of this time that could be read{told}"
            )
    return found


def asked_containers(inventory: Inventory | None) -> "list[AskedContainer]":
    """Containers of the inventory that asked for devices and may have run."""
    from gputailor_agent.sources.prometheus.container_readings import (  # noqa: PLC0415 - see above
        AskedContainer,
    )

    return [
        AskedContainer(
            namespace=pod.namespace,
            pod=pod.name,
            pod_uid=pod.uid,
            container=container.name,
            node=pod.node,
            began=pod.created,
            ended=pod.finished,
        )
        for pod in (inventory.pods if inventory is not None else ())
        if pod.node and not pod.template
        for container in pod.containers
        if any(ask.count > 0 for ask in container.gpus)
    ]


def nameless(rows: Iterable[UsageRow], inventory: Inventory) -> tuple[str, ...]:
    """What to say where no device's row names a pod; nothing where one does.

    Raises ``CommandError`` where the inventory does not help either: then nobody's use is known.
    """
    if any(row.key.pod and row.key.gpu_uuid != CONTAINER_ITSELF for row in rows):
        return ()
    advice = (
        "let the exporter reach kubelet's PodResources (gputailor doctor --prometheus-url says how)"
    )
    if any(pod.node and not pod.template for pod in inventory.pods):
        said = (
            "no exporter names the pods that hold its GPUs: a GPU's use is a pod's only where that "
            f"pod held all GPUs of its node for the whole of an hour; {advice}"
        )
        return (said,)
    told = "".join(f"\n  {problem}" for problem in inventory.problems)
    raise CommandError(
        "the Prometheus has GPU metrics, but no pod that held a GPU in this time: no exporter "
        "names pods, and the inventory has none on a node that asked for GPUs (--context, "
        f"--inventory, or kube-state-metrics in the Prometheus); {advice}{told}"
    )


def _check_span(source: "PrometheusSource", window: "Window") -> None:
    """Raise ``CommandError`` where the server has data, but of other times than the window."""
    from gputailor_agent.sources.prometheus.inspecting import data_days  # noqa: PLC0415 - see above

    if source.dialects(window.start, window.end):
        return
    days = data_days(source, time.time())
    if days:
        check_data(window, min(days), max(days) + _DAY_SECONDS)


def reachable(access: PrometheusAccess, *, now: float) -> tuple[str, tuple[str, ...]]:
    """The server's address and the exporters it had metrics of in the last day."""
    with access.source("", attempts=1) as source:
        return source.address, source.dialects(now - _DAY_SECONDS, now)
