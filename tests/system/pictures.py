"""Writes ``docs/pictures``: the demo's terminal, its pages and its weekly report, in a browser.

``python -m tests.system.pictures`` (``make pictures``). Everything shown is of the simulated
cluster; a picture that grew beyond what a repository should carry is an error.
"""

import html
import re
import sys
import tempfile
from pathlib import Path
from typing import Final

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
