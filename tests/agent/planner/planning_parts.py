"""Small plans for the planner's tests: books, findings, verdicts, changes."""

from gputailor_agent.model.judgement import (
    Change,
    Confidence,
    Finding,
    Message,
    Money,
    Saving,
    Severity,
    Verdict,
)
from gputailor_agent.model.profile import Window
from gputailor_agent.planner.capacity import NodeBook
from tests.agent.factories import DAY, NOW, node, workload

GPU = "nvidia.com/gpu"
TWO_WEEKS = Window(start=NOW - 14 * DAY, end=NOW)


def book(gpus=4.0, held=0.0, broken=0.0, price=4.0, *, currency="USD", model="A100", **state):
    fields = {"name": "a", **state}
    return NodeBook(
        node=node(gpus=int(gpus), **fields), model=model, gpus=gpus, held=held, broken=broken,
        price=price, currency=currency if price is not None else "",
    )  # fmt: skip


def finding(rule="idle", money=None, hours=None, sure=Confidence.HIGH, *, currency="USD",
            change=None):  # fmt: skip
    return Finding(
        id=f"test/w/{rule}", cluster="test", workload_id="w", rule=rule, severity=Severity.LOW,
        message=Message(key=f"{rule}.x", params={}), confidence=sure, evidence=(),
        change=change or Change(kind="release", target="Job team-a/train"),
        saving=Saving(gpu_hours_per_month=hours,
                      money_per_month=None if money is None else Money(amount=money,
                                                                       currency=currency)),
        window=TWO_WEEKS,
    )  # fmt: skip


def judged(name="train", primary=None, *others, hours=0.0):
    return Verdict(workload=workload(name), primary=primary, alternatives=others, silences=(),
                   gpu_hours=hours, cost=None)  # fmt: skip


def change(kind, **params):
    return Change(kind=kind, target="x", params=params)
