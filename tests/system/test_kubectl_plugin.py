"""``kubectl gputailor …`` by the real kubectl is ``gputailor …``: the same answers and exit codes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agent.cli.clusters import inventory, pages
from tests.testbed.servers import need

pytestmark = pytest.mark.system

SCRIPTS = Path(sys.executable).parent


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cluster")
    return ("--archive", str(pages(folder)), "--inventory", str(inventory(folder)))


@pytest.fixture(scope="module")
def kubectl():
    return need("kubectl")["kubectl"]


def called(program, *arguments) -> tuple[int, str, str]:
    known = {key: value for key, value in os.environ.items() if not key.startswith("GPUTAILOR_")}
    path = f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [*program, *arguments], capture_output=True, text=True, check=False, timeout=60,
        env={**known, "PATH": path, "COLUMNS": "200"},
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("explain", "idler", "--output", "json"),
        ("workloads", "--state", "finding", "--output", "csv"),
        ("workloads", "--fail-on", "saving>1"),
        ("report", "--fail-on", "colour>1"),
    ],
    ids=" ".join,
)
def test_the_plugin_answers_as_the_command_does(kubectl, given, arguments):
    ours = called((SCRIPTS / "gputailor",), *arguments[:1], *given, *arguments[1:])
    plugin = called((kubectl, "gputailor"), *arguments[:1], *given, *arguments[1:])
    assert plugin[0] == ours[0]
    assert plugin[1] == ours[1]
    # kubectl adds a line of its own where a plugin ends with an error
    assert plugin[2].startswith(ours[2].rstrip())


def test_the_plugin_lists_nodes_of_an_inventory(kubectl, given):
    code, out, _ = called((kubectl, "gputailor"), "nodes", *given[2:], "--output", "json")
    assert code == 0
    assert json.loads(out)["nodes"][0]["by_resource"][0]["resource"] == "nvidia.com/gpu"


def test_kubectl_finds_the_plugin(kubectl):
    code, out, _ = called((kubectl,), "plugin", "list")
    assert code == 0
    assert f"{SCRIPTS}/kubectl-gputailor" in out
