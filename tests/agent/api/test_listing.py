"""Filtering, sorting and paging: nothing is missed or repeated, unknown is last, tags are right."""

from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st

from gputailor_agent.api.app import create_app
from gputailor_agent.api.listing import SORTS, CursorError, Index, Question
from gputailor_agent.reports import overview
from tests.agent.api.standing import State, many
from tests.agent.reports.plans import sample_plan

PLAN = sample_plan(verdicts=many(240))
INDEX = Index(PLAN)
ORDERS = st.tuples(st.sampled_from(["report", *SORTS]), st.booleans())


def ids(answer) -> list[str]:
    return [one.workload.id for one in answer.verdicts]


@pytest.fixture(scope="module")
def client():
    return TestClient(create_app(State(PLAN)))


@given(ORDERS, st.integers(1, 70), st.sampled_from(["", "team-1", "DEPLOYMENT a"]))
def test_cursors_go_through_everything_once(order, size, text):
    question = Question(text=text, sort=order[0], descending=order[1])
    seen, cursor = [], ""
    while True:
        answer = INDEX.after(question, cursor, size)
        seen += ids(answer)
        cursor = answer.after
        if not cursor:
            break
    assert seen == ids(INDEX.page(question, 1, 10_000))
    assert len(seen) == len(set(seen)) == answer.total


@given(ORDERS, st.integers(1, 100), st.sets(st.integers(0, 239)))
def test_what_goes_while_somebody_pages_hides_and_repeats_nothing_else(order, size, gone):
    question = Question(sort=order[0], descending=order[1])
    first = INDEX.after(question, "", size)
    left = [one for at, one in enumerate(PLAN.verdicts) if at not in gone]
    later = Index(msgspec.structs.replace(PLAN, verdicts=tuple(left)))
    rest = later.after(question, first.after, 1000) if first.after else later.page(question, 99, 1)
    stay = {one.workload.id for one in left}
    if first.after:
        expected = [one for one in ids(INDEX.page(question, 1, 1000))[size:] if one in stay]
        assert ids(rest) == expected


@given(ORDERS)
def test_unknown_is_last_in_either_direction(order):
    if order[0] == "report":
        return
    found = INDEX.page(Question(sort=order[0], descending=order[1]), 1, 1000).verdicts
    values = [SORTS[order[0]](one) for one in found]
    known = [value for value in values if value is not None]
    assert values == known + [None] * (len(values) - len(known))
    assert known == sorted(known, reverse=order[1])


def test_the_reports_order_is_that_of_the_report():
    expected = [line.verdict.workload.id for line in overview.lines(PLAN)]
    assert ids(INDEX.page(Question(), 1, 1000)) == expected


@pytest.mark.parametrize("number", [0, 1, 5, 10**9])
def test_a_page_past_either_end_is_the_nearest(number):
    answer = INDEX.page(Question(), number, 50)
    assert answer.start == (0 if number <= 1 else 200)
    assert answer.verdicts


@pytest.mark.parametrize(
    "cursor", ["x", "!!", "e30", "W10", "WzEsMiwzXQ", "W2ZhbHNlLCJhIiwiYiJd", "é", "A" * 4000]
)
def test_a_cursor_of_somewhere_else_is_told(client, cursor):
    with pytest.raises(CursorError, match="begin without it"):
        INDEX.after(Question(sort="cost"), cursor, 10)
    answer = client.get("/api/v1/workloads", params={"cursor": cursor, "sort": "cost"})
    assert answer.status_code == 422
    assert "cursor" in answer.json()["error"]


def test_the_api_pages_by_links(client):
    seen, path = [], "/api/v1/workloads?sort=-saving&limit=100&state=finding&state=ok"
    while path:
        answer = client.get(path)
        body = answer.json()
        seen += [one["id"] for one in body["workloads"]]
        path = body["next"]
        assert ("link" in answer.headers) == bool(path)
        if path:
            assert parse_qs(urlsplit(path).query)["state"] == ["finding", "ok"]
    assert len(seen) == len(set(seen)) == body["total"] == 144


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=1001",
        "limit=x",
        "sort=age",
        "state=great",
        "q=" + "x" * 1025,
        "&".join(f"team={at}" for at in range(51)),
    ],
)
def test_the_api_tells_what_it_cannot_do(client, query):
    answer = client.get(f"/api/v1/workloads?{query}")
    assert answer.status_code == 422
    assert answer.json()["error"]


@pytest.mark.parametrize(
    "query",
    ["page=-1", "page=x", "page=" + "9" * 30, "size=7", "sort=age", "state=great", "page=²"],
)
def test_the_page_makes_the_best_of_what_somebody_typed(client, query):
    answer = client.get(f"/workloads?{query}")
    assert answer.status_code == 200
    assert "<h1>Workloads</h1>" in answer.text


def test_many_filters_at_once_are_joined(client):
    query = "&".join(f"namespace=team-{at}" for at in range(50))
    found = client.get(f"/api/v1/workloads?{query}&state=finding&q=deployment main&kind=Deployment")
    assert found.json()["total"] == 48
    none = client.get("/workloads?q=no-such-thing").text
    assert "0 of 240 workloads fit." in none
    assert "None of the 240 workloads fits." in none


def test_the_table_links_to_the_other_pages_and_keeps_what_was_asked(client):
    page = client.get("/workloads?q=deployment&sort=-cost&size=25&page=2&lang=en").text
    for number in ("3", "10"):
        link = f"/workloads?q=deployment&amp;sort=-cost&amp;size=25&amp;lang=en&amp;page={number}"
        assert link in page
    assert "Page 2 of 10" in page
    assert '<option value="-cost" selected>' in page


def test_a_tag_spares_what_has_not_changed(client):
    state = State(PLAN)
    own = TestClient(create_app(state))
    first = own.get("/api/v1/workloads")
    tag = first.headers["etag"]
    for asked in (tag, f"W/{tag}", f'"x", {tag}', "*"):
        again = own.get("/api/v1/workloads", headers={"if-none-match": asked})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert own.get("/api/v1/workloads?limit=5").headers["etag"] != tag
    state.plan = msgspec.structs.replace(PLAN, verdicts=PLAN.verdicts[1:])
    assert own.get("/api/v1/workloads", headers={"if-none-match": tag}).status_code == 200


@pytest.mark.parametrize(
    "asked", ['"', "W/", '"x', "x" * 10_000, '""', ",,,", '"' + "a" * 5000 + '"']
)
def test_a_tag_that_is_none_gets_the_whole_answer(client, asked):
    answer = client.get("/api/v1/plan", headers={"if-none-match": asked})
    assert (answer.status_code, bool(answer.content)) == (200, True)
