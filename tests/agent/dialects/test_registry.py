"""What holds of every dialect: names, order, tables, and the page of the documentation."""

import re
from pathlib import Path

import pytest

from gputailor_agent.dialects.gauges import Measure, coverage, gauge_dialects
from gputailor_agent.rules.exporters import dialects_page
from tests.agent.dialects.served import history_of, samples_of

DOCS = Path(__file__).resolve().parents[3] / "docs" / "dialects.md"
DIALECTS = gauge_dialects()
each = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)


def test_the_page_of_the_documentation_is_what_the_registry_says():
    assert DOCS.read_text("utf-8") == dialects_page(), (
        "run: python -m gputailor_agent.rules.exporters > docs/dialects.md"
    )


@each
def test_every_name_that_is_read_begins_as_the_dialect_says(dialect):
    for gauge in dialect.gauges:
        assert all(name.startswith(dialect.prefixes) for name in gauge.names), gauge.names


@each
def test_a_metric_is_never_read_and_ignored_at_once_and_a_strangers_is_unknown(dialect):
    for gauge in dialect.gauges:
        assert coverage(dialect, gauge.names[0]).ignored == ""
    assert coverage(dialect, "some_other_exporters_metric") is None
    assert coverage(dialect, "go_goroutines").ignored


@each
def test_every_reason_to_ignore_is_given_and_every_pattern_is_one(dialect):
    for ignored in dialect.ignored:
        assert ignored.reason.strip()
        re.compile(ignored.pattern)


@each
def test_a_series_of_nothing_known_names_no_device(dialect):
    assert dialect.identify({"some": "label"}, "test") is None


@each
@pytest.mark.parametrize("raw", [9223372036854775794.0, -1.0, float("nan"), float("inf")])
def test_no_blank_value_becomes_a_measurement(dialect, raw):
    read = [gauge for gauge in dialect.gauges if gauge.measure is not Measure.INFO]
    assert all(gauge.canonical(raw) is None for gauge in read)


def test_no_metric_is_read_by_two_dialects():
    read = {(one.name, name) for one in DIALECTS for gauge in one.gauges for name in gauge.names}
    assert len({name for _, name in read}) == len(read) > 0


CARD = "GPU-11111111-2222-3333-4444-555555555555"
DCGM = f"""
DCGM_FI_DEV_GPU_UTIL{{UUID="{CARD}",Hostname="n",pod="p",namespace="t",container="c"}} 50
DCGM_FI_PROF_SM_ACTIVE{{UUID="{CARD}",Hostname="n",pod="p",namespace="t",container="c"}} 0.25
"""
SMI = f"""
nvidia_smi_utilization_gpu_ratio{{uuid="{CARD.removeprefix("GPU-")}"}} 0.7
nvidia_smi_utilization_encoder_ratio{{uuid="{CARD.removeprefix("GPU-")}"}} 0.1
nvidia_smi_power_draw_watts{{uuid="{CARD.removeprefix("GPU-")}"}} 100
"""


def test_two_exporters_of_one_card_make_one_row_and_the_better_one_counts_for_each_signal():
    (row,) = history_of(
        samples_of(DCGM, job="dcgm", instance="a:1"), samples_of(SMI, job="smi", instance="a:2")
    ).rows
    assert (row.dialect, row.key.pod) == ("dcgm", "p")
    means = {name: round(use.mean, 2) for name, use in row.signals.items()}
    assert means == {"kernel": 0.5, "sm": 0.25, "encoder": 0.1}
    assert row.filled == {
        "encoder": "nvidia_gpu_exporter", "energy_joules": "nvidia_gpu_exporter",
    }  # fmt: skip
