"""The page equals prometheus-client's byte for byte."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from gputailor_exporter import metrics as m
from gputailor_exporter.accounting import FamilySamples, Snapshot
from gputailor_exporter.metrics import FAMILIES, Kind
from gputailor_exporter.serving.exposition import Renderer, render
from tests.exporter.client_collector import SnapshotCollector
from tests.exporter.fleets import NODES, big_accounts
from tests.exporter.machines import WALL


@pytest.fixture(params=sorted(NODES))
def node(request):
    return request.param, NODES[request.param]()


def test_text_equals_prometheus_client_byte_for_byte(node):
    _, snapshot = node
    assert render(snapshot) == generate_latest(SnapshotCollector(snapshot))


def test_openmetrics_equals_prometheus_client_byte_for_byte(node):
    _, snapshot = node
    page = render(snapshot, openmetrics=True)
    assert page == generate_openmetrics(SnapshotCollector(snapshot))


@given(st.lists(st.text(st.one_of(st.characters(), st.characters(categories=["Cs"]))), unique=True))
def test_any_text_can_be_a_label_and_different_ones_stay_apart(texts):
    rows = tuple((text, "open") for text in texts)
    samples = FamilySamples(m.EXPORTER_ERRORS, rows, tuple(1.0 for _ in rows))
    page = render(Snapshot(WALL, (samples,) if rows else ()))
    said = [
        sample.labels["source"]
        for family in parse_text(page.decode("utf-8"))
        for sample in family.samples
    ]
    assert len(set(said)) == len(texts)
    for text, shown in zip(texts, said, strict=True):
        assert shown == "".join(
            f"\\u{ord(one):04x}" if 0xD800 <= ord(one) <= 0xDFFF else one for one in text
        )


def test_timestamps_stand_on_every_sample_as_prometheus_client_writes_them(node):
    _, snapshot = node
    collector = SnapshotCollector(snapshot, timestamp=WALL + 0.25)
    milliseconds = int(WALL * 1000) + 250
    assert render(snapshot, timestamp_ms=milliseconds) == generate_latest(collector)
    page = render(snapshot, openmetrics=True, timestamp_ms=milliseconds)
    assert page == generate_openmetrics(collector)


def test_both_formats_parse_with_the_public_parsers(node):
    _, snapshot = node
    text = list(parse_text(render(snapshot).decode()))
    openmetrics = list(parse_openmetrics(render(snapshot, openmetrics=True).decode()))
    assert len(text) == len(openmetrics) == len(snapshot.families)


def test_a_renderer_follows_new_rows_and_new_values():
    renderer, made = Renderer(), big_accounts()
    for openmetrics in (False, True, False):
        snapshot = made.snapshot(WALL)
        assert renderer.render(snapshot, openmetrics=openmetrics) == render(
            snapshot, openmetrics=openmetrics
        )
        made.set_allocations([], 100.0)


@given(
    value=st.floats(allow_nan=True, allow_infinity=True) | st.integers(0, 2**63).map(float),
    text=st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
)
def test_any_value_and_label_is_written_as_prometheus_client_does(value, text):
    snapshot = Snapshot(WALL, (FamilySamples(m.EXPORTER_BUILD_INFO, ((text,),), (value,)),))
    assert render(snapshot) == generate_latest(SnapshotCollector(snapshot))
    page = render(snapshot, openmetrics=True)
    assert page == generate_openmetrics(SnapshotCollector(snapshot))


def test_help_texts_are_escaped_as_each_format_wants():
    family = replace(m.EXPORTER_BUILD_INFO, help='a "quoted" \\ text\nof two lines')
    snapshot = Snapshot(WALL, (FamilySamples(family, (("1",),), (1.0,)),))
    assert render(snapshot) == generate_latest(SnapshotCollector(snapshot))
    page = render(snapshot, openmetrics=True)
    assert page == generate_openmetrics(SnapshotCollector(snapshot))


def test_an_empty_snapshot_is_an_empty_page():
    assert render(Snapshot(WALL, ())) == b""
    assert render(Snapshot(WALL, ()), openmetrics=True) == b"# EOF\n"


def test_counters_end_in_total_and_no_other_family_does():
    for family in FAMILIES:
        assert family.name.endswith("_total") == (family.kind is Kind.COUNTER)
