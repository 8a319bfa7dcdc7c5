"""``explain``, the page, the report and the API tell the same figures, digit for digit.

One test over all: the explanation's own values are looked for, as they stand, in what each of the
others says of the same workload. It is asked of a plan of odd figures, and of every world of every
rule (``worlds``).
"""

import csv
import io
import json
import re
from collections.abc import Callable
from html import unescape

import msgspec
import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from gputailor_agent.api.app import create_app
from gputailor_agent.assessment import Assessment
from gputailor_agent.cli import explain as explain_command
from gputailor_agent.cli import report as report_command
from gputailor_agent.cli.app import build
from gputailor_agent.model.inventory import Resolution
from gputailor_agent.model.judgement import Evidence, Interval, Money, Plan, Saving
from gputailor_agent.reports.beside import NOTHING
from gputailor_agent.reports.catalogues import names, speaking
from gputailor_agent.reports.explain import Explanation, explain
from gputailor_agent.reports.formats import Look, render
from tests.agent.api.standing import State
from tests.agent.reports.plans import FEWER, IDLE, WINDOW, finding, sample_plan, verdict
from tests.agent.rules.test_every_word import planned
from tests.agent.rules.worlds import RULES, WORLDS

ODD = Money(amount=1234.567)
PEOPLE = ("table", "markdown", "html", "mail", "text")


def plan() -> Plan:
    """Figures that show any difference in rounding."""
    numbers = (
        Evidence(name="kernel mean", value=0.123456, unit="ratio", comparison="<=", threshold=0.25,
                 passed=True, samples=12345, coverage=0.98765, window=WINDOW, formula="a / b"),
        Evidence(name="memory peak", value=41_234_567_890, unit="bytes"),
        Evidence(name="idle time", value=12_345.6, unit="seconds", comparison=">=", threshold=7200,
                 passed=True),
        Evidence(name="power", value=None, unit="watts"),
        Evidence(name="link traffic", value=0.0, unit="ratio"),
        Evidence(name="price", value=2.345678, unit="usd_per_hour"),
    )  # fmt: skip
    saving = Saving(gpu_hours_per_month=678.912, money_per_month=ODD, formula="hours x price")
    found = finding(IDLE, "idle", None, evidence=numbers, saving=saving,
                    slowdown=Interval(low=1.005, high=1.3333))  # fmt: skip
    told = verdict(
        IDLE,
        "finding",
        primary=found,
        alternatives=(finding(IDLE, "smaller_gpu", 987.654),),
        gpu_hours=333.3333,
        cost=Money(amount=99.995),
        coverage=0.98765,
        mean_kernel=0.04567,
        mean_sm=0.0004,
        memory_peak_bytes=41_234_567_890,
        memory_total_bytes=85_899_345_920,
        gpus_now=2.5,
    )
    return sample_plan(verdicts=(told, verdict(FEWER, "ok")))


def flat(text: str) -> str:
    """A text without markup, escapes and blanks, which line breaks may take the place of."""
    if "<!doctype html>" in text:
        text = unescape(re.sub(r"<[^>]*>", " ", re.sub(r"(?s)<style.*?</style>", " ", text)))
    return "".join(text.replace("\\", "").replace("**", "").split())


def figures(told: Explanation) -> list[str]:
    """Everything with a digit in it that the explanation says."""
    texts = [fact.text for fact in told.facts]
    for section in told.sections:
        texts += [section.text, *(fact.text for fact in section.facts)]
        for number in section.numbers:
            texts += [number.value, number.held_against, number.samples, number.coverage]
    return [text for text in texts if re.search(r"\d", text)]


@pytest.fixture
def telling(monkeypatch):
    """What makes of a plan the command line that knows it."""
    monkeypatch.setenv("COLUMNS", "400")

    def of(made: Plan) -> Callable[..., str]:
        nobody = Resolution(assignments=(), runs=())
        assessed = Assessment(plan=made, profiles=[], resolution=nobody)
        monkeypatch.setattr(explain_command, "assess_inputs", lambda _inputs: assessed)
        monkeypatch.setattr(report_command, "report_of", lambda _inputs, _scope: (made, NOTHING))

        def run(*words: str) -> str:
            result = CliRunner().invoke(build(), words)
            assert result.exit_code == 0, result.output
            return result.output

        return run

    return of


@pytest.fixture
def said(telling):
    """What a command of ours prints about the plan of odd figures."""
    return telling(plan())


#: Facts of an explanation that stand in each report's table, too.
IN_REPORTS = ("GPUs now", "cost of the window", "coverage", "mean kernel activity")


