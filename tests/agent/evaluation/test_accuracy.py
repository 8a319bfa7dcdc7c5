"""The published page and the product's figures are those of the data (restricted: they stay out)."""

from importlib import resources

import pytest

from gputailor_agent.evaluation import evaluate
from gputailor_agent.evaluation.__main__ import calibration
from gputailor_agent.evaluation.pages import as_markdown
from gputailor_agent.evaluation.plots import svg

pytestmark = [pytest.mark.restricted, pytest.mark.system]


@pytest.fixture(scope="module")
def outcomes(shared_data):
    return evaluate(shared_data)


def test_what_the_product_takes_from_the_data_is_what_they_say(shared_data):
    kept = resources.files("gputailor_agent.rules").joinpath("calibrated.yaml").read_text("utf-8")

    assert calibration(shared_data) == kept, (
        "run: python -m gputailor_agent.evaluation --data ../shared/data --calibrate "
        "agent/gputailor_agent/rules/calibrated.yaml"
    )


def test_the_page_of_accuracy_is_what_the_data_say(outcomes, repository):
    page = (repository / "docs" / "accuracy.md").read_text(encoding="utf-8")

    assert as_markdown(outcomes) == page, 'run: make evaluate ARGS="--write docs/accuracy.md"'


def test_the_plots_of_accuracy_are_what_the_data_say(outcomes, repository):
    kept = {file.stem: file.read_text("utf-8") for file in (repository / "docs/plots").iterdir()}

    assert {plot.name: svg(plot) for one in outcomes for plot in one.plots} == kept


def test_idle_reaches_its_goal_on_the_part_that_was_not_seen(outcomes):
    outcome = next(one for one in outcomes if one.study == "idle")
    figure = next(one for one in outcome.figures if "the product's default, later" in one.name)

    assert figure.low is not None
    assert figure.low >= 0.97
