"""Tables of any origin: what is missing or wrong is told with file, line and what was expected."""

import gzip

import pytest

from gputailor_agent.evaluation.base import EvaluationError
from gputailor_agent.evaluation.tables import numbers, records


def test_columns_are_found_by_name_whatever_their_order_and_whatever_else_is_there(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("extra,b,a\nx,2,1\ny,4,3\n", encoding="utf-8")

    assert list(records(path, ("a", "b"))) == [(2, ["1", "2"]), (3, ["3", "4"])]


def test_a_gzipped_table_with_a_byte_order_mark_reads_like_a_plain_one(tmp_path):
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress("\ufeffa,b\n1,2\n".encode()))

    assert list(records(path, ("b",))) == [(2, ["2"])]


def test_a_missing_column_is_told_with_those_that_are_there(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,c\n1,2\n", encoding="utf-8")

    with pytest.raises(EvaluationError, match=r"a\.csv: line 1: .*missing: b; found: a, c"):
        list(records(path, ("a", "b")))


def test_a_row_that_is_too_short_is_told_with_its_line(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,b\n1,2\n3\n", encoding="utf-8")

    with pytest.raises(EvaluationError, match=r"a\.csv: line 3: expected 2 cells"):
        list(records(path, ("a", "b")))


def test_an_empty_file_is_a_table_without_its_columns(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("", encoding="utf-8")

    with pytest.raises(EvaluationError, match="found: nothing"):
        list(records(path, ("a",)))


@pytest.mark.parametrize("cell", ["", "x", "nan", "inf"])
def test_a_cell_that_is_no_finite_number_is_told_with_its_column(tmp_path, cell):
    with pytest.raises(EvaluationError, match=r"line 7: speed: expected a number"):
        numbers(tmp_path / "a.csv", 7, ("speed",), (cell,))


def test_a_damaged_archive_is_told_and_is_no_traceback(tmp_path):
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n1,2\n" * 1000)[:-20])

    with pytest.raises(EvaluationError, match="cannot be read"):
        list(records(path, ("a",)))
