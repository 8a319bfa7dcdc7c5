"""Who is let in: tokens, trusted proxies, sessions, nobody; and what each may see and change."""

import hmac
import re
import time
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st

from gputailor_agent.api.app import create_app
from gputailor_agent.api.doors import (
    AccessError,
    Doors,
    Refusal,
    Scope,
    read_access,
    read_tokens,
    sessions,
)
from gputailor_agent.api.doors.proxies import Proxies, SmuggledError, networks
from gputailor_agent.api.doors.tokens import matching
from gputailor_agent.cli.errors import UsageError
from gputailor_agent.cli.web import WebKeys, doors
from tests.agent.api.standing import OTHER, TOKEN, Book, State, guarded
from tests.agent.reports.plans import FEWER, IDLE, sample_plan, verdict, workload

BROWSER = {"accept": "text/html"}
BEARER = {"authorization": f"Bearer {TOKEN}"}
TEAMS = "ops: all\nteam-a: [team-a]\nalice@example.org: ['namespace:team-b']\n"


def app(tmp_path, **more):
    given_doors = guarded(tmp_path, **more)
    plan = sample_plan(
        verdicts=tuple(
            verdict(
                one.workload.id,
                one.state,
                workload=workload(one.workload.id, team=one.workload.namespace),
                primary=one.primary,
            )
            for one in sample_plan().verdicts
        )
    )
    return create_app(State(plan), doors=given_doors, kept=Book())


def visit(tmp_path, peer: str = "testclient", **more) -> TestClient:
    return TestClient(app(tmp_path, **more), client=(peer, 4711), follow_redirects=False)


def test_without_a_token_only_probes_metrics_and_signing_in_answer(tmp_path):
    client = visit(tmp_path)
    for path in ("/healthz", "/readyz", "/metrics", "/login", "/static/style.css"):
        assert client.get(path).status_code == 200
    for path in ("/", "/workloads", "/nodes", "/api/v1/report", "/api/v1/openapi.json", "/x"):
        answer = client.get(path)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (
            401,
            'Bearer realm="gputailor"',
        )
        assert answer.headers["content-security-policy"]


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (f"Bearer {TOKEN}", 200),
        (f"bearer  {TOKEN} ", 200),
        (f"Bearer {TOKEN[:-1]}", 401),
        ("Bearer ", 401),
        (f"Basic {TOKEN}", 401),
        (TOKEN, 401),
        ("Bearer " + "x" * 10_000, 401),
    ],
)
def test_a_token_opens_and_a_wrong_one_does_not(tmp_path, header, status):
    answer = visit(tmp_path).get("/api/v1/report", headers={"authorization": header})
    assert answer.status_code == status


def test_two_authorization_headers_are_refused(tmp_path):
    headers = [("authorization", f"Bearer {TOKEN}"), ("authorization", "Bearer other")]
    assert visit(tmp_path).get("/api/v1/report", headers=headers).status_code == 400


def test_every_token_is_compared_whichever_fits(monkeypatch):
    tokens = read_tokens("".join(f"name-{at} {'x' * 16}{at}\n" for at in range(9)), "file")
    compared = []
    real = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda a, b: compared.append(b) or real(a, b))
    assert matching("x" * 16 + "0", tokens).name == "name-0"
    assert matching("y" * 17, tokens) is None
    assert len(compared) == 18


def test_a_token_that_leaves_the_file_is_out_at_once(tmp_path):
    client = visit(tmp_path)
    assert client.get("/", headers=BEARER).status_code == 200
    fresh = tmp_path / "fresh"
    fresh.write_text(f"ops {'n' * 20}\n", encoding="utf-8")
    fresh.replace(tmp_path / "tokens")
    assert client.get("/", headers=BEARER).status_code == 401
    assert client.get("/", headers={"authorization": f"Bearer {'n' * 20}"}).status_code == 200
    (tmp_path / "tokens").unlink()
    assert client.get("/", headers={"authorization": f"Bearer {'n' * 20}"}).status_code == 401


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "holds no token"),
        ("# only a remark\n", "holds no token"),
        ("short\n", "line 1: a token has at least 16"),
        (f"\na b {TOKEN}\n", "line 2: expected TOKEN or NAME TOKEN"),
        (f"a {TOKEN}\nb {TOKEN}\n", "line 2: the same token stands there twice"),
    ],
)
def test_a_token_file_that_cannot_be_used_is_told_without_the_token(text, told):
    with pytest.raises(AccessError, match=told) as caught:
        read_tokens(text, "web_token_file: f")
    assert TOKEN not in str(caught.value)


