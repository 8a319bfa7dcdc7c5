"""Pages out of text: our fast reader against prometheus_client's parser, and what may be wrong."""

import gzip
import io
import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families as parse_text

from gputailor_agent.dialects import dialect_of
from gputailor_agent.model.usage import Page
from gputailor_agent.sources.assembly import assemble
from gputailor_agent.sources.exposition import parse_pages
from gputailor_agent.sources.exposition_syntax import SyntaxFault, parse_series, split_value
from gputailor_agent.sources.problems import ProblemList
from gputailor_exporter import metrics

AT = 1770113720.0
HOLDER = 'node="n",namespace="ns",pod="p",pod_uid="u",container="c",gpu_uuid="GPU-1"'
ACTIVE = metrics.CONTAINER_ACTIVE_SECONDS.name
OBSERVED = metrics.CONTAINER_OBSERVED_SECONDS.name
ALLOCATED = metrics.CONTAINER_ALLOCATED.name


def page_text(active: float, observed: float, stamp: str = "") -> str:
    end = f" {stamp}\n" if stamp else "\n"
    return (
        f'{ALLOCATED}{{{HOLDER},sharing="exclusive"}} 1{end}'
        f'{ACTIVE}{{{HOLDER},signal="kernel"}} {active}{end}'
        f'{OBSERVED}{{{HOLDER},signal="kernel"}} {observed}{end}'
        f"process_start_time_seconds 1770000000{end}"
    )


def read(text: str | bytes, at: float | None = None) -> tuple[list[Page], list[str]]:
    problems = ProblemList()
    pages = list(parse_pages(text, "lab", "node-a", problems=problems, at=at))
    return pages, [str(problem) for problem in problems]


def only(text: str) -> Page:
    pages, problems = read(text, AT)
    assert not problems
    assert len(pages) == 1
    return pages[0]


# --- property: both readers agree ---------------------------------------------------------------

LABEL = st.text(alphabet=st.sampled_from('ab "\\\n{}=,#é€}1'), max_size=8)
VALUE = st.one_of(
    st.floats(min_value=0, max_value=1e15),
    st.integers(0, 10**12),
    st.just(math.nan),
    st.just(math.inf),
)
FAMILIES = [
    (ALLOCATED, "sharing"),
    (ACTIVE, "signal"),
    (OBSERVED, "signal"),
    (metrics.CONTAINER_CONDITION_SECONDS.name, "condition"),
    (metrics.CONTAINER_MEMORY_PEAK.name, ""),
    (metrics.DEVICE_UP.name, ""),
    (metrics.DEVICE_MEMORY_TOTAL.name, ""),
    ("stranger_metric", "x"),
]
SAMPLES = st.lists(
    st.tuples(st.sampled_from(FAMILIES), LABEL, LABEL, st.sampled_from(["kernel", "sm"]), VALUE),
    max_size=12,
)


def escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def written(samples: list[tuple[tuple[str, str], str, str, str, float]], stamp: str) -> str:
    lines: dict[str, str] = {}
    for (name, extra), pod, uuid, key, value in samples:
        labels = {"node": "n", "gpu": "0", "gpu_uuid": uuid, "namespace": "ns", "pod": pod}
        labels |= {"pod_uid": "", "container": "c"} | ({extra: key} if extra else {})
        text = ",".join(f'{label}="{escaped(content)}"' for label, content in labels.items())
        shown = {"nan": "NaN", "inf": "+Inf"}.get(str(value), repr(value))
        lines[f"{name}{{{text}}}"] = f"{name}{{{text}}} {shown}{stamp}\n"
    return "".join(lines.values())


def reference(text: str) -> list[Page]:
    """The page as prometheus_client's parser reads it."""
    placed = []
    for family in parse_text(text):
        for sample in family.samples:
            dialect = dialect_of(sample.name)
            place = dialect.place(sample.name, sample.labels, "lab") if dialect else None
            if place is not None:
                placed.append((place, sample.value))
    return [assemble(placed, at=AT, exporter="node-a")] if placed else []


def by_key(page: Page) -> tuple[object, ...]:
    containers = {(c.pod, c.gpu_uuid): c for c in page.containers}
    return page.at, containers, {d.gpu_uuid: d for d in page.devices}, page.histogram_bounds


