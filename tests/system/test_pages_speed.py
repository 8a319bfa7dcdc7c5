"""Pages of 50,000 workloads: each within 300 ms, whatever is sorted, sought or paged to."""

import sys
import time

import httpx
import msgspec
import pytest

from gputailor_agent.cli.hosting import serving
from tests.agent.api.standing import Book, State, many
from tests.agent.reports.plans import sample_plan

pytestmark = pytest.mark.system

COUNT = 50_000
MOST_SECONDS = 0.3
PATHS = (
    "/workloads",
    "/workloads?page=500",
    "/workloads?page=999999999",
    "/workloads?sort=-saving&page=900",
    "/workloads?sort=use",
    "/workloads?sort=-name&size=250&page=100",
    "/workloads?q=team-7%20main",
    "/workloads?state=finding&namespace=team-3&sort=-cost",
    "/workloads/team-1/Deployment/baaa-1/main",
    "/",
    "/coverage",
    "/nodes",
    "/api/v1/workloads?limit=1000",
    "/api/v1/findings?sort=-saving",
    "/api/v1/plan",
)


@pytest.fixture(scope="module")
def plan():
    return sample_plan(verdicts=many(COUNT))


def fastest(client, path: str) -> float:
    """The best of five: what the page costs, not what else the machine does."""
    took = []
    for _ in range(5):
        began = time.perf_counter()
        answer = client.get(path)
        took.append(time.perf_counter() - began)
        assert answer.status_code == 200
    return min(took)


def test_every_page_of_50_000_workloads_comes_within_300_ms(plan, record_property):
    with (
        serving(State(plan), "127.0.0.1:0", kept=Book()) as url,
        httpx.Client(base_url=url, trust_env=False, timeout=60) as client,
    ):
        client.get("/workloads")
        took = {path: fastest(client, path) for path in PATHS}
        record_property("seconds", took)
        sys.stdout.write(f"{ {path: round(one * 1000) for path, one in took.items()} } ms\n")
        assert {path: seconds for path, seconds in took.items() if seconds > MOST_SECONDS} == {}


def test_the_whole_report_is_encoded_once_and_then_sent_as_it_is(plan, record_property):
    path, zipped = "/api/v1/report", {"accept-encoding": "gzip"}
    with (
        serving(State(plan), "127.0.0.1:0", kept=Book()) as url,
        httpx.Client(base_url=url, trust_env=False, timeout=60) as client,
    ):
        client.get("/api/v1/plan")
        began = time.perf_counter()
        with client.stream("GET", path, headers=zipped) as answer:
            tag, size = answer.headers["etag"], sum(map(len, answer.iter_raw()))
        took = {"first": time.perf_counter() - began}
        for name, more in (("again", {}), ("known", {"if-none-match": tag})):
            best = []
            for _ in range(5):
                began = time.perf_counter()
                with client.stream("GET", path, headers=zipped | more) as answer:
                    sent = sum(map(len, answer.iter_raw()))
                best.append(time.perf_counter() - began)
            took[name] = min(best)
            assert sent == (0 if more else size)
    record_property("seconds", took)
    sys.stdout.write(f"{ {name: round(one * 1000, 1) for name, one in took.items()} } ms\n")
    assert size < 10_000_000
    assert took["again"] < MOST_SECONDS
    assert took["known"] < MOST_SECONDS / 10


def test_nobody_waits_for_a_plan_that_was_just_made(plan):
    state = State(plan)
    with (
        serving(state, "127.0.0.1:0", kept=Book()) as url,
        httpx.Client(base_url=url, trust_env=False, timeout=60) as client,
    ):
        assert client.get("/api/v1/plan").json()["totals"]["states"]["finding"] == COUNT // 5
        state.plan = msgspec.structs.replace(plan, verdicts=plan.verdicts[: COUNT - 5])
        first = client.get("/api/v1/workloads?limit=1").json()
        assert first["total"] == COUNT  # the former one, whole
        until = time.monotonic() + 60
        while client.get("/api/v1/workloads?limit=1").json()["total"] == COUNT:
            assert time.monotonic() < until
            time.sleep(0.1)
        assert client.get("/api/v1/workloads?limit=1").json()["total"] == COUNT - 5
