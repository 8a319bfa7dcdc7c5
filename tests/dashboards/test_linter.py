"""Grafana's dashboard-linter has nothing to say but what is excepted with a reason."""

import pytest
import yaml

from gputailor_dashboards import linting
from gputailor_dashboards.generating import BUILDERS, dashboard, files
from tests.dashboards import prometheus
from tests.dashboards.asking import Shown, marks, targets
from tests.dashboards.linter import RULES, complaints

EXCEPTED = linting.exclusions()["exclusions"]


@pytest.mark.parametrize("name", BUILDERS)
def test_the_rules_are_met_but_for_what_is_excepted(name):
    assert complaints(dashboard(name), EXCEPTED) == []


def test_there_are_the_seventeen_rules_of_its_documentation():
    assert len(RULES) == 17
    assert set(EXCEPTED) <= set(RULES)


def test_every_exception_has_a_reason_and_is_needed():
    for rule, exception in EXCEPTED.items():
        assert len(exception["reason"]) > 40
        found = [one for name in BUILDERS for one in RULES[rule](dashboard(name))]
        titles = {title for title, _ in found}
        assert found
        assert {entry["panel"] for entry in exception.get("entries", ())} <= titles


def test_the_exceptions_lie_beside_the_dashboards_as_the_linter_wants_them():
    written = yaml.safe_load(files()["dashboards/.lint"])
    assert written == linting.exclusions()


def broken(**changes):
    """One of the dashboards with a part of it changed, and what the linter then says."""
    document = dashboard("gputailor-node")
    for path, value in changes.items():
        place = document
        *above, last = path.split("__")
        for step in above:
            place = place[int(step)] if step.isdigit() else place[step]
        place[int(last) if last.isdigit() else last] = value
    return complaints(document, EXCEPTED)


@pytest.mark.parametrize(
    ("rule", "changes"),
    [
        ("template-datasource-rule", {"templating__list__0__label": "Prometheus"}),
        (
            "template-label-promql-rule",
            {"templating__list__1__query__query": "label_values(a{, b)"},
        ),
        ("template-on-time-change-reload-rule", {"templating__list__1__refresh": 1}),
        ("panel-datasource-rule", {"panels__1__datasource__uid": "main"}),
        ("panel-title-description-rule", {"panels__1__description": ""}),
        ("panel-units-rule", {"panels__1__fieldConfig__defaults__unit": "parsecs"}),
        ("panel-no-targets-rule", {"panels__1__targets": []}),
        ("target-promql-rule", {"panels__1__targets__0__expr": "sum(up"}),
        ("target-rate-interval-rule", {"panels__1__targets__0__expr": "rate(a_total[5m])"}),
        ("target-counter-agg-rule", {"panels__1__targets__0__expr": "sum(a_total)"}),
        ("target-logql-rule", {"panels__1__datasource__type": "loki"}),
        ("uneditable-dashboard", {"editable": True}),
    ],
)
def test_the_rule_notices_what_it_is_about(rule, changes):
    assert any(one.startswith(rule) for one in broken(**changes))


def test_promtool_reads_every_query(tmp_path):
    shown = Shown("", 0, 3600)
    texts = {str(one): one.query["expr"] for one in targets()}
    texts |= {f"{name} {title}": e for name in BUILDERS for title, e in marks(name).items()}
    rules = [
        {"record": f"query:{number}", "expr": shown.filled(expr), "labels": {"of": title}}
        for number, (title, expr) in enumerate(texts.items())
    ]
    path = tmp_path / "queries.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "all", "rules": rules}]}), "utf-8")
    said = prometheus.run(prometheus.program("promtool"), "check", "rules", path)
    assert f"{len(rules)} rules found" in said
