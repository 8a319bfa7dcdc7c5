"""Nothing that people read in Chinese has English words left in it, whoever wrote them.

What is written through the catalogue is looked at there; then everything that reaches people is
made and read: every world of every rule, every format and page, commands that speak languages.
"""

import json
import re
from pathlib import Path
from string import Formatter

import msgspec
import pytest
from fastapi.testclient import TestClient

from gputailor_agent.api.app import create_app
from gputailor_agent.cli import app
from gputailor_agent.cli.engine_facts import engine_facts
from gputailor_agent.cli.host_facts import host_facts
from gputailor_agent.model.containers import EngineUse, Level
from gputailor_agent.model.ledger import State
from gputailor_agent.planner.targeting import Allowed, course
from gputailor_agent.reports import explain_page, markdown, plan_page, plan_target
from gputailor_agent.reports.beside import Beside, Week
from gputailor_agent.reports.catalogues import catalogue, speaking, written
from gputailor_agent.reports.cluster import explain_cluster
from gputailor_agent.reports.delivery.content import report_content
from gputailor_agent.reports.explain import explain
from gputailor_agent.reports.formats import Look, find, formats, render
from gputailor_agent.reports.translating import PATTERNS, translated
from gputailor_agent.rules import RuleSettings
from tests.agent.api.standing import PERIOD, Book
from tests.agent.api.standing import State as Agent
from tests.agent.cli.test_check import ON_L4, SMALL, history, served, web
from tests.agent.cli.test_check_processes import manifest as processes
from tests.agent.cli.test_commands import cluster
from tests.agent.cli.test_host_facts import MUCH
from tests.agent.reports.latin import words_left
from tests.agent.reports.plans import FEWER, FINE, IDLE, UNSEEN, WATCHED, WINDOW, sample_plan
from tests.agent.reports.test_cluster import POOL, STEADY, UNKNOWN, WAITS
from tests.agent.reports.test_report_content import entry, former
from tests.agent.reports.test_single_run import judged, log, row
from tests.agent.rules.test_every_word import planned
from tests.agent.rules.worlds import RULES, WORLDS, built

#: Made-up names of the plans below.
KNOWN = frozenset(
    {
        "test",
        "default",
        "English",
        "main",
        "train",
        "trainer",
        "web",
        "wide",
        "report",
        "spec",
        "replicas",
    }
)
#: Texts that no rule and no job says, only the made-up ones.
MADE_UP = ("GPU-hours per month x price", "active / observed", "kernel mean", "disk is full")
MACHINES = {"csv", "json"}
PAGES = (
    "/",
    "/workloads",
    f"/workloads/{IDLE}",
    f"/workloads/{FEWER}",
    f"/workloads/{WATCHED}",
    f"/workloads/{UNSEEN}",
    "/nodes",
    "/coverage",
    "/reports",
    f"/reports/{PERIOD}",
    "/login",
    "/nowhere",
)


def whole_plan():
    """The sample plan with everything that is said of a cluster."""
    return sample_plan(
        cluster_findings=(STEADY,),
        cluster_silences=(UNKNOWN,),
        waiting=(WAITS,),
        free_pools=(POOL,),
        sources=("exporters scraped by the agent", "log run.csv"),
        problems=("usage is as last known, since no more could be read: the limit",),
    )


def beside():
    week = Week(window=WINDOW, gpus=8, mean_kernel=0.2, observed_share=1.0, cost=None, saving=None,
                findings=3)  # fmt: skip
    known = former(**{FEWER: ("too_many_gpus", 100.0), FINE: ("idle", 5.0)})
    made = entry(FINE, "idle", State.APPLIED)
    return Beside(former=known, entries=(made,), weeks=(week,))


def left_in(text: str) -> list[str]:
    """English words of what was made of the plans below."""
    for made_up in MADE_UP:
        text = text.replace(made_up, "")
    return words_left(text, KNOWN)


def filled(text: str) -> str:
    """A text with a number in each of its places."""
    return "".join(
        literal + ("" if name is None else "7") for literal, name, _f, _c in Formatter().parse(text)
    )


def test_no_translation_has_english_words_left():
    left = {}
    for one in written("zh"):
        forms = [one.string] if isinstance(one.string, str) else list(one.string or ())
        for form in forms if one.id else ():
            words = words_left(filled(str(form)), KNOWN)
            if words:
                left[str(one.id)] = words
    assert left == {}


def test_every_text_of_the_parts_below_the_reports_is_found_by_what_fills_it():
    """``peak x {factor}`` is recognised in ``peak x 1.15``, wherever it stands."""
    left = []
    with speaking("zh"):
        for text in catalogue("zh").told:
            left += words_left(translated(filled(text)), KNOWN)
    assert left == []
    assert set(PATTERNS) <= set(catalogue("zh").told)


