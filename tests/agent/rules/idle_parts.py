"""One pod that holds a GPU and does nothing, since its start or after some work."""

from gputailor_agent.rules import idle
from tests.agent.factories import HOUR, NOW, context, pod, profile, row, rows


def judge(usage, pods, work=None, *, catalogue=None, **options):
    made, world = profile(usage, pods, work, **options)
    return idle.RULE.evaluate(made, context(world, catalogue))


def idle_since_start(hours, **options):
    start = NOW - hours * HOUR
    return rows(start, NOW, **options), [pod(start=start)]


def evidence(answer, name):
    return next(item for item in answer.evidence if item.name == name)


def worked_until(ago_hours, work=None):
    start, last = NOW - 24 * HOUR, NOW - ago_hours * HOUR
    usage = [
        row(hour, kernel=0.5 if hour < last else 0.0, last_active=last if hour < last else None)
        for hour in range(start, NOW, HOUR)
    ]
    return judge(usage, [pod(start=start)], work)
