"""Writes ``docs/pictures``: the demo's terminal, its pages and its weekly report, in a browser.

``python -m tests.system.pictures`` (``make pictures``). Everything shown is of the simulated
cluster; a picture that grew beyond what a repository should carry is an error, and so is a machine
without a font for Chinese, on which its letters would be boxes.
"""

import html
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import httpx
import msgspec

from gputailor_agent.model.judgement import Plan
from gputailor_agent.reports.formats import render
from tests.processes import Process
from tests.system.browsing import chromium

FOLDER: Final = Path(__file__).resolve().parents[2] / "docs" / "pictures"
LARGEST_BYTES: Final = 150_000
WAIT_SECONDS: Final = 900.0
#: Name, path of the page, width, height, colours.
PAGES: Final = (
    ("overview", "/", 1120, 740, "light"),
    ("workloads", "/workloads", 1280, 660, "light"),
    ("workloads-phone", "/workloads?sort=-saving", 360, 720, "dark"),
    ("nodes", "/nodes", 1120, 700, "dark"),
    ("coverage", "/coverage", 1120, 620, "light"),
)
_TERMINAL: Final = """<!doctype html><meta charset="utf-8"><title>terminal</title>
<style>body {{ margin: 0; padding: 16px; background: #0d1117; color: #e6edf3; }}
pre {{ font: 11px/1.5 monospace; margin: 0; white-space: pre-wrap; }}</style><pre>$ make demo
{text}</pre>"""


def main() -> int:
    """Run the demo and take every picture; returns the exit code."""
    missing = _no_font()
    if missing:
        sys.stderr.write(f"error: {missing}\n")
        return 1
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="gputailor-pictures-") as name:
        folder = Path(name)
        command = (sys.executable, "-m", "gputailor_agent.cli.entry", "demo")
        process = Process(
            (*command, "--listen", "127.0.0.1:0", "--folder", str(folder / "example")),
            folder / "demo.log",
        )
        try:
            url = _page_of(process)
            with chromium() as browser:
                _take(browser, url, process.output, folder)
        finally:
            process.interrupt()
    large = [path.name for path in FOLDER.glob("*.png") if path.stat().st_size > LARGEST_BYTES]
    for path in sorted(FOLDER.glob("*.png")):
        sys.stdout.write(f"{path.name}: {path.stat().st_size / 1000:.0f} kB\n")
    if large:
        sys.stderr.write(f"error: larger than {LARGEST_BYTES} bytes: {', '.join(large)}\n")
    return 1 if large else 0


def _no_font() -> str:
    """What to install for the letters of Chinese; '' where a font has them."""
    try:
        done = subprocess.run(
            ["fc-list", ":lang=zh"], capture_output=True, text=True, check=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError):
        return "fc-list is missing: apt-get install fontconfig fonts-wqy-microhei"
    return "" if done.stdout.strip() else "no font for Chinese: apt-get install fonts-wqy-microhei"


class _Report(msgspec.Struct):
    """What is needed of the API's report."""

    plan: Plan


def _in_chinese(url: str) -> str:
    """The demo's newest report as a page in Chinese."""
    answer = httpx.get(f"{url}/api/v1/report", trust_env=False, timeout=60)
    plan = msgspec.json.decode(answer.content, type=_Report).plan
    return render(plan, "html", language="zh")


def _page_of(process: Process) -> str:
    """The page's address: the demo prints it last, after a minute or more of work."""
    return process.url(WAIT_SECONDS)


def _take(browser, url: str, said: str, folder: Path) -> None:
    for name, path, width, height, scheme in PAGES:
        _shoot(browser, f"{url}{path}", name, (width, height), scheme)
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{url}/workloads?sort=-saving")
    first = page.locator("table.workloads tbody th a").first.get_attribute("href")
    context.close()
    _shoot(browser, f"{url}{first}", "workload", (1120, 860), "light")
    _shoot(browser, f"{url}{first}#use", "use", (1120, 620), "light")
    _shoot(
        browser, (folder / "example" / "weekly-report.html").as_uri(), "report", (900, 860), "light"
    )
    chinese = folder / "report-zh.html"
    chinese.write_text(_in_chinese(url), encoding="utf-8")
    _shoot(browser, chinese.as_uri(), "report-zh", (900, 860), "light")
    terminal = folder / "terminal.html"
    terminal.write_text(_TERMINAL.format(text=html.escape(_shown(said))), encoding="utf-8")
    _shoot(browser, terminal.as_uri(), "demo", (1120, 600), "dark")


def _shown(said: str) -> str:
    """What the demo said, without where its temporary files lay."""
    return re.sub(r"/\S*gputailor-pictures-\w+", "…", said)


def _shoot(browser, address: str, name: str, size: tuple[int, int], scheme: str) -> None:
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme=scheme
    )
    page = context.new_page()
    page.goto(address)
    page.screenshot(path=FOLDER / f"{name}.png")
    context.close()


if __name__ == "__main__":
    sys.exit(main())
