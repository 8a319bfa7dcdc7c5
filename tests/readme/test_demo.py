"""``make demo`` as the README tells it: its report is the one that is shown, then there is a page."""

import re
import shutil
import signal
import sys
import time
from dataclasses import dataclass

import httpx
import pytest

from tests.readme import commands
from tests.readme.commands import runs
from tests.testbed.servers import eventually

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

ONCE, STAYS = "make demo ARGS=--once", "make demo"
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
ITEM = re.compile(r"^ +\d+\.  (?P<name>\S+)  (?P<rest>.+\n(?:      .+\n)+)", re.MULTILINE)
FACT = re.compile(r"^  (?P<name>[A-Za-z]\S*(?: \S+)*?)  +(?P<rest>\S.*)$", re.MULTILINE)
STATES = re.compile(r"\d+ workloads: ")
#: A window of whole days may begin some hours earlier, at midnight.
HOURS = re.compile(r"(\d+ d) \d+ (?:h|min)\)")
#: What is said of them depends on the hour: a person works on one by day, and how long the other was
#: seen is told to the hour.
BY_THE_HOUR = {"research/StatefulSet/jupyter-mlee/notebook", "vision/Job/unet-segmentation/train"}
#: Who holds a GPU at that moment: a job may run or have ended.
NOW = {"allocated now", "other GPUs"}
#: Of fourteen days, one more or less.
CLOSE = 0.08


@dataclass(frozen=True)
class Told:
    """A report on the console, taken apart."""

    title: str
    facts: dict[str, str]
    items: dict[str, str]
    states: str


def told(text: str) -> Told:
    """The first screen of a report."""
    text = text[text.index("GPU Tailor report") :].split("\nAll workloads\n", maxsplit=1)[0]
    head, list_ = text.split("\nWhat to do first\n")
    return Told(
        title=" ".join(HOURS.sub(r"\1)", commands.undated(head.split("\n  ")[0])).split()),
        facts={one["name"]: one["rest"] for one in FACT.finditer(head)},
        items={one["name"]: " ".join(one["rest"].split()) for one in ITEM.finditer(list_)},
        states=next(line for line in list_.splitlines() if STATES.match(line)),
    )


def alike(shown: str, said: str) -> bool:
    """Whether two texts have the same words, and numbers that are close."""
    if NUMBER.split(shown) != NUMBER.split(said):
        return False
    pairs = zip(NUMBER.findall(shown), NUMBER.findall(said), strict=True)
    read = [(float(a.replace(",", "")), float(b.replace(",", ""))) for a, b in pairs]
    return all(a == pytest.approx(b, rel=CLOSE) for a, b in read)


def first(text: str) -> float:
    """The first number of a text."""
    return float(NUMBER.findall(text)[0].replace(",", ""))


def compare(text: str) -> None:
    """Hold what a demo printed against the README's box."""
    shown, said = told(commands.box("GPU Tailor report: demo$")), told(text)
    assert (said.title, said.states) == (shown.title, shown.states)
    assert said.facts.keys() == shown.facts.keys()
    assert said.items.keys() == shown.items.keys()
    differing = {
        name: (one, (said.facts | said.items)[name])
        for name, one in (shown.facts | shown.items).items()
        if name not in BY_THE_HOUR | NOW and not alike(one, (said.facts | said.items)[name])
    }
    assert differing == {}
    for name in NOW:
        assert NUMBER.split(said.facts[name]) == NUMBER.split(shown.facts[name])
    held, free = (first(said.facts[name]) for name in sorted(NOW))
    assert held + free == pytest.approx(first(said.facts["GPUs"]), abs=0.11)


@pytest.fixture
def made(tmp_path):
    """What stands after ``make``: the environment that these tests run in counts as set up."""
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    return f"make -o {sys.prefix}/.installed VENV={sys.prefix}"


@runs(ONCE)
def test_the_report_that_is_shown_is_what_the_demo_prints(made, repository, tmp_path):
    command = commands.elsewhere(ONCE, {"make": made})
    env = commands.surroundings(tmp_path, TMPDIR=str(tmp_path))
    compare(commands.run(command, repository, env, seconds=250))


@runs(STAYS)
def test_without_once_there_is_a_page_until_ctrl_c(made, repository, tmp_path, typed):
    begun = time.monotonic()
    command = commands.elsewhere(STAYS, {"make": made})
    env = commands.surroundings(tmp_path, TMPDIR=str(tmp_path), ARGS="--listen 127.0.0.1:0")
    demo = typed(command, env, repository)
    url = demo.url(seconds=250 - (time.monotonic() - begun))
    page = eventually(lambda: httpx.get(url, trust_env=False).text, "the page")
    compare(demo.output)
    for name in told(demo.output).items:
        assert name in page
    # make's own end: by the signal, or well where the demo had ended first; the demo's is its output
    assert demo.interrupt() in {-signal.SIGINT, 0}
    assert "Error" not in demo.output
    assert "Traceback" not in demo.output


def test_a_number_that_is_another_is_noticed():
    assert alike("USD 1,789/month of 8", "USD 1,800/month of 8")
    assert not alike("USD 1,789/month of 8", "USD 1,789/month of 7")
    assert not alike("USD 1,789/month", "EUR 1,789/month")
