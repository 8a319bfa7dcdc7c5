"""Names that were made to harm: on every page they are text, and nothing else."""

import asyncio
from html.parser import HTMLParser
from urllib.parse import quote, unquote

import httpx
import pytest
from fastapi.testclient import TestClient

from gputailor_agent.api.app import create_app
from gputailor_agent.model.judgement import Change
from tests.agent.api.standing import TOKEN, Book, State, guarded
from tests.agent.reports.plans import finding, sample_plan, verdict, workload

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "javascript:alert(1)",
    "a?x=1&lang=zh#top",
    "..%2f..%2fetc",
    "\u202egnp.exe\u202c",
    "{{ 7 * 7 }}{% raw %}",
    "</code></pre><form action=//evil>",
    "x" * 253,
    "\x1b[2J\x07",
    "%00%0d%0aSet-Cookie:a=b",
)


class Tags(HTMLParser):
    """Tags with their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))


def plan_of(name: str):
    # a slash would be another part of the id
    part = name.replace("/", "\u2215")
    identity = f"{part}/{part}/{part}/{part}"
    one = verdict(
        identity,
        "finding",
        workload=workload(identity, team=name, image=name),
        primary=finding(
            identity, "idle", 5.0, change=Change(kind="release", target=name, patch=name)
        ),
        device_models=(name,),
        dialects=(name,),
    )
    return sample_plan(verdicts=(one,), problems=(name,), cluster=name), identity


def pages(name: str, tmp_path):
    plan, identity = plan_of(name)
    made = create_app(State(plan), doors=guarded(tmp_path), kept=Book())
    client = TestClient(made, headers={"authorization": f"Bearer {TOKEN}"})
    link = f"/workloads/{quote(identity)}"
    for path in ("/", "/workloads", link, "/nodes", "/coverage", "/reports"):
        yield path, client.get(path)
    yield "search", client.get("/workloads", params={"q": name, "team": name, "rule": name})
    yield "nowhere", client.get(f"/{quote(name)}", headers={"accept": "text/html"})
    yield "no workload", client.get(f"/workloads/{quote(name)}-none")
    yield "signing in", client.get("/login", params={"next": f"/{name}"})


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_makes_no_tag_attribute_or_address(name, tmp_path):
    allowed = {tag for _, answer in pages("plain", tmp_path) for tag, _ in Tags(answer.text).found}
    for path, answer in pages(name, tmp_path):
        assert answer.status_code in {200, 404}, path
        tags = Tags(answer.text).found
        assert {tag for tag, _ in tags} <= allowed, path
        for tag, attributes in tags:
            assert not [one for one in attributes if one.startswith("on")], (path, tag)
            for key in ("href", "src", "action"):
                address = attributes.get(key)
                assert address is None or address[0] in "/#", (path, address)
                assert address is None or not address.startswith("//"), (path, address)
        assert "set-cookie" not in answer.headers


def asked(app, path: str) -> httpx.Response:
    """An answer by a transport that decodes addresses once, as servers do."""

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.get(path)

    return asyncio.run(ask())


@pytest.mark.parametrize("name", HOSTILE)
def test_a_link_to_a_hostile_name_leads_to_its_workload(name, tmp_path):
    plan, identity = plan_of(name)
    app = create_app(State(plan))
    tags = Tags(asked(app, "/workloads").text).found
    links = [a["href"] for tag, a in tags if tag == "a" and a["href"].startswith("/workloads/")]
    (link,) = links
    assert unquote(link) == f"/workloads/{identity}"
    told = asked(app, f"/api/v1{link}").json()
    assert told["explanation"]["verdict"]["workload"]["id"] == identity
    assert asked(app, link).status_code == 200


def test_names_that_run_the_other_way_cannot_turn_what_stands_beside_them():
    plan, _ = plan_of("\u202egnp.exe")
    page = TestClient(create_app(State(plan))).get("/workloads").text
    assert page.count("<bdi>") >= 1
    assert "<bdi>\u202egnp.exe" in page


def test_a_trackers_address_is_a_link_only_where_it_is_of_the_web():
    made = create_app(State(sample_plan()), kept=Book())
    page = TestClient(made).get("/workloads/team-a/Deployment/old/main").text
    assert "javascript:" not in page


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/..%2fapp.py",
        "/static/%2e%2e/app.py",
        "/static/",
        "/static/style.css/x",
        "/reports/..%2f..%2fetc%2fpasswd",
        "/api/v1/reports/" + "x" * 40,
        "/workloads/" + "x" * 1025,
    ],
)
def test_no_path_leads_to_a_file(path):
    answer = TestClient(create_app(State(sample_plan()))).get(path)
    assert answer.status_code in {404, 422}
    assert "import" not in answer.text


def test_an_error_never_repeats_what_was_sent_as_html():
    client = TestClient(create_app(State(sample_plan())))
    for path in ("/api/v1/workloads?limit=<b>x</b>", "/<b>x</b>", "/workloads/<b>x</b>"):
        answer = client.get(path, headers={"accept": "text/html"})
        assert "<b>" not in answer.text or answer.headers["content-type"] == "application/json"


def test_texts_in_chinese_are_as_safe():
    plan, identity = plan_of(HOSTILE[0])
    page = TestClient(create_app(State(plan))).get(f"/workloads/{quote(identity)}?lang=zh").text
    assert '<html lang="zh' in page
    assert "<script>alert" not in page
