"""Every shape of log that people have is read; twins with made-up values stand in ``logs/``."""

from pathlib import Path

import pytest

from gputailor_agent.sources.logs import Log, read_log

TWINS = Path(__file__).parent / "logs"
UTILISATION = [0.0, 0.0, 0.37, 0.96, 0.98, 0.99, 0.97, 1.0, 0.98, 0.4, 0.0, 0.0]
MIB = 1024**2
FIRST = 1770113720.107  # 2026-02-03 10:15:20.107 UTC
ENDED = 1770200000.0


def twin(name: str) -> Log:
    return read_log(TWINS / name, ended=ENDED)


def said(log: Log, words: str) -> bool:
    return any(words in note for note in log.notes)


@pytest.mark.parametrize("path", sorted(TWINS.iterdir()), ids=lambda path: path.name)
def test_every_twin_is_read_whole(path: Path) -> None:
    log = read_log(path)
    assert log.rows_present == log.rows_read > 0
    assert log.rows_skipped == 0


@pytest.mark.parametrize(
    "name",
    [
        "units_1s.csv",
        "utf16_crlf.csv",
        "bom_15s.csv",
        "repeated_header.csv",
        "bus_id_units.csv",
        "own_names_cleaned.csv",
        "doubled_time.csv",
        "nounits_no_header_one_gpu.csv",
        "semicolon_decimal_comma.csv",
    ],
)
def test_utilisation_of_one_device_is_read_from_every_shape(name: str) -> None:
    log = twin(name)
    assert [sample.kernel for sample in log.samples] == UTILISATION
    assert len({sample.gpu for sample in log.samples}) == 1


def test_units_are_converted_and_what_is_not_there_is_unknown() -> None:
    sample = twin("units_1s.csv").samples[2]
    assert sample.at == pytest.approx(FIRST + 2.002)
    assert sample.model == "NVIDIA L40S"
    assert sample.memcopy == 0.12
    assert sample.memory_used_bytes == (900 + 37 * 110) * MIB
    assert sample.power_watts == 123.25
    assert sample.memory_total_bytes is None
    assert sample.temperature_celsius is None


def test_memory_utilisation_is_never_a_size() -> None:
    log = twin("repeated_header.csv")
    assert {sample.memory_total_bytes for sample in log.samples} == {23034 * MIB}
    assert [s.memory_used_bytes for s in log.samples][:3] == [900 * MIB, 900 * MIB, 2750 * MIB]
    assert log.samples[3].memcopy == 0.32


def test_repeated_headers_are_counted_apart_from_rows() -> None:
    log = twin("repeated_header.csv")
    assert (log.headers, log.rows_present) == (12, 12)


def test_of_a_doubled_time_the_finer_one_is_used_and_it_is_said() -> None:
    log = twin("doubled_time.csv")
    assert log.samples[0].at == pytest.approx(FIRST)
    assert log.samples[0].memory_used_bytes == 900 * MIB
    assert said(log, "the time stands 2 times in front")


def test_a_time_without_zone_is_read_as_utc_and_it_is_said() -> None:
    assert said(twin("units_1s.csv"), "read as UTC")


def test_a_time_with_zone_is_honoured() -> None:
    log = twin("eight_gpus_odd_index.csv")
    assert log.samples[0].at == 1770113720.0
    assert not said(log, "UTC")


def test_the_column_that_tells_rows_of_one_time_apart_names_the_devices() -> None:
    log = twin("eight_gpus_odd_index.csv")
    assert [sample.gpu for sample in log.samples[:8]] == [str(gpu) for gpu in range(8)]
    assert log.samples[3].power_watts == 83.0
    assert said(log, "'gpu' tells the devices apart")


def test_without_a_utilisation_column_it_is_unknown_not_zero() -> None:
    log = twin("eight_gpus_odd_index.csv")
    assert {sample.kernel for sample in log.samples} == {None}
    assert "kernel" not in log.knows
    assert said(log, "No utilisation is known")


