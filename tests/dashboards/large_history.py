"""A week of a cluster of any size in a Prometheus or VictoriaMetrics, as far as dashboards read it.

What recording rules write is written for all nodes, namespaces and workloads, at the rules' own
interval: that is what dashboards of a whole cluster read over time. The exporter's own series are
written for all nodes for the last quarter of an hour (what is shown of now), and for one node for
the whole week (dashboards of one node, GPU or workload). The other nodes' pages are those of the
simulated node with other names.
"""

import contextlib
import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from gputailor_dashboards import publishing
from gputailor_dashboards.rules import Recording
from tests.dashboards import around, prometheus
from tests.dashboards.asking import Shown, Target
from tests.dashboards.history import scraped
from tests.system.test_prometheus_victoria import in_milliseconds, victoria

NOW = 1795000000
DAY = 86400
RECORDED_EVERY = 120
SCRAPED_EVERY = 60
RECENT = 900
PER_NODE = 8
FIRST = "node-0"
#: What the dashboards of one node, GPU or workload choose.
CHOSEN = {"node": FIRST, "gpu": "0", "workload": "train"}
_SCENARIO = """
version: 1
cluster: large
anchor: {now}
nodes:
  - name: node-0
    profiling: all
    gpus:
      - {{model: a100-sxm4-80gb, count: 6}}
      - {{model: a100-sxm4-80gb, mig: [3g.40gb, 1g.10gb, 1g.10gb]}}
      - {{model: a100-sxm4-80gb, replicas: 4, sharing: time_slicing}}
activities:
  busy:
    signals: {{kernel: 0.9, sm: 0.6, tensor: 0.3, fp32: 0.1, dram: 0.4}}
    memory: {{plateau: 40GiB, peak: 48GiB}}
    pcie: {{rx: 400MB, tx: 300MB}}
    nvlink: {{rx: 6GB, tx: 6GB}}
  small:
    signals: {{kernel: 0.3, sm: 0.2, tensor: 0.1, dram: 0.1}}
    memory: {{plateau: 4GiB}}
  loaded:
    shape: {{kind: constant, level: 0.0}}
    signals: {{kernel: 0.5, sm: 0.3}}
    memory: {{plateau: 20GiB}}
workloads:
  - name: train
    namespace: space-0
    kind: Job
    runs: [{{start: -8d, pods: [{{node: node-0, gpus: ["0", "1", "2", "3"], activity: busy}}]}}]
  - name: standby
    namespace: space-0
    kind: Job
    runs: [{{start: -8d, pods: [{{node: node-0, gpus: ["4", "5"], activity: loaded}}]}}]
  - name: parts
    namespace: space-1
    kind: Job
    runs:
      - start: -8d
        pods:
          - {{node: node-0, gpus: ["6/0"], activity: small}}
          - {{node: node-0, gpus: ["7"], activity: small}}
          - {{node: node-0, gpus: ["7"], activity: small}}
"""
#: Further labels of recorded series, by the end of their names.
_LABELS = {
    "node_activity:ratio_rate5m": [{"signal": s} for s in ("kernel", "sm", "tensor", "dram")],
    "node_throttled:ratio_rate5m": [{"reason": reason} for reason in ("heat", "power")],
    "node_ecc_errors:increase5m": [{"severity": s} for s in ("corrected", "uncorrected")],
    "node_nvlink_errors:increase5m": [{"error": "replay"}],
}