@pytest.fixture(scope="module")
def agent():
    """A running agent whose plan can be another one, and who asks it."""
    state = State(plan())
    return state, TestClient(create_app(state))


def agree(agent, made: Plan, tongue: str, kinds: tuple[str, ...]) -> Explanation:
    """Page, API and reports tell what the explanation of the first workload does."""
    state, client = agent
    state.plan = made
    identity = made.verdicts[0].workload.id
    with speaking(tongue) as words:
        told = explain(made, made.verdicts[0], state.rules)
        row = {fact.label: fact.text for fact in told.facts}
        # why something is unknown stands beside reports' tables, not in them
        cells = [flat(row[words.get(label)].split(" (no ")[0]) for label in IN_REPORTS]
        reports = {kind: flat(render(made, kind, Look(width=400))) for kind in kinds}
    shown_in(flat(client.get(f"/workloads/{identity}?lang={tongue}").text), told, "page")
    for kind, text in reports.items():
        assert [one for one in cells if one not in text] == [], (identity, kind)
    asked = client.get(f"/api/v1/workloads/{identity}", params={"lang": tongue}).json()
    assert asked["explanation"] == plain(told)
    document = client.get("/api/v1/report", params={"lang": tongue}).json()
    assert document["plan"]["verdicts"] == plain(made.verdicts)
    return told


def shown_in(text: str, told: Explanation, where: str) -> None:
    """Every figure of an explanation stands in a text as it is."""
    wanted = dict.fromkeys(map(flat, figures(told)))
    assert [one for one in wanted if one not in text] == [], (told.subject, where)


def plain(thing: object) -> object:
    """What JSON makes of it."""
    return json.loads(msgspec.json.encode(thing))


@pytest.mark.parametrize("rule", sorted(RULES))
def test_they_agree_on_what_every_rule_finds(agent, telling, rule):
    made = planned(rule)
    agree(agent, made, "en", ("markdown",))
    told = agree(agent, made, "zh", ())
    identity = made.verdicts[0].workload.id
    text = telling(made)("explain", identity, "--language", "zh", "--output", "markdown")
    shown_in(flat(text), told, "explain")


@pytest.mark.system  # nothing but their number
@pytest.mark.parametrize("rule", sorted(RULES))
def test_they_agree_on_every_other_world_of_a_rule(agent, rule):
    for name in WORLDS[rule]:
        agree(agent, planned(rule, name), "en", ("markdown", "text"))


@pytest.mark.parametrize("tongue", names())
def test_explain_page_report_and_api_agree_digit_for_digit(agent, said, tongue):
    made = plan()
    told = agree(agent, made, tongue, PEOPLE)
    assert len(figures(told)) > 20
    for shape in ("table", "markdown", "html", "text"):
        text = said("explain", IDLE, "--language", tongue, "--output", shape)
        shown_in(flat(text), told, shape)
    with speaking(tongue):
        reports = {kind: render(made, kind, Look(width=400)) for kind in PEOPLE}
    money = {"en": "USD 1,235", "zh": "US$1,235"}[tongue]
    for kind, text in reports.items():
        assert flat(money) in flat(text), kind
        assert flat("38.4 GiB") in flat(text), kind
    assert flat(said("report", "--language", tongue)) == flat(reports["table"])


def test_machines_get_the_same_values_from_command_and_api(said):
    made = plan()
    client = TestClient(create_app(State(made)))
    shown = json.loads(said("explain", IDLE, "--output", "json"))
    asked = client.get(f"/api/v1/workloads/{IDLE}").json()
    assert asked["explanation"]["sections"] == shown["explanation"]["sections"]
    assert asked["explanation"]["verdict"] == shown["explanation"]["verdict"]
    assert asked["explanation"]["facts"] == shown["explanation"]["facts"]
    report = json.loads(said("report", "--output", "json"))
    assert client.get("/api/v1/report").json()["plan"] == report["plan"]
    assert msgspec.convert(report["plan"], Plan) == made
    first = report["plan"]["verdicts"][0]
    assert first == shown["explanation"]["verdict"]
    (cells, _other) = csv.DictReader(io.StringIO(said("report", "--output", "csv")))
    assert float(cells["mean_kernel_ratio"]) == first["mean_kernel"]
    assert float(cells["saving_per_month"]) == pytest.approx(ODD.amount, abs=1e-4)
    listed = client.get("/api/v1/workloads").json()["workloads"][0]
    assert listed["saving"] == report["workloads"][0]["saving"] == "USD 1,235/month"