def test_devices_without_any_index_are_told_apart_by_their_place_and_it_is_said() -> None:
    log = twin("four_gpus_no_header.csv")
    sizes = {s.gpu: s.memory_used_bytes for s in log.samples}
    assert sizes == {"0": 9120 * MIB, "1": 7040 * MIB, "2": 8200 * MIB, "3": 10010 * MIB}
    assert said(log, "taken as 4 devices in the order of their rows, an assumption")
    assert said(log, "columns were told by the patterns of their values, an assumption")


def test_a_lost_device_is_unknown_from_then_on_while_the_other_goes_on() -> None:
    log = twin("lost_gpu.csv")
    lost = [s.kernel for s in log.samples if s.gpu.startswith("GPU-00000001")]
    good = [s.kernel for s in log.samples if s.gpu.startswith("GPU-00000000")]
    assert lost == [0.51] * 4 + [None] * 4
    assert good == [0.5] * 8
    assert said(log, "[GPU is lost]")


def test_dmon_with_date_and_time_is_read() -> None:
    log = twin("dmon_date_time.txt")
    assert log.kind == "nvidia-smi dmon"
    assert [s.kernel for s in log.samples if s.gpu == "1"] == UTILISATION
    assert log.samples[0].at == 1770113720.0
    assert log.samples[0].memory_used_bytes == 470 * MIB
    assert log.headers == 6


def test_dmon_without_times_is_placed_by_the_end_of_the_file_and_it_is_said() -> None:
    log = twin("dmon_no_time.txt")
    times = sorted({sample.at for sample in log.samples})
    assert times == [ENDED - 11 + second for second in range(12)]
    assert said(log, "one second apart")


def test_processes_of_pmon_are_added_up_and_a_device_without_reading_stays_unknown() -> None:
    log = twin("pmon_time.txt")
    assert log.kind == "nvidia-smi pmon"
    assert (log.rows_present, log.rows_read, len(log.samples)) == (15, 15, 10)
    assert [s.kernel for s in log.samples if s.gpu == "0"] == [0.0, 0.37, 0.98, 0.97, 0.98]
    assert {s.kernel for s in log.samples if s.gpu == "1"} == {None}


def test_shares_of_several_processes_never_exceed_one(tmp_path: Path) -> None:
    path = tmp_path / "pmon.txt"
    path.write_text(
        "# gpu pid type sm mem command\n# Idx # C/G % % name\n0 7 C 80 - a\n0 8 C 70 - b\n"
    )
    assert [sample.kernel for sample in read_log(path).samples] == [1.0]


def test_a_clock_without_date_goes_over_midnight(tmp_path: Path) -> None:
    path = tmp_path / "dmon.txt"
    path.write_text("#Time gpu sm\n#HH:MM:SS Idx %\n 23:59:59 0 5\n 00:00:00 0 6\n")
    at = [sample.at for sample in read_log(path, ended=ENDED).samples]
    assert at[1] - at[0] == 1.0
    assert 0 <= ENDED - at[1] < 86400


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2026/02/03 10:15:20.500", 1770113720.5),
        ("2026-02-03T10:15:20Z", 1770113720.0),
        ("2026-02-03 18:15:20+08:00", 1770113720.0),
        ("2026-02-03T05:15:20.25-0500", 1770113720.25),
        ("1770113720.25", 1770113720.25),
        ("1770113720250", 1770113720.25),
        ("Tue Feb  3 10:15:20 2026", 1770113720.0),
        ("20260203 10:15:20", 1770113720.0),
        ("03.02.2026 10:15:20", 1770113720.0),
        ("02/03/2026 10:15:20 AM", 1770113720.0),
        ('"2026-02-03 10:15:20"', 1770113720.0),
    ],
)
def test_times_are_read_in_the_forms_people_have(tmp_path: Path, text: str, seconds: float) -> None:
    path = tmp_path / "log.csv"
    path.write_text(f"time,gpu_util\n{text},40\n")
    assert read_log(path).samples[0].at == pytest.approx(seconds, abs=1e-4)


