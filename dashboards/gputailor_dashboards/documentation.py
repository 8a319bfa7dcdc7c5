"""``python -m gputailor_dashboards.documentation`` writes docs/dashboards.md and docs/alerts/.

Every panel stands there with its question, every alert on a page of its own with its runbook, and
the example for Alertmanager. A test compares.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gputailor_dashboards.alerts import ALERTS, GROUPS
from gputailor_dashboards.boards import BOARDS
from gputailor_dashboards.boards.board import DIALECTS, Board
from gputailor_dashboards.generating import BUILDERS
from gputailor_dashboards.linting import COUNT_PANELS, COUNTS, WHOLE_RULES
from gputailor_dashboards.publishing import rule_groups
from gputailor_dashboards.routing import EXAMPLE, INHIBITIONS
from gputailor_dashboards.rules import RUNBOOKS, Alert, Recording, Severity
from gputailor_dashboards.variables import uid

PAGE: Final = "docs/dashboards.md"
_WRITTEN: Final = "<!-- Written by python -m gputailor_dashboards.documentation; do not edit. -->\n"
_MEANING: Final = {
    Severity.CRITICAL: "somebody has to look now",
    Severity.WARNING: "somebody has to look today",
    Severity.INFO: "when there is time",
}
_HEAD: Final = """\
# Dashboards, rules and alerts

    gputailor dashboards generate ./grafana

writes the dashboards below, on GPU Tailor's exporter and, as far as they can show it, on a stock
dcgm-exporter and on nvidia_gpu_exporter, with the rules they need:

| folder | for |
|---|---|
| `dashboards/` | JSON to import into Grafana 10 or later; `.lint` for Grafana's dashboard-linter |
| `rules/` | rule files of Prometheus: recording rules and [alerts](alerts/README.md) |
| `rules/alertmanager/` | an example of routes and inhibitions for Alertmanager |
| `kubernetes/` | the same as ConfigMaps and as PrometheusRule objects |
| `kubernetes/grafana-operator/` | the same as GrafanaDashboard objects, instead of the ConfigMaps |

The ConfigMaps carry the label that Grafana's sidecar looks for, `grafana_dashboard: "1"`; another
one is set by `--sidecar-label`. Where the Prometheus operator selects rules by a label, give it:
`--rule-label release=NAME`. No object is larger than `kubectl apply` takes.

    export GRAFANA_TOKEN=...
    gputailor dashboards import https://grafana.example.org

puts them into a Grafana by its HTTP API, into the folder *GPU Tailor*. The token is that of a
service account with the role Editor; it is read from the environment or from `--token-file`, never
from the command line. What is there and differs is left alone (exit code 1) unless `--overwrite` is
given; `--diff` shows what would change and changes nothing.

Choose the Prometheus in the variable *Data source*. The menu at the top leads to the other
dashboards on the same exporter, with time and variables; a node, GPU, namespace or workload in a
table leads to its own dashboard. Dashboards are not editable, since the next version would
overwrite what was edited: copy one instead.

## What the numbers are

- A mean is rise(active) / rise(observed): seconds in which a signal was active, of the seconds in
  which it was read. A gap stays a gap; nothing is drawn as 0 that was not measured as 0: a number
  that is not known is written *unknown*.
- *Held*: a container has been handed the device. *Used*: devices' worth of time in which a kernel
  ran. *Idle*: held, and no kernel at all in the window. *Unknown*: held, and not readable. Sums
  count shared devices by their shares, so they never exceed the devices.
- *Kernel* means that some kernel ran, not that the GPU was full: look at *SM* for that.
- PromQL's `rate` rounds at the edges of a window. That is good enough for eyes; the report works
  with exact differences and is what to quote.
- A *workload* is what is left of a pod's name without the parts that controllers add. The report
  follows owners instead and can join more.
- A *team* is a label of the namespace, as kube-state-metrics shows it
  (`--metric-labels-allowlist=namespaces=[team]`); another label is named by `--team-label`.
