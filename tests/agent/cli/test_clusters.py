"""A live cluster as what was asked for, from the command line."""

import json
import os
import subprocess
import sys
import time

import httpx
import pytest
import yaml

from gputailor_agent.cli import app
from gputailor_agent.cli.clusters import ClusterAccess
from gputailor_agent.cli.errors import UsageError
from gputailor_agent.cli.inputs import Inputs, assess_inputs
from gputailor_agent.cli.settings import AgentSettings
from tests.agent.cli.clusters import inventory, pages
from tests.agent.inventory.live.api_server import ApiServer
from tests.agent.inventory.live.conftest import kubeconfig_of
from tests.agent.inventory.live.objects import deployment_of_two, node


@pytest.fixture
def cluster(monkeypatch, tmp_path):
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "GPUTAILOR_STORE", "GPUTAILOR_CLUSTER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    server = ApiServer()
    yield server
    server.stop()


@pytest.fixture
def kubeconfig(cluster, tmp_path):
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(kubeconfig_of(cluster.url)), encoding="utf-8")
    return path


def run(capsys, *arguments) -> tuple[int, str, str]:
    code = app.run("gputailor", [str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    return code, out, err


def _verdicts(text):
    plan = json.loads(text)["plan"]
    return {v["workload"]["id"]: v["primary"] and v["primary"]["rule"] for v in plan["verdicts"]}


def test_a_live_cluster_gives_the_report_that_its_files_give(cluster, kubeconfig, capsys, tmp_path):
    files = inventory(tmp_path)
    cluster.put(*json.loads(files.read_text())["items"])
    usage = ("report", "--archive", pages(tmp_path), "--output", "json")
    _, by_files, _ = run(capsys, *usage, "--inventory", files)
    code, by_cluster, _ = run(capsys, *usage, "--kubeconfig", kubeconfig)
    assert code == 0
    assert _verdicts(by_cluster) == _verdicts(by_files)
    assert "idle" in _verdicts(by_cluster).values()


def test_a_wrong_context_is_told_in_one_line(cluster, kubeconfig, capsys, tmp_path):
    options = ("--kubeconfig", kubeconfig, "--context", "lap")
    code, _, err = run(capsys, "report", "--archive", pages(tmp_path), *options)
    assert code == 1
    assert "there is no context 'lap' (did you mean lab?)" in err


def test_files_and_a_live_cluster_together_are_wrong_usage(tmp_path):
    inputs = Inputs(archive=(tmp_path,), inventory=(tmp_path,), live=ClusterAccess(kubernetes=True))
    with pytest.raises(UsageError, match="give one of them"):
        assess_inputs(inputs)


@pytest.mark.parametrize(
    ("settings", "in_pod", "asked"),
    [
        ({}, False, False),
        ({}, True, True),
        ({"context": "lab"}, False, True),
        ({"namespaces": "a,b"}, False, True),
        ({"inventory": __file__}, True, False),
        ({"kubernetes": False}, True, False),
        ({"kubernetes": True}, False, True),
    ],
)
def test_the_agent_follows_a_cluster_when_told_and_by_itself_in_a_pod(
    monkeypatch, settings, in_pod, asked
):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    if in_pod:
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert AgentSettings(**settings).cluster_access.asked is asked


def test_serve_follows_the_cluster_it_is_told(cluster, kubeconfig, tmp_path):
    cluster.put(node(), *deployment_of_two())
    command = [sys.executable, "-m", "gputailor_agent.cli.entry", "serve"]
    options = ["--target", "127.0.0.1:1", "--listen", "127.0.0.1:0", "--store", "agent.db"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GPUTAILOR_")}
    process = subprocess.Popen(
        [*command, *options, "--kubeconfig", str(kubeconfig)],
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=environment,
    )
    try:
        lines = [process.stderr.readline(), process.stderr.readline()]
        assert lines[0].startswith("gputailor: following context 'lab' of ")
        url = lines[1].split()[1]
        deadline = time.monotonic() + 20
        while httpx.get(f"{url}/readyz", trust_env=False).status_code != 200:
            assert time.monotonic() < deadline, "no first plan"
            time.sleep(0.1)
        assert "team-a/Deployment/chat/main" in httpx.get(url, trust_env=False).text
    finally:
        process.terminate()
        _, rest = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "Traceback" not in rest