def test_a_browser_signs_in_and_out(tmp_path):
    client = visit(tmp_path)
    asked = client.get("/workloads?q=a", headers=BROWSER)
    assert (asked.status_code, asked.headers["location"]) == (
        303,
        "/login?next=%2Fworkloads%3Fq%3Da",
    )
    wrong = client.post("/login", data={"token": "wrong", "next": "/"})
    assert wrong.status_code == 401
    assert "set-cookie" not in wrong.headers
    done = client.post("/login", data={"token": TOKEN, "next": "/workloads?q=a"})
    assert (done.status_code, done.headers["location"]) == (303, "/workloads?q=a")
    cookie = done.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=lax" in cookie.lower()
    page = client.get("/", headers=BROWSER).text
    mark = re.search(r'name="mark" value="(\w+)"', page)[1]
    assert client.post("/logout", data={"mark": "forged"}).status_code == 403
    assert client.post("/logout", data={"mark": mark}).status_code == 303
    assert client.get("/").status_code == 401


@pytest.mark.parametrize(
    "onward", ["//evil.example", "https://evil.example", "/\\evil.example", "/login", "x", "/a\nb"]
)
def test_signing_in_never_leads_to_another_site(tmp_path, onward):
    done = visit(tmp_path).post("/login", data={"token": TOKEN, "next": onward})
    assert done.headers["location"] == "/"


def test_a_session_ends_and_cannot_be_lengthened():
    (token,) = read_tokens(f"ops {TOKEN}", "file")
    cookie = sessions.begin(token, 1000.0)
    assert sessions.token_of(cookie, [token], 1001.0) is token
    assert sessions.token_of(cookie, [token], 1000.0 + sessions.SESSION_SECONDS) is None
    name, _expires, signature = cookie.split(".")
    assert sessions.token_of(f"{name}.{10**12}.{signature}", [token], 1001.0) is None
    (other,) = read_tokens(f"ops {OTHER}", "file")
    assert sessions.token_of(cookie, [other], 1001.0) is None


@given(st.text(max_size=60))
def test_no_other_cookie_opens_a_session(text):
    (token,) = read_tokens(f"ops {TOKEN}", "file")
    assert sessions.token_of(text, [token], 0.0) is None


USER = {"x-forwarded-user": "alice@example.org"}


def test_a_user_is_believed_from_a_trusted_proxy_only(tmp_path):
    proxies = ["10.1.0.0/16", "::1"]
    for peer, status in (("10.1.2.3", 200), ("::ffff:10.1.2.3", 200), ("10.2.2.3", 401)):
        assert visit(tmp_path, peer, proxies=proxies).get("/", headers=USER).status_code == status
    unnamed = visit(tmp_path, "10.1.2.3", proxies=proxies)
    assert unnamed.get("/").status_code == 401
    assert unnamed.get("/", headers={"x-forwarded-user": " "}).status_code == 401


@pytest.mark.parametrize(
    "headers",
    [
        [("x-forwarded-user", "alice"), ("x-forwarded-user", "ops")],
        [("x-forwarded-user", "x" * 300)],
    ],
)
def test_a_name_that_was_smuggled_past_the_proxy_is_refused(tmp_path, headers):
    client = visit(tmp_path, "10.1.2.3", proxies=["10.1.0.0/16"])
    assert client.get("/", headers=headers).status_code == 400


@pytest.mark.parametrize("name", [b"a\xff", "a\u202eb".encode(), b"a\x00b", b"a\x1b[2J"])
def test_a_name_that_cannot_be_shown_is_no_name(name):
    proxies = Proxies(networks=networks(["10.1.0.0/16"]))
    with pytest.raises(SmuggledError):
        proxies.user("10.1.2.3", [(b"x-forwarded-user", name)])


def test_nobody_else_can_say_where_a_request_comes_from(tmp_path):
    client = visit(tmp_path, "10.2.2.3", proxies=["10.1.0.0/16"])
    forged = USER | {"x-forwarded-for": "10.1.2.3", "forwarded": "for=10.1.2.3"}
    assert client.get("/", headers=forged).status_code == 401
    assert client.get("/", headers={"x_forwarded_user": "alice"}).status_code == 401


@pytest.mark.parametrize("text", ["0.0.0.0/0", "::/0", "proxy", "10.0.0.0/40"])
def test_a_network_that_cannot_be_trusted_is_told(text):
    with pytest.raises(AccessError, match="web_trusted_proxies"):
        networks([text])


def test_each_sees_the_workloads_of_its_teams(tmp_path):
    client = visit(tmp_path, "10.1.2.3", access=TEAMS, proxies=["10.1.0.0/16"])
    everything = client.get("/api/v1/workloads", headers=BEARER).json()
    assert everything["total"] == 5
    team = {"authorization": f"Bearer {OTHER}"}
    mine = client.get("/api/v1/workloads", headers=team).json()
    assert [one["id"] for one in mine["workloads"]] == [IDLE]
    assert client.get(f"/workloads/{quote(FEWER)}", headers=team).status_code == 404
    assert FEWER not in client.get(f"/workloads/{quote(FEWER[:8])}", headers=team).text
    assert FEWER not in client.get("/", headers=team).text
    by_space = client.get("/api/v1/workloads", headers=USER).json()
    assert {one["id"].split("/")[0] for one in by_space["workloads"]} == {"team-b"}


