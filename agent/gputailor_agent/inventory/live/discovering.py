"""Which path an object's kind has, as the API server itself says.

Kinds are found by the apiVersion and kind of an owner reference. A reference may carry a version
that is no longer served; then another version of the same group answers for it.
"""

import threading
from typing import Final
from urllib.parse import quote

import msgspec

from gputailor_agent.inventory.live.client import Client
from gputailor_agent.inventory.live.errors import NOT_FOUND, AnswerError


class ApiResource(msgspec.Struct, frozen=True, kw_only=True):
    """A kind with what its path is made of."""

    api_version: str  # "v1", "apps/v1"
    plural: str
    kind: str
    namespaced: bool

    @property
    def group(self) -> str:
        """The API group; '' for the core."""
        return self.api_version.rpartition("/")[0]

    @property
    def named(self) -> str:
        """As kubectl and RBAC name it: ``pods``, ``jobs.batch``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "") -> str:
        """Path of an object, or of all of a namespace, or ('' both) of all there are."""
        parts = [_group_path(self.api_version)]
        if namespace and self.namespaced:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        if name:
            parts.append(quote(name, safe=""))
        return "/".join(parts)


PODS: Final = ApiResource(api_version="v1", plural="pods", kind="Pod", namespaced=True)
NODES: Final = ApiResource(api_version="v1", plural="nodes", kind="Node", namespaced=False)


class _Resource(msgspec.Struct):
    name: str = ""
    kind: str = ""
    namespaced: bool = False


class _Resources(msgspec.Struct):
    resources: list[_Resource] | None = None


class _Version(msgspec.Struct, rename="camel"):
    group_version: str = ""


class _Group(msgspec.Struct):
    versions: list[_Version] | None = None


def _group_path(api_version: str) -> str:
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


class Discovery:
    """Asks once per group and version; what is not served is asked for again after ``forget``."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._served: dict[str, dict[str, ApiResource]] = {}
        self._lock = threading.Lock()

    def find(self, api_version: str, kind: str) -> ApiResource | None:
        """The kind's resource; None when the cluster serves none of that group and kind."""
        with self._lock:
            found = self._resources(api_version).get(kind)
            if found is not None or "/" not in api_version:
                return found
            for other in self._versions(api_version.partition("/")[0]):
                found = self._resources(other).get(kind)
                if found is not None:
                    return found
            return None

    def served(self, group: str, plural: str) -> ApiResource | None:
        """The resource of that group and plural name, in whatever version; None if not served."""
        with self._lock:
            for version in self._versions(group) if group else ["v1"]:
                for resource in self._resources(version).values():
                    if resource.plural == plural:
                        return resource
            return None

    def forget(self) -> None:
        """Ask anew from now on: kinds come with operators."""
        with self._lock:
            self._served.clear()

    def _resources(self, api_version: str) -> dict[str, ApiResource]:
        if api_version not in self._served:
            try:
                answer = self._client.get(_group_path(api_version), _Resources)
            except AnswerError as error:
                if error.status != NOT_FOUND:
                    raise
                answer = _Resources()
            self._served[api_version] = {
                one.kind: ApiResource(
                    api_version=api_version,
                    plural=one.name,
                    kind=one.kind,
                    namespaced=one.namespaced,
                )
                for one in answer.resources or ()
                if one.name and "/" not in one.name  # pods/log and the like
            }
        return self._served[api_version]

    def _versions(self, group: str) -> list[str]:
        try:
            answer = self._client.get(f"/apis/{quote(group, safe='')}", _Group)
        except AnswerError as error:
            if error.status != NOT_FOUND:
                raise
            return []
        return [one.group_version for one in answer.versions or () if one.group_version]