- *Cluster* is the label `cluster` of a store that holds several; without it the variable is empty,
  and nothing changes.
- Panels over time of whole clusters read recording rules: load `rules/gputailor.yaml` (or
  `rules/gputailor-dcgm.yaml`, `rules/gputailor-smi.yaml`). Dashboards of one node, GPU or workload
  read the exporter's own series and need none. History from before can be filled in with `promtool
  tsdb create-blocks-from rules`.
- Marks on the time axis: new findings of the agent, alerts that began, Xid errors.
- Container series carry `namespace`, `pod` and `container`: scrape our exporter with `honorLabels:
  true`, as the chart does.

## What the other exporters cannot show

dcgm-exporter's stock counters have no SM activity, no time of an Xid error and no count of repeats,
and its counters of clock violations are off (their unit differs by version). Its values are points
in time: short bursts are missed. On a GPU that several pods share, each pod gets the whole device's
value; the dashboards split it for sums and show it for no single pod. A GPU that is lost simply has
no series. `Hostname` and `hostname`, and `exported_pod` beside `pod`, are all understood.

nvidia_gpu_exporter names no pods: there is nothing on who holds what. Its series name no node
either: `instance` stands for it, without its port; relabel it to the node's name to see that.
"""


def pages() -> dict[str, str]:
    """Text of every page, by its path in the repository."""
    found = {
        PAGE: _WRITTEN + "\n".join([_HEAD, *_dashboards(), *_linting(), *_recordings()]) + "\n",
        f"{RUNBOOKS}/README.md": _WRITTEN + "\n".join(_overview()) + "\n",
        f"{RUNBOOKS}/alertmanager.yaml": EXAMPLE,
    }
    for alert in ALERTS:
        found[f"{RUNBOOKS}/{alert.name}.md"] = _WRITTEN + "\n".join(_alert(alert)) + "\n"
    return found


# -- docs/dashboards.md ----------------------------------------------------------------------------
def _dashboards() -> Iterator[str]:
    yield "## The dashboards\n"
    yield "| dashboard | variables | " + " | ".join(each.title for each in DIALECTS.values()) + " |"
    yield "|---|---|" + "---|" * len(DIALECTS)
    for board in BOARDS.values():
        cells = [
            f"`{uid(kind(board.scope), board.uid)}`" if key in board.exporters else ""
            for key, kind in DIALECTS.items()
        ]
        names = ", ".join(board.variables)
        yield f"| [{board.title}](#{_anchor(board.title)}) | {names} | " + " | ".join(cells) + " |"
    yield ""
    for board in BOARDS.values():
        yield from _board(board)


def _anchor(title: str) -> str:
    return title.lower().replace(" ", "-")


def _board(board: Board) -> Iterator[str]:
    """One dashboard's panels, and on which exporters each of them is not there."""
    yield f"### {board.title}\n"
    yield f"{board.description}\n"
    shown: dict[str, dict[str, tuple[str, set[str]]]] = {}
    for key in board.exporters:
        builder = BUILDERS[uid(DIALECTS[key](board.scope), board.uid)]
        for row in builder.questions():
            for panel in row.panels:
                rows = shown.setdefault(row.title, {})
                rows.setdefault(panel.title, (panel.question, set()))[1].add(key)
    yield "| row | panel | question | on |"
    yield "|---|---|---|---|"
    for title, panels in shown.items():
        for name, (question, keys) in panels.items():
            every = keys == set(board.exporters)
            on = "all" if every else ", ".join(key for key in board.exporters if key in keys)
            yield f"| {title} | {name} | {question} | {on} |"
    yield ""


def _linting() -> Iterator[str]:
    yield "## Grafana's dashboard-linter\n"
    yield (
        "The dashboards meet the 17 rules that Grafana's dashboard-linter documents, with these "
        "exceptions, which stand in `.lint` beside them:\n"
    )
    yield "| rule | why not |"
    yield "|---|---|"
    for rule, reason in WHOLE_RULES.items():
        yield f"| `{rule}` | {reason} |"
    panels = ", ".join(f"*{title}*" for title in COUNT_PANELS)
    yield f"| `target-counter-agg-rule`, in {panels} | {COUNTS} |"
    yield ""


def _recordings() -> Iterator[str]:
    yield "## Recording rules\n"
    for name, groups in rule_groups().items():
        yield f"`rules/{name}.yaml`\n"
        yield "| series | meaning |"
        yield "|---|---|"
        for group in groups:
            for rule in group.rules:
                if isinstance(rule, Recording):
                    yield f"| `{rule.record}` | {rule.meaning} |"
        yield ""


# -- docs/alerts -----------------------------------------------------------------------------------
def _overview() -> Iterator[str]:
    yield "# Alerts\n"
    yield (
        "On what GPU Tailor's exporter and agent tell, in `rules/gputailor.yaml` of `gputailor "
        "dashboards generate`. None fires from missing data, except those whose matter it is; each "
        "page says so. The annotation `runbook_url` leads to the page: `--runbooks` sets the "
        "address that it begins with.\n"
    )
    yield "| alert | severity | for | says |"
    yield "|---|---|---|---|"
    for alert in ALERTS:
        said = _spoken(alert.summary)
        yield f"| [{alert.name}]({alert.name}.md) | {alert.severity} | {alert.hold} | {said} |"
    yield "\n## Severities\n"
    for severity, meaning in _MEANING.items():
        yield f"- `{severity}`: {meaning}."
    yield "\n## Routing\n"
    yield (
        "[alertmanager.yaml](alertmanager.yaml) is an example to take routes and inhibitions from. "
        "Idle GPUs go to those who own the namespace, the rest to those who run the cluster.\n"
    )
    yield "| while this fires | these are not told | of the same |"
    yield "|---|---|---|"
    for one in INHIBITIONS:
        yield f"| {one.cause} | {', '.join(one.effects)} | {', '.join(one.equal)} |"


