"""Writes Events and the annotation into a cluster; the only place that writes there at all.

An Event's name says what it tells, so one that is sent twice is refused the second time, which is
as good as taken. The annotation goes by server-side apply under a field manager of its own: only
that one key is ours, and nothing else of the object is in the request. The object's UID stands in
it, so that no object is ever made, and none that has the name of a former one is told of that.
"""

from typing import Any, Final

from gputailor_agent.inventory.live.client import Client
from gputailor_agent.inventory.live.discovering import ApiResource, Discovery
from gputailor_agent.inventory.live.errors import (
    NOT_FOUND,
    AnswerError,
    ClusterError,
)
from gputailor_agent.inventory.live.rbac import refusals
from gputailor_agent.inventory.live.writing_rights import (
    ANNOTATION_VERBS,
    EVENT_VERBS,
    EVENTS,
    EVENTS_GROUP,
)
from gputailor_agent.reports.delivery.kubernetes_words import RECOMMENDATION, Target

__all__ = ["ObjectWriter", "WriteError"]

FIELD_MANAGER: Final = "gputailor"
_APPLY: Final = "application/apply-patch+yaml"
_MERGE: Final = "application/merge-patch+json"
_CONFLICT: Final = 409
_INVALID: Final = 422
_OF_NO_NAMESPACE: Final = "default"  # where Events about objects without one must be
#: What was granted, and what was not, is asked for again after this time.
_FRESH_SECONDS: Final = 600.0


class WriteError(Exception):
    """The cluster did not take it. ``everyone``: nor will it take anything else now.

    ``final``: it never will.
    """

    def __init__(self, text: str, *, everyone: bool = False, final: bool = False) -> None:
        super().__init__(text)
        self.everyone = everyone
        self.final = final


class ObjectWriter:
    """Writes by one client. Not for several threads."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._discovery = Discovery(client)
        self._granted: dict[tuple[str, str, str], str] = {}
        self._asked_at = 0.0

    def close(self) -> None:
        """Give back every connection."""
        self._client.close()

    def missing(self, feature: str, target: Target, now: float) -> str:
        """Which right a feature lacks at an object; '' where none is missing.

        Asked once in ten minutes. Raises ``WriteError`` when the cluster cannot be asked.
        """
        if not 0 <= now - self._asked_at < _FRESH_SECONDS:
            self._granted.clear()
            self._discovery.forget()
            self._asked_at = now
        try:
            if feature == EVENTS:
                return self._lacking(EVENTS_GROUP, "events", EVENT_VERBS, target.namespace)
            resource = self._discovery.find(target.api_version, target.kind)
            if resource is None:
                return f"the cluster serves no {target.kind} ({target.api_version})"
            return self._lacking(
                resource.group, resource.plural, ANNOTATION_VERBS, target.namespace
            )
        except ClusterError as error:
            raise WriteError(str(error), everyone=True) from error

    def _lacking(self, group: str, plural: str, verbs: tuple[str, ...], namespace: str) -> str:
        """Everywhere, else in that namespace: roles may be of either kind."""
        name = f"{plural}.{group}" if group else plural
        for place in ("", namespace):
            key = (group, plural, place)
            if key not in self._granted:
                refused = [verb for verb, _ in refusals(self._client, verbs, group, plural, place)]
                self._granted[key] = ", ".join(refused)
            if not self._granted[key]:
                return ""
        return (
            f"{self._granted[group, plural, namespace]} on {name} is not granted in namespace "
            f"{namespace} (docs/kubernetes.md)"
        )

    def put_event(self, made: dict[str, Any]) -> None:
        """Write an Event, or the next of its series; raises ``WriteError``."""
        metadata = made["metadata"]
        resource = self._resource(made["regarding"]["apiVersion"], made["regarding"]["kind"])
        if resource is not None and not resource.namespaced:
            regarding = {k: v for k, v in made["regarding"].items() if k != "namespace"}
            metadata = {**metadata, "namespace": _OF_NO_NAMESPACE}
            made = {**made, "metadata": metadata, "regarding": regarding}
        path = f"/apis/{EVENTS_GROUP}/v1/namespaces/{metadata['namespace']}/events"
        if "series" in made:
            series = {"series": made["series"]}
            if self._took("PATCH", f"{path}/{metadata['name']}", series, content=_MERGE):
                return  # else it is forgotten by now (after an hour, as a rule) and begins anew
        self._took("POST", path, made)

    def annotate(self, target: Target, value: str | None) -> None:
        """Write the annotation, or (None) take it away; raises ``WriteError``."""
        resource = self._resource(target.api_version, target.kind)
        if resource is None:
            return  # its kind is gone, and it with its kind
        metadata: dict[str, Any] = {"name": target.name, "uid": target.uid}
        if resource.namespaced:
            metadata["namespace"] = target.namespace
        if value is not None:
            metadata["annotations"] = {RECOMMENDATION: value}
        self._took(
            "PATCH",
            resource.path(target.namespace, target.name),
            {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata},
            content=_APPLY,
            query=(("fieldManager", FIELD_MANAGER), ("force", "true")),
        )

    def _resource(self, api_version: str, kind: str) -> ApiResource | None:
        try:
            return self._discovery.find(api_version, kind)
        except ClusterError as error:
            raise WriteError(str(error), everyone=True) from error

    def _took(self, method: str, path: str, body: object, **more: Any) -> bool:
        """Whether the object was there to be written; one that is there already was written."""
        try:
            self._client.write(method, path, body, **more)
        except AnswerError as error:
            if error.status == NOT_FOUND:
                return False
            if error.status == _CONFLICT and (method == "POST" or "uid" in error.message.lower()):
                return method == "POST"
            raise WriteError(str(error), final=error.status == _INVALID) from error
        except ClusterError as error:
            raise WriteError(str(error), everyone=True) from error
        return True
