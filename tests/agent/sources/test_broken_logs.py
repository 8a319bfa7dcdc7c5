"""Whatever is done to a log: a partial reading that says so, or an error that tells what to do."""

import gzip
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gputailor_agent.sources.archive import read_archive
from gputailor_agent.sources.logs import Log, LogError, read_log

HEADER = (
    "timestamp, index, name, utilization.gpu [%], utilization.memory [%], memory.used [MiB],"
    " memory.total [MiB], power.draw [W]\n"
)
ROWS = [
    f"2026/02/03 10:15:{20 + second}.{107 + second}, {gpu}, NVIDIA L4, {50 + second} %, 7 %,"
    f" {900 + gpu} MiB, 23034 MiB, {33 + second}.25 W\n"
    for second in range(10)
    for gpu in range(2)
]
GOOD = HEADER + "".join(ROWS)
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8


def _text(change: Callable[[str], str]) -> Callable[[], bytes]:
    return change(GOOD).encode


def _rows(change: Callable[[list[str]], list[str]]) -> Callable[[], bytes]:
    return (HEADER + "".join(change(list(ROWS)))).encode


#: name -> (the file, how many of its rows are read; None: it must be refused)
MUTILATED: dict[str, tuple[Callable[[], bytes], int | None]] = {
    "truncated in a row": (_text(lambda t: t[:-40]), 19),
    "truncated in the last unit": (_text(lambda t: t[:-3]), 19),
    "truncated in the header": (_text(lambda t: t[:40]), None),
    "semicolons": (_text(lambda t: t.replace(",", ";")), 20),
    "tabs": (_text(lambda t: t.replace(", ", "\t")), 20),
    "pipes": (_text(lambda t: t.replace(",", "|")), 20),
    "spaces for separators": (_text(lambda t: t.replace(",", " ")), None),
    "empty": (lambda: b"", None),
    "blank lines only": (lambda: b"\n\n   \n\t\n", None),
    "header only": (HEADER.encode, None),
    "ten megabytes in one line": (lambda: GOOD.encode() + b"7" * 10_000_000, 20),
    "only one huge line": (lambda: b"x," * 5_000_000, None),
    "zero bytes at the end": (lambda: GOOD.encode() + b"\0" * 5000, 20),
    "zero bytes in the middle": (
        lambda: GOOD[:300].encode() + b"\0" * 64 + GOOD[300:].encode(),
        19,
    ),
    "zero bytes only": (lambda: b"\0" * 5000, None),
    "UTF-16 without a mark": (lambda: GOOD.encode("utf-16-le"), 20),
    "UTF-16 big endian": (lambda: b"\xfe\xff" + GOOD.encode("utf-16-be"), 20),
    "UTF-16 cut in half a character": (lambda: GOOD.encode("utf-16")[:-1], 19),
    "UTF-16 that goes on in UTF-8": (lambda: GOOD.encode("utf-16") + "".join(ROWS).encode(), 20),
    "UTF-8 that goes on in UTF-16": (
        lambda: GOOD.encode() + "".join(ROWS[:3]).encode("utf-16-le"),
        20,
    ),
    "a name in Latin-1": (_text(lambda t: t.replace("L4", "L4 é")), 20),
    "bytes that are no text": (lambda: GOOD.replace("L4", "\u00e9").encode("latin-1"), 20),
    "decimal commas": (_rows(lambda rows: [r.replace(".25 W", ",25 W") for r in rows]), None),
    "decimal commas and semicolons": (
        _text(lambda t: t.replace(",", ";").replace(".25 W", ",25 W")),
        20,
    ),
    "times going backwards": (_rows(lambda rows: rows[::-1]), 20),
    "every row twice": (_rows(lambda rows: [row for row in rows for _ in (0, 1)]), 20),
    "the whole file twice": (_text(lambda t: t + t), 20),
    "columns swapped in some rows": (
        _rows(lambda rows: [*rows[:-2], *(r.replace("900 MiB", "9 %") for r in rows[-2:])]),
        19,
    ),
    "rows with too few cells": (
        _rows(lambda rows: [*rows[:10], *(r.rsplit(",", 2)[0] + "\n" for r in rows[10:])]),
        10,
    ),
    "rows with too many cells": (
        _rows(lambda rows: [*rows[:15], *(r.strip() + ", 5\n" for r in rows[15:])]),
        15,
    ),
    "words among the numbers": (
        _rows(lambda rows: [r.replace("55 %", "many %") for r in rows]),
        18,
    ),
    "an error message between": (
        _rows(lambda rows: [*rows[:4], "Unable to determine the device handle\n", *rows[4:]]),
        20,
    ),
    "only an error message": (lambda: b"NVIDIA-SMI has failed because it could not talk\n", None),
    "a PNG": (lambda: PNG, None),
    "random bytes": (lambda: random.Random(7).randbytes(5000), None),
    "gzip": (lambda: gzip.compress(GOOD.encode()), 20),
    "gzip of garbage": (lambda: gzip.compress(random.Random(7).randbytes(5000)), None),
    "gzip cut": (lambda: gzip.compress(GOOD.encode() * 400)[:-20], 20),
    "gzip in name only": (lambda: b"\x1f\x8b" + b"nonsense" * 50, None),
    "old Mac line ends": (_text(lambda t: t.replace("\n", "\r")), 20),
    "Windows line ends": (_text(lambda t: t.replace("\n", "\r\n")), 20),
    "quoted cells": (_text(lambda t: t.replace("NVIDIA L4", '"NVIDIA L4"')), 20),
    "an open quote": (_rows(lambda rows: ['"' + rows[0], *rows[1:]]), 19),
    "months of thirteen": (
        _rows(lambda rows: [r.replace("2026/02", "2026/13", 1) for r in rows]),
        None,
    ),
    "no time column": (
        lambda: b"index, utilization.gpu [%], memory.used [MiB]\n0, 5 %, 7 MiB\n",
        None,
    ),
    "a list of processes": (
        lambda: (
            b"timestamp, pid, process_name, used_gpu_memory [MiB]\n2026/02/03 10:15:20, 7, x, 5 MiB\n"
        ),
        None,
    ),
    "the plain table": (
        lambda: b"+---+\n| NVIDIA-SMI 590.48.01  Driver Version: 590.48.01 |\n",
        None,
    ),
    "the long report": (
        lambda: b"==============NVSMI LOG==============\n\nTimestamp : now\n",
        None,
    ),
    "the XML report": (
        lambda: b"<?xml version='1.0' ?>\n<nvidia_smi_log>\n</nvidia_smi_log>\n",
        None,
    ),
    "the list of devices": (lambda: b"GPU 0: NVIDIA L4 (UUID: GPU-1)\n", None),
    "JSON": (lambda: b'{"gpus": [{"index": 0}]}', None),
    "a dmon header only": (lambda: b"# gpu   pwr  sm\n# Idx     W   %\n", None),
    "dmon rows before the header": (
        lambda: b"0 5 5\n# gpu   pwr  sm\n# Idx     W   %\n0 70 5\n",
        1,
    ),
}


