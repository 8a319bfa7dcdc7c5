"""Faults of a real API server while the inventory is read: nothing is lost, and each has its words.

One control plane of its own, made touchy: etcd forgets old versions after seconds, and whoever is no
administrator gets 429 beside another request.
"""

import base64
import contextlib
import json
import threading
import time
import uuid

import httpx
import msgspec
import pytest
import yaml
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding

from gputailor_agent.cli.cluster_checks import cluster_checks, inventory_checks
from gputailor_agent.cli.clusters import ClusterAccess
from gputailor_agent.inventory.identity import resolve
from gputailor_agent.inventory.live import (
    Client,
    ClusterError,
    LiveInventory,
    LiveSettings,
    connect,
    read_live_inventory,
)
from gputailor_agent.inventory.live.configuring import find_connection
from gputailor_agent.inventory.live.discovering import PODS
from gputailor_agent.inventory.live.listing import list_objects
from gputailor_agent.inventory.live.waiting import Patience
from tests.system.live_parts import grant, start_again
from tests.testbed import objects
from tests.testbed.control_plane import ControlPlane
from tests.testbed.servers import eventually

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

TOUCHY = (
    "--etcd-compaction-interval=2s",
    "--enable-priority-and-fairness=false",
    "--max-requests-inflight=1",
)


@pytest.fixture(scope="module")
def plane(tmp_path_factory):
    started = ControlPlane.start(tmp_path_factory.mktemp("touchy"), api_flags=TOUCHY)
    yield started
    started.stop()


@pytest.fixture
def space(plane):
    """A namespace's name, with 60 pods that wait in it."""
    name = f"faults-{time.monotonic_ns()}"
    plane.create_namespace(name)
    plane.apply([objects.pod(f"waiting-{n:03}", gpus=1) for n in range(60)], name)
    return name


def _listed(client, space, between):
    """Every pod's name, page by page; ``between`` is called with the count after each pod."""
    names = []

    def take(content):
        names.append(msgspec.json.decode(content)["metadata"]["name"])
        between(len(names))
        return names[-1]

    return list_objects(client, PODS.path(space), take, page_size=10).items


def _checks(kubeconfig, *namespaces):
    """What doctor says of the cluster: name, standing and text of each line."""
    access = ClusterAccess(kubeconfig=kubeconfig, namespaces=namespaces)
    found = list(cluster_checks(access))
    if found[0].standing == "ok":
        found += inventory_checks(access, time.time())[1]
    return [(one.name, one.standing, one.found) for one in found]


def test_a_list_whose_pages_are_too_old_starts_over_and_is_whole(plane, space):
    path = f"{PODS.path(space)}?limit=10"
    token = plane.request("GET", path).json()["metadata"]["continue"]

    def forgotten():
        plane.kubectl(
            "annotate", "pod", "waiting-000", "-n", space, f"t={time.time()}", "--overwrite"
        )
        answer = plane.request("GET", str(httpx.URL(path).copy_add_param("continue", token)))
        return answer.status_code == httpx.codes.GONE

    waited = []

    def between(count):
        if count == 10 and not waited:
            waited.append(eventually(forgotten, "the server forgets old pages", 60, 1.0))

    with contextlib.closing(connect(plane.kubeconfig)) as client:
        found = _listed(client, space, between)
    assert waited == [True]
    assert sorted(found) == [f"waiting-{n:03}" for n in range(60)]


def test_a_busy_server_s_retry_after_is_kept_and_nothing_is_missing(plane, space):
    _, token = grant(plane, space, namespaced=False)
    stop = threading.Event()

    def crowd():
        while not stop.is_set():
            plane.request("GET", "/api/v1/pods", token=token)

    pauses = []

    def sleep(seconds):
        pauses.append(seconds)
        stop.wait(min(seconds, 0.2))

    kubeconfig = plane.kubeconfig_with(token)
    patience = Patience(attempts=200)
    threads = [threading.Thread(target=crowd, daemon=True) for _ in range(6)]
    for thread in threads:
        thread.start()
    try:
        connection = find_connection(kubeconfig)
        with contextlib.closing(Client(connection, patience=patience, sleep=sleep)) as client:
            deadline = time.monotonic() + 20
            while not pauses and time.monotonic() < deadline:
                found = _listed(client, space, lambda _: None)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert sorted(found) == [f"waiting-{n:03}" for n in range(60)]
    assert pauses
    assert all(one >= 1.0 for one in pauses)  # the server's own word: Retry-After: 1


def _expired(plane, token):
    """The same service account's token, as it was an hour ago."""

    def text(part):
        return base64.urlsafe_b64encode(part).rstrip(b"=")

    head, body, _ = token.split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "=="))
    now = int(time.time())
    claims |= {"exp": now - 600, "iat": now - 4200, "nbf": now - 4200}
    signed = head.encode() + b"." + text(json.dumps(claims).encode())
    key = serialization.load_pem_private_key(
        plane.identity.service_account_key.read_bytes(), password=None
    )
    return (signed + b"." + text(key.sign(signed, padding.PKCS1v15(), hashes.SHA256()))).decode()


