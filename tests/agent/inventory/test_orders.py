"""What is read does not hang on the order in which it comes, nor on the way it comes by."""

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputailor_agent.inventory.claims import Claims
from gputailor_agent.inventory.documents import Document, read_documents
from gputailor_agent.inventory.gathering import Gathering
from gputailor_agent.inventory.identity import resolve
from gputailor_agent.inventory.live.remembering import NodeMemory, PodMemory, unpack
from tests.agent.inventory.live.objects import node
from tests.agent.inventory.objects import (
    MANIFESTS,
    NOON,
    NOON_SECONDS,
    container,
    controller,
    owner,
    pod,
)

quick = settings(deadline=None, max_examples=25)


def _live():
    """Objects of a cluster: a chain of owners, retries of a Job, claims, a bare pod, a namespace."""
    jobs = [owner("Job", "nightly-1", "j1")]
    yield controller("CronJob", "nightly", uid="c1")
    yield controller("Job", "nightly-1", uid="j1", owners=[owner("CronJob", "nightly", "c1")])
    for number in range(3):
        yield pod(f"nightly-1-{number}", owners=jobs, phase="Failed", created=NOON)
    yield controller("Deployment", "idle", uid="d1", api_version="apps/v1", spec={"replicas": 1})
    yield pod("bare", labels={"team": "red"}, containers=[container("a"), container("b", 2)])
    chosen = {"cel": {"expression": 'device.driver == "gpu.nvidia.com"'}}
    yield {"kind": "DeviceClass", "metadata": {"name": "own"}, "spec": {"selectors": [chosen]}}
    request = {"name": "r", "exactly": {"deviceClassName": "own"}}
    yield {"kind": "ResourceClaim", "metadata": {"name": "c", "namespace": "team-a"},
           "spec": {"devices": {"requests": [request]}}}  # fmt: skip
    claiming = container(resources={"claims": [{"name": "x"}]})
    yield pod(
        "claims", containers=[claiming], resourceClaims=[{"name": "x", "resourceClaimName": "c"}]
    )
    yield {"kind": "Namespace", "metadata": {"name": "team-a", "labels": {"team": "blue"}}}


@pytest.fixture(scope="module")
def documents():
    found = [one for one in read_documents([MANIFESTS]) if isinstance(one, Document)]
    found += [
        Document(where=f"live {n}", kind=one["kind"], api_version="v1", content=one)
        for n, one in enumerate(_live())
    ]
    assert len(found) > 30
    return found


def _gathered(documents):
    gathering = Gathering("lab")
    for document in documents:
        gathering.add(document)
    return gathering.inventory(NOON_SECONDS)


def _said(inventory):
    """An inventory without the order of its parts."""
    return {
        "pods": sorted(msgspec.json.encode(one) for one in inventory.pods),
        "owners": sorted(msgspec.json.encode(one) for one in inventory.owners),
        "nodes": inventory.nodes,
        "problems": sorted(inventory.problems),
        "namespaces": inventory.namespaces,
    }


@quick
@given(st.randoms(use_true_random=False))
def test_the_order_of_documents_changes_nothing(documents, dice):
    shuffled = list(documents)
    dice.shuffle(shuffled)
    first, second = _gathered(documents), _gathered(shuffled)
    assert _said(first) == _said(second)
    assert resolve(first) == resolve(second)


_PODS = st.builds(
    lambda number, phase, label, gpus, claims: (number, phase, label, gpus, claims),
    st.integers(0, 5),
    st.sampled_from(["Pending", "Running", "Succeeded", "Failed"]),
    st.sampled_from(["a", "b"]),
    st.sampled_from([None, 1, 2]),
    st.booleans(),
)
_STREAM = st.lists(st.tuples(st.sampled_from(["put", "delete", "relist"]), _PODS), max_size=25)


def _body(number, phase, label, gpus, claims):
    asking = {"claims": [{"name": "g"}]} if claims else {"limits": {"nvidia.com/gpu": gpus or 0}}
    wants = {"resourceClaims": [{"name": "g", "resourceClaimName": "c"}]} if claims else {}
    made = pod(f"p{number}", phase=phase, labels={"l": label}, **wants,
               containers=[container(resources=asking)])  # fmt: skip
    made["metadata"]["uid"] = f"{number}-{gpus}-{claims}"  # what it asks for never changes
    return made


def _raw(body):
    return msgspec.Raw(json.dumps(body).encode())


@quick
@given(_STREAM)
def test_a_stream_of_events_with_any_interruption_is_worth_a_fresh_list(stream):
    followed, there = PodMemory("lab"), {}
    for at, (event, told) in enumerate(stream):
        body, name = _body(*told), f"p{told[0]}"
        if event == "put":
            if name in there and there[name]["metadata"]["uid"] != body["metadata"]["uid"]:
                followed.remove(_raw(there.pop(name)), at)
            there[name] = body
            followed.put(_raw(body))
        elif event == "delete" and name in there:
            followed.remove(_raw(there.pop(name)), at)
        elif event == "relist":  # the watch broke: some went meanwhile, and one came unseen
            there.pop(name, None)
            there["late"] = {**_body(9, *told[1:]), "kind": "Pod"}
            entries = [followed.take(_raw(one)) for one in there.values()]
            followed.replace([one for one in entries if one is not None], "", at, at)
    fresh = PodMemory("lab")
    entries = [fresh.take(_raw(one)) for one in there.values()]
    fresh.replace([one for one in entries if one is not None], "", NOON_SECONDS, NOON_SECONDS)
    assert _standing(followed) == _standing(fresh)


def _standing(memory):
    """The pods that are there, in full."""
    live = [one for one in memory.entries() if one.ended is None]
    return {one.uid: one for one in unpack(live, "lab", Claims(), [])}


@quick
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3), st.sampled_from("48")), max_size=20))
def test_nodes_followed_are_the_nodes_listed(stream):
    followed, there = NodeMemory("lab"), {}
    for here, number, gpus in stream:
        body = node(f"n{number}", gpus)
        if here:
            there[number] = body
            followed.changed(_raw(body), 0.0)
        elif there.pop(number, None):
            followed.deleted(_raw(body), 0.0)
    fresh = NodeMemory("lab")
    listed = [fresh.take(_raw(one)) for one in there.values()]
    fresh.listed([one for one in listed if one is not None], 0.0, 0.0)
    assert followed.nodes() == fresh.nodes()
