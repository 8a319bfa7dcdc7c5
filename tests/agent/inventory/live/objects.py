"""What the tests' clusters hold."""

from tests.agent.inventory.objects import controller, owner, pod

AT = 1_772_452_800.0


def node(name="node-1", gpus="8", **labels):
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels},
        "status": {"capacity": {"nvidia.com/gpu": gpus}, "allocatable": {"nvidia.com/gpu": gpus}},
    }


def deployment_of_two():
    """A Deployment, its ReplicaSet and two pods."""
    made = controller("Deployment", "chat", uid="d1", api_version="apps/v1", spec={"replicas": 2})
    above = [owner("Deployment", "chat", "d1", api_version="apps/v1")]
    middle = controller("ReplicaSet", "chat-7d9", uid="r1", api_version="apps/v1", owners=above)
    below = [owner("ReplicaSet", "chat-7d9", "r1", api_version="apps/v1")]
    return [made, middle, *(pod(f"chat-7d9-{n}", owners=below) for n in "ab")]
