"""Writes every dashboard of this package as JSON; ``gputailor dashboards generate`` calls it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from grafanalib._gen import DashboardEncoder

from gputailor_dashboards import overview
from gputailor_dashboards.modern import modernise

BUILDERS: Final[dict[str, Callable[[], Any]]] = {"cluster": overview.build}


def render(name: str) -> str:
    """JSON text of one dashboard, with sorted keys and a newline at the end."""
    raw = BUILDERS[name]().to_json_data()
    plain = json.loads(json.dumps(raw, cls=DashboardEncoder))
    return json.dumps(modernise(plain), indent=2, sort_keys=True) + "\n"


def generate(folder: Path) -> list[Path]:
    """Write ``<name>.json`` for every dashboard into ``folder``; returns the files written.

    Raises ``OSError`` when the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name in sorted(BUILDERS):
        path = folder / f"{name}.json"
        path.write_text(render(name), encoding="utf-8")
        written.append(path)
    return written
