"""The pages in a real browser: readable by everyone, by keyboard, without a script, on a phone."""

import re
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from gputailor_agent.cli.hosting import serving
from tests.agent.api.standing import PERIOD, TOKEN, Book, State, guarded
from tests.agent.api.test_hostile import HOSTILE, plan_of
from tests.agent.reports.plans import FEWER, IDLE, UNSEEN, sample_plan, verdict
from tests.system.browsing import SCHEMES, WIDTHS, chromium, page_of

pytestmark = pytest.mark.system

NEW = "team-d/Deployment/fresh/main"
PATHS = (
    "/",
    "/workloads",
    "/workloads?q=nothing-at-all",
    f"/workloads/{quote(IDLE)}",
    f"/workloads/{quote(UNSEEN)}",
    "/nodes",
    "/coverage",
    "/reports",
    f"/reports/{quote(PERIOD)}",
    "/login",
    "/nowhere",
)
#: What the guidelines ask (WCAG 2.2 AA) and what is good practice.
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@pytest.fixture(scope="module")
def browser():
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def plan():
    fresh = verdict(NEW, "watching", coverage=None, mean_kernel=None, memory_peak_bytes=None)
    return sample_plan(verdicts=(*sample_plan().verdicts, fresh))


@pytest.fixture(scope="module")
def url(plan):
    with serving(State(plan), "127.0.0.1:0", kept=Book()) as served:
        yield served


@pytest.fixture
def locked(plan, tmp_path):
    """An agent that wants to know who comes."""
    with serving(State(plan), "127.0.0.1:0", guarded(tmp_path), Book()) as served:
        yield served


def sign_in(page, path: str) -> None:
    page.goto(path)
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_label("Token")).to_have_count(0)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_axe_finds_nothing_and_the_console_is_silent(browser, url, width, scheme):
    axe = Axe()
    with page_of(browser, url, width=width, color_scheme=scheme) as page:
        for path in PATHS:
            if path == "/nowhere":
                continue
            page.goto(path)
            found = axe.run(page, options={"runOnly": RULES}).response["violations"]
            told = [(one["id"], [node["html"][:120] for node in one["nodes"]]) for one in found]
            assert told == [], path
            wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert wide <= 0, f"{path} scrolls sideways by {wide} px at {width}"


def test_axe_finds_nothing_where_something_can_be_changed(browser, locked):
    axe = Axe()
    for width in WIDTHS:
        with page_of(browser, locked, width=width) as page:
            sign_in(page, "/")
            page.goto(f"/workloads/{quote(IDLE)}")
            page.locator("details.decide summary").first.click()
            assert axe.run(page, options={"runOnly": RULES}).violations_count == 0


def test_a_page_that_is_not_there_is_a_page(browser, url):
    context = browser.new_context(base_url=url)
    page = context.new_page()
    answer = page.goto("/nowhere")
    assert answer.status == 404
    assert Axe().run(page, options={"runOnly": RULES}).violations_count == 0
    context.close()


def rows(page):
    """The names of the table's visible rows."""
    return page.locator("table.workloads tbody tr:visible th")


def names(page) -> list[str]:
    """What they are now; for what comes after a click see ``expect(rows(page))``."""
    return [text.replace("\n", "") for text in rows(page).all_inner_texts()]


def sorted_by_name(page, way: str) -> None:
    """Wait until the page that a click asked for is there."""
    head = page.get_by_role("columnheader", name="workload", exact=True)
    expect(head).to_have_attribute("aria-sort", way)


def test_the_table_sorts_filters_and_searches(browser, url):
    with page_of(browser, url) as page:
        page.goto("/workloads")
        assert names(page)[:2] == [IDLE, FEWER]
        page.get_by_role("link", name="workload", exact=True).click()
        sorted_by_name(page, "ascending")
        assert names(page) == sorted(names(page))
        page.get_by_role("link", name="workload", exact=True).click()
        sorted_by_name(page, "descending")
        assert names(page) == sorted(names(page), reverse=True)
        assert page.locator("th[aria-sort=descending]").count() == 1
        page.goto("/workloads")
        page.get_by_label("State").select_option("unknown")
        page.get_by_role("button", name="Show").click()
        expect(rows(page)).to_have_text([UNSEEN])
        page.get_by_role("link", name="Show all").click()
        expect(rows(page)).to_have_count(6)
        page.get_by_label("Search").fill("train")
        with page.expect_navigation():
            page.keyboard.press("Enter")
        expect(rows(page)).to_have_text([FEWER])
        expect(page.locator("#found")).to_contain_text("1 of 6 workloads fit.")


def test_typing_filters_the_page_at_once(browser, url):
    with page_of(browser, url) as page:
        page.goto("/workloads")
        page.get_by_label("Search").press_sequentially("team-b train")
        expect(rows(page)).to_have_text([FEWER])
        expect(page.locator("#found")).to_contain_text("1 of the 6 workloads of this page")
        page.get_by_label("Search").fill("")
        expect(rows(page)).to_have_count(6)


