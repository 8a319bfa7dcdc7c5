"""A cluster of four cards and a job on one of them, for the tests of ``smaller_gpu``."""

from gputailor_agent.rules import smaller_gpu
from tests.agent.factories import HOUR, NOW, context, node, pod, profile, rows

CLUSTER = [
    node("node-a", model="A100"),
    node("node-l", model="L4"),
    node("node-t", model="T4"),
    node("node-h", model="H100"),
]
WITHOUT_T4 = [one for one in CLUSTER if one.gpu_product != "T4"]
LIGHT = {"kernel": 0.2, "sm": 0.1, "tensor": 0.02, "dram": 0.05}


def judge(usage, pods, work=None, *, catalogue=None, nodes=CLUSTER, **options):
    made, world = profile(usage, pods, work, nodes=nodes, **options)
    return smaller_gpu.RULE.evaluate(made, context(world, catalogue))


def job(hours=6, **levels):
    start = NOW - hours * HOUR
    return rows(start, NOW, **levels), [pod(start=start)]


def evidence(answer, name):
    return next(item for item in answer.evidence if item.name == name)
