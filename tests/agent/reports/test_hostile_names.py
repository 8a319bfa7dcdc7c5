"""Names that others wrote harm no format: they are shown, and nothing in them is obeyed."""

import csv
import io
import json
import re
import unicodedata
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputailor_agent.model.judgement import Message
from gputailor_agent.reports import csv_report, html, markdown
from gputailor_agent.reports.document import Code, Document, Heading, Item, Listing, Paragraph
from gputailor_agent.reports.explain import explain
from gputailor_agent.reports.formats import Look, find, render
from gputailor_agent.reports.safe_text import shown
from tests.agent.reports.plans import finding, sample_plan, silence, verdict, workload

LONG = "a" * 253
NAMES = {
    "script": "<script>alert(1)</script>",
    "attribute": 'x" onmouseover="alert(1)',
    "entity": "&lt;b&gt;&#106;avascript",
    "markdown link": "[click](javascript:alert(1))",
    "markdown image": "![x](http://example.org/p.png)",
    "markdown table": "a|b\n| c | d |",
    "markdown code": "```\nrm -rf\n```",
    "formula": "=HYPERLINK(1)",
    "command": "@SUM(1+9)*cmd",
    "full-width formula": "\uff1d1+1",
    "hidden formula": "\u200b=1+1",
    "escape": "\x1b]0;owned\x07\x1b[2Jgone",
    "bell and backspace": "good\x08\x08bad\x07",
    "right to left": "user\u202egpj.exe",
    "isolate": "a\u2066b\u2069c",
    "hebrew": "\u05e9\u05dc\u05d5\u05dd",
    "surrogate": "a\udc80b",
    "new lines": "a\r\nSubject: b",
    "long": LONG,
}
ALLOWED_TAGS = frozenset(
    [
        "html",
        "wbr",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "main",
        "h1",
        "h2",
        "h3",
        "p",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "b",
        "i",
        "em",
        "ol",
        "ul",
        "li",
        "br",
        "small",
        "pre",
        "div",
        "bdi",
        "svg",
        "rect",
        "circle",
        "span",
        "a",
    ]
)
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]")


def plan_of(name: str):
    """A plan in which a workload, its team, a number, a patch and a problem bear the name."""
    identity = f"team/Job/{name}/main"
    own = workload("team/Job/x/main", team=name, queue=name)
    found = finding("team/Job/x/main", "idle", 10.0, risks=(Message(key=name),))
    told = verdict(
        "team/Job/x/main",
        "finding",
        workload=type(own)(
            **{one: getattr(own, one) for one in own.__struct_fields__ if one != "id"}, id=identity
        ),
        primary=found,
        device_models=(name,),
        silences=(silence(identity, name, "unknown", message=Message(key=name)),),
    )
    return sample_plan(verdicts=(told,), problems=(name,), sources=(name,), cluster=name)


class Page(HTMLParser):
    """Tags and attributes of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _value in attrs}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
@pytest.mark.parametrize("kind", ["html", "mail"])
def test_no_name_becomes_markup(kind, name):
    page = Page(render(plan_of(name), kind))
    assert page.tags <= ALLOWED_TAGS
    assert not any(one.startswith("on") for one in page.attributes)
    assert "href" not in page.attributes
    assert "src" not in page.attributes


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
@pytest.mark.parametrize("kind", ["table", "text", "markdown", "html", "mail", "csv"])
def test_no_format_obeys_a_control_or_turns_the_line_around(kind, name):
    text = render(plan_of(name), kind)
    assert OBEYED.search(text.replace("\n", "")) is None
    assert text.encode()


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
@pytest.mark.parametrize("kind", ["table", "text", "markdown", "html", "mail", "csv", "json"])
def test_an_explanation_holds_out_too(kind, name):
    plan = plan_of(name.replace("\udc80", ""))
    text = find(kind).explanation(explain(plan, plan.verdicts[0]), Look(width=100))
    if kind == "json":
        assert json.loads(text)["explanation"]["cluster"] == plan.cluster
    else:
        assert OBEYED.search(text.replace("\n", "")) is None


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_no_cell_is_a_formula_and_each_row_is_one(name):
    rows = list(csv.reader(io.StringIO(render(plan_of(name), "csv"))))
    assert {len(row) for row in rows} == {len(csv_report.PLAN_COLUMNS)}
    texts = [cell for row in rows[1:] for cell in row if not re.fullmatch(r"-?[\d.e+-]+", cell)]
    assert not [cell for cell in texts if unicodedata.normalize("NFKC", cell)[:1] in set("=+-@\t")]


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_no_name_adds_rows_links_or_code_to_markdown(name):
    text = render(plan_of(name), "markdown")
    rows = text[text.index("## All workloads") :].split("\n\n")[1].splitlines()
    assert len(rows) == 3
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {12}
    assert not re.search(r"(?<!\\)\]\(", text)
    assert not re.search(r"(?<!\\)<", text)


def test_code_to_copy_cannot_leave_its_fence():
    page = Document(title="x", blocks=(Code(text="a\n`````\n# out\n"),))
    assert markdown.draw(page).startswith("``````")


def test_a_line_break_stays_in_code_and_nowhere_else():
    page = Document(
        title="x",
        blocks=(
            Heading(text="a\nb"),
            Listing(items=(Item(name="n\nm", figure="", text="", code="k:\n  v\n"),)),
            Paragraph(text="p\n<b>"),
        ),
    )
    drawn = html.page(page)
    assert "<h2>a b</h2>" in drawn
    assert "n m" in drawn
    assert "k:\n  v" in drawn
    assert "p &lt;b&gt;" in drawn


@pytest.mark.parametrize("width", [40, 80])
def test_a_name_of_253_letters_keeps_to_the_width_and_is_whole(width):
    text = render(plan_of(LONG), "table", Look(width=width))
    assert max(map(len, text.splitlines())) <= width
    assert LONG in "".join(text.split())


def test_a_page_breaks_long_names_anywhere():
    assert "overflow-wrap:anywhere" in render(plan_of(LONG), "html")
    assert "overflow-wrap:anywhere" in render(plan_of(LONG), "mail")


def test_json_keeps_names_as_they_are_for_machines():
    name = NAMES["right to left"]
    document = json.loads(render(plan_of(name), "json"))
    assert document["plan"]["cluster"] == name


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(codec=None)))
def test_what_is_shown_has_nothing_unseen_and_plain_text_is_untouched(text):
    told = shown(text)
    assert not [
        one for one in told if unicodedata.category(one) in {"Cc", "Cs"} and one not in "\t\n"
    ]
    assert not set(told) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f")
    assert shown(told) == told
    if text.isascii() and text.isprintable():
        assert told == text
