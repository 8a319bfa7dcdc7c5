"""A cluster of four cards and a job on one of them, and what may be judged by, for card tests."""

from gputailor_agent.rules import smaller_gpu
from gputailor_agent.rules.base import Limits, RuleSettings
from gputailor_agent.rules.gates import sizing
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


LIMITS = Limits(smaller_gpu.RULE, RuleSettings({}))
USED = {"kernel": 0.5, "sm": 0.25}


def made_of(usage, pods=None, work=None, **options):
    """A profile, its context, and what a sizing rule may judge it by."""
    made, world = profile(usage, pods or [pod(start=NOW - 6 * HOUR)], work, **options)
    around = context(world)
    return made, around, sizing("smaller_gpu", made, around, LIMITS)