@pytest.mark.parametrize(
    "path", ["/api/v1/nodes", "/api/v1/tasks", "/api/v1/reports", "/api/v1/reports/x"]
)
def test_what_is_of_the_whole_cluster_is_not_for_teams(tmp_path, path):
    client = visit(tmp_path, access=TEAMS)
    assert client.get(path, headers={"authorization": f"Bearer {OTHER}"}).status_code == 403


def test_sums_of_a_team_are_of_its_workloads_only(tmp_path):
    client = visit(tmp_path, access=TEAMS)
    plan = client.get("/api/v1/plan", headers={"authorization": f"Bearer {OTHER}"}).json()
    assert plan["totals"]["saving"]["amount"] == 2000.0
    assert (plan["capacity"], plan["cost"], plan["problems"]) == ([], None, [])


def test_a_name_that_the_access_file_does_not_name_is_not_let_in(tmp_path):
    client = visit(tmp_path, access="someone: all\n")
    assert client.get("/", headers=BEARER).status_code == 403
    for text, status in (("'*': []\n", 200), ("'*': {teams: all, write: false}\n", 200)):
        (tmp_path / "access.yaml").write_text(text, encoding="utf-8")
        assert client.get("/", headers=BEARER).status_code == status


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("- a\n", "expected names"),
        ("a: some\n", 'a: expected "all" or a list'),
        ("a: {team: [x]}\n", "expected teams and write"),
        ("a: {teams: all, write: maybe}\n", "write: expected true or false"),
        ("a: [\n", "not YAML"),
    ],
)
def test_an_access_file_that_cannot_be_used_is_told(text, told):
    with pytest.raises(AccessError, match=told):
        read_access(text, "web_access_file: f")


def test_an_agent_for_its_own_machine_is_read_without_a_name():
    made = doors(WebKeys(), "127.0.0.1")
    client = TestClient(create_app(State(sample_plan()), doors=made), base_url="http://localhost:1")
    assert client.get("/").status_code == 200


def test_a_page_of_another_site_cannot_read_it_by_its_own_name():
    made = doors(WebKeys(), "127.0.0.1", public_url="https://gpu.example.org")
    plan = State(sample_plan())
    for host, status in (
        ("http://evil.example", 421),
        ("http://127.0.0.1:8080", 200),
        ("http://[::1]:8080", 200),
        ("https://GPU.example.org", 200),
    ):
        client = TestClient(create_app(plan, doors=made), base_url=host)
        assert client.get("/api/v1/report").status_code == status, host


def test_on_another_address_the_agent_wants_to_know_who_may_read(tmp_path):
    with pytest.raises(UsageError, match="web_token_file"):
        doors(WebKeys(), "0.0.0.0")
    assert doors(WebKeys(web_anonymous=True), "0.0.0.0").anonymous
    assert not guarded(tmp_path).anonymous


def test_in_a_pod_it_starts_closed_and_says_what_to_set():
    made = doors(WebKeys(), "0.0.0.0", pod=True)
    client = TestClient(create_app(State(sample_plan()), doors=made))
    assert client.get("/readyz").status_code == 200
    assert client.get("/metrics").status_code == 200
    answer = client.get("/", headers=BROWSER)
    assert answer.status_code == 401
    assert "web_token_file" in answer.text
    assert "web_anonymous: true" in client.get("/api/v1/report").json()["error"]


def test_an_access_file_without_names_is_told(tmp_path):
    with pytest.raises(UsageError, match="web_token_file or web_trusted_proxies"):
        doors(WebKeys(web_access_file=tmp_path / "a"), "127.0.0.1")
    with pytest.raises(UsageError, match="web_token_file: cannot read"):
        doors(WebKeys(web_token_file=tmp_path / "none"), "127.0.0.1")


@given(
    teams=st.frozensets(st.sampled_from("abc")),
    spaces=st.frozensets(st.sampled_from("xyz")),
    team=st.sampled_from(["", "a", "b", "d"]),
    space=st.sampled_from("xyzw"),
)
def test_a_scope_holds_what_it_names_and_nothing_else(teams, spaces, team, space):
    scope = Scope(teams=teams, namespaces=spaces)
    assert scope.place(space, team) == ((team in teams) or (space in spaces))


@given(st.lists(st.tuples(st.binary(max_size=20), st.binary(max_size=60)), max_size=8))
def test_whatever_headers_come_the_answer_is_a_refusal_without_a_known_token(headers):
    made = Doors(
        anonymous=False,
        tokens=lambda: read_tokens(f"ops {TOKEN}", "file"),
        proxies=Proxies(networks=networks(["10.0.0.0/8"])),
    )
    assert isinstance(made.visitor("192.0.2.1", headers, time.time()), Refusal)
