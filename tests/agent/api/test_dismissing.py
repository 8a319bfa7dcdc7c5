"""Dismissing advice by page and API: by whom, why, until when; and what is not let through."""

import re
from datetime import UTC, datetime
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient

from gputailor_agent.api.app import create_app
from tests.agent.api.standing import OTHER, TOKEN, Book, State, guarded
from tests.agent.reports.plans import FEWER, IDLE, UNSEEN, sample_plan

BEARER = {"authorization": f"Bearer {TOKEN}"}
PAGE = f"/workloads/{quote(IDLE)}"


@pytest.fixture
def book():
    return Book()


@pytest.fixture
def client(tmp_path, book):
    made = create_app(State(sample_plan()), doors=guarded(tmp_path), kept=book)
    return TestClient(made, follow_redirects=False)


@pytest.fixture
def browser(client):
    client.post("/login", data={"token": TOKEN, "next": "/"})
    return client


def mark(client) -> str:
    return re.search(r'name="mark" value="(\w+)"', client.get(PAGE).text)[1]


def test_a_form_dismisses_with_name_reason_and_end(browser, book):
    fields = {"mark": mark(browser), "rule": "idle", "do": "dismiss", "reason": " on  call "}
    done = browser.post(PAGE, data=fields | {"until": "2999-01-01"})
    assert (done.status_code, done.headers["location"]) == (303, f"{PAGE}?done=dismissed")
    (made,) = book.decisions()
    assert (made.workload_id, made.rule, made.kind) == (IDLE, "idle", "dismissed")
    assert (made.reason, made.decided_by) == ("on call", "ops")
    assert made.until == datetime(2999, 1, 1, tzinfo=UTC).timestamp()
    page = browser.get(PAGE).text
    assert "Dismissed by ops at" in page
    assert "on call" in page
    taken = browser.post(PAGE, data=fields | {"do": "withdraw"})
    assert taken.headers["location"].endswith("done=withdrawn")
    assert book.decisions() == []


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"reason": " "}, "Say why"),
        ({"reason": "x" * 501}, "longer than 500"),
        ({"reason": "a\u202eb"}, "cannot be shown"),
        ({"reason": "a", "until": "2001-01-01"}, "is over"),
        ({"reason": "a", "until": "soon"}, "Expected a day"),
        ({"reason": "a", "rule": "no_such"}, "There is no rule"),
        ({"reason": "a", "do": "x"}, "Expected to dismiss"),
        ({"reason": "a", "rule": "spot"}, "no finding of spot"),
    ],
)
def test_what_cannot_be_done_is_told_and_nothing_is_kept(browser, book, fields, told):
    given = {"mark": mark(browser), "rule": "idle", "do": "dismiss"}
    answer = browser.post(PAGE, data=given | fields)
    assert answer.status_code == 422
    assert told in answer.text
    assert book.decisions() == []


@pytest.mark.parametrize("given", ["", "0" * 64, "é"])
def test_a_form_without_this_pages_mark_is_refused(browser, book, given):
    fields = {"mark": given, "rule": "idle", "do": "dismiss", "reason": "x"}
    assert browser.post(PAGE, data=fields).status_code == 403
    assert book.decisions() == []


def test_a_mark_is_of_one_visitor(tmp_path, book):
    made = create_app(State(sample_plan()), doors=guarded(tmp_path), kept=book)
    one, other = TestClient(made), TestClient(made)
    one.post("/login", data={"token": TOKEN})
    other.post("/login", data={"token": OTHER})
    assert mark(one) != mark(other)


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_a_form_of_another_site_is_refused_whatever_it_holds(browser, book, headers):
    fields = {"mark": mark(browser), "rule": "idle", "do": "dismiss", "reason": "x"}
    assert browser.post(PAGE, data=fields, headers=headers).status_code == 403
    assert book.decisions() == []


def test_own_forms_pass_by_either_sign_of_the_browser(browser, book):
    fields = {"mark": mark(browser), "rule": "idle", "do": "dismiss", "reason": "x"}
    for headers in ({"origin": "http://testserver"}, {"sec-fetch-site": "same-origin"}):
        assert browser.post(PAGE, data=fields, headers=headers).status_code == 303


def test_nothing_can_be_changed_without_a_name(book):
    client = TestClient(create_app(State(sample_plan()), kept=book))
    page = client.get(PAGE).text
    assert 'method="post"' not in page
    assert "gputailor dismiss WORKLOAD RULE" in page
    assert client.post(PAGE, data={"rule": "idle"}).status_code == 403
    asked = {"workload": IDLE, "rule": "idle", "reason": "x"}
    assert client.post("/api/v1/dismissals", json=asked).status_code == 403
    assert book.decisions() == []


