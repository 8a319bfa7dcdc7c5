"""A log of a few seconds shows what it saw and recommends no card."""

import pytest

from gputailor_agent.cli.app import run

HEADER = "timestamp, index, name, utilization.gpu [%], memory.used [MiB], memory.total [MiB]\n"


def recorded(tmp_path, seconds):
    rows = "".join(
        f"2026/03/02 10:{second // 60:02d}:{second % 60:02d}.000, 0, NVIDIA A100-SXM4-80GB, "
        "90 %, 9000 MiB, 81920 MiB\n"
        for second in range(seconds)
    )
    path = tmp_path / "run.csv"
    path.write_text(HEADER + rows, "utf-8")
    return str(path)


@pytest.mark.parametrize(("seconds", "short"), [(3, True), (55, True), (300, False)])
def test_under_a_minute_is_too_short_to_name_a_card(tmp_path, capsys, seconds, short):
    assert run("gputailor", ["analyse", recorded(tmp_path, seconds)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert ("too short to say which card would do" in out) is short
