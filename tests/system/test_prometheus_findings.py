"""The same waste is found whichever exporter a Prometheus scraped."""

import pytest

from gputailor_agent.assessment import assess
from gputailor_agent.catalog import load_catalogue
from gputailor_agent.inventory.files import read_inventory
from gputailor_agent.model.judgement import SilenceKind
from gputailor_agent.model.profile import Window
from gputailor_agent.rollup.history import read_window
from gputailor_agent.sources.prometheus import PrometheusSource
from gputailor_exporter.scenarios.scenario import load
from tests.system.prometheus_history import (
    Running,
    dcgm_history,
    labelled,
    need_binaries,
    scraped,
    simulate,
)

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]

HOUR = 3600
NOW = 1_768_046_400
HOURS = 9
SCENARIO = """
version: 1
cluster: test
nodes:
  - name: node-a
    instance_type: p4de.24xlarge
    region: us-east-1
    gpus: [{model: a100-sxm4-80gb, count: 4}, {model: a100-sxm4-80gb, count: 1, replicas: 2, sharing: time_slicing}]
    profiling: all
activities:
  busy: {signals: {kernel: 0.9, sm: 0.7, graphics: 0.9, tensor: 0.3, dram: 0.4}, memory: {plateau: 60GiB}, power: 0.8}
  half: {signals: {kernel: 0.4, sm: 0.3, graphics: 0.4}, memory: {plateau: 3GiB}, power: 0.2}
  none: {signals: {kernel: 0.0, sm: 0.0, graphics: 0.0}, memory: {plateau: 2GiB}, power: 0.0}
workloads:
  - {name: forgotten, namespace: team, kind: Job, image: pytorch/pytorch:2.6.0, activity: none,
     runs: [{start: -8h, pods: [{node: node-a, gpus: [0]}]}]}
  - {name: ddp, namespace: team, kind: Job, image: pytorch/pytorch:2.6.0, activity: busy,
     runs: [{start: -8h, end: -1h, pods: [{node: node-a, gpus: [1, 2], activities: [busy, none]}]}]}
  - {name: sharer-a, namespace: team, kind: Job, activity: half,
     runs: [{start: -8h, pods: [{node: node-a, gpus: [4]}]}]}
  - {name: sharer-b, namespace: team, kind: Job, activity: half,
     runs: [{start: -8h, pods: [{node: node-a, gpus: [4]}]}]}
"""


@pytest.fixture(scope="module")
def plans(tmp_path_factory):
    """A plan out of each exporter's history, of one server."""
    folder = tmp_path_factory.mktemp("findings")
    path = folder / "scenario.yaml"
    path.write_text(SCENARIO, encoding="utf-8")
    scenario = load(path, NOW)
    pages = simulate(
        path, folder / "out", NOW, HOURS / 24, page="120s", manifests=folder / "cluster.json"
    )

    def lines():
        for line in scraped(pages):
            yield labelled(line, 'from="ours"')
        for line in dcgm_history(scenario, NOW - HOURS * HOUR, NOW):
            yield labelled(line, 'from="dcgm"')

    (folder / "server").mkdir()
    server = Running(need_binaries(), folder / "server", lines())
    inventory = read_inventory([folder / "cluster.json"], "test", NOW)
    made = {}
    try:
        for name in ("ours", "dcgm"):
            with PrometheusSource(server.url, "test", labels={"from": name}) as source:
                found = read_window(source, NOW - HOURS * HOUR, NOW)
            window = Window(start=NOW - HOURS * HOUR, end=NOW)
            made[name] = assess(
                found.rows,
                found.devices,
                inventory,
                window=window,
                now=NOW,
                catalogue=load_catalogue(None),
                problems=tuple(found.problems),
            ).plan
    finally:
        server.stop()
    return made


def verdict(plan, name):
    (found,) = [one for one in plan.verdicts if one.workload.name.startswith(name)]
    return found


@pytest.mark.parametrize(("workload", "rule"), [("forgotten", "idle"), ("ddp", "too_many_gpus")])
def test_both_exporters_lead_to_the_same_finding(plans, workload, rule):
    ours, theirs = (verdict(plans[name], workload) for name in ("ours", "dcgm"))
    assert ours.primary is not None, ours.silences
    assert theirs.primary is not None, theirs.silences
    assert (ours.primary.rule, theirs.primary.rule) == (rule, rule)
    assert theirs.primary.change == ours.primary.change
    assert theirs.gpu_hours == pytest.approx(ours.gpu_hours, rel=0.01)
    assert theirs.coverage == pytest.approx(ours.coverage, abs=0.01)
    assert theirs.mean_kernel == pytest.approx(ours.mean_kernel, abs=0.01)


def test_sharers_of_a_card_are_unknown_to_dcgm_and_never_idle(plans):
    for name in ("sharer-a", "sharer-b"):
        found = verdict(plans["dcgm"], name)
        assert found.primary is None
        assert {one.kind for one in found.silences if one.rule == "idle"} <= {
            SilenceKind.UNKNOWN,
            SilenceKind.WATCHING,
        }
    assert any("not attributable" in problem for problem in plans["dcgm"].problems)
