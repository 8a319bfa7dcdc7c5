"""Commands of the README that need no server: run for real, on this machine, as they stand."""

import os
import pwd
import re
import shutil
import sys
from pathlib import Path

import httpx
import pytest

from gputailor_agent import metrics
from tests.fakes.nvml import GIB, FakeGpu, FakeProcess
from tests.readme import commands
from tests.readme.commands import elsewhere, runs
from tests.testbed.servers import eventually

RECORD = next(one for one in commands.shown() if one.startswith("nvidia-smi "))
LISTEN = "gputailor-exporter --listen 0.0.0.0:9836"
NOT_IN_KUBERNETES = "gputailor-exporter --attribution process"
CHECK = "gputailor-exporter check --attribution process"
SIMULATE = (
    "gputailor-exporter simulate --scenario demo --node a100-1 --days 14 --gzip --out history "
    "--manifests history/cluster.json"
)
EXPLAIN = "gputailor explain feature-cache --archive history --inventory history/cluster.json"
SERVE = "gputailor serve --target http://node-1:9836 --inventory cluster.json"
REPORT = (
    "gputailor report --store sqlite:///gputailor.db --inventory cluster.json --output markdown"
)
DOCTOR = "gputailor doctor --target http://node-1:9836"
NODE = "http://node-1:9836"
#: A free port, and no half minute between two scrapes.
QUICK = {"GPUTAILOR_LISTEN": "127.0.0.1:0", "GPUTAILOR_SCRAPE_SECONDS": "1"}
SCRAPED = re.compile(rf'{metrics.SCRAPES.name}{{outcome="read".*}} (?P<count>\S+)')


@pytest.fixture
def env(tmp_path):
    return commands.surroundings(tmp_path)


@pytest.fixture
def gpu_node(fake_driver, fake_nvml_library, tmp_path):
    """The environment of a machine with one busy GPU."""
    mine = FakeProcess(pid=os.getpid(), memory=9 * GIB, sm=40.0)
    fake_driver.add(FakeGpu(util_gpu=40.0, memory_used=9.0 * GIB, processes=[mine]))
    fake_driver.write()
    return fake_driver.environment(fake_nvml_library, commands.surroundings(tmp_path))


@pytest.mark.system
@runs(SIMULATE, EXPLAIN)
def test_the_explanation_that_is_shown_is_what_the_simulated_files_give(tmp_path, env):
    told = commands.run(SIMULATE, tmp_path, env)
    assert (tmp_path / "history" / "cluster.json").is_file()
    assert told.count(" pages, ") == 1
    said = commands.run(EXPLAIN, tmp_path, env)
    shown = commands.box(r"Idle GPUs \(idle\): recommended$")
    assert commands.undated(shown) in commands.undated(said)


@runs(RECORD, "gputailor analyse run.csv")
def test_a_run_recorded_as_it_says_is_judged(tmp_path, env):
    program = tmp_path / "bin" / "nvidia-smi"
    program.parent.mkdir()
    source = Path(__file__).with_name("nvidia_smi.py").read_text("utf-8")
    program.write_text(f"#!{sys.executable}\n{source}", "utf-8")
    program.chmod(0o755)
    commands.run(RECORD, tmp_path, commands.surroundings(tmp_path, program.parent))
    assert (tmp_path / "run.csv").is_file()
    said = commands.run("gputailor analyse run.csv", tmp_path, env)
    assert "The GPU was busy 50 % of the time on average." in said
    assert "4,200 read, 0 skipped of 4,200" in said
    assert "needs 10.4 GiB (peak 9.0 GiB x 1.15)" in said
    assert "Energy: there is no power column" not in said


@runs(LISTEN)
def test_the_exporter_serves_what_the_driver_says(typed, gpu_node):
    exporter = typed(elsewhere(LISTEN, {"0.0.0.0:9836": "127.0.0.1:0"}), gpu_node)
    url = exporter.url()
    page = eventually(lambda: httpx.get(f"{url}/metrics", trust_env=False).text, "a page")
    assert "gputailor_device_memory_used_bytes{" in page
    assert exporter.interrupt() == 0


@pytest.mark.system
@runs(NOT_IN_KUBERNETES)
def test_outside_kubernetes_users_stand_in_for_pods(typed, gpu_node):
    exporter = typed(NOT_IN_KUBERNETES, gpu_node | {"GPUTAILOR_EXPORTER_LISTEN": "127.0.0.1:0"})
    url = exporter.url()
    user = pwd.getpwuid(os.getuid()).pw_name
    held = re.compile(rf'gputailor_container_gpu_allocated{{.*namespace="{user}".*}} 1')

    def page():
        text = httpx.get(f"{url}/metrics", trust_env=False).text
        return text if held.search(text) else None

    told = eventually(page, "its user holds the GPU")
    assert "gputailor_device_memory_used_bytes{" in told
    assert 'source="kubelet"' not in told


@runs(CHECK)
def test_check_tells_what_can_be_read_on_a_node(gpu_node, tmp_path):
    told = commands.run(CHECK, tmp_path, gpu_node)
    assert re.search(r"kernel +(ok|yes|readable)", told), told


@pytest.mark.system
@runs(SERVE, REPORT, DOCTOR)
def test_an_agent_scrapes_stores_and_a_report_comes_from_its_store(tmp_path, env, typed):
    scenario = "--scenario demo --node a100-0"
    simulate = (
        f"gputailor-exporter simulate {scenario} --days 0.01 --out x --manifests cluster.json"
    )
    commands.run(simulate, tmp_path, env)
    node = typed(f"gputailor-exporter --backend simulated {scenario} --listen 127.0.0.1:0", env)
    here = {NODE: node.url()}

    agent = typed(elsewhere(SERVE, here), env | QUICK)
    page = f"{agent.url()}/metrics"

    def scrapes():
        found = SCRAPED.search(httpx.get(page, trust_env=False).text)
        return found is not None and float(found["count"]) >= 3

    eventually(scrapes, "it has scraped three times")
    assert "1 of 1 exporter answered" in httpx.get(agent.url(), trust_env=False).text
    assert agent.interrupt() == 0

    said = commands.run(REPORT, tmp_path, env)
    assert said.startswith("# GPU Tailor report: default\n")
    assert "ads/Deployment/feature-cache/cache" in said

    told = commands.run(elsewhere(DOCTOR, here), tmp_path, env)
    assert re.search(r"exporter http://\S+.*\sok\s", told), told


@runs("make help")
def test_make_help_lists_the_targets_that_are_shown(repository, env):
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    said = commands.run("make help", repository, env)
    shown = {one.split()[1] for one in commands.shown() if one.startswith("make ")}
    assert {line.split()[1] for line in said.splitlines()} >= shown


@runs("make test", "make test-system")
def test_ci_runs_the_two_suites_as_they_stand(repository, env):
    """They cannot run inside themselves: CI types them, and make knows each step of them."""
    lines = (repository / ".ci" / "run").read_text("utf-8").splitlines()
    for command in ("make test", "make test-system"):
        assert command in lines
        assert "pytest" in commands.run(command.replace("make", "make -n"), repository, env)
