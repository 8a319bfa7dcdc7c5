import json

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from gputailor_agent.inventory.claims import Claims
from gputailor_agent.inventory.live.remembering import MemoryBounds, PodMemory, unpack
from gputailor_agent.inventory.live.sharing import Once
from tests.agent.inventory.live.objects import AT
from tests.agent.inventory.objects import container, pod, unhurried


def _raw(one):
    return msgspec.Raw(json.dumps(one).encode())


def _pods(memory):
    return {one.name: one for one in unpack(memory.entries(), "lab", Claims(), [])}


def test_containers_that_pods_have_in_common_are_kept_once():
    memory = PodMemory("lab")
    alike = [memory.put(_raw(pod(name, labels={"n": name}))) for name in ("a", "b")]
    other = memory.put(_raw(pod("c", containers=[container(gpus=2)])))
    assert alike[0].containers is alike[1].containers
    found = _pods(memory)
    assert found["a"].containers is found["b"].containers
    assert (found["a"].labels, found["b"].labels) == ({"n": "a"}, {"n": "b"})
    assert [found[name].containers[0].gpus[0].count for name in ("a", "c")] == [1, 2]
    assert other.containers != alike[0].containers


def test_what_is_kept_once_is_bounded():
    once = Once(most=2)
    values = [bytes([n]) * 40 for n in (1, 2, 3)]
    kept = [once.of(value) for value in values]
    assert kept == values
    again = bytes([3]) * 40
    assert once.of(again) is values[2]
    assert once.of(bytes([1]) * 40) is not values[0]  # forgotten when it was full


def test_a_pod_that_comes_back_under_its_name_is_another_pod():
    memory = PodMemory("lab")
    memory.put(_raw(pod("a", uid="1")))
    memory.remove(_raw(pod("a", uid="1")), AT)
    memory.put(_raw(pod("a", uid="2")))
    found = {one.uid: one.finished for one in unpack(memory.entries(), "lab", Claims(), [])}
    assert found == {"1": AT, "2": None}


def test_a_list_ends_only_pods_of_its_own_namespace():
    memory = PodMemory("lab")
    memory.put(_raw(pod("a", namespace="red")))
    memory.put(_raw(pod("b", namespace="blue")))
    memory.replace([], "red", AT + 9, AT)
    assert (_pods(memory)["a"].finished, _pods(memory)["b"].finished) == (AT, None)


def test_a_delete_told_twice_keeps_the_first_end():
    memory = PodMemory("lab")
    memory.put(_raw(pod("a")))
    memory.remove(_raw(pod("a")), AT)
    memory.remove(_raw(pod("a")), AT + 100)
    assert _pods(memory)["a"].finished == AT


def test_more_ended_pods_than_the_bound_lose_the_oldest_and_it_is_told():
    memory = PodMemory("lab", MemoryBounds(most_ended=2))
    for n in range(5):
        memory.remove(_raw(pod(f"p{n}")), AT + n)
    assert sorted(_pods(memory)) == ["p3", "p4"]
    assert "3 ended pods were forgotten before their time" in memory.problems()[0]


def _broken(name):
    one = pod(name)
    one["spec"]["containers"] = 3
    return one


def test_a_problem_with_a_pod_ends_with_it():
    memory = PodMemory("lab")
    for name in ("mended", "deleted"):
        memory.put(_raw(_broken(name)))
    assert len(memory.problems()) == 2
    memory.put(_raw(pod("mended")))
    memory.remove(_raw(_broken("deleted")), AT)
    assert memory.problems() == []


def test_a_pod_whose_last_state_cannot_be_read_ends_as_it_was_before():
    memory = PodMemory("lab")
    memory.put(_raw(pod("a")))
    memory.remove(_raw(_broken("a")), AT)
    assert _pods(memory)["a"].finished == AT


def test_problems_with_pods_are_told_once_each_and_not_without_end():
    memory = PodMemory("lab")
    for n in range(300):
        memory.put(_raw(_broken(f"p{n}")))
        memory.put(_raw(_broken(f"p{n}")))
    assert len(memory.problems()) == 100


def test_a_pod_whose_claims_turn_out_to_be_no_devices_is_left_out():
    claims = Claims()
    claims.add({"kind": "ResourceClaimTemplate", "metadata": {"name": "nic", "namespace": "team-a"},
                "spec": {"spec": {"devices": {"requests": [
                    {"name": "r", "exactly": {"deviceClassName": "nic.example"}}]}}}})  # fmt: skip
    memory = PodMemory("lab")
    uses = container(gpus=None, resources={"claims": [{"name": "n"}]})
    wants = [{"name": "n", "resourceClaimTemplateName": "nic"}]
    memory.put(_raw(pod("a", containers=[uses], resourceClaims=wants)))
    assert list(unpack(memory.entries(), "lab", claims, [])) == []


_EVENTS = st.lists(
    st.tuples(st.sampled_from(["put", "remove", "list"]), st.sets(st.integers(0, 4))), max_size=12
)


@unhurried
@given(_EVENTS)
def test_no_pod_once_seen_is_lost_and_only_those_that_went_are_ended(events):
    memory, there, seen = PodMemory("lab"), set(), set()
    for step, (what, numbers) in enumerate(events):
        at = AT + step
        if what == "list":
            entries = [memory.take(_raw(pod(f"p{n}"))) for n in sorted(numbers)]
            memory.replace([one for one in entries if one is not None], "", at, at)
            there = set(numbers)
        else:
            for n in sorted(numbers):
                if what == "put":
                    memory.put(_raw(pod(f"p{n}")))
                    there.add(n)
                elif n in there:
                    memory.remove(_raw(pod(f"p{n}")), at)
                    there.discard(n)
        seen |= there
    found = _pods(memory)
    assert set(found) == {f"p{n}" for n in seen}
    assert {name for name, one in found.items() if one.finished is None} == {f"p{n}" for n in there}