def read_or_refuse(path: Path) -> Log | LogError:
    refused: LogError | None = None
    try:
        log = read_log(path, ended=1770200000.0)
    except LogError as error:
        refused = error
    if refused is not None:
        assert str(path) in str(refused)
        assert "expected" in str(refused)
        assert len(str(refused)) < 1500
        return refused
    assert log.rows_read + log.rows_skipped == log.rows_present
    assert log.samples
    return log


@pytest.mark.parametrize("name", MUTILATED)
def test_a_mutilated_log_is_read_as_far_as_it_goes_or_refused(tmp_path: Path, name: str) -> None:
    make, rows = MUTILATED[name]
    path = tmp_path / "log.csv"
    path.write_bytes(make())
    result = read_or_refuse(path)
    assert (result.rows_read if isinstance(result, Log) else None) == rows


def test_there_are_more_than_thirty_mutilations() -> None:
    assert len(MUTILATED) > 30


def test_skipped_rows_are_shown_with_line_text_and_reason(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(
        HEADER + ROWS[0] + "2026/02/03 10:15:21, 0, NVIDIA\n" + ROWS[2].replace("51 %", "51 W")
    )
    log = read_log(path)
    assert [(row.line, row.why) for row in log.skipped] == [
        (3, "3 cells (cut off?); expected 8"),
        (4, "utilization.gpu holds no number with a fitting unit"),
    ]
    assert log.skipped[1].text.startswith("2026/02/03 10:15:21")
    assert any("2 of 3 rows were skipped" in note for note in log.notes)


def test_swapped_sizes_are_unknown_not_wrong(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("timestamp,memory.used,memory.total\n2026/02/03 10:15:20,8192,100\n")
    sample = read_log(path).samples[0]
    assert (sample.memory_used_bytes, sample.memory_total_bytes) == (None, None)


def test_the_error_names_file_line_expectation_and_the_command_to_run(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("index, utilization.gpu [%]\n0, 5 %\n")
    with pytest.raises(
        LogError, match=r"log\.csv:2: no column holds the time.*nvidia-smi --query-gpu="
    ):
        read_log(path)


def test_a_file_that_is_not_there_is_an_error_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(LogError, match=r"nowhere\.csv: cannot be opened"):
        read_log(tmp_path / "nowhere.csv")


CELLS = st.sampled_from(
    ["", "0", "5 %", "7 MiB", "33.1 W", "[N/A]", "-", "NVIDIA L4", "2026/02/03 10:15:20", "1e400",
     "timestamp", "index", "gpu", "utilization.gpu [%]", "# gpu", "pid", "9" * 400, "\0", '"', "é", "#"]
) | st.text(max_size=8)  # fmt: skip


@settings(
    max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(st.lists(CELLS, max_size=6), max_size=12),
    st.sampled_from([",", ", ", ";", "\t", " "]),
    st.sampled_from(["utf-8", "utf-16", "utf-8-sig"]),
)
def test_no_text_brings_the_reader_down(
    tmp_path: Path, rows: list[list[str]], delimiter: str, encoding: str
) -> None:
    path = tmp_path / "log.csv"
    text = "\n".join(delimiter.join(row) for row in rows)
    path.write_bytes(text.encode(encoding, errors="replace"))
    read_or_refuse(path)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.binary(max_size=4)), max_size=12))
