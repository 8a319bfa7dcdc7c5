"""Findings of the newest plan, one by one, in the agent's metrics."""

import msgspec
from prometheus_client import generate_latest

from gputailor_agent import metrics
from gputailor_agent.model.judgement import OtherMoney
from gputailor_agent.schedule import Telemetry
from gputailor_agent.schedule import telemetry as module
from tests.agent.reports.plans import sample_plan


def samples(telemetry, family):
    text = generate_latest(telemetry.registry).decode()
    return [line for line in text.splitlines() if line.startswith(f"{family.name}{{")]


def found(plan):
    return [one for one in plan.verdicts if one.primary is not None]


def test_each_workload_with_a_finding_is_a_series_with_its_saving():
    telemetry, plan = Telemetry(), sample_plan()
    telemetry.planned(plan)
    assert len(samples(telemetry, metrics.FINDING)) == len(found(plan)) > 1
    for verdict in found(plan):
        labels = {
            "namespace": verdict.workload.namespace,
            "kind": verdict.workload.kind,
            "workload": verdict.workload.name,
            "rule": verdict.primary.rule,
            "severity": verdict.primary.severity.value,
        }
        value = telemetry.registry.get_sample_value
        assert value(metrics.FINDING.name, labels) == 1
        saving = verdict.primary.saving.gpu_hours_per_month
        assert value(metrics.FINDING_SAVING.name, labels) == saving


def test_what_is_resolved_vanishes():
    telemetry, plan = Telemetry(), sample_plan()
    telemetry.planned(plan)
    telemetry.planned(msgspec.structs.replace(plan, verdicts=()))
    assert samples(telemetry, metrics.FINDING) == []
    assert samples(telemetry, metrics.FINDING_SAVING) == []


def test_only_what_saves_most_is_shown_where_there_are_too_many(monkeypatch):
    monkeypatch.setattr(module, "SHOWN_FINDINGS", 1)
    telemetry, plan = Telemetry(), sample_plan()
    telemetry.planned(plan)
    (shown,) = samples(telemetry, metrics.FINDING)
    most = max(found(plan), key=lambda one: one.primary.saving.gpu_hours_per_month or 0)
    assert f'workload="{most.workload.name}"' in shown


def test_a_saving_that_is_unknown_has_no_series():
    telemetry, plan = Telemetry(), sample_plan()
    verdict = found(plan)[0]
    saving = msgspec.structs.replace(verdict.primary.saving, gpu_hours_per_month=None)
    primary = msgspec.structs.replace(verdict.primary, saving=saving)
    verdict = msgspec.structs.replace(verdict, primary=primary)
    telemetry.planned(msgspec.structs.replace(plan, verdicts=(verdict,)))
    assert len(samples(telemetry, metrics.FINDING)) == 1
    assert samples(telemetry, metrics.FINDING_SAVING) == []


def test_containers_of_one_workload_share_a_series_and_add_up():
    telemetry, plan = Telemetry(), sample_plan()
    verdict = found(plan)[0]
    telemetry.planned(msgspec.structs.replace(plan, verdicts=(verdict, verdict)))
    (shown,) = samples(telemetry, metrics.FINDING_SAVING)
    hours = verdict.primary.saving.gpu_hours_per_month
    assert float(shown.rpartition(" ")[2]) == 2 * hours


def test_a_saving_has_a_series_in_each_currency_of_its_prices():
    telemetry, plan = Telemetry(), sample_plan()
    other = OtherMoney(
        currency="EUR", gpus=2.0, models=(), nodes=9.0, workloads=4.0, saving_per_month=840.0
    )
    telemetry.planned(msgspec.structs.replace(plan, other_money=(other,)))
    value = telemetry.registry.get_sample_value
    assert value(metrics.SAVING_MONEY.name, {"currency": "USD"}) == 2500.0
    assert value(metrics.SAVING_MONEY.name, {"currency": "EUR"}) == 840.0
    telemetry.planned(plan)
    assert value(metrics.SAVING_MONEY.name, {"currency": "EUR"}) is None
