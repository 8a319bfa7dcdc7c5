"""Public manifests on a real API server: what they ask for, against a table written by hand.

Each file has namespaces of its own. Built-in controllers make the pods of what they know; for custom
resources pod_makers.py stands in for the operators. No node is there: what is asked, not what runs,
is compared. The same table by file input: tests/agent/inventory/test_manifests.py.
"""

import contextlib
import secrets
import time
from dataclasses import dataclass, field

import pytest
import yaml

from gputailor_agent.inventory.live import read_live_inventory
from gputailor_agent.inventory.nodes import mig_counts, mig_strategy
from tests.agent.inventory.hand_table import accuracy, observe, table, wrong
from tests.system.pod_makers import Makers, Poster, Refused
from tests.testbed.control_plane import ControlPlane
from tests.testbed.objects import owner_definitions
from tests.testbed.servers import eventually

pytestmark = [pytest.mark.system, pytest.mark.restricted, pytest.mark.timeout(300)]

#: The claims in the manifests are written in the words of this version too.
OLD_CLAIMS = "--runtime-config=resource.k8s.io/v1beta1=true"
SET_BY_SERVER = ("uid", "resourceVersion", "creationTimestamp", "generateName")


@pytest.fixture(scope="module")
def plane(tmp_path_factory):
    started = ControlPlane.start(tmp_path_factory.mktemp("manifests"), api_flags=[OLD_CLAIMS])
    yield started
    started.stop()


@pytest.fixture(scope="module")
def poster(plane):
    with contextlib.closing(Poster(plane)) as made:
        yield made


@dataclass
class Applied:
    """What came of the files: namespaces by file and name, and what was refused."""

    namespaces: dict[tuple[str, str], str] = field(default_factory=dict)
    refused: dict[str, dict[str, str]] = field(default_factory=dict)
    children_refused: list[str] = field(default_factory=list)

    def namespace(self, file: str, name: str) -> str:
        return self.namespaces.get((file, name), name)

    def of(self, file: str) -> set[str]:
        return {place for (one, _), place in self.namespaces.items() if one == file}


class Applying:
    """Applies the files' documents, each file in namespaces that no other file has."""

    def __init__(self, poster: Poster) -> None:
        self.poster = poster
        self.makers = Makers(poster)
        self.applied = Applied(children_refused=self.makers.refused)
        self._accounts: set[tuple[str, str]] = set()

    def file(self, name: str, text: str) -> None:
        documents = [one for one in yaml.safe_load_all(text) if one]
        for body in documents:
            if body["kind"] in {"Namespace", "Node"}:
                continue
            metadata = body["metadata"]
            try:
                place = self._namespace(name, metadata.get("namespace") or "default")
                self._document(body, place)
            except Refused as error:
                self.applied.refused.setdefault(name, {})[body["kind"]] = str(error)

    def _namespace(self, file: str, name: str) -> str:
        places = self.applied.namespaces
        if (file, name) not in places:
            taken = name == "default" or name in places.values()
            place = f"{name}-{secrets.token_hex(3)}" if taken else name
            metadata = {"name": place, "labels": {"resource.kubernetes.io/admin-access": "true"}}
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
            self.poster.create(body, "")
            self._account("default", place)
            places[file, name] = place
        return places[file, name]

    def _account(self, name: str, namespace: str) -> None:
        if (name, namespace) not in self._accounts:
            self._accounts.add((name, namespace))
            body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
            self.poster.create(body, namespace)

    def _document(self, body, place):
        for account in _accounts(body):
            self._account(account, place)
        if body["kind"] == "Pod":
            self._pod(body, place)
            return
        if body["kind"] == "StatefulSet":  # or the second pod waits for the first one to run
            body["spec"]["podManagementPolicy"] = "Parallel"
        if body["kind"] == "ServiceAccount" and body["metadata"]["name"] != "default":
            self._accounts.add((body["metadata"]["name"], place))
        made = self.poster.create(body, place)
        made.setdefault("apiVersion", body["apiVersion"])
        self.makers.make(made, place)

    def _pod(self, body, place):
        """A pod; one that was printed from a cluster gets its owner again, and no node."""
        metadata = {k: v for k, v in body["metadata"].items() if k not in SET_BY_SERVER}
        if "name" not in metadata:
            metadata["generateName"] = body["metadata"]["generateName"]
        for reference in metadata.get("ownerReferences", ()):
            owner = {key: reference[key] for key in ("apiVersion", "kind")}
            owner |= {"metadata": {"name": reference["name"]}, "spec": {}}
            reference["uid"] = self.poster.create(owner, place)["metadata"]["uid"]
        spec = {k: v for k, v in body["spec"].items() if k != "nodeName"}
        made = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        self.poster.create(made, place)


