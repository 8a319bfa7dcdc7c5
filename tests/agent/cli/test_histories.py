"""A Prometheus as what was used, from the command line and for the agent."""

from contextlib import ExitStack, nullcontext

import pytest
from msgspec.structs import replace

from gputailor_agent.cli import app, serve
from gputailor_agent.cli.errors import CommandError, UsageError
from gputailor_agent.cli.histories import access_of, asked_containers, asked_window, nameless, pairs
from gputailor_agent.cli.serve import build_service
from gputailor_agent.cli.settings import load_settings
from gputailor_agent.model.containers import CONTAINER_ITSELF
from gputailor_agent.model.inventory import Inventory
from gputailor_agent.store import Store
from tests.agent import factories as make
from tests.agent.cli.name_server import prometheus_with

DAY = 86400


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch, tmp_path):
    for name in ("STORE", "CLUSTER", "PROMETHEUS_URL", "TARGETS"):
        monkeypatch.delenv(f"GPUTAILOR_{name}", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.chdir(tmp_path)


def run(capsys, *arguments) -> tuple[int, str, str]:
    code = app.run("gputailor", [str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    return code, out, err


@pytest.mark.parametrize("command", [("report",), ("explain", "x")])
def test_a_server_without_gpu_metrics_is_told_in_one_line(capsys, command):
    with prometheus_with([]) as server:
        code, _, err = run(capsys, *command, "--prometheus-url", server.url)
    assert code == 1
    assert f"error: {server.url} has no GPU metrics of this time" in err


@pytest.mark.parametrize(
    ("url", "told"),
    [("http://127.0.0.1:1", "cannot be reached"), ("ftp://x", "is no address")],
)
def test_a_server_that_cannot_be_asked_is_told_in_one_line(capsys, url, told):
    code, _, err = run(capsys, "report", "--prometheus-url", url)
    assert code == 1
    assert told in err
    assert err.count("\n") == 1


def test_headers_and_the_token_of_a_file_are_sent(capsys, tmp_path):
    (tmp_path / "token").write_text("secret\n", encoding="utf-8")
    with prometheus_with([]) as server:
        options = ("--bearer-token-file", tmp_path / "token")
        more = ("--prometheus-header", "X-Scope-OrgID: team")
        _, out, err = run(capsys, "report", "--prometheus-url", server.url, *options, *more)
    assert server.asked[0]["Authorization"] == "Bearer secret"
    assert server.asked[0]["X-Scope-OrgID"] == "team"
    assert "secret" not in out + err


@pytest.mark.parametrize(
    ("option", "value"), [("--prometheus-header", "X"), ("--prometheus-label", "cluster")]
)
def test_a_header_or_label_without_a_value_is_wrong_usage(capsys, option, value):
    code, _, err = run(capsys, "report", "--prometheus-url", "http://x", option, value)
    assert code == 2
    assert f"{option}: expected NAME" in err


def test_options_of_a_prometheus_without_its_url_are_wrong_usage():
    with pytest.raises(UsageError, match="add --prometheus-url"):
        access_of(None, headers=["X: y"])


def test_a_name_that_is_given_twice_is_refused():
    with pytest.raises(UsageError, match="--x: cluster was given twice"):
        pairs("--x", "=", ["cluster=a", "cluster = b"])


def test_containers_that_asked_are_those_of_pods_that_may_have_run():
    ran = make.pod("ran", gpus=1)
    others = [
        make.pod("web", gpus=0),
        replace(make.pod("waits", gpus=1), node=None),
        replace(make.pod("shape", gpus=1), template=True),
    ]
    inventory = Inventory(cluster="c", at=make.NOW, pods=(ran, *others))
    (asked,) = asked_containers(inventory)
    assert (asked.pod, asked.pod_uid, asked.node) == (ran.name, ran.uid, ran.node)
    assert (asked.began, asked.ended) == (ran.created, ran.finished)
    assert asked_containers(None) == []


def test_the_agent_says_who_asked_by_its_inventory_of_that_moment():
    taken = {}

    class Access:
        asked = True

        def source(self, cluster, *, asked):
            taken[cluster] = asked
            return nullcontext()

    states = [(), (make.pod("later", gpus=1),)]

    def reader(at):
        return Inventory(cluster="c", at=at, pods=states[0])

    with ExitStack() as parts:
        serve._usage(load_settings({"cluster": "c"}, None), Access(), reader, parts)
    assert list(taken["c"]()) == []
    states.pop(0)
    assert [one.pod for one in taken["c"]()] == ["later"]


def test_pairs_keep_what_stands_behind_the_first_sign():
    assert pairs("--x", ":", ["A: b: c"]) == {"A": "b: c"}


def test_fourteen_days_are_asked_for_unless_others_are():
    now = 1_800_000_000.0
    assert asked_window(None, None, now).start == now - 14 * DAY
    assert asked_window("2d", "1d", now).start == now - 3 * DAY


def test_the_agents_settings_name_a_prometheus(tmp_path):
    path = tmp_path / "agent.yaml"
    path.write_text(
        "prometheus_url: http://p:9090\nprometheus_headers: {X-Scope-OrgID: t}\n"
        "prometheus_labels: {cluster: prod}\n",
        encoding="utf-8",
    )
    access = load_settings({}, path).prometheus
    assert (access.url, access.headers, access.labels) == (
        "http://p:9090",
        {"X-Scope-OrgID": "t"},
        {"cluster": "prod"},
    )


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((), "or --prometheus-url"),
        (("--prometheus-url", "http://p", "--target", "a:1"), "set one of them"),
    ],
)
def test_the_agent_reads_either_exporters_or_a_prometheus(capsys, options, told):
    code, _, err = run(capsys, "serve", *options)
    assert code == 2
    assert told in err


def test_the_agent_that_reads_a_prometheus_scrapes_nothing(tmp_path):
    asked = []

    def fill(start: float, end: float, _store: Store) -> list[str]:
        asked.append((start, end))
        return []

    settings = load_settings({"prometheus_url": "http://p"}, None)
    with Store.open(tmp_path / "g.db") as store:
        service = build_service(
            settings, store, fill, lambda at: Inventory(cluster="default", at=at)
        )
        now = 1_800_000_000.0
        assert service.run_due(now)[0] == "history"
        assert not service.tick_scrape(now)
        assert service.latest_plan().sources == ("Prometheus",)
    assert [end for _, end in asked] == [now]


def rows(pod="", gpu="GPU-0"):
    one = make.row(make.NOW - DAY, pod=pod or "p", gpu=gpu, kernel=0.4)
    return [one] if pod else [replace(one, key=replace(one.key, pod=""))]


def test_rows_that_name_a_pod_need_no_word():
    assert nameless(rows("train-0"), make.inventory([], [])) == ()


@pytest.mark.parametrize("told", [rows(), rows("train-0", gpu=CONTAINER_ITSELF)])
def test_where_no_row_of_a_gpu_names_a_pod_the_report_says_what_that_costs(told):
    (said,) = nameless(told, make.inventory([make.pod("train-0")], [make.node()]))
    assert "no exporter names the pods that hold its GPUs" in said
    assert "kubelet's PodResources" in said


def test_where_nothing_names_a_pod_there_is_nothing_to_judge():
    lost = replace(make.inventory([], [make.node()]), problems=("kube-state-metrics: not there",))
    with pytest.raises(CommandError, match=r"no pod that held a GPU(.|\n)*not there"):
        nameless(rows(), lost)
