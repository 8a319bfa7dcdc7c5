"""``python -m gputailor_dashboards.documentation`` writes docs/dashboards.md; a test compares.

Every panel stands there with its question and its query, every alert with its runbook.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gputailor_dashboards.alerts import ALERTS
from gputailor_dashboards.generating import BUILDERS
from gputailor_dashboards.panels import Panel
from gputailor_dashboards.publishing import rule_groups
from gputailor_dashboards.rules import Alert, Recording

PAGE: Final = Path("docs") / "dashboards.md"
_HEAD: Final = """\
<!-- Written by python -m gputailor_dashboards.documentation; do not edit. -->
# Dashboards, rules and alerts

    gputailor dashboards generate ./grafana

writes four dashboards, two on GPU Tailor's exporter and two on a stock dcgm-exporter, with the
rules they need:

| folder | for |
|---|---|
| `dashboards/` | JSON to import into Grafana 10 or later |
| `rules/` | rule files of Prometheus: recording rules, and three alerts |
| `kubernetes/` | the same as ConfigMaps and as PrometheusRule objects |

The ConfigMaps carry the label that Grafana's sidecar looks for, `grafana_dashboard: "1"`; another
one is set by `--sidecar-label`. Where the Prometheus operator selects rules by a label, give it:
`--rule-label release=NAME`.

Choose the Prometheus in the variable *Data source*. The links at the top lead from the cluster to a
workload and back, with time and namespace.

## What the numbers are

- A mean is rise(active) / rise(observed): seconds in which a signal was active, of the seconds in
  which it was read. A gap stays a gap; nothing is drawn as 0 that was not measured as 0.
- *Held*: a container has been handed the device. *Used*: devices' worth of time in which a kernel
  ran. *Idle*: held, and no kernel at all in the window. *Unknown*: held, and not readable. Sums
  count shared devices by their shares, so they never exceed the devices.
- *Kernel* means that some kernel ran, not that the GPU was full: look at *SM* for that.
- PromQL's `rate` rounds at the edges of a window. That is good enough for eyes; the report works
  with exact differences and is what to quote.
- A *workload* is what is left of a pod's name without the parts that controllers add. The report
  follows owners instead and can join more.
- The panels *Waste by namespace* read recording rules: load `rules/gputailor.yaml` (or
  `rules/gputailor-dcgm.yaml`). History from before can be filled in with `promtool tsdb
  create-blocks-from rules`.
- Container series carry `namespace`, `pod` and `container`: scrape our exporter with `honorLabels:
  true`, as the chart does.

## What dcgm-exporter cannot show

Its stock counters have no SM activity, no time of an Xid error and no count of repeats, and its
counters of clock violations are off (their unit differs by version). Its values are points in time:
short bursts are missed. On a GPU that several pods share, each pod gets the whole device's value;
the dashboards split it for sums and show it for no single pod. A GPU that is lost simply has no
series. `Hostname` and `hostname`, and `exported_pod` beside `pod`, are all understood.
"""


def page() -> str:
    """Text of docs/dashboards.md."""
    return "\n".join([_HEAD, *_alerts(), *_recordings(), *_dashboards()]) + "\n"


def _alerts() -> Iterator[str]:
    yield "## Alerts\n"
    yield (
        "On GPU Tailor's exporter. None fires from missing data, except the one whose matter it "
        "is.\n"
    )
    for alert in ALERTS:
        yield from _alert(alert)


def _alert(alert: Alert) -> Iterator[str]:
    yield f"### {alert.name}\n"
    yield f"Severity {alert.severity}, for {alert.hold}. {_spoken(alert.summary)}.\n"
    yield f"{_spoken(alert.description)}\n"
    yield "What to do:\n"
    for number, step in enumerate(alert.runbook, 1):
        yield f"{number}. {step}"
    yield f"\n```promql\n{alert.expr}\n```\n"


def _spoken(text: str) -> str:
    """Turn a template into a sentence: a label is said by its name."""
    for label in ("node", "gpu", "gpu_uuid", "namespace", "pod"):
        text = text.replace(f"{{{{ $labels.{label} }}}}", f"*{label}*")
    return text.replace("{{ $value }}", "N")


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


def _dashboards() -> Iterator[str]:
    for name, builder in BUILDERS.items():
        yield f"## {builder.build().title}\n"
        yield f"`dashboards/{name}.json`, on {builder.dialect.title}.\n"
        for row in builder.questions():
            yield f"### {row.title}\n"
            for panel in row.panels:
                yield from _panel(panel)


def _panel(panel: Panel) -> Iterator[str]:
    yield f"**{panel.title}**: {panel.question}\n"
    yield "```promql"
    for query in panel.queries:
        if len(panel.queries) > 1:
            yield f"# {query.name}"
        yield query.expr
    yield "```\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
