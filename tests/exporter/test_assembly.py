"""Which parts the options ask for."""

import threading
import time
from importlib.resources import files

import pytest

from gputailor_exporter.attribution.allocations import UNTOLD, ContainerRef
from gputailor_exporter.lifecycle.assembly import InTurn, SerialAttribution, StartError, assemble
from gputailor_exporter.options import parse_options

SCENARIO = str(files("gputailor_exporter") / "scenarios" / "demo.yaml")
SIMULATED = ("--backend", "simulated", "--scenario", SCENARIO, "--node", "t4-0")


def parts(*flags):
    return assemble(parse_options(flags, {}))


def test_a_gpu_node_reads_nvml_and_asks_kubelet():
    found = parts("--sharing", "mps", "--pod-resources-socket", "/run/kubelet.sock")
    assert found.backend.name == "nvml"
    assert found.allocations is not None
    assert isinstance(found.attribution, SerialAttribution)


def test_a_bare_host_watches_the_processes_and_asks_no_kubelet(tmp_path):
    found = parts("--attribution", "process", "--proc-root", str(tmp_path))
    assert found.backend.name == "nvml"
    assert found.allocations.name == "processes"
    assert found.allocations.allocations((), 0.0) == ()
    assert found.attribution.owner(1) == UNTOLD


@pytest.mark.parametrize("flags", [(), SIMULATED])
def test_without_attribution_nobody_is_asked(flags):
    found = parts(*flags, "--attribution", "none")
    assert found.allocations is None
    assert found.attribution is None


def test_a_simulated_node_needs_no_kubelet():
    found = parts(*SIMULATED)
    assert found.backend.name == "simulated"
    assert found.allocations.name == "scenario"


def test_a_scenario_that_cannot_be_used_is_said(tmp_path):
    file = tmp_path / "s.yaml"
    file.write_text("nodes: 3", encoding="utf-8")
    with pytest.raises(StartError, match=r"s\.yaml"):
        parts("--backend", "simulated", "--scenario", str(file))


def test_device_threads_ask_the_attribution_in_turn():
    inside, most = [], []

    class Single:
        def owner(self, pid):
            inside.append(pid)
            most.append(len(inside))
            time.sleep(0.005)
            inside.remove(pid)
            return ContainerRef("team", str(pid), "main")

    turn = threading.Lock()
    shared = SerialAttribution(turn, Single())
    uid = InTurn(turn, lambda namespace, pod: f"{namespace}/{pod}")
    threads = [threading.Thread(target=shared.owner, args=(pid,)) for pid in range(6)]
    for thread in threads:
        thread.start()
    assert uid("team", "a") == "team/a"
    for thread in threads:
        thread.join()
    assert max(most) == 1
    assert shared.owner(7) == ContainerRef("team", "7", "main")
