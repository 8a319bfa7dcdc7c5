"""Runs that a name stem joined stand apart where their memory peaks differ twofold."""

import pytest

from gputailor_agent.model.inventory import Outcome
from gputailor_agent.model.profile import Window
from gputailor_agent.profiles import build_profiles
from tests.agent.factories import (
    DAY,
    HOUR,
    NOW,
    device,
    inventory,
    node,
    pod,
    resolution,
    rows,
    workload,
)


def built(peaks_gib, *, work=None, outcomes=None):
    """Profiles of runs ``run-0``, ``run-1``, … an hour each, with these memory peaks."""
    usage, runs = [], {}
    for place, peak in enumerate(peaks_gib):
        start, name = NOW - (len(peaks_gib) - place) * 4 * HOUR, f"run-{place}"
        usage += rows(start, start + HOUR, pod=name, kernel=0.5, memory_gib=peak)
        runs[name] = [pod(name, start=start, finished=start + HOUR)]
    pods = [one for members in runs.values() for one in members]
    mapping = resolution(work or workload(), runs, outcomes)
    window = Window(start=NOW - 14 * DAY, end=NOW)
    return build_profiles(usage, [device()], inventory(pods, [node()]), mapping, window)


def ids_and_runs(profiles):
    return [(one.workload.id, [run.id for run in one.runs]) for one in profiles]


def test_runs_of_twofold_peaks_are_two_workloads_and_the_oldest_keeps_the_plain_id():
    assert ids_and_runs(built([10, 30, 11, 28])) == [
        ("team-a/Job/train/main", ["run-0", "run-2"]),
        ("team-a/Job/train/main#peak-32g", ["run-1", "run-3"]),
    ]


def test_runs_whose_peaks_differ_less_stay_together():
    assert len(built([10, 14, 19])) == 1


def test_an_aborted_runs_low_peak_splits_nothing():
    assert len(built([10, 1, 11], outcomes={"run-1": Outcome.FAILED})) == 1


def test_an_aborted_run_goes_where_its_peak_is_nearest():
    found = ids_and_runs(built([10, 30, 25, 28], outcomes={"run-2": Outcome.FAILED}))
    assert found[1] == ("team-a/Job/train/main#peak-32g", ["run-1", "run-2", "run-3"])


@pytest.mark.parametrize("kind", ["CronJob", "Deployment"])
def test_what_people_gave_a_name_of_its_own_is_not_split(kind):
    assert len(built([10, 30], work=workload(kind=kind))) == 1


def test_splitting_loses_no_time_and_no_run():
    whole = built([10, 12])
    parts = built([10, 30])
    assert sum(one.allocated_seconds for one in parts) == whole[0].allocated_seconds
    assert sum(len(one.runs) for one in parts) == 2