@settings(max_examples=200, deadline=None)
@given(SAMPLES, st.sampled_from(["", " 1770113720000"]))
def test_our_reader_and_the_reference_read_the_same_pages(
    samples: list[tuple[tuple[str, str], str, str, str, float]], stamp: str
) -> None:
    text = written(samples, stamp)
    pages, problems = read(text, AT)
    assert problems == []
    assert [by_key(page) for page in pages] == [by_key(page) for page in reference(text)]


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from("abcd"), LABEL), VALUE, st.booleans())
def test_one_line_is_taken_apart_as_the_reference_does(
    labels: dict[str, str], value: float, stamped: bool
) -> None:
    text = ",".join(f'{name}="{escaped(content)}"' for name, content in labels.items())
    line = f"m{{{text}}} {value!r}{' 1770113720000' if stamped else ''}"
    series = parse_series(line)
    number, stamp = split_value(series.rest)
    (sample,) = next(iter(parse_text(line + "\n"))).samples
    assert (series.name, series.labels) == (sample.name, sample.labels)
    assert float(number) == sample.value or math.isnan(value)
    assert (float(stamp) / 1000 if stamp else None) == sample.timestamp


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60))
def test_no_text_brings_the_reader_down(text: str) -> None:
    read(text, AT)
    read(ACTIVE + "{" + text, AT)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=80))
def test_no_bytes_bring_the_reader_down(data: bytes) -> None:
    read(data, AT)
    read(page_text(1, 2).encode() + data, AT)


# --- pages --------------------------------------------------------------------------------------


def test_counters_of_a_container_and_device_are_read() -> None:
    link = f'{metrics.CONTAINER_LINK_BYTES.name}{{{HOLDER},link="pcie",direction="rx"}} 7\n'
    condition = (
        f'{metrics.CONTAINER_CONDITION_SECONDS.name}{{{HOLDER},condition="amp_candidate"}} 3\n'
    )
    peak = f"{metrics.CONTAINER_MEMORY_PEAK.name}{{{HOLDER}}} 1.5e9\n"
    (found,) = only(page_text(1.5, 2.5) + link + condition + peak).containers
    assert found.allocated
    assert (found.namespace, found.pod, found.pod_uid, found.container) == ("ns", "p", "u", "c")
    assert (found.active, found.observed) == ({"kernel": 1.5}, {"kernel": 2.5})
    assert found.link_bytes == {"pcie/rx": 7.0}
    assert found.conditions == {"amp_candidate": 3.0}
    assert found.memory_peak_bytes == 1_500_000_000
    assert found.memory_used_bytes is None


def test_a_device_is_put_together_from_its_families() -> None:
    labels = 'node="n",gpu="0",gpu_uuid="MIG-1"'
    (found,) = only(
        f"{metrics.DEVICE_UP.name}{{{labels}}} 0\n"
        f'{metrics.DEVICE_INFO.name}{{{labels},vendor="nvidia",model="A100",mig_profile="1g.5gb",'
        'parent_uuid="GPU-9",compute_capability="8.0",driver_version="590",cuda_version="13.1"} 1\n'
        f"{metrics.DEVICE_MEMORY_TOTAL.name}{{{labels}}} 5000000000\n"
        f"{metrics.DEVICE_POWER_LIMIT.name}{{{labels}}} 400\n"
    ).devices
    assert (found.cluster, found.node, found.index, found.gpu_uuid) == ("lab", "n", "0", "MIG-1")
    assert (found.model, found.mig_profile, found.parent_uuid) == ("A100", "1g.5gb", "GPU-9")
    assert (found.memory_total_bytes, found.power_limit_watts) == (5_000_000_000, 400.0)
    assert found.up is False
    assert found.last_seen == AT


def test_a_histogram_is_cumulative_with_the_last_bucket_behind_the_bounds() -> None:
    name = metrics.CONTAINER_ACTIVITY.name + "_bucket"
    bounds = [*metrics.HISTOGRAM_BOUNDS, "+Inf"]
    lines = [
        f'{name}{{{HOLDER},signal="sm",le="{le}"}} {number}\n' for number, le in enumerate(bounds)
    ]
    page = only(page_text(1, 2) + "".join(lines))
    assert page.histogram_bounds == metrics.HISTOGRAM_BOUNDS
    assert page.containers[0].histogram == {"sm": tuple(map(float, range(8)))}


