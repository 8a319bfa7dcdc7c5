"""A Prometheus that has scraped one and the same page every 30 s for ever, answered in memory.

A value that changes is a function of the time (Unix seconds), which gives None where it is absent.

It knows just the queries that dialects of gauges are read with; anything else fails the test.
"""

import re
from collections.abc import Callable, Iterable
from statistics import fmean
from urllib.parse import parse_qs

import httpx
from prometheus_client.parser import text_string_to_metric_families

from gputailor_agent.model.usage import UsageRow
from gputailor_agent.rollup.history import History, read_window
from gputailor_agent.sources.prometheus import Access, PrometheusSource

HOUR = 3600
BEGIN = 1_768_046_400
SCRAPE = 30
_QUERY = re.compile(r"(?:(\w+)_over_time\()?([\w:]+)(?:\{(.*?)\})?(?:\[(\w+)\]\)?)?$")
_MATCHER = re.compile(r'([\w]+)="((?:[^"\\]|\\.)*)"')

Value = float | Callable[[int], float | None]
_WAYS = {"count": len, "avg": fmean, "max": max, "min": min}


def samples_of(page: str, **target: str) -> list[tuple[dict[str, str], float]]:
    """Every sample of a page with the labels of the target that Prometheus adds."""
    found = []
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            labels = {"__name__": sample.name, **_renamed(sample.labels, target), **target}
            found.append(({k: v for k, v in labels.items() if v}, float(sample.value)))
    return found


def _renamed(labels: dict[str, str], target: dict[str, str]) -> dict[str, str]:
    return {f"exported_{k}" if k in target else k: v for k, v in labels.items()}


class Served:
    """The server's answers; ``samples`` of all targets together."""

    def __init__(self, samples: Iterable[tuple[dict[str, str], Value]]) -> None:
        self.samples = list(samples)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.partition("/api/v1/")[2]
        form = {k: v[0] for k, v in parse_qs(request.content.decode()).items()}
        if path == "label/__name__/values":
            return _answer(sorted({labels["__name__"] for labels, _ in self.samples}))
        if path == "series":
            return _answer([])  # no exporter's own pod is known
        if path not in {"query", "query_range"}:
            return httpx.Response(404)  # a server without that page
        kind, result = self._evaluate(path, form)
        return _answer({"resultType": kind, "result": result})

    def _evaluate(self, path, form):
        query = form["query"]
        whole = re.fullmatch(r"count\((.*)\)", query)
        found = _QUERY.fullmatch(whole.group(1) if whole else query)
        assert found is not None, query
        chosen = self._chosen(found[2], found[3] or "")
        if path == "query_range":
            return "matrix", _ranged(chosen, found[1], form)
        at = float(form["time"])
        if "[" in query:
            return "matrix", _raw(chosen, at)
        now = [(labels, _at(value, at)) for labels, value in chosen]
        now = [(labels, value) for labels, value in now if value is not None]
        vector = [({}, len(now))] if whole else now
        return "vector", [{"metric": m, "value": [at, str(v)]} for m, v in vector]

    def _chosen(self, name, matchers):
        wanted = {k: v.replace("\\\\", "\\") for k, v in _MATCHER.findall(matchers)}
        return [
            (labels, value)
            for labels, value in self.samples
            if labels["__name__"] == name and all(labels.get(k, "") == v for k, v in wanted.items())
        ]


def _at(value, at):
    return value(at) if callable(value) else value


def _ranged(chosen, way, form):
    begin, end, step = (int(float(form[name])) for name in ("start", "end", "step"))
    found = []
    for labels, value in chosen:
        told = []
        for at in range(begin, end + 1, step):
            there = (_at(value, when) for when in range(at - step + SCRAPE, at + 1, SCRAPE))
            seen = [one for one in there if one is not None]
            if seen:
                told.append([at, str(_WAYS[way](seen))])
        plain = {k: v for k, v in labels.items() if k != "__name__"}
        found.append({"metric": plain, "values": told})
    return found


def _raw(chosen, at):
    times = [at - age for age in range(300, -1, -SCRAPE)]
    return [
        {"metric": m, "values": [[when, str(_at(v, when))] for when in times]} for m, v in chosen
    ]


def _answer(data) -> httpx.Response:
    return httpx.Response(200, json={"status": "success", "data": data})


def history_of(*samples: Iterable[tuple[dict[str, str], Value]]) -> History:
    """What one hour of these targets' pages comes to."""
    server = Served(sample for target in samples for sample in target)
    transport = httpx.MockTransport(server)
    with PrometheusSource("http://p", "test", access=Access(), transport=transport) as source:
        return read_window(source, BEGIN, BEGIN + HOUR)


def told(row: UsageRow) -> dict[str, object]:
    """A golden row: whom it is of, its means and figures."""
    key = row.key
    return {
        "of": (key.namespace, key.pod, key.container, key.gpu_uuid),
        "dialect": row.dialect,
        "hours": row.allocated_seconds / HOUR,
        **{name: round(use.mean, 3) for name, use in sorted(row.signals.items())},
        "memory": row.memory_peak_bytes,
        "of_memory": row.memory_total_bytes,
        "watts": None if row.energy_joules is None else round(row.energy_joules / HOUR, 1),
    }


def rows_of(page: str, **target: str) -> list[dict[str, object]]:
    """Golden rows of one page, in order."""
    target = {"job": "gpu", "instance": "10.0.0.7:9400", **target}
    rows = history_of(samples_of(page, **target)).rows
    return [told(row) for row in sorted(rows, key=lambda row: row.key)]