def _accounts(part):
    """Every service account that a pod template below names."""
    if isinstance(part, dict):
        if isinstance(part.get("serviceAccountName"), str) and "containers" in part:
            yield part["serviceAccountName"]
        for child in part.values():
            yield from _accounts(child)
    elif isinstance(part, list):
        for child in part:
            yield from _accounts(child)


@pytest.fixture(scope="module")
def applied(plane, poster, shared_data):
    plane.apply(owner_definitions())
    applying = Applying(poster)
    for name, file in table().items():
        applying.file(name, file.text(shared_data / "manifests" / name))
    eventually(applying.makers.workers, "leaders have their workers", 60)
    return applying.applied


def _live(plane):
    return read_live_inventory("lab", kubeconfig=plane.kubeconfig, at=time.time())


def _compared(applied, inventory):
    """Expected and seen rows of every file, with the namespaces the files were given."""
    seen = observe(inventory)
    for name, file in table().items():
        here = applied.of(name)
        rows = [
            row.moved(applied.namespace(name, row.namespace))
            for row in file.rows
            if row.live and row.pods
        ]
        yield name, rows, [one for one in seen if one.row.namespace in here]


@pytest.fixture(scope="module")
def compared(plane, applied):
    """The comparison, once the controllers have made every pod; what never came is missing in it."""
    found: list = []

    def made():
        found[:] = _compared(applied, _live(plane))
        return all(
            sum(one.row.pods for one in seen) >= sum(row.pods for row in rows)
            for _, rows, seen in found
        )

    with contextlib.suppress(AssertionError):
        eventually(made, "controllers have made every pod", 45, pause_seconds=1)
    return found


def test_the_server_refuses_exactly_what_the_table_says(applied):
    expected = {name: set(file.refused) for name, file in table().items() if file.refused}
    assert {name: set(said) for name, said in applied.refused.items()} == expected
    assert applied.children_refused
    for said in applied.children_refused:  # rows marked live: false for that reason
        assert "nginx-leaderworkerset" in said
        assert "Limit must be set" in said


def test_owners_and_requests_are_those_written_by_hand(compared):
    assert wrong(compared, "asks", "pods", "pod_asks", "team", "queue") == []


def test_framework_and_task_class_are_right_and_never_wrong_where_they_are_sure(compared):
    told = accuracy(compared)
    assert told.rows >= 90
    assert told.wrong_but_sure == []
    assert told.task >= 0.95, told
    assert told.framework >= 0.95, told


def test_nodes_are_read_as_written_by_hand(plane, shared_data):
    for name, file in table().items():
        if file.node is None:
            continue
        (body,) = [
            one for one in yaml.safe_load_all(file.text(shared_data / "manifests" / name)) if one
        ]
        status = {key: body["status"][key] for key in ("capacity", "allocatable")}
        metadata = {key: body["metadata"][key] for key in ("name", "labels")}
        plane.apply({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status})
        (node,) = _live(plane).nodes
        assert file.node_of(node, mig_counts(node), mig_strategy(node)) == file.node, name
        plane.kubectl("delete", "node", node.name)
        eventually(lambda: not _live(plane).nodes, "the node is gone")