def test_who_may_only_read_changes_nothing(tmp_path, book):
    access = "ops: {teams: all, write: false}\n"
    client = TestClient(
        create_app(State(sample_plan()), doors=guarded(tmp_path, access=access), kept=book)
    )
    assert "ops may read and change nothing" in client.get(PAGE, headers=BEARER).text
    asked = {"workload": IDLE, "rule": "idle", "reason": "x"}
    assert client.post("/api/v1/dismissals", json=asked, headers=BEARER).status_code == 403


def test_a_program_dismisses_with_its_token(client, book):
    asked = {"workload": IDLE, "rule": "idle", "reason": "bought", "until": "2999-01-01"}
    assert client.post("/api/v1/dismissals", json=asked, headers=BEARER).status_code == 204
    assert book.decisions()[0].decided_by == "ops"
    gone = {"params": {"workload": IDLE, "rule": "idle"}, "headers": BEARER}
    assert client.delete("/api/v1/dismissals", **gone).status_code == 204
    assert client.delete("/api/v1/dismissals", **gone).status_code == 404


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b'{"workload": "x/y/z/w", "rule": "idle", "reason": "a"}', "application/json", 404),
        (b'{"workload": "team-a", "rule": "idle", "reason": "a"}', "application/json", 404),
        (b'{"rule": "idle"}', "application/json", 422),
        (b'{"workload": 1, "rule": "idle", "reason": "a"}', "application/json", 422),
        (b"[", "application/json", 422),
        (b'{"workload": "x", "rule": "idle", "reason": "a"}', "text/plain", 422),
        (b" " * 20_000, "application/json", 413),
    ],
)
def test_a_document_that_cannot_be_used_is_told(client, book, body, kind, status):
    headers = BEARER | {"content-type": kind}
    answer = client.post("/api/v1/dismissals", content=body, headers=headers)
    assert (answer.status_code, book.decisions()) == (status, [])
    assert answer.json()["error"]


def test_what_was_not_found_is_dismissed_only_by_who_means_it(client, book):
    asked = {"workload": IDLE, "rule": "spot", "reason": "x"}
    answer = client.post("/api/v1/dismissals", json=asked, headers=BEARER)
    assert (answer.status_code, book.decisions()) == (404, [])
    assert "no finding of spot; there are: idle" in answer.json()["error"]
    unseen = client.post(
        "/api/v1/dismissals", json=asked | {"workload": UNSEEN, "rule": "idle"}, headers=BEARER
    )
    assert unseen.status_code == 404
    assert "no finding to decide about" in unseen.json()["error"]
    meant = asked | {"anyway": True}
    assert client.post("/api/v1/dismissals", json=meant, headers=BEARER).status_code == 204
    assert book.decisions()[0].rule == "spot"
    # there is a decision now, so its reason and end can be set anew
    assert client.post("/api/v1/dismissals", json=asked, headers=BEARER).status_code == 204


def test_all_of_a_workload_may_be_dismissed_whatever_was_found(client, book):
    asked = {"workload": UNSEEN, "rule": "all", "reason": "x"}
    assert client.post("/api/v1/dismissals", json=asked, headers=BEARER).status_code == 204
    assert [one.rule for one in book.decisions()] == ["all"]


def test_a_session_is_for_pages_and_not_for_the_api(browser, book):
    asked = {"workload": IDLE, "rule": "idle", "reason": "x"}
    assert browser.post("/api/v1/dismissals", json=asked).status_code == 403
    assert book.decisions() == []


def test_a_team_dismisses_its_own_workloads_only(tmp_path, book):
    access = "team-a: ['namespace:team-a']\n"
    client = TestClient(
        create_app(State(sample_plan()), doors=guarded(tmp_path, access=access), kept=book)
    )
    team = {"authorization": f"Bearer {OTHER}"}
    for workload, status in ((FEWER, 404), (IDLE, 204)):
        asked = {"workload": workload, "rule": "idle", "reason": "x"}
        assert client.post("/api/v1/dismissals", json=asked, headers=team).status_code == status


def test_a_workload_without_advice_has_nothing_to_dismiss(browser):
    assert "Dismiss" not in browser.get(f"/workloads/{quote(UNSEEN)}").text