def test_no_damage_to_a_good_log_brings_the_reader_down(
    tmp_path: Path, damage: list[tuple[int, bytes]]
) -> None:
    path = tmp_path / "log.csv"
    data = bytearray(GOOD.encode())
    for place, patch in damage:
        data[place : place + len(patch)] = patch
    path.write_bytes(data)
    read_or_refuse(path)


@pytest.mark.parametrize(
    "text",
    [
        "# GPU Tailor. `make help` lists the targets.\nall:\n\techo hi\n",
        "#!/bin/sh\n# gpu utilisation loop\nnvidia-smi\nls gpu\n",
        "# gpu settings\nname = a\nindex = 0\n",
        "# GPU\n\nText about GPUs, and 3 more.\n",
        '{"timestamp": "2026-01-01T00:00:00Z", "gpu": 0}\n' * 5,
        "a: 1\nb:\n  - 2\n",
        "import os\nprint(os.name, 1)\n",
        "timestamp,temperature,humidity\n2026-01-01 00:00:00,20,50\n2026-01-01 00:10:00,21,51\n",
        "timestamp,cpu_percent,memory_used\n2026-01-01 00:00:00,20,50\n2026-01-01 00:10:00,21,51\n",
        "timestamp,cpu,load,memory\n2026-01-01 00:00:00,1,20,50\n2026-01-01 00:10:00,2,21,51\n",
        "time,name,amount\n2026-01-01 00:00:00,Bob,50\n2026-01-01 00:10:00,Eve,51\n",
        "date,open,high,low,close\n2026-01-01,1,2,3,4\n2026-01-02,1,2,3,4\n",
        "id,name,usage\n1,Bob,4\n2,Eve,5\n",
        "epoch,step,loss,time\n1,1,0.5,12.3\n1,2,0.4,24.6\n",
        "timestamp\n2026-01-01 00:00:00\n2026-01-01 00:00:01\n",
        "2026-01-01 00:00:00,123 INFO main: started, ok\n" * 20,
    ],
)
def test_what_is_no_log_of_a_gpu_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "file"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(LogError) as refused:
        read_log(path)
    assert str(path) in str(refused.value)
    assert "expected" in str(refused.value)


def test_a_log_whose_every_value_is_unknown_is_a_problem_of_the_archive(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(
        "timestamp, name, utilization.gpu [%]\n"
        + "".join(f"2026/01/01 00:00:0{n}.000, NVIDIA A100, [N/A]\n" for n in range(5))
    )
    archive = read_archive([path], "")
    assert archive.logs == ()
    assert "every value of its GPUs is unknown" in str(archive.problems[0])


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    assert "is a pipe" in str(read_archive([path], "").problems[0])
