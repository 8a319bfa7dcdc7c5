"""Spells at level 0: where they begin and end, and what cuts them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputailor_agent.evaluation.base import EvaluationError
from gputailor_agent.evaluation.levels import Began, Ended, read_trace
from gputailor_agent.evaluation.survival import survival
from tests.agent.evaluation.twins import HEADER, START, STEP, trace, write


def spells_of(tmp_path, *lines, name="t.csv"):
    return read_trace((write(tmp_path, name, "\n".join([HEADER, *lines]) + "\n"),)).spells


def test_a_spell_lasts_from_its_first_to_its_last_sample_at_zero(tmp_path):
    spells = spells_of(tmp_path, *trace("3300003"))

    assert spells.ticks.tolist() == [3]
    assert spells.started.tolist() == [START + 2 * STEP]
    assert spells.began.tolist() == [Began.WENT_IDLE]
    assert spells.ended.tolist() == [Ended.WORK]


def test_each_gpu_of_a_node_has_spells_of_its_own(tmp_path):
    spells = spells_of(tmp_path, *trace("30003", "33003"))

    assert sorted(spells.ticks.tolist()) == [1, 2]


def test_new_users_cut_a_spell_and_begin_an_unclear_one(tmp_path):
    spells = spells_of(tmp_path, *trace("3000000", users="aaaabbb"))

    assert spells.ticks.tolist() == [2, 2]
    assert spells.ended.tolist() == [Ended.CUT, Ended.CUT]
    assert spells.began.tolist() == [Began.WENT_IDLE, Began.UNCLEAR]


def test_idle_from_the_start_is_new_users_on_a_gpu_that_worked_before(tmp_path):
    spells = spells_of(tmp_path, *trace("3330000", users="aaabbbb"))

    assert spells.began.tolist() == [Began.FROM_START]


def test_idle_on_a_node_that_is_not_allocated_whole_is_no_spell(tmp_path):
    lines = [*trace("000000", "333333", alloc=1), *trace("300003", node="n2")]

    assert spells_of(tmp_path, *lines).ticks.tolist() == [3]


def test_a_gap_cuts_a_spell_and_one_missing_sample_does_not(tmp_path):
    whole = trace("3" + "0" * 12)
    bridged = spells_of(tmp_path, *(line for at, line in enumerate(whole) if at != 5))
    cut = spells_of(tmp_path, *(line for at, line in enumerate(whole) if at not in {5, 6}),
                    name="u.csv")  # fmt: skip

    assert bridged.ticks.tolist() == [11]
    assert cut.ticks.tolist() == [3, 5]
    assert cut.ended.tolist() == [Ended.CUT, Ended.CUT]


@given(st.permutations(list(range(20))))
def test_the_order_of_rows_changes_nothing(tmp_path_factory, order):
    lines = [*trace("3000300003", "3333000033"), *trace("0003300000", "3000000003", node="n2")]
    plain = spells_of(tmp_path_factory.mktemp("a"), *lines)
    mixed = spells_of(tmp_path_factory.mktemp("b"), *(lines[at] for at in order))

    def told(spells):
        return sorted(zip(spells.started, spells.ticks, spells.began, spells.ended, strict=True))

    assert told(plain) == told(mixed)


def test_parts_of_a_trace_in_several_files_are_one_trace(tmp_path):
    lines = trace("3000000003")
    parts = tuple(
        write(tmp_path, f"{name}.csv", "\n".join([HEADER, *some]) + "\n")
        for name, some in (("a", lines[:5]), ("b", lines[5:]))
    )

    assert read_trace(parts).spells.ticks.tolist() == [7]


def test_a_trace_without_any_idle_gpu_says_so(tmp_path):
    with pytest.raises(EvaluationError, match="nothing can be told of idle GPUs"):
        spells_of(tmp_path, *trace("333333"))


def test_levels_that_are_no_digits_are_told_with_their_line(tmp_path):
    with pytest.raises(EvaluationError, match="line 3: levels: expected one digit per GPU"):
        spells_of(tmp_path, trace("0")[0], f"{START},n1,X,mix,1,1,1,x,a")


def test_survival_of_spells_that_all_ended_is_the_share_that_lasted():
    curve = survival(np.array([0, 1, 3, 3]), np.ones(4, dtype=bool))

    assert curve.surviving.tolist() == pytest.approx([1, 0.75, 0.5, 0.5])
    assert curve.stays(1, 2) == pytest.approx(2 / 3)
    assert curve.stays(3, 1) is None


def test_a_spell_that_was_cut_tells_only_of_the_time_it_was_seen():
    curve = survival(np.array([0, 5, 10]), np.array([False, True, True]))

    assert curve.stays(0, 5) == 1.0
    assert curve.stays(5, 5) == pytest.approx(0.5)
    assert curve.mean_more(5, 5) == pytest.approx(2.5)


def test_the_median_is_what_half_of_the_spells_outlast():
    curve = survival(np.array([1, 2, 9]), np.ones(3, dtype=bool))

    assert curve.median_more(0) == 2
    assert curve.median_more(20) is None
