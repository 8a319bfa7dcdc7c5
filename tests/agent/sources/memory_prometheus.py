"""A Prometheus in memory: samples over time, and just the queries that containers are read with."""

import re
from urllib.parse import parse_qs

import httpx
from prometheus_client.parser import text_string_to_metric_families

from gputailor_agent.sources.prometheus import Access
from gputailor_agent.sources.prometheus.client import PrometheusClient

LOOK_BACK = 300
SCRAPE = 30
_QUERY = re.compile(r"(?:(?P<way>\w+)_over_time\()?(?P<selector>[^\[]+?)(?:\[(?P<span>\w+)\]\)?)?")
_SELECTOR = re.compile(r"(?P<name>[\w:]*)(?:\{(?P<matchers>.*)\})?")
_MATCHER = re.compile(r'(\w+)(=~|!=|=)"((?:[^"\\]|\\.)*)"')
_WAYS = {"avg": lambda v: sum(v) / len(v), "max": max, "count": len}


class MemoryPrometheus:
    """Answers the HTTP API; ``touched`` counts samples as Prometheus does."""

    def __init__(self):
        self.series = {}  # labels -> samples in order of time
        self.touched = 0
        self.asked = []

    def client(self):
        transport = httpx.MockTransport(self)
        return PrometheusClient("http://p", Access(attempts=1), transport=transport)

    def scrape(self, page, at, **target):
        """Keep a page's samples with the target's labels, as a scrape at a time does."""
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                labels = {
                    (f"exported_{name}" if name in target else name): value
                    for name, value in sample.labels.items()
                }
                labels = {"__name__": sample.name, **labels, **target}
                key = tuple(sorted((k, v) for k, v in labels.items() if v))
                self.series.setdefault(key, []).append((at, float(sample.value)))

    def scrapes(self, page_of, begin, end, **target):
        """Scrape ``page_of(at)`` all the time."""
        for at in range(begin, end + 1, SCRAPE):
            self.scrape(page_of(at), at, **target)

    def __call__(self, request):
        path = request.url.path.partition("/api/v1/")[2]
        text = request.content.decode() or request.url.query.decode()
        form = {name: values[0] for name, values in parse_qs(text).items()}
        if path == "label/__name__/values":
            data = sorted({dict(key)["__name__"] for key, _ in self._chosen(form["match[]"])})
        elif path == "series":
            start, end = float(form["start"]), float(form["end"])
            data = [
                dict(key)
                for key, samples in self._chosen(form["match[]"])
                if any(start <= at <= end for at, _ in samples)
            ]
        elif path == "query":
            self.asked.append(form["query"])
            data = self._evaluate(form["query"], float(form["time"]))
        elif path == "query_range":
            self.asked.append(form["query"])
            start, end, step = (int(float(form[name])) for name in ("start", "end", "step"))
            data = self._ranged(form["query"], range(start, end + 1, step))
        else:
            return httpx.Response(404)
        return httpx.Response(200, json={"status": "success", "data": data})

    def _chosen(self, selector):
        found = _SELECTOR.fullmatch(selector)
        assert found is not None, selector
        wanted = [
            (label, how, re.sub(r"\\(.)", r"\1", text.replace("\\\\", "\0")).replace("\0", "\\"))
            for label, how, text in _MATCHER.findall(found["matchers"] or "")
        ]
        if found["name"]:
            wanted.append(("__name__", "=", found["name"]))
        return [
            (key, samples)
            for key, samples in self.series.items()
            if all(_fits(dict(key).get(label, ""), how, text) for label, how, text in wanted)
        ]

    def _ranged(self, query, times):
        found = {}
        for at in times:
            for one in self._evaluate(query, at)["result"]:
                key = tuple(sorted(one["metric"].items()))
                found.setdefault(key, {"metric": one["metric"], "values": []})
                found[key]["values"].append(one["value"])
        return {"resultType": "matrix", "result": list(found.values())}

    def _evaluate(self, query, at):
        found = _QUERY.fullmatch(query)
        assert found is not None, query
        span = LOOK_BACK if found["span"] is None else _seconds(found["span"])
        chosen = [
            (dict(key), inside)
            for key, samples in self._chosen(found["selector"])
            if (inside := [(t, v) for t, v in samples if at - span < t <= at])
        ]
        if found["span"] and not found["way"]:
            self.touched += sum(len(inside) for _, inside in chosen)
            values = [{"metric": m, "values": [[t, str(v)] for t, v in s]} for m, s in chosen]
            return {"resultType": "matrix", "result": values}
        way = _WAYS[found["way"]] if found["way"] else lambda values: values[-1]
        self.touched += sum(len(inside) if found["way"] else 1 for _, inside in chosen)
        if found["way"]:
            chosen = [({k: v for k, v in m.items() if k != "__name__"}, s) for m, s in chosen]
        values = [
            {"metric": labels, "value": [at, str(way([v for _, v in inside]))]}
            for labels, inside in chosen
        ]
        return {"resultType": "vector", "result": values}


def _fits(value, how, text):
    if how == "=~":
        return re.fullmatch(text, value) is not None
    return (value == text) is (how == "=")


def _seconds(span):
    found = re.fullmatch(r"(\d+)s(?:(\d+)ms)?", span)
    assert found is not None, span
    return int(found[1]) + int(found[2] or 0) / 1000
