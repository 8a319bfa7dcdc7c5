"""Counters of a device that go on from holder to holder: throttled seconds and Xid errors."""

import msgspec
import pytest

from gputailor_agent.rollup import CounterRollup, decode_state, encode_state
from tests.agent.rollup.exporter_model import Exporter, Job, run_pages
from tests.agent.rollup.test_counters import T0, constant, rows_of

HOT = "throttled/hw_slowdown"
EVERY = 60


def told(pages, throttled, xids=None):
    """Pages whose device counts as ``throttled(at)`` says; an Xid is absent until it first came."""

    def counters(at):
        codes = {name: value for name, count in (xids or {}).items() if (value := count(at)) > 0}
        return {HOT: throttled(at), **codes}

    return [
        msgspec.structs.replace(
            page,
            containers=tuple(
                msgspec.structs.replace(one, device=counters(page.at)) for one in page.containers
            ),
        )
        for page in pages
    ]


def hourly(rows, name=HOT):
    found = {}
    for row in rows:
        if name in row.conditions:
            found.setdefault(row.key.pod, []).append(row.conditions[name])
    return found


def test_what_the_device_counts_while_it_is_held_is_the_holder_s():
    exporter = Exporter([Job(constant(0.9), T0 + 60)], T0)
    pages = told(run_pages(exporter, T0 + 7200, EVERY), lambda at: 0.25 * (at - T0))
    first, second = hourly(rows_of(pages))["train-0"]
    assert first == pytest.approx(0.25 * (3600 - EVERY))
    assert second == pytest.approx(0.25 * 3600)


def test_what_it_had_counted_before_is_nobody_s():
    exporter = Exporter([Job(constant(0.9), T0 + 60)], T0)
    pages = told(run_pages(exporter, T0 + 3600, EVERY), lambda _: 1e6)
    assert hourly(rows_of(pages))["train-0"] == [0.0]


def test_the_next_pod_on_the_device_counts_from_its_own_begin():
    jobs = [
        Job(constant(0.9), T0, T0 + 1800),
        Job(constant(0.9), T0 + 1800, pod="train-1", pod_uid="uid-1"),
    ]
    exporter = Exporter(jobs, T0)
    pages = told(run_pages(exporter, T0 + 3600, EVERY), lambda at: min(at - T0, 1800.0))
    by_pod = hourly(rows_of(pages))
    assert by_pod["train-0"][0] == pytest.approx(1800, abs=4 * EVERY)
    assert by_pod["train-1"] == [0.0]


def test_an_xid_is_counted_from_nothing_when_it_first_comes():
    exporter = Exporter([Job(constant(0.9), T0 + 60)], T0)
    pages = told(
        run_pages(exporter, T0 + 3600, EVERY),
        constant(0.0),
        {"xid/79": lambda at: float(at >= T0 + 1200) + float(at >= T0 + 2400)},
    )
    assert hourly(rows_of(pages), "xid/79")["train-0"] == [2.0]


def test_after_a_restart_of_the_exporter_its_counters_begin_anew():
    exporter = Exporter([Job(constant(0.9), T0 + 60)], T0)
    pages = told(run_pages(exporter, T0 + 1200, EVERY), lambda at: 0.5 * (at - T0))
    exporter.restart(T0 + 1260)
    later = run_pages(exporter, T0 + 3600, EVERY)
    pages += told(later, lambda at: 0.5 * (at - (T0 + 1260)))
    whole = sum(hourly(rows_of(pages))["train-0"])
    assert whole == pytest.approx(0.5 * 3600, abs=4 * EVERY)


def test_a_pod_of_the_same_name_is_not_credited_what_the_device_counted_before_it():
    jobs = [
        Job(constant(0.9), T0, T0 + 1800, pod_uid=""),
        Job(constant(0.9), T0 + 1860, pod_uid=""),
    ]
    exporter = Exporter(jobs, T0)
    pages = told(run_pages(exporter, T0 + 3600, EVERY), lambda at: 5000.0 + 0.1 * (at - T0))
    assert sum(hourly(rows_of(pages))["train-0"]) <= 0.1 * 3600 + 1


def test_they_survive_a_restart_of_the_agent():
    exporter = Exporter([Job(constant(0.9), T0 + 60)], T0)
    pages = told(run_pages(exporter, T0 + 3600, EVERY), lambda at: 0.25 * (at - T0))
    rollup = CounterRollup("c1")
    for page in pages[:30]:
        rollup.add(page)
    again = CounterRollup("c1", state=decode_state(encode_state(rollup.state())))
    for page in pages[30:]:
        again.add(page)
    (row,) = again.take_rows()
    assert row.conditions[HOT] == pytest.approx(0.25 * (3600 - EVERY))


# --- what the device counts all its life --------------------------------------------------------

ECC = "ecc/uncorrected"


def with_errors(pages, count):
    """Pages whose device has met so many uncorrected errors since it was made; None: not told."""

    def told_at(at):
        return {} if count(at) is None else {ECC: float(count(at))}

    return [
        msgspec.structs.replace(
            page,
            containers=tuple(
                msgspec.structs.replace(one, device=told_at(page.at)) for one in page.containers
            ),
        )
        for page in pages
    ]


def errors(pages):
    """Errors that any holder was charged with."""
    return sum(count for counts in hourly(rows_of(pages), ECC).values() for count in counts)


def test_errors_of_a_cards_life_are_charged_as_they_rise():
    exporter = Exporter([Job(constant(0.9), T0 + 60)], T0)
    pages = run_pages(exporter, T0 + 3600, EVERY)
    assert errors(with_errors(pages, lambda at: 7 + 2 * (at > T0 + 1200))) == 2.0


def test_errors_of_a_cards_life_that_are_told_only_now_are_nobody_s():
    """The agent or the exporter was brought up to date; an Xid that is told only now is one."""
    exporter = Exporter([Job(constant(0.9), T0 + 60)], T0)
    pages = run_pages(exporter, T0 + 3600, EVERY)
    assert errors(with_errors(pages, lambda at: 7 if at > T0 + 1200 else None)) == 0.0


def test_a_restart_of_the_exporter_is_no_error_of_the_card():
    exporter = Exporter([Job(constant(0.9), T0 + 60)], T0)
    pages = run_pages(exporter, T0 + 1200, EVERY)
    exporter.restart(T0 + 1260)
    first, *later = run_pages(exporter, T0 + 3600, EVERY)
    assert errors(with_errors([*pages, first, *later], lambda _: 7)) == 0.0
    hole = with_errors([first], lambda _: None)
    assert (
        errors([*with_errors(pages, lambda _: 7), *hole, *with_errors(later, lambda _: 7)]) == 0.0
    )


def test_an_exporter_at_another_address_is_no_error_of_the_card():
    job = Job(constant(0.9), T0 - 10**6)
    old = run_pages(Exporter([job], T0, "old"), T0 + 600, EVERY)
    new = run_pages(Exporter([job], T0 + 630, "new"), T0 + 3600, EVERY)
    later = [page for page in new if page.at > T0 + 660]
    assert errors(with_errors([*old, *later], lambda _: 7)) == 0.0
    risen = with_errors([*old, *later], lambda at: 7 + (at > T0 + 1200))
    assert errors(risen) == 1.0
