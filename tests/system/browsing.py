"""A real browser (Debian's chromium) for tests of the pages."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

WIDTHS = (1280, 768, 320)
SCHEMES = ("light", "dark")


@contextmanager
def chromium() -> Iterator:
    """A headless browser; skips by name where there is none."""
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("chromium is not installed (apt-get install chromium)")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def page_of(browser, url: str, *, width: int = 1280, **more) -> Iterator:
    """A page whose console stayed silent and that asked no other host for anything."""
    context = browser.new_context(base_url=url, viewport={"width": width, "height": 900}, **more)
    page = context.new_page()
    page.set_default_timeout(10_000)
    said, asked = [], []
    page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    try:
        yield page
        assert said == [], said
        assert [one for one in asked if not one.startswith(url)] == [], asked
    finally:
        context.close()
