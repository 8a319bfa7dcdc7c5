"""Folders of files: pages and logs told apart, pages merged in the order of time."""

import gzip
from pathlib import Path

import pytest

from gputailor_agent.sources.archive import read_archive
from gputailor_exporter import metrics

TWINS = Path(__file__).parent / "logs"


def page(second: int, pod: str) -> str:
    labels = f'node="n",namespace="ns",pod="{pod}",pod_uid="",container="c",gpu_uuid="GPU-1"'
    return f"{metrics.CONTAINER_ALLOCATED.name}{{{labels}}} 1 {1770113720000 + second * 1000}\n"


def test_pages_of_several_files_come_in_the_order_of_time(tmp_path: Path) -> None:
    (tmp_path / "a.prom").write_text("".join(page(second, "a") for second in (0, 20, 40)))
    (tmp_path / "b.prom.gz").write_bytes(
        gzip.compress("".join(page(second, "b") for second in (10, 20, 30)).encode())
    )
    archive = read_archive([tmp_path], "lab")
    pages = list(archive.pages())
    assert [p.at - 1770113720 for p in pages] == [0, 10, 20, 20, 30, 40]
    assert {p.exporter for p in pages} == {str(tmp_path / "a.prom"), str(tmp_path / "b.prom.gz")}
    assert archive.problems == ()
    assert list(archive.pages()) == pages


def test_logs_and_pages_are_told_apart_by_content(tmp_path: Path) -> None:
    (tmp_path / "pages.csv").write_text("# HELP x y\n" + page(0, "a"))
    (tmp_path / "log.prom").write_bytes((TWINS / "units_1s.csv").read_bytes())
    archive = read_archive([tmp_path], "lab")
    assert len(list(archive.pages())) == 1
    assert [log.rows_read for log in archive.logs] == [12]


def test_what_lies_beside_data_in_a_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("hello")
    (tmp_path / "pods.yaml").write_text("kind: Pod")
    (tmp_path / ".hidden").write_text("hello")
    (tmp_path / "log.csv").write_bytes((TWINS / "units_1s.csv").read_bytes())
    archive = read_archive([tmp_path], "lab")
    assert (len(archive.logs), archive.problems) == (1, ())


def test_a_file_given_twice_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "a.prom"
    path.write_text(page(0, "a"))
    assert len(list(read_archive([path, tmp_path], "lab").pages())) == 1


def test_one_bad_file_does_not_stop_the_others(tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("hello\n")
    (tmp_path / "log.csv").write_bytes((TWINS / "units_1s.csv").read_bytes())
    archive = read_archive([tmp_path, tmp_path / "nowhere"], "lab")
    assert len(archive.logs) == 1
    told = sorted(map(str, archive.problems))
    assert len(told) == 2
    assert "bad.csv:1: no header and no row with a time" in told[0]
    assert "nowhere: cannot be opened" in told[1]


def test_an_empty_folder_is_told(tmp_path: Path) -> None:
    assert "no data in this folder" in str(read_archive([tmp_path], "lab").problems[0])


def test_a_page_of_another_exporter_is_told_not_taken_for_nothing(tmp_path: Path) -> None:
    (tmp_path / "dcgm.prom").write_text('DCGM_FI_DEV_GPU_UTIL{gpu="0"} 5\n')
    archive = read_archive([tmp_path], "lab")
    assert list(archive.pages()) == []
    assert "only metrics of others (DCGM_FI_DEV_GPU_UTIL)" in str(archive.problems[0])


def test_a_page_saved_without_timestamps_is_dated_by_its_file(tmp_path: Path) -> None:
    path = tmp_path / "saved.prom"
    path.write_text(page(0, "a").rpartition(" ")[0] + "\n")
    (found,) = read_archive([path], "lab").pages()
    assert found.at == pytest.approx(path.stat().st_mtime)


def test_progress_ends_at_the_size_of_all_files(tmp_path: Path) -> None:
    (tmp_path / "a.prom").write_text("".join(page(second, "a") for second in range(50)))
    (tmp_path / "log.csv").write_bytes((TWINS / "units_1s.csv").read_bytes())
    heard: list[tuple[int, int]] = []
    archive = read_archive([tmp_path], "lab", progress=lambda *told: heard.append(told))
    list(archive.pages())
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert heard == sorted(heard)
    assert heard[-1] == (size, size)


@pytest.mark.restricted
def test_no_page_of_other_exporters_brings_the_reader_down(shared_data: Path) -> None:
    archive = read_archive([shared_data / "captures" / "pages"], "lab")
    assert list(archive.pages()) == []
    assert archive.problems
