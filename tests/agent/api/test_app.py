"""Pages and API over HTTP: the latest plan, safely escaped, and health."""

import json
import re
from datetime import UTC, datetime
from html.parser import HTMLParser
from urllib.parse import quote

import jsonschema
import pytest
from fastapi.testclient import TestClient

from gputailor_agent.api.app import create_app
from gputailor_agent.reports import json_report
from tests.agent.api.standing import State
from tests.agent.reports.plans import FEWER, IDLE, UNSEEN, sample_plan, verdict


@pytest.fixture
def client() -> TestClient:
    return TestClient(create_app(State(sample_plan())))


@pytest.fixture
def empty() -> TestClient:
    return TestClient(create_app(State(None)))


class Outline(HTMLParser):
    """Tags and addresses of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attributes]
        self.addresses += [value for name, value in attributes if name in {"href", "src"}]


def test_the_page_shows_money_states_and_unknown(client):
    answer = client.get("/")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "USD 2,500/month" in answer.text
    assert "2 to change, 1 watching, 1 unknown, 1 fine" in answer.text
    assert "node-3: no page since" in answer.text


@pytest.mark.parametrize("path", ["/", "/workloads", f"/workloads/{quote(IDLE)}", "/coverage"])
def test_pages_load_nothing_from_elsewhere_and_run_one_script_of_ours(client, path):
    answer = client.get(path)
    outline = Outline(answer.text)
    assert all(re.match(r"/(?!/)|#", address) for address in outline.addresses)
    assert not {"img", "iframe", "style", "base"} & set(outline.tags)
    assert outline.tags.count("script") == 1
    assert ("script", "src", "/static/page.js") in outline.attributes
    assert not {name for _, name, _ in outline.attributes if name.startswith("on")}
    assert "style" not in {name for _, name, _ in outline.attributes}
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


@pytest.mark.parametrize("path", ["/", "/workloads", f"/workloads/{quote(IDLE)}", "/nodes"])
def test_pages_can_be_read_by_everyone(client, path):
    page = client.get(path).text
    outline = Outline(page)
    assert '<html lang="en">' in page
    assert outline.tags.count("h1") == 1
    assert outline.tags.count("main") == 1
    scopes = {value for tag, name, value in outline.attributes if tag == "th" and name == "scope"}
    assert scopes == {"col", "row"}
    assert 'name="viewport"' in page
    assert "prefers-color-scheme: dark" in client.get("/static/style.css").text


def test_every_workload_of_the_table_leads_to_its_explanation(client):
    page = client.get("/workloads").text
    links = set(re.findall(r'href="(/workloads/[^"]+)"', page))
    assert len(links) == 5
    for link in links:
        assert client.get(link).status_code == 200


def test_a_workload_split_by_shape_has_a_page():
    identity = "team-a/Job/x/main#1"
    client = TestClient(create_app(State(sample_plan(verdicts=(verdict(identity, "ok"),)))))
    link = re.search(r'href="(/workloads/[^"]+)"', client.get("/workloads").text)
    assert link
    assert "%23" in link[1]
    assert identity in client.get(link[1]).text


def test_an_unknown_workload_is_not_found_and_gets_suggestions(client):
    page = client.get("/workloads/trian")
    assert page.status_code == 404
    assert f"<li>{FEWER}</li>" in page.text
    assert "<h1><bdi>Not found</bdi></h1>" in page.text
    api = client.get("/api/v1/workloads/trian")
    assert api.status_code == 404
    assert FEWER in api.json()["error"]


def test_the_api_gives_the_report_as_the_command_line_does(client):
    answer = client.get("/api/v1/report")
    assert answer.headers["content-type"] == "application/json"
    jsonschema.validate(answer.json(), json.loads(json_report.schema()))
    assert answer.text == json_report.encode(json_report.plan_document(sample_plan()))


def test_the_api_lists_workloads_and_keeps_unknown_null(client):
    listed = client.get("/api/v1/workloads").json()["workloads"]
    assert [one["id"] for one in listed][:2] == [IDLE, FEWER]
    one = client.get(f"/api/v1/workloads/{quote(UNSEEN)}").json()
    assert one["explanation"]["verdict"]["mean_kernel"] is None


def test_every_api_path_is_described(client):
    described = client.get("/api/v1/openapi.json").json()
    assert set(described["paths"]) == {
        "/api/v1/coverage",
        "/api/v1/dismissals",
        "/api/v1/findings",
        "/api/v1/ledger",
        "/api/v1/nodes",
        "/api/v1/plan",
        "/api/v1/report",
        "/api/v1/reports",
        "/api/v1/reports/{period}",
        "/api/v1/reports/{period}/markdown",
        "/api/v1/tasks",
        "/api/v1/workloads",
        "/api/v1/workloads/{workload_id}",
        "/healthz",
        "/readyz",
    }


def test_findings_are_listed_flat_with_what_saves_most_first(client, empty):
    listed = client.get("/api/v1/findings").json()
    assert [one["workload"] for one in listed["findings"]] == [IDLE, FEWER]
    first = listed["findings"][0]
    assert (first["rule"], first["namespace"], first["kind"]) == ("idle", *IDLE.split("/")[:2])
    assert first["message"]
    assert first["change"]
    assert first["saving_money_per_month"]["currency"] == "USD"
    assert empty.get("/api/v1/findings").status_code == 503


def test_weekly_reports_are_listed_and_given_as_they_were_made(client, empty):
    (listed,) = client.get("/api/v1/reports").json()["reports"]
    assert listed["period"] == "2026-01-05T07:00"
    assert (listed["window_end"], listed["made_at"]) == (
        "2026-01-05T07:00:00Z",
        "2026-01-05T07:01:01Z",
    )
    assert client.get(listed["json"]).json() == {"kind": "report"}
    markdown = client.get(listed["markdown"])
    assert (markdown.text, markdown.headers["content-type"]) == (
        "# Report\n",
        "text/markdown; charset=utf-8",
    )
    assert empty.get("/api/v1/reports").json() == {"reports": []}


def test_a_report_that_is_not_kept_is_told_with_those_that_are(client):
    for path in ("/api/v1/reports/2026-01-12T07:00", "/api/v1/reports/x/markdown"):
        answer = client.get(path)
        assert answer.status_code == 404
        assert "there is: 2026-01-05T07:00" in answer.json()["error"]


def test_pages_lead_to_the_weekly_reports(client):
    assert 'href="/reports/2026-01-05T07%3A00"' in client.get("/").text
    archive = client.get("/reports").text
    links = re.findall(r'href="((?:/api/v1)?/reports/[^"]+)"', archive)
    assert [client.get(link).status_code for link in links] == [200, 200, 200]
    assert "# Report" in client.get(links[0]).text
    assert client.get("/reports/2026-01-12T07:00").status_code == 404


def test_pages_say_when_they_were_made_and_that_scraping_goes_on(client):
    made = datetime.fromtimestamp(sample_plan().made_at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    for path in ("/", f"/workloads/{quote(IDLE)}"):
        page = client.get(path).text
        assert f"Made at {made}." in page
        assert "Last scrape at 2026-01-05 11:00:05 UTC: 4 of 5 exporters answered." in page


@pytest.mark.parametrize("path", ["/", "/api/v1/report", "/api/v1/workloads", "/workloads/x"])
def test_before_the_first_plan_nothing_is_made_up(empty, path):
    answer = empty.get(path)
    assert answer.status_code == 503
    assert "No report yet" in answer.text


def test_health_is_about_the_process_and_readiness_about_the_report(client, empty):
    assert client.get("/healthz").status_code == 200
    assert empty.get("/healthz").status_code == 200
    assert client.get("/readyz").status_code == 200
    assert empty.get("/readyz").status_code == 503
    assert "no plan yet" in empty.get("/readyz").text


def test_metrics_are_served_with_the_type_prometheus_3_wants(client):
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert "gputailor_agent_test 1.0" in answer.text


def test_a_cluster_of_which_nothing_is_measured_yet_is_not_called_fine():
    for verdicts in ((), (verdict(UNSEEN, "unknown", coverage=0.0, mean_kernel=None),)):
        plan = sample_plan(verdicts=verdicts, saving_money_per_month=None)
        page = TestClient(create_app(State(plan))).get("/").text
        assert "Not judged yet" in page
        assert "Nothing to change was found" not in page
        assert "nothing found" not in page


@pytest.mark.parametrize(
    "path", ["/", f"/workloads/{quote(IDLE)}", "/api/v1/report", "/metrics", "/healthz", "/readyz"]
)
def test_head_answers_like_get_without_the_body(client, path):
    asked, got = client.head(path), client.get(path)
    assert (asked.status_code, asked.content) == (got.status_code, b"")
    assert asked.headers["content-type"] == got.headers["content-type"]
    assert asked.headers["content-length"] == got.headers["content-length"]


BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


def test_a_browser_gets_a_page_for_an_address_that_there_is_not(client):
    page = client.get("/wrong/<b>", headers=BROWSER)
    assert page.status_code == 404
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["content-security-policy"]
    assert "<h1><bdi>Not found</bdi></h1>" in page.text
    assert "<b>" not in page.text
    assert 'href="/"' in page.text


@pytest.mark.parametrize(
    ("path", "headers"), [("/wrong", {}), ("/api/v1/wrong", BROWSER), ("/api/v1/wrong", {})]
)
def test_everybody_else_gets_json(client, path, headers):
    answer = client.get(path, headers=headers)
    assert (answer.status_code, answer.json()) == (404, {"error": f"Not Found: {path}"})


def test_a_method_that_is_not_allowed_says_which_is(client):
    answer = client.post("/", headers=BROWSER)
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET")
    assert "<h1><bdi>Not allowed</bdi></h1>" in answer.text


def test_jobs_and_what_became_of_findings_are_told_even_before_the_first_plan(empty):
    (task,) = empty.get("/api/v1/tasks").json()["tasks"]
    assert (task["job"], task["reason"], task["done_at"]) == ("report", "disk is full", None)
    assert task["started_at"] == "2027-01-15T08:00:00Z"
    assert empty.get("/api/v1/ledger").json()["findings"] == []


def test_troubles_are_listed_though_a_report_can_be_served():
    state = State(sample_plan())
    state.troubles = lambda: ["failing: scrape: disk is full (since 2027-01-15 08:00 UTC)"]
    answer = TestClient(create_app(state)).get("/readyz")
    assert (answer.status_code, answer.text.splitlines()[1][:15]) == (200, "failing: scrape")
