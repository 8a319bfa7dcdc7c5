"""Made-up series for ``promtool test rules``, one sample a minute, and what should then fire."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from gputailor_dashboards import publishing
from gputailor_dashboards.alerts import QUIET
from gputailor_dashboards.rules import Alert, Group, Recording
from tests.dashboards import prometheus

GIB = 2**30
HOLDER = {
    "node": "node-a",
    "namespace": "lab",
    "pod": "notebook-0",
    "pod_uid": "u1",
    "container": "main",
}
POD = {key: value for key, value in HOLDER.items() if key != "container"}
TARGET = {"job": "gputailor-exporter", "instance": "node-a:9836"}


def series(name: str, values: str, **labels: str) -> dict[str, str]:
    """One input series in promtool's notation."""
    inside = ",".join(f'{key}="{value}"' for key, value in labels.items())
    return {"series": f"{name}{{{inside}}}", "values": values}


def held(
    minutes: int,
    *,
    gpu: str = "0",
    active: str | None = None,
    observed: str | None = None,
    allocated: str | None = None,
    memory_gib: float = 0.4,
    watts: float = 60,
    last_active: str | None = None,
    pod: Mapping[str, str] | None = None,
) -> list[dict[str, str]]:
    """Series of one pod on one A100 of its own that does nothing, unless said otherwise."""
    labels = {**HOLDER, **(pod or {}), "gpu_uuid": f"GPU-{gpu}"}
    device = {"node": labels["node"], "gpu": gpu, "gpu_uuid": f"GPU-{gpu}"}
    prefix, always = "gputailor_container_gpu_", f"x{minutes}"
    found = [
        series(f"{prefix}allocated", allocated or f"1{always}", **labels, sharing="exclusive"),
        series(f"{prefix}active_seconds_total", active or f"0{always}", **labels, signal="kernel"),
        series(
            f"{prefix}observed_seconds_total",
            observed or f"0+60{always}",
            **labels,
            signal="kernel",
        ),
        series(f"{prefix}memory_used_bytes", f"{memory_gib * GIB:.0f}{always}", **labels),
        series("gputailor_device_memory_total_bytes", f"{80 * GIB}{always}", **device),
        series("gputailor_device_power_watts", f"{watts}{always}", **device),
        series("gputailor_device_power_limit_watts", f"400{always}", **device),
    ]
    if last_active is not None:
        found.append(series(f"{prefix}last_active_timestamp_seconds", last_active, **labels))
    return found


def _groups(alert: Alert, interval: str) -> tuple[Group, ...]:
    """What the alert needs of the rule file: itself in its group, and the series that it reads.

    That series stands for five minutes: where samples come less often, the test has to give it.
    """
    groups = publishing.rule_groups()["gputailor"]
    mine = tuple(
        Group(group.name, group.interval, (alert,)) for group in groups if alert in group.rules
    )
    (quiet,) = (
        rule
        for group in groups
        for rule in group.rules
        if isinstance(rule, Recording) and rule.record == QUIET
    )
    if QUIET not in alert.expr or interval != "1m":
        return mine
    return (Group("quiet", groups[0].interval, (quiet,)), *mine)


def _test(
    folder: Path,
    groups: Sequence[Group],
    made: list[dict[str, str]],
    expected: list[dict[str, Any]],
    interval: str = "1m",
) -> None:
    tool = prometheus.program("promtool")
    rules, path = folder / "rules.yaml", folder / "test.yaml"
    rules.write_text(yaml.safe_dump(publishing.rule_file(tuple(groups))), "utf-8")
    document = {
        "rule_files": [str(rules)],
        "evaluation_interval": interval,
        "tests": [{"interval": interval, "input_series": made, "promql_expr_test": expected}],
    }
    path.write_text(yaml.safe_dump(document), "utf-8")
    done = subprocess.run(
        [tool, "test", "rules", path], capture_output=True, text=True, check=False, timeout=100
    )
    assert done.returncode == 0, done.stdout + done.stderr


def expect(
    folder: Path,
    alert: Alert,
    made: list[dict[str, str]],
    fires: Mapping[int, Sequence[Mapping[str, str]]],
    *,
    interval: str = "1m",
) -> None:
    """Assert which alerts fire at each minute, given by their labels, by a real promtool.

    ``interval`` is the time between two samples of a series and between two evaluations.
    """
    query = f'ALERTS{{alertname="{alert.name}",alertstate="firing"}}'
    own = {"alertname": alert.name, "alertstate": "firing", "severity": alert.severity}
    expected = [
        {
            "expr": query,
            "eval_time": f"{minute}m",
            "exp_samples": [
                {"labels": series("ALERTS", "", **own, **labels)["series"], "value": 1}
                for labels in found
            ],
        }
        for minute, found in fires.items()
    ]
    _test(folder, _groups(alert, interval), made, expected, interval)


def expect_value(
    folder: Path, name: str, made: list[dict[str, str]], values: Mapping[int, float | None]
) -> None:
    """Assert the value of a recorded series of the one pod at each minute; None for no value."""
    expected = [
        {
            "expr": name,
            "eval_time": f"{minute}m",
            "exp_samples": []
            if value is None
            else [{"labels": series(name, "", **POD)["series"], "value": value}],
        }
        for minute, value in values.items()
    ]
    _test(folder, publishing.rule_groups()["gputailor"][:1], made, expected)
