"""Containers that asked for accelerators, of which no exporter says that they hold any.

An exporter may be missing on a node, or may not name pods. What such a container used of its node,
and what its engine says, is known all the same; its use of the device is not. They are found in the
list of kube-state-metrics' series, which touches no sample. Each costs two samples of its phase:
who had ended before the hour is left out, though its series stay as long as the pod is kept.
"""

from collections.abc import Collection, Iterable
from typing import Final

from gputailor_agent.dialects.kube_state_metrics import ENDED, PHASE, REQUESTS, original
from gputailor_agent.sources.prometheus.answers import labels_of
from gputailor_agent.sources.prometheus.client import PrometheusClient
from gputailor_agent.sources.prometheus.container_readings import AskedContainer
from gputailor_agent.sources.prometheus.hosts import PodName
from gputailor_agent.sources.prometheus.promql import chunks, one_of, quoted, selector

_Known = tuple[str, str, str]  # namespace, pod, uid
#: Of accelerators a request is always told: Kubernetes makes one out of a limit.
ASKED: Final = tuple(name for name in REQUESTS if name.endswith("_requests"))
_POD_LABELS: Final = ("exported_pod", "pod")  # a scrape may have renamed it


class AskingReader:
    """Reads who asked for ``accelerators``: a regular expression over the label ``resource``."""

    def __init__(
        self, client: PrometheusClient, accelerators: str, matchers: tuple[str, ...] = ()
    ) -> None:
        self._client = client
        self._accelerators = accelerators
        self._matchers = matchers

    def hour(self, begin: int, end: int, held: Collection[PodName]) -> list[AskedContainer]:
        """Containers of pods that may have run in (begin, end]; not of those that are ``held``."""
        resource = f"resource=~{quoted(self._accelerators)}"
        asking = selector(ASKED, *self._matchers, resource)
        found: dict[tuple[_Known, str], AskedContainer] = {}
        for labels in self._client.series(asking, begin, end):
            own = original(labels)
            pod = (own.get("namespace", ""), own.get("pod", ""))
            if not pod[1] or pod in held:
                continue
            uid, container = own.get("uid", ""), own.get("container", "")
            key = ((*pod, uid), container)
            node = own.get("node", "") or (found[key].node if key in found else "")
            found[key] = AskedContainer(
                namespace=pod[0], pod=pod[1], pod_uid=uid, container=container, node=node
            )
        ended = self._ended({pod for pod, _ in found}, begin)
        return [one for (pod, _), one in sorted(found.items()) if pod not in ended]

    def _ended(self, pods: Iterable[_Known], at: int) -> set[_Known]:
        """Those that had ended then: their series stay as long as the pods are kept."""
        names = sorted({pod for _, pod, _ in pods})
        phase = one_of("phase", ENDED)
        asked = [
            selector((PHASE,), *self._matchers, phase, one_of(label, part))
            for part in chunks(names)
            for label in _POD_LABELS
        ]
        ended: set[_Known] = set()
        for vector in self._client.each(lambda one: self._client.query(one, at), asked):
            for sample in vector.result:
                if float(sample.value[1]) == 1:
                    own = original(labels_of(sample.metric))
                    ended.add((own.get("namespace", ""), own.get("pod", ""), own.get("uid", "")))
        return ended
