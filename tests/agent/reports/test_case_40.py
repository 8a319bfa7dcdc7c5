"""Case 40: 0 % printed as "---". Zero, unknown and not measured yet look different everywhere."""

import csv
import io
import json
import re

import pytest

from gputailor_agent.model.judgement import Message, SilenceKind
from gputailor_agent.reports import overview
from gputailor_agent.reports.catalogues import names, speaking
from gputailor_agent.reports.coverage_page import observed, unknowns
from gputailor_agent.reports.explain import explain
from gputailor_agent.reports.formats import Look, find, formats, render
from gputailor_agent.reports.languages import language
from tests.agent.reports.plans import sample_plan, silence, verdict

ZERO, DARK, YOUNG = (f"team/Job/{name}/main" for name in ("zero", "dark", "young"))
PLAN = sample_plan(
    verdicts=(
        verdict(ZERO, "ok", mean_kernel=0.0),
        verdict(DARK, "unknown", mean_kernel=None, coverage=0.0, memory_peak_bytes=None),
        verdict(
            YOUNG,
            "watching",
            mean_kernel=None,
            coverage=0.0,
            gpu_hours=0.5,
            memory_peak_bytes=None,
        ),
    )
)
WORDS = {
    name: {
        ZERO: language(name).percent(0.0),
        DARK: language(name).number(None),
        YOUNG: language(name).text("not measured yet"),
    }
    for name in names()
}


@pytest.mark.parametrize("tongue", names())
@pytest.mark.parametrize("kind", ["table", "text", "markdown", "html", "mail"])
def test_case_40_each_reads_differently_in_a_format_for_people(kind, tongue):
    with speaking(tongue):
        text = render(PLAN, kind, Look(width=70))
    told = {one: cell_of(one, text, kind, tongue) for one in (ZERO, DARK, YOUNG)}
    assert told == WORDS[tongue]


def cell_of(identity: str, text: str, kind: str, tongue: str) -> str:
    """The kernel column's cell of a workload, as its format writes it."""
    title = language(tongue).text("kernel")
    if kind in {"table", "text"}:  # cards: "kernel 0 %,"
        flat = " ".join(text.split())
        part = flat[flat.rindex(f"{identity} {language(tongue).text('state')}") :]
        return re.search(rf"{title} ([^,]*),", part)[1]
    plain = text.replace("\\", "").replace("<wbr>", "")
    if kind == "markdown":
        row = next(row for row in plain.splitlines() if row.startswith(f"| {identity}"))
        return row.split("|")[5].strip()
    row = next(row for row in plain.splitlines() if row.startswith("<tr><td") and identity in row)
    return re.sub("<[^>]*>", "", row.split("</td>")[4])


def test_case_40_a_page_shows_them_in_different_looks():
    page = render(PLAN, "html")
    assert 'class="unknown">unknown<' in page
    assert 'class="notyet">not measured yet<' in page
    assert '<td class="said n">0 %<' in page
    mail = render(PLAN, "mail")
    assert re.search(r'<i style="[^"]+">unknown<', mail)
    assert re.search(r'<em style="[^"]+">not measured yet<', mail)


def test_case_40_the_terminal_colours_them_differently():
    text = render(PLAN, "table", Look(width=200, color=True))
    looks = {
        word: re.search(rf"\x1b\[([\d;]+)m{word}", text) for word in ("unknown", "not measured")
    }
    assert all(looks.values())
    assert looks["unknown"][1] != looks["not measured"][1]


def test_case_40_machines_get_zero_null_and_a_word():
    document = json.loads(render(PLAN, "json"))
    means = {one["workload"]["id"]: one["mean_kernel"] for one in document["plan"]["verdicts"]}
    uses = {one["id"]: one["use"] for one in document["workloads"]}
    assert means == {ZERO: 0.0, DARK: None, YOUNG: None}
    assert uses == {ZERO: "measured", DARK: "unknown", YOUNG: "not_measured_yet"}
    rows = {row["workload"]: row for row in csv.DictReader(io.StringIO(render(PLAN, "csv")))}
    told = {one: (rows[one]["mean_kernel_ratio"], rows[one]["use"]) for one in rows}
    assert told == {
        ZERO: ("0.0", "measured"),
        DARK: ("", "unknown"),
        YOUNG: ("", "not_measured_yet"),
    }


@pytest.mark.parametrize("kind", sorted(set(formats()) - {"json", "csv"}))
def test_case_40_explanations_tell_them_apart_too(kind):
    texts = {}
    for one in PLAN.verdicts:
        text = find(kind).explanation(explain(PLAN, one), Look(width=200)).replace("\\", "")
        texts[one.workload.id] = text
    for identity, word in WORDS["en"].items():
        plain = re.sub("<[^>]*>", " ", texts[identity])
        assert re.search(rf"mean kernel activity:?\W+{word}", plain), identity


def test_who_has_held_a_gpu_for_longer_than_an_hour_is_unknown_not_young():
    long = verdict(DARK, "unknown", mean_kernel=None, coverage=0.0, gpu_hours=2.1, gpus_now=2.0)
    young = verdict(DARK, "unknown", mean_kernel=None, coverage=0.0, gpu_hours=1.9, gpus_now=2.0)
    gone = verdict(DARK, "unknown", mean_kernel=None, coverage=0.0, gpu_hours=0.5, gpus_now=0.0)
    nothing = verdict(DARK, "unknown", mean_kernel=None, coverage=None, gpus_now=0.0)
    assert [overview.use_of(one) for one in (long, young, gone, nothing)] == [
        "unknown",
        "not_measured_yet",
        "unknown",
        "not_measured_yet",
    ]


def test_a_slice_whose_sm_activity_was_read_is_measured_though_it_tells_no_kernels():
    slice_ = verdict(DARK, "ok", mean_kernel=None, mean_sm=0.3, coverage=0.99)
    assert overview.use_of(slice_) == "measured"
    plan = sample_plan(verdicts=(slice_,))
    assert unknowns(plan) == []
    (line,) = observed(plan)
    assert (line.unknown, line.not_yet) == (0, 0)


def test_why_use_is_unknown_is_said_by_what_misses_a_signal_not_by_what_is_content():
    content = silence(DARK, "mixed_precision", SilenceKind.FINE, message=Message(key="report.ok"))
    blind = silence(DARK, "idle", SilenceKind.UNKNOWN, missing_signals=("kernel",),
                    message=Message(key="report.no_workloads"))  # fmt: skip
    dark = verdict(DARK, "ok", mean_kernel=None, coverage=0.0, silences=(content, blind))
    (told,) = unknowns(sample_plan(verdicts=(dark,)))
    assert told.reason is not None
    assert told.reason.key == "report.no_workloads"
    assert told.missing_signals == ("kernel",)