def test_a_patch_is_copied(browser, url):
    with page_of(browser, url, permissions=["clipboard-read", "clipboard-write"]) as page:
        page.goto(f"/workloads/{quote(IDLE)}")
        page.get_by_role("button", name="Copy").first.click()
        page.get_by_role("button", name="Copied").wait_for()
        assert page.evaluate("navigator.clipboard.readText()") == "spec:\n  replicas: 0\n"


def test_advice_is_dismissed_with_a_reason_and_taken_back(browser, locked):
    with page_of(browser, locked) as page:
        sign_in(page, f"/workloads/{quote(IDLE)}")
        expect(page.get_by_text("ops", exact=True)).to_be_visible()
        page.get_by_text("Dismiss this advice").first.click()
        page.get_by_label("Why?").first.fill("<b>on call</b>")
        page.get_by_role("button", name="Dismiss", exact=True).first.click()
        expect(page.get_by_role("status").first).to_have_text("Dismissed. The next plan minds it.")
        assert "Dismissed by ops at" in page.locator("main").inner_text()
        assert "<b>on call</b>" in page.locator("main").inner_text()
        page.get_by_role("button", name="Take it back").first.click()
        expect(page.get_by_role("status").first).to_contain_text("Taken back")
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_label("Token")).to_be_visible()


def test_everything_is_reached_by_keyboard_with_a_mark_where_one_is(browser, url):
    with page_of(browser, url) as page:
        for path in ("/workloads", f"/workloads/{quote(IDLE)}"):
            page.goto(path)
            page.keyboard.press("Tab")
            assert page.evaluate("document.activeElement.className") == "skip"
            assert page.locator(".skip").bounding_box()["x"] >= 0
            count = page.locator(
                ":is(a[href], button, input, select, summary, [tabindex='0']):visible"
            ).count()
            seen = set()
            for _ in range(count - 1):
                page.keyboard.press("Tab")
                seen.add(
                    page.evaluate(
                        "(() => { const e = document.activeElement; e.dataset.seen = 1;"
                        " return getComputedStyle(e).outlineStyle; })()"
                    )
                )
            assert seen == {"solid"}
            assert page.locator("[data-seen]").count() == count - 1
        page.goto("/workloads")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(page.locator("#content")).to_be_focused()


def test_everything_can_be_read_without_a_script(browser, url):
    with page_of(browser, url, java_script_enabled=False) as page:
        page.goto("/")
        page.get_by_role("link", name="All workloads").click()
        expect(rows(page)).to_have_count(6)
        page.get_by_label("Search").fill("old")
        page.get_by_role("button", name="Show").click()
        expect(rows(page)).to_have_text([IDLE])
        page.get_by_role("link", name=IDLE).click()
        expect(page.locator("svg path.used").first).to_be_visible()
        text = page.locator("main").inner_text()
        for told in ("replicas: 0", "kernel mean", "active / observed", "working 50 %", "Runs"):
            assert told in text
        assert page.locator("svg path.used").first.get_attribute("d").startswith("M")
        page.locator("summary", has_text="Day by day").first.click()
        assert "2025-11-17" in page.locator("main").inner_text()


def test_zero_unknown_and_not_measured_yet_differ_by_words_and_marks(browser, url):
    with page_of(browser, url) as page:
        page.goto("/workloads")
        looks = {}
        for identity in (IDLE, UNSEEN, NEW):
            cell = (
                page.locator("tr", has=page.get_by_role("link", name=identity)).locator("td").nth(4)
            )
            looks[identity] = (
                cell.inner_text(),
                cell.locator("span").evaluate(
                    "e => [getComputedStyle(e, '::before').content, getComputedStyle(e).fontStyle]"
                ),
            )
        assert [text for text, _ in looks.values()] == ["0 %", "unknown", "not measured yet"]
        marks = [tuple(look) for _, look in looks.values()]
        assert marks[0] == ("none", "normal")
        assert len(set(marks)) == 3


def test_the_page_speaks_chinese_to_who_wants_it(browser, url):
    with page_of(browser, url, locale="zh-CN") as page:
        page.goto("/workloads")
        assert page.locator("html").get_attribute("lang").startswith("zh")
        assert "Workloads" not in page.locator("h1").inner_text()
        page.get_by_role("link", name="English").click()
        expect(page.locator("h1")).to_have_text("Workloads")
        page.get_by_role("link", name="Nodes").click()
        expect(page).to_have_url(re.compile("/nodes"))
        expect(page.locator("html")).to_have_attribute("lang", "en")


def test_hostile_names_stay_text_in_a_real_browser(browser):
    for name in HOSTILE:
        plan, identity = plan_of(name)
        with (
            serving(State(plan), "127.0.0.1:0", kept=Book()) as served,
            page_of(browser, served, width=320) as page,
        ):
            page.goto("/workloads")
            page.locator("table.workloads tbody th a").first.click()
            page.wait_for_url(re.compile("/workloads/."))  # loaded, with its style
            assert page.locator("h1").text_content() == identity
            assert page.locator("main :is(script, img, form[action*=evil])").count() == 0
            wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert wide <= 0, name