@pytest.mark.parametrize("rule", sorted(RULES))
def test_every_explanation_and_report_of_a_rule_is_whole(rule):
    left = []
    for name in WORLDS[rule]:
        plan, settings = planned(rule, name), built(rule, name).context(rule, {}).settings
        with speaking("zh"):
            told = explain(plan, plan.verdicts[0], settings)
            page = markdown.draw(explain_page.compose(told))
            report = markdown.draw(plan_page.compose(plan))
        left += [*words_left(page, KNOWN), *words_left(report, KNOWN)]
    assert sorted(set(left)) == []


@pytest.mark.parametrize("name", sorted(set(formats()) - MACHINES))
def test_every_format_of_a_report_is_whole(name):
    text = render(whole_plan(), name, Look(width=400), beside=beside(), language="zh")
    assert "上次" in text or "以来" in text
    assert left_in(text) == []


def test_sentences_for_machines_are_whole_while_their_names_stay():
    with speaking("zh"):
        document = json.loads(render(whole_plan(), "json", beside=beside()))
    said = [one["headline"] for one in document["workloads"]]
    said += [text for one in document["workloads"] for text in one["silences"].values()]
    assert [words_left(text, KNOWN) for text in said if words_left(text, KNOWN)] == []


@pytest.mark.parametrize("path", PAGES)
def test_every_page_is_whole(path):
    client = TestClient(create_app(Agent(whole_plan()), kept=Book()))
    text = client.get(path, params={"lang": "zh"}, headers={"accept": "text/html"}).text
    assert 'lang="zh' in text
    assert left_in(text) == []


def test_the_plan_and_the_cluster_are_explained_whole():
    plan = whole_plan()
    with speaking("zh"):
        target = course(plan, Allowed(), 1000.0)
        texts = (
            markdown.draw(plan_target.compose(plan, target, Allowed())),
            markdown.draw(explain_page.compose(explain_cluster(plan, RuleSettings()))),
        )
    assert [left_in(text) for text in texts] == [[], []]


def test_a_mail_is_whole():
    with speaking("zh"):
        mail = report_content(whole_plan(), PERIOD, public_url="https://gpu.example/")
    for text in (mail.subject, mail.plain, mail.text, mail.html):
        assert left_in(text) == []


def test_the_judgement_of_a_log_is_whole(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a long path is broken into pieces that look like words
    rows = "".join(row(second * 60, use="0" if second % 3 else "[N/A]") for second in range(200))
    judgement = judged(log(Path(), rows))
    with speaking("zh"):
        text = find("text").log((judgement,), Look(width=400))
    assert left_in(text) == []


@pytest.mark.parametrize("which", ["history", "model", "mistakes", "processes"])
def test_what_is_said_of_a_manifest_is_whole(which, capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    if which == "history":
        given = (web(tmp_path), *history(tmp_path))
    elif which == "model":
        given = (served(tmp_path, SMALL, selector=ON_L4),)
    elif which == "processes":
        given = (processes(tmp_path, "torchrun --nproc-per-node=2 train.py", 8),)
    else:
        path = tmp_path / "broken.yaml"
        path.write_text("metadata: {name: a}\n", "utf-8")
        given = (path, served(tmp_path, SMALL, resource="nvidia.com/gpus"))
    app.run("gputailor", ["check", *map(str, given), "--language", "zh"])
    out, err = capsys.readouterr()
    assert re.search("[\u4e00-\u9fff]", out)
    assert left_in(out) == []
    assert left_in(err) == []


def test_what_engines_and_hosts_tell_is_whole():
    level = Level(mean=0.5, maximum=2.0)
    engine = EngineUse(
        engines=("vllm",), observed_seconds=7200.0, requests=10.0, prompt_tokens=100.0,
        output_tokens=200.0, latency_seconds=0.4, running=level, waiting=Level(mean=1.0, maximum=None),
        cache=level, memory_peak_bytes=2.0**30, last_request=WINDOW.end,
    )  # fmt: skip
    profile = msgspec.structs.replace(built("idle").profile, engine=engine, host=MUCH)
    with speaking("zh"):
        facts = (*host_facts(profile), *engine_facts(profile))
    assert len(facts) > 12
    assert [words_left(f"{one.label}: {one.text}", KNOWN) for one in facts] == [[]] * len(facts)


@pytest.mark.parametrize(
    "command", ["workloads", "nodes", "diff", "export", "plan", "report", "explain"]
)
def test_what_a_command_lists_is_whole(command, capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.chdir(tmp_path)
    archive, inventory = cluster(tmp_path)[:2], cluster(tmp_path)[2:]
    given = {
        "workloads": (*archive, *inventory),
        "nodes": inventory,
        "diff": ("old.json", "old.json"),
        "export": ("out", *archive, *inventory),
        "plan": (*archive, *inventory),
        "report": (*archive, *inventory),
        "explain": ("idler", *archive, *inventory),
    }[command]
    if command == "diff":
        text = render(whole_plan(), "json")
        (tmp_path / "old.json").write_text(text, "utf-8")
    assert app.run("gputailor", [command, *map(str, given), "--language", "zh"]) == 0
    assert left_in(capsys.readouterr().out) == []