def test_a_histogram_that_lacks_a_bucket_is_unknown() -> None:
    name = metrics.CONTAINER_ACTIVITY.name + "_bucket"
    lines = "".join(
        f'{name}{{{HOLDER},signal="{signal}",le="{le}"}} 1\n'
        for signal, bounds in (("sm", ("0.0", "0.5", "+Inf")), ("dram", ("0.0", "+Inf")))
        for le in bounds
    )
    assert set(only(page_text(1, 2) + lines).containers[0].histogram) == {"sm"}


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "-1"])
def test_a_value_that_is_no_measurement_is_unknown_not_zero(value: str) -> None:
    text = page_text(1, 2) + f"{metrics.CONTAINER_MEMORY_USED.name}{{{HOLDER}}} {value}\n"
    text += f'{ACTIVE}{{{HOLDER},signal="sm"}} {value}\n{OBSERVED}{{{HOLDER},signal="sm"}} 5\n'
    (found,) = only(text).containers
    assert found.memory_used_bytes is None
    assert set(found.active) == set(found.observed) == {"kernel"}


def test_never_active_is_unknown_last_activity() -> None:
    text = page_text(0, 2) + f"{metrics.CONTAINER_LAST_ACTIVE.name}{{{HOLDER}}} 0\n"
    assert only(text).containers[0].last_active is None


def test_a_zero_counter_is_a_measurement() -> None:
    assert only(page_text(0, 0)).containers[0].active == {"kernel": 0.0}


def test_a_container_without_the_allocation_gauge_is_not_allocated() -> None:
    text = page_text(1, 2)
    assert not only(text[text.index("\n") + 1 :]).containers[0].allocated


def test_labels_renamed_by_a_prometheus_are_read() -> None:
    renamed = HOLDER.replace("namespace=", 'namespace="mon",exported_namespace=').replace(
        "pod=", 'pod="exporter-x",exported_pod=', 1
    )
    text = page_text(1, 2).replace(HOLDER, renamed)
    found = only(text).containers[0]
    assert (found.namespace, found.pod) == ("ns", "p")


def test_metrics_of_strangers_are_passed_over() -> None:
    assert read('DCGM_FI_DEV_GPU_UTIL{gpu="0"} 5\nprocess_start_time_seconds 5\n', AT) == ([], [])


# --- archives -----------------------------------------------------------------------------------


def test_pages_of_an_archive_part_where_the_timestamp_changes() -> None:
    text = page_text(1, 2, "1770113720000") + page_text(3, 4, "1770113780500")
    pages, problems = read(text)
    assert problems == []
    assert [page.at for page in pages] == [1770113720.0, 1770113780.5]
    assert [page.containers[0].active["kernel"] for page in pages] == [1.0, 3.0]
    assert {page.process_started for page in pages} == {1770000000.0}


def test_timestamps_in_seconds_as_openmetrics_has_them_are_read() -> None:
    pages, _ = read(page_text(1, 2, "1770113720.5") + "# EOF\n")
    assert [page.at for page in pages] == [1770113720.5]


def test_openmetrics_with_exemplars_reads_like_the_reference() -> None:
    text = (
        f"# TYPE {ACTIVE.removesuffix('_total')} counter\n"
        f'{ACTIVE}{{{HOLDER},signal="sm"}} 5.0 1770113720.5 # {{trace_id="a}} b"}} 0.5 1.5\n'
        f"# TYPE {OBSERVED.removesuffix('_total')} counter\n"
        f'{OBSERVED}{{{HOLDER},signal="sm"}} 6.0 1770113720.5\n# EOF\n'
    )
    values = [s.value for f in parse_openmetrics(text) for s in f.samples]
    (page,), problems = read(text)
    assert problems == []
    assert [page.containers[0].active["sm"], page.containers[0].observed["sm"]] == values


def test_pages_without_timestamps_part_where_a_family_is_described_again() -> None:
    described = f"# HELP {ACTIVE} x\n"
    text = (
        described + page_text(1, 2, "1770113720000") + described + page_text(3, 4, "1770113720000")
    )
    assert len(read(text)[0]) == 2


def test_a_gzip_archive_is_read_like_the_plain_one(tmp_path: Path) -> None:
    text = page_text(1, 2, "1770113720000") + page_text(3, 4, "1770113780000")
    packed = gzip.compress(text.encode())
    assert list(parse_pages(io.BytesIO(packed), "lab", "node-a")) == read(text)[0]