def test_an_expired_token_is_told_and_a_new_one_in_its_place_goes_on(plane, space):
    kubeconfig, token = grant(plane, space, namespaced=False)
    config = yaml.safe_load(kubeconfig.read_text("utf-8"))
    config["users"][0]["user"]["token"] = _expired(plane, token)
    kubeconfig.write_text(yaml.safe_dump(config), "utf-8")
    with pytest.raises(ClusterError, match="401: Unauthorized; the credentials of context"):
        read_live_inventory("lab", kubeconfig=kubeconfig, namespaces=[space], at=time.time())
    ((name, standing, found),) = _checks(kubeconfig, space)
    assert (name, standing) == ("Kubernetes", "problem")
    assert "401" in found
    with contextlib.closing(connect(kubeconfig)) as client:  # holds the expired one
        config["users"][0]["user"]["token"] = token
        kubeconfig.write_text(yaml.safe_dump(config), "utf-8")
        assert len(_listed(client, space, lambda _: None)) == 60


def test_a_role_without_nodes_is_named_by_doctor_and_pods_are_read(plane, space):
    kubeconfig, _ = grant(plane, space, namespaced=True)

    def told():
        checks = _checks(kubeconfig, space)
        missing = {found for name, _, found in checks if name == "permissions"}
        return checks if len(missing) == 2 else None

    checks = eventually(told, "the role is in force", 30)
    permissions = [(standing, found) for name, standing, found in checks if name == "permissions"]
    assert permissions[0][0] == "note"
    assert "list, watch on nodes not granted" in permissions[0][1]
    assert "list on deviceclasses.resource.k8s.io not granted" in permissions[1][1]
    inventory = [found for name, _, found in checks if name == "inventory"]
    assert inventory[0].startswith("60 pods ask for accelerators, 0 nodes")
    assert any("nodes may not be read" in found for found in inventory)


def test_a_definition_that_vanishes_drops_no_history_and_is_named(plane, space):
    definition = objects.custom_definition("Vanishing", "farm.example")
    job = {"apiVersion": "farm.example/v1", "kind": "Vanishing", "metadata": {"name": "big"}}
    job["metadata"]["labels"] = {"team": "vision"}
    plane.apply([definition, {**job, "spec": {}}], space)
    made = plane.get("vanishings.farm.example big", space)
    plane.apply(objects.pod("big-0", gpus=4, owner=made), space)
    settings = LiveSettings(
        kubeconfig=plane.kubeconfig, namespaces=(space,), owners_fresh_seconds=0.0
    )

    def big(live):
        found = resolve(live.snapshot(time.time())).workloads
        return [one for one in found if (one.kind, one.name) == ("Vanishing", "big")]

    with LiveInventory("lab", settings) as live:
        (before,) = eventually(lambda: big(live), "the pod is seen")
        plane.kubectl("delete", "crd", "vanishings.farm.example")
        stranger = {**made, "metadata": {"name": "huge", "uid": str(uuid.uuid4())}}
        pod = objects.pod("huge-0", gpus=4, owner=stranger)
        pod["metadata"]["finalizers"] = ["gputailor.io/test"]  # or the garbage collector takes it
        plane.apply(pod, space)

        def told():
            problems = live.snapshot(time.time()).problems
            return [one for one in problems if "serves no such kind" in one]

        (problem,) = eventually(told, "the kind is missed")
        (after,) = big(live)
    assert "Vanishing (farm.example/v1)" in problem
    assert (after.id, after.team) == (before.id, "vision")
    named = [found for name, _, found in _checks(plane.kubeconfig, space) if name == "inventory"]
    assert any("Vanishing" in found and "serves no such kind" in found for found in named)


def test_a_server_killed_and_restarted_amid_a_list_loses_and_doubles_nothing(plane, space):
    def restart():
        time.sleep(1.0)
        start_again(plane)

    restarting = threading.Thread(target=restart, daemon=True)

    def between(count):
        if count == 25:
            plane.servers["kube-apiserver"].popen.kill()
            restarting.start()

    patience = Patience(attempts=300, attempts_unreachable=300, longest_seconds=0.5)
    connection = find_connection(plane.kubeconfig)
    with contextlib.closing(Client(connection, patience=patience)) as client:
        found = _listed(client, space, between)
    restarting.join(100)
    assert sorted(found) == [f"waiting-{n:03}" for n in range(60)]


def test_a_server_that_is_down_is_named_by_doctor(plane):
    gone = plane.folder / "gone.kubeconfig"
    text = plane.kubeconfig.read_text("utf-8").replace(plane.url, "https://127.0.0.1:1")
    gone.write_text(text, "utf-8")
    ((name, standing, found),) = _checks(gone)
    assert (name, standing) == ("Kubernetes", "problem")
    assert "refused" in found
