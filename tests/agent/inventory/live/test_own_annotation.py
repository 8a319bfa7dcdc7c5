"""What the agent writes on owners is nothing that it reads."""

from gputailor_agent.inventory.redaction import RECOMMENDATION
from tests.agent.inventory.live.objects import AT, deployment_of_two, node


def test_what_the_agent_wrote_on_an_owner_is_no_change(api, follow):
    deployment, middle, *pods = deployment_of_two()
    api.put(node(), deployment, middle, *pods)
    before = follow().snapshot(AT)
    for one in (deployment, middle):
        annotations = {RECOMMENDATION: '{"rule": "idle"}', "team": "vision"}
        api.put({**one, "metadata": {**one["metadata"], "annotations": annotations}})
    after = follow().snapshot(AT)
    assert {one.kind: one.annotations for one in after.owners} == {
        "Deployment": {"team": "vision"},
        "ReplicaSet": {"team": "vision"},
    }
    assert after.pods == before.pods