def test_a_gzip_archive_cut_in_the_middle_gives_what_it_has_and_says_so() -> None:
    text = "".join(page_text(n, n, str(1770113720000 + n * 1000)) for n in range(2000))
    problems = ProblemList()
    packed = gzip.compress(text.encode())[:-2000]
    pages = list(parse_pages(io.BytesIO(packed), "lab", "node-a", problems=problems))
    assert 100 < len(pages) < 2000
    assert "the rest cannot be read" in str(next(iter(problems)))


@pytest.mark.parametrize("lost", range(1, 60, 7))
def test_a_page_cut_in_the_middle_gives_whole_pairs_and_says_so(lost: int) -> None:
    text = (page_text(1, 2, "1770113720000") + page_text(30, 40, "1770113780000"))[:-lost]
    pages, problems = read(text)
    assert pages[0].containers[0].active == {"kernel": 1.0}
    for page in pages[1:]:
        assert set(page.containers[0].active) == set(page.containers[0].observed)
    assert not problems or "ends in the middle of a page" in problems[0]


def test_a_last_line_without_line_end_but_whole_loses_nothing() -> None:
    text = page_text(1, 2, "1770113720000")[:-1]
    pages, problems = read(text)
    assert problems == []
    assert pages[0].process_started == 1770000000.0


def test_a_value_whose_end_is_cut_is_not_believed() -> None:
    pages, problems = read(page_text(1, 2)[: page_text(1, 2).index("2\nprocess") + 1], AT)
    assert pages[0].containers[0].observed == {}
    assert len(problems) == 1


def test_pages_going_backwards_are_left_out_and_it_is_said() -> None:
    text = "".join(page_text(n, n, f"17701137{n}000") for n in (20, 80, 30, 90))
    pages, problems = read(text)
    assert [page.at for page in pages] == [1770113720, 1770113780, 1770113790]
    assert "1 pages older than a page before them" in problems[0]


def test_several_pages_without_any_time_are_refused() -> None:
    described = f"# TYPE {ACTIVE} counter\n"
    pages, problems = read((described + page_text(1, 2)) * 2, AT)
    assert len(pages) == 1
    assert "whose time is not known" in problems[0]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (f"{ACTIVE}{{{HOLDER}}} 5", "the label 'signal'"),
        (f'{ACTIVE}{{{HOLDER},signal="sm"}} five', "a number"),
        (f'{ACTIVE}{{{HOLDER},signal="sm"}} 5 never', "a number and perhaps a timestamp"),
        (f'{ACTIVE}{{{HOLDER},signal="sm" 5', "labels as"),
        (f'{ACTIVE}{{{HOLDER},signal="sm"}}', "a number behind"),
        (f'{ACTIVE}{{{HOLDER},pod="q",signal="sm"}} 5', "each label once"),
        (
            f'{metrics.CONTAINER_ACTIVITY.name}_bucket{{{HOLDER},signal="sm",le="x"}} 5',
            "a number in",
        ),
        ("= nonsense", "'name{label="),
        ("x" * 100_000, "lines of at most"),
    ],
)
def test_a_broken_line_is_told_with_file_line_and_what_was_expected(
    line: str, expected: str
) -> None:
    pages, problems = read(
        page_text(1, 2) + line + "\n" + f'{ACTIVE}{{{HOLDER},signal="dram"}} 5\n', AT
    )
    assert len(pages) == 1
    assert problems[0].startswith("node-a:5: cannot read ")
    assert f"expected {expected}" in problems[0]


def test_a_million_faults_are_told_briefly() -> None:
    problems = ProblemList()
    list(parse_pages("x y z\n" * 5000, "lab", "node-a", problems=problems))
    assert len(problems) == 5000
    assert len(list(problems)) == 21


def test_forgetting_series_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "".join(page_text(n, n, str(1770113720000 + n * 1000)) for n in range(40))

    def in_pieces() -> Iterator[Page]:
        return parse_pages(_Dripping(text.encode()), "lab", "node-a")

    whole = list(in_pieces())
    monkeypatch.setattr("gputailor_agent.sources.exposition._REMEMBERED", 1)
    assert list(in_pieces()) == whole == read(text)[0]


class _Dripping(io.BytesIO):
    """A file that gives few bytes at a time."""

    def read(self, size: int | None = -1) -> bytes:
        return super().read(min(size if size and size > 0 else 97, 97))


def test_a_line_is_refused_for_what_it_lacks() -> None:
    with pytest.raises(SyntaxFault, match="UTF-8"):
        parse_series("m\udce9 1")
    with pytest.raises(SyntaxFault, match="number"):
        split_value("1 2 3")