def _alert(alert: Alert) -> Iterator[str]:
    (group,) = (group for group in GROUPS if alert in group.rules)
    causes = [one.cause for one in INHIBITIONS if alert.name in one.effects]
    yield f"# {alert.name}\n"
    yield f"{_spoken(alert.summary)}.\n"
    yield f"Severity `{alert.severity}`, for {alert.hold}, evaluated every {group.interval}.\n"
    yield f"## What it says\n\n{_spoken(alert.description)}\n"
    yield f"## What it means\n\n{alert.impact}\n"
    yield "## What to do\n"
    for number, step in enumerate(alert.runbook, 1):
        yield f"{number}. {step}"
    board = BOARDS[alert.board]
    yield f"\nDashboard: [{board.title}](../dashboards.md#{_anchor(board.title)}).\n"
    yield f"## Where data is missing\n\n{alert.missing}\n"
    if causes:
        yield f"It is not told of while {' or '.join(causes)} fires on the same.\n"
    yield f"## Expression\n\n```promql\n{alert.expr}\n```"


def _spoken(text: str) -> str:
    """Turn a template into a sentence: a label is said by its name."""
    for label in (
        "node", "gpu", "gpu_uuid", "namespace", "pod", "xid", "link", "reason", "job", "instance",
    ):  # fmt: skip
        text = text.replace(f"{{{{ $labels.{label} }}}}", f"*{label}*")
    for way in ("", " | humanizePercentage", " | humanizeDuration", " | humanize"):
        text = text.replace(f"{{{{ $value{way} }}}}", "N")
    return text


def write(repository: Path) -> None:
    """Write all pages; the page of an alert that is no more is removed."""
    wanted = pages()
    for path in (repository / RUNBOOKS).glob("*"):
        if path.relative_to(repository).as_posix() not in wanted:
            path.unlink()
    for name, text in wanted.items():
        path = repository / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path())
