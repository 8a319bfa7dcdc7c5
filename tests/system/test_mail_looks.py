"""A mail, as a real SMTP server received it, opens in a browser as it is meant to look.

Reports and notices in both languages, as wide as a mail program's window and as a telephone.
"""

import msgspec
import pytest
from axe_playwright_python.sync_playwright import Axe

from gputailor_agent.store import Store
from tests.agent.reports.plans import DAY, END, FEWER, IDLE, sample_plan, verdict, workload
from tests.agent.schedule.test_delivering import delivery, keep, run
from tests.agent.schedule.test_faulting import broken
from tests.agent.schedule.test_noticing import idle
from tests.fakes.mailbox import Mailbox
from tests.system.browsing import SCHEMES, chromium

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]

WIDTHS = (600, 320)
LONG = "team-x/Job/" + "a-very-long-name-" * 14 + "end/main"
HOSTILE = '<script>alert(1)</script><img src="http://evil.example/x.png">'
#: Words that a report begins with: what is to be done first.
TOP = {"en": "What to do first", "zh": "首先要做的"}
OVERLAPS = """() => {
  const rects = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    if (!walk.currentNode.data.trim()) continue;
    const range = document.createRange();
    range.selectNodeContents(walk.currentNode);
    for (const r of range.getClientRects())
      rects.push([r.left, r.top, r.right, r.bottom, walk.currentNode.data.trim().slice(0, 40)]);
  }
  const found = [];
  for (let i = 0; i < rects.length; i++)
    for (let j = i + 1; j < rects.length; j++) {
      const [a, b] = [rects[i], rects[j]];
      const wide = Math.min(a[2], b[2]) - Math.max(a[0], b[0]);
      const high = Math.min(a[3], b[3]) - Math.max(a[1], b[1]);
      if (wide > 2 && high > 4) found.push([a[4], b[4], wide, high]);
    }
  return found;
}"""


def plan():
    strange = msgspec.structs.replace(workload(IDLE), id=HOSTILE, name=HOSTILE, container=HOSTILE)
    more = (
        verdict(LONG, "ok"),
        msgspec.structs.replace(verdict(IDLE, "ok"), workload=strange),
        *(verdict(f"team-y/Job/train-{number}/main", "ok") for number in range(12)),
    )
    made = sample_plan()
    return msgspec.structs.replace(made, verdicts=(*made.verdicts, *more))


@pytest.fixture(scope="module", params=["en", "zh"])
def mails(request, tmp_path_factory):
    """The language, and by kind the HTML part's bytes as they came, with their charset."""
    folder = tmp_path_factory.mktemp("mails")
    with Mailbox(folder) as box, Store.open() as store:
        agent = delivery(
            store,
            now=END,
            mail_to=["a@example.org"],
            smtp_host="127.0.0.1",
            smtp_port=box.port,
            smtp_tls="none",
            public_url="https://gpu.example.org",
            language=request.param,
        )
        keep(store, agent, language=request.param, plan=plan())
        with store.transaction() as tx:
            sick = (idle(END, END - DAY), broken(LONG, xid79=1))
            agent.keep_notices(tx, sample_plan(verdicts=sick))
        assert run(agent, END) == 3
    parts = {}
    for mail in box.mails:
        kind = str(mail["List-Id"]).strip("<").partition(".")[0]
        html = mail.get_body(("html",))
        assert html.get_content_charset() == "utf-8"
        parts[kind] = html.get_payload(decode=True)
    assert set(parts) == {"report", "idle", "unhealthy"}
    return request.param, parts


@pytest.fixture(scope="module")
def browser():
    with chromium() as running:
        yield running


@pytest.fixture
def opened(browser, mails, tmp_path):
    """A function that opens one of the mails from a file, where nothing tells the charset."""
    _language, parts = mails
    contexts, asked, said = [], [], []

    def show(kind, width, scheme="light"):
        path = tmp_path / f"{kind}.html"
        path.write_bytes(parts[kind])
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: said.append(message.text))
        page.goto(path.as_uri())
        return page

    yield show
    for context in contexts:
        context.close()
    assert [url for url in asked if not url.startswith("file:")] == []
    assert said == []


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", ["report", "idle", "unhealthy"])
def test_a_mail_fits_its_window_and_nothing_lies_over_another(opened, kind, width):
    page = opened(kind, width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(OVERLAPS) == []
    wide = page.eval_on_selector_all(
        "main > :not(div)", "all => all.map(one => one.getBoundingClientRect().right)"
    )
    assert max(wide) <= width


@pytest.mark.parametrize("kind", ["report", "idle", "unhealthy"])
def test_a_mail_loads_nothing_runs_nothing_and_reads_in_its_language(opened, mails, kind):
    language, _parts = mails
    page = opened(kind, 600)
    assert page.evaluate("document.characterSet") == "UTF-8"
    assert (
        page.evaluate("document.documentElement.lang") == {"en": "en", "zh": "zh-Hans-CN"}[language]
    )
    active = "script, img, link, iframe, object, video, form, style, [onclick], [onload], [src]"
    assert page.locator(active).count() == 0
    text = page.inner_text("body")
    assert "\ufffd" not in text
    assert any("\u4e00" <= mark <= "\u9fff" for mark in text) is (language == "zh")


@pytest.mark.parametrize("width", WIDTHS)
def test_what_to_do_first_stands_within_the_first_screens(opened, mails, width):
    language, _parts = mails
    page = opened("report", width)
    heading = page.get_by_role("heading", name=TOP[language])
    top = heading.bounding_box()["y"]
    assert heading.is_visible()
    assert top < 3 * 900
    items = page.locator("ol li")
    told = [items.nth(place).inner_text() for place in range(2)]
    assert IDLE in told[0]
    assert FEWER in told[1]
    assert page.locator("a").first.get_attribute("href").startswith("https://gpu.example.org/")


def test_names_are_shown_as_they_are_and_do_nothing(opened):
    page = opened("report", 600)
    assert HOSTILE in page.inner_text("body")


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("kind", ["report", "unhealthy"])
def test_a_mail_can_be_read_by_light_and_by_dark(opened, kind, scheme):
    page = opened(kind, 600, scheme)
    found = Axe().run(page, options={"runOnly": ["color-contrast", "html-has-lang", "list"]})
    assert found.violations_count == 0, found.generate_report()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