def test_a_day_above_twelve_anywhere_settles_that_the_day_comes_first(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("time,gpu_util\n03/02/2026 10:15:20,40\n13/02/2026 10:15:20,40\n")
    assert read_log(path).samples[0].at == 1770113720.0


def test_running_seconds_end_when_the_file_was_last_written(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("elapsed_s,gpu_util\n0.0,40\n0.5,50\n")
    assert [s.at for s in read_log(path, ended=ENDED).samples] == [ENDED - 0.5, ENDED]


@pytest.mark.parametrize(
    ("header", "cell", "size"),
    [
        ("memory.used [MiB]", "512 MiB", 512 * MIB),
        ("memory.used [MiB]", "512", 512 * MIB),
        ("vram_used_gb", "1.5", 1536 * MIB),
        ("gpu_mem_used", "0.5 GiB", 512 * MIB),
        ("gpu_memory_used_bytes", "536870912", 512 * MIB),
        ("memory.used", "25769803776", 24576 * MIB),
    ],
)
def test_sizes_are_read_in_their_units(tmp_path: Path, header: str, cell: str, size: int) -> None:
    path = tmp_path / "log.csv"
    path.write_text(f"timestamp,{header}\n2026/02/03 10:15:20,{cell}\n")
    assert read_log(path).samples[0].memory_used_bytes == size


def test_used_memory_is_total_less_free_where_only_those_are_known(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("timestamp,memory.total,memory.free\n2026/02/03 10:15:20,1000,400\n")
    log = read_log(path)
    assert log.samples[0].memory_used_bytes == 600 * MIB
    assert said(log, "total - free")


def test_a_home_made_share_of_memory_is_not_taken_for_bandwidth(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    rows = "".join(f"2026/02/03 10:15:{20 + i},40,{10 * i},{100 * i},1000\n" for i in range(1, 9))
    path.write_text("timestamp,gpu_util,mem_util,mem_used,mem_total\n" + rows)
    log = read_log(path)
    assert {sample.memcopy for sample in log.samples} == {None}
    assert said(log, "how busy the memory was is not known")


def test_utilisation_as_a_ratio_is_recognised_by_its_values(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("timestamp,gpu_util\n2026/02/03 10:15:20,0.25\n2026/02/03 10:15:21,1\n")
    assert [sample.kernel for sample in read_log(path).samples] == [0.25, 1.0]


def test_one_device_sampled_twice_a_second_is_not_taken_for_two(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    rows = "".join(f"2026/02/03 10:15:{20 + i // 2},{i * 3}\n" for i in range(20))
    path.write_text("timestamp,gpu_util\n" + rows)
    assert {sample.gpu for sample in read_log(path).samples} == {"0"}


def test_two_headers_in_one_file_make_two_sections(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(
        "timestamp,utilization.gpu [%]\n2026/02/03 10:15:20,40 %\n"
        "timestamp,memory.used [MiB],utilization.gpu [%]\n2026/02/03 10:15:21,7 MiB,50 %\n"
    )
    log = read_log(path)
    assert [sample.kernel for sample in log.samples] == [0.4, 0.5]
    assert [sample.memory_used_bytes for sample in log.samples] == [None, 7 * MIB]


def test_zero_and_unknown_look_different(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(
        "timestamp,utilization.gpu [%]\n2026/02/03 10:15:20,0 %\n2026/02/03 10:15:21,[N/A]\n"
        "2026/02/03 10:15:22,9223372036854775794 %\n"
    )
    assert [sample.kernel for sample in read_log(path).samples] == [0.0, None, None]


REAL = {
    "bom_llm_bench_15s.csv": (209, 1),
    "h100_8gpu_idle.csv": (43, 8),
    "multi_gpu_noheader_llamacpp.csv": (388, 4),
    "rtx2070_gpu_usage1.csv": (232, 1),
    "rtx2070_gpu_usage_cleaned.csv": (224, 1),
    "rtx2070_gpu_usage_repeated_header.csv": (224, 1),
    "rtx4060_doubled_timestamp_column.csv": (196, 1),
    "rtx4090_vlm_eval_1s.csv": (2619, 1),
    "utf16_11gb_gpu_training_1s.csv": (434, 1),
}


@pytest.mark.restricted
def test_every_real_log_is_read_and_its_rows_add_up(shared_data: Path) -> None:
    found = {}
    for path in sorted((shared_data / "logs").iterdir()):
        log = read_log(path)
        assert log.rows_read + log.rows_skipped == log.rows_present
        assert len(log.samples) == log.rows_read
        found[path.name] = (log.rows_read, len({sample.gpu for sample in log.samples}))
    assert found == REAL


def headerless(tmp_path: Path, row: str, rows: int = 12) -> Log:
    path = tmp_path / "log.csv"
    path.write_text(
        "".join(row.format(s=20 + i, i=i, u=i * 8, g=i % 2) + "\n" for i in range(rows))
    )
    return read_log(path, ended=ENDED)


def test_units_decide_the_columns_of_a_log_without_headers(tmp_path: Path) -> None:
    log = headerless(
        tmp_path,
        "2026/02/03 10:15:{s}.1, GPU-00000000-1111-2222-3333-444444444444, {u} %, {i} %, "
        "{u} MiB, 23034 MiB, 3{i}.5 W, 72.00 W, P0",
    )
    sample = log.samples[3]
    assert sample.gpu == "GPU-00000000-1111-2222-3333-444444444444"
    assert (sample.kernel, sample.memcopy) == (0.24, 0.03)
    assert (sample.memory_used_bytes, sample.memory_total_bytes) == (24 * MIB, 23034 * MIB)
    assert (sample.power_watts, sample.power_limit_watts) == (33.5, 72.0)
    assert sample.model == ""


def test_an_index_without_header_is_recognised_where_every_time_shows_all(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    rows = (
        f"2026/02/03 10:15:{20 + i}.1{g}, {g}, {i * 9}, {40 + g}\n"
        for i in range(8)
        for g in (0, 1)
    )
    path.write_text("".join(rows))
    log = read_log(path)
    assert [sample.gpu for sample in log.samples[:2]] == ["0", "1"]
    assert [sample.kernel for sample in log.samples[2:4]] == [0.09, 0.09]
    assert [sample.temperature_celsius for sample in log.samples[:2]] == [40.0, 41.0]


def test_a_constant_that_may_be_an_index_is_left_unknown(tmp_path: Path) -> None:
    log = headerless(tmp_path, "2026/02/03 10:15:{s}.1, 0, 9{i}0")
    assert {sample.kernel for sample in log.samples} == {None}
    assert said(log, "an index or a utilisation, not read")


def test_memory_in_bytes_without_header_is_recognised_by_its_size(tmp_path: Path) -> None:
    log = headerless(tmp_path, "17701137{s}, {u}, 1073741824, 25769803776")
    assert log.samples[1].kernel == 0.08
    assert log.samples[1].memory_used_bytes == 1024 * MIB
    assert log.samples[1].memory_total_bytes == 24576 * MIB


def test_a_column_called_gpu_with_percent_is_the_utilisation(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(
        "timestamp,gpu,mem [MiB]\n2026/02/03 10:15:20,40 %,7\n2026/02/03 10:15:21,93 %,7\n"
    )
    assert [sample.kernel for sample in read_log(path).samples] == [0.4, 0.93]


def test_a_column_called_gpu_with_names_is_the_model(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("timestamp,gpu,gpu_util\n2026/02/03 10:15:20,NVIDIA L4,40\n")
    sample = read_log(path).samples[0]
    assert (sample.model, sample.kernel, sample.gpu) == ("NVIDIA L4", 0.4, "0")


def test_a_log_that_is_too_long_is_read_up_to_the_limit_and_adds_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gputailor_agent.sources.logs.csv_lines.MOST_ROWS", 5)
    log = headerless(tmp_path, "2026/02/03 10:15:{s}.1, {u} %")
    assert (log.rows_present, log.rows_read, log.rows_skipped) == (12, 5, 7)


def test_a_poll_that_lacks_rows_is_skipped_where_places_name_devices(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    rows = [
        f"2026/02/03 10:15:{20 + i}.10{g}, {50 * g} %, {900 + g} MiB\n"
        for i in range(8)
        for g in range(3)
    ]
    del rows[10]
    path.write_text("timestamp, utilization.gpu [%], memory.used [MiB]\n" + "".join(rows))
    log = read_log(path)
    assert (log.rows_present, log.rows_read, log.rows_skipped) == (23, 21, 2)
    assert {(s.gpu, s.kernel) for s in log.samples} == {("0", 0.0), ("1", 0.5), ("2", 1.0)}
    assert "device of this row is not known" in log.skipped[0].why