def _places(record: str, nodes: int) -> list[dict[str, str]]:
    """Labels of a recorded series in a cluster of that many nodes."""
    if ":node_" in record:
        return [{"node": f"node-{number}"} for number in range(nodes)]
    spaces = max(2, nodes // 3)
    space = [{"namespace": f"space-{n}", "team": f"team-{n % 8}"} for n in range(spaces)]
    if ":namespace_" in record:
        return space
    if ":workload_" in record:
        return [{**one, "workload": f"work-{n}"} for one in space for n in range(8)]
    return []  # by device and container: nobody reads them over a week


def recorded(nodes: int, days: float) -> Iterator[str]:
    """Lines of what the recording rules would have written."""
    series = [
        {**place, **more}
        for rule in publishing.rule_groups()["gputailor"][0].rules
        if isinstance(rule, Recording)
        for place in ({"__name__": rule.record, **one} for one in _places(rule.record, nodes))
        for more in _LABELS.get(rule.record.partition(":")[2], [{}])
    ]
    heads = []
    for number, labels in enumerate(series):
        name = labels.pop("__name__")
        inside = ",".join(f'{key}="{value}"' for key, value in labels.items())
        heads.append((f"{name}{{{inside}}} ", number % 97 / 97))
    for at in range(NOW - int(days * DAY), NOW + 1, RECORDED_EVERY):
        wave = 0.5 + 0.4 * math.sin(at / 9000)
        for head, phase in heads:
            yield f"{head}{wave * phase:.4g} {at}\n"


def simulated(folder: Path, days: float) -> Path:
    """The page of the first node over the days."""
    scenario = folder / "scenario.yaml"
    scenario.write_text(_SCENARIO.format(now=NOW), "utf-8")
    subprocess.run(
        [
            *(sys.executable, "-m", "gputailor_exporter", "simulate", "--openmetrics"),
            *("--scenario", scenario, "--out", folder / "pages", f"--start=-{days * 24:g}h"),
            *("--step", f"{SCRAPED_EVERY}s", "--page-interval", f"{SCRAPED_EVERY}s"),
            *("--jobs", "1"),
        ],
        check=True,
        capture_output=True,
    )
    return folder / "pages" / f"{FIRST}.om"


def raw(page: Path, nodes: int) -> Iterator[str]:
    """The first node's lines, and of the last minutes those of all others."""
    recent = []
    with page.open(encoding="utf-8") as file:
        for text in file:
            line = text.rstrip("\n")
            if line.startswith("# EOF"):
                continue
            found = scraped(line, f'instance="{FIRST}:9836",job="gputailor-exporter"')
            yield f"{found}\n"
            if not line.startswith("#") and float(line.rpartition(" ")[2]) > NOW - RECENT:
                recent.append(found)
    for number in range(1, nodes):
        for line in recent:
            yield renamed(line, number) + "\n"


def renamed(line: str, number: int) -> str:
    """A line of the first node as another node would have written it."""
    return (
        line.replace(FIRST, f"node-{number}")
        .replace("GPU-", f"GPU-{number:04x}")
        .replace("MIG-", f"MIG-{number:04x}")
        .replace('namespace="space-', f'namespace="space-{number}-')
    )


@contextmanager
def over_prometheus(folder: Path, files: list[Path]) -> Iterator[str]:
    """Yield the address of a Prometheus 3 with what the files hold, which are used up."""
    prometheus.fill(folder / "data", files, blocks="240h", seconds=3000)
    for file in files:
        file.unlink()
    with prometheus.serving(folder, folder / "data") as url:
        yield url


@contextmanager
def over_victoria(folder: Path, files: list[Path]) -> Iterator[str]:
    """The same of a VictoriaMetrics."""
    with contextlib.ExitStack() as opened:
        lines = (
            line
            for file in files
            for line in opened.enter_context(file.open(encoding="utf-8"))
            if not line.startswith("#")
        )
        server, url = victoria(folder, in_milliseconds(lines))
    try:
        yield url
    finally:
        server.stop()


def served(
    folder: Path,
    *,
    nodes: int,
    days: float,
    history_of_raw_hours: float | None = None,
    over: Callable[[Path, list[Path]], AbstractContextManager[str]] = over_prometheus,
) -> Iterator[Shown]:
    """Yield a server with that history; raw series of the first node reach back as far by default."""
    hours = days * 24 if history_of_raw_hours is None else history_of_raw_hours
    page = simulated(folder, hours / 24)
    files = [folder / "recorded.om", folder / "raw.om", folder / "around.om"]
    with files[0].open("w", encoding="utf-8") as file:
        file.writelines(recorded(nodes, days))
        file.write("# EOF\n")
    with files[1].open("w", encoding="utf-8") as file:
        file.writelines(raw(page, nodes))
        file.write("# EOF\n")
    times = range(NOW - RECENT, NOW + 1, SCRAPED_EVERY)
    lines = [*around.exporters(times), *around.rest(times)]
    files[2].write_text("\n".join([*lines, "# EOF", ""]), "utf-8")
    with over(folder, files) as url:
        yield Shown(url, NOW - int(days * DAY), NOW, rate_interval="11m")


def asked(shown: Shown, target: Target) -> list[float]:
    """Answer of a query as Grafana asks it over a week: at most a thousand points a line."""
    return shown.numbers(target, CHOSEN, step=max(15, (shown.end - shown.start) // 1000))
