"""When a report ends a pipeline."""

from dataclasses import dataclass, field

import pytest

from gputailor_agent.cli.errors import UsageError
from gputailor_agent.cli.failing_on import FIGURES, conditions, verdict
from gputailor_agent.model.judgement import CostLine, Money, Severity


@dataclass
class Primary:
    severity: Severity = Severity.HIGH


@dataclass
class Verdict:
    primary: Primary | None = None
    state: str = "ok"


@dataclass
class Plan:
    saving_money_per_month: Money | None = None
    saving_gpu_hours_per_month: float = 0.0
    cost: CostLine | None = None
    verdicts: list[Verdict] = field(default_factory=list)


def fails(text, **plan):
    return verdict(conditions([text]), Plan(**plan))[0]


@pytest.mark.parametrize(
    ("text", "ends"),
    [("saving>99.5", True), ("saving>100", False), ("saving >= 100", True), ("saving<100", False)],
)
def test_the_amount_itself_is_not_above_itself(text, ends):
    assert fails(text, saving_money_per_month=Money(amount=100.0)) is ends


def test_every_figure_is_read_from_the_plan():
    cost = CostLine(
        currency="USD",
        nodes=7.0,
        workloads=4.0,
        free=3.0,
        unavailable=0.0,
        unknown=0.0,
        unpriced_gpus=0.0,
    )
    plan = Plan(
        Money(amount=5.0),
        6.0,
        cost,
        [Verdict(Primary()), Verdict(Primary(Severity.LOW)), Verdict(None, "unknown"), Verdict()],
    )
    told = {name: read(plan) for name, (read, _) in FIGURES.items()}
    assert told == {
        "saving": 5.0,
        "gpu_hours": 6.0,
        "cost": 7.0,
        "findings": 2.0,
        "high": 1.0,
        "unknown": 1.0,
    }


def test_an_unknown_saving_meets_nothing_and_is_told():
    for text in ("saving>0", "saving<1"):
        ends, (told,) = verdict(conditions([text]), Plan())
        assert not ends
        assert "unknown" in told


def test_any_of_several_is_enough():
    wanted = conditions(["gpu_hours>10", "gpu_hours>2"])
    ends, told = verdict(wanted, Plan(saving_gpu_hours_per_month=3.0))
    assert ends
    assert told == ["--fail-on gpu_hours>2: 3 (GPU-hours that can be saved per month)"]


@pytest.mark.parametrize(
    "text", ["", "saving", "savings>1", "saving>", "saving>much", "saving>nan"]
)
def test_no_condition_is_refused_in_words(text):
    with pytest.raises(UsageError, match=r"--fail-on"):
        conditions([text])
