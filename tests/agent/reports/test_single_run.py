"""The judgement of one recorded log: what it used, what would do, what cannot be known."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputailor_agent.catalog import load_catalogue
from gputailor_agent.reports.cards import NO_GUESS, Guess, slowdown_at_most
from gputailor_agent.reports.formats import Look, find
from gputailor_agent.reports.runs import LogJudgement
from gputailor_agent.reports.single_run import judge, quantile
from gputailor_agent.reports.wording import say
from gputailor_agent.rules.margins import smaller_gpu_margins
from gputailor_agent.sources.logs import read_log

CATALOGUE = load_catalogue()
HEAD = (
    "timestamp, index, name, utilization.gpu [%], memory.used [MiB], memory.total [MiB], "
    "power.draw [W]\n"
)


def log(tmp_path: Path, rows: str, head: str = HEAD) -> Path:
    path = tmp_path / "run.csv"
    path.write_text(head + rows, encoding="utf-8")
    return path


def row(second: float, *, gpu=0, name="NVIDIA A100-SXM4-80GB", use="50", used=8000, watts=200):
    hours, rest = divmod(second, 3600)
    at = f"2025/12/01 {10 + int(hours):02d}:{int(rest // 60):02d}:{rest % 60:06.3f}"
    return f"{at}, {gpu}, {name}, {use} %, {used} MiB, 81920 MiB, {watts} W\n"


def judged(path: Path, guess: Guess = NO_GUESS) -> LogJudgement:
    return judge(read_log(path), CATALOGUE, guess)


def words(judgement: LogJudgement) -> str:
    return find("table").log((judgement,), Look(width=400))


def test_what_a_run_used_is_told_exactly(tmp_path):
    uses = [0] * 50 + [100] * 30 + [40] * 20
    rows = "".join(row(second, use=str(use), used=1000 + second) for second, use in enumerate(uses))
    gpu = judged(log(tmp_path, rows)).gpus[0]
    assert gpu.kernel_mean == pytest.approx(0.38, abs=0.01)
    assert gpu.kernel_p50 == 0.0
    assert gpu.kernel_p95 == 1.0
    assert gpu.kernel_max == 1.0
    assert gpu.kernel_zero_share == pytest.approx(0.5, abs=0.01)
    assert gpu.memory_peak_bytes == 1099 * 1024**2
    assert gpu.energy_joules == pytest.approx(200 * 100, rel=0.02)
    assert gpu.memory_needed_bytes == pytest.approx(1099 * 1024**2 * 1.15, abs=1)


def test_cards_that_hold_it_are_ordered_by_what_the_run_costs_there(tmp_path):
    gpu = judged(log(tmp_path, "".join(row(s, used=30_000) for s in range(60)))).gpus[0]
    most = [one.most_per_hour for one in gpu.candidates if one.most_per_hour is not None]
    assert most == sorted(most)
    assert all(one.most_per_hour is None for one in gpu.candidates[len(most) :])
    assert all(one.usable_memory_bytes >= gpu.memory_needed_bytes for one in gpu.candidates)
    assert all(one.device != "T4" for one in gpu.candidates)
    assert "A100 SXM4 80GB" in [one.device for one in gpu.candidates if one.is_current]


def test_a_cheaper_card_is_named_with_both_prices_and_the_slowdown(tmp_path):
    judgement = judged(log(tmp_path, "".join(row(s, use="10", used=20_000) for s in range(60))))
    gpu = judgement.gpus[0]
    best = gpu.candidates[0]
    assert best.most_per_hour <= 0.85 * gpu.price_per_hour.amount
    text = words(judgement)
    assert "needs 22.5 GiB (peak 19.5 GiB x 1.15)" in text
    assert f"instead of USD {gpu.price_per_hour.amount:.2f}/hour for A100 SXM4 80GB" in text


def test_what_it_costs_is_hours_times_the_price(tmp_path):
    judgement = judged(log(tmp_path, "".join(row(s) for s in range(0, 3600, 10))))
    gpu = judgement.gpus[0]
    assert gpu.run_cost.amount == pytest.approx(gpu.price_per_hour.amount, rel=0.01)
    assert judgement.run_cost == gpu.run_cost


def test_a_gpu_that_never_worked_is_named(tmp_path):
    rows = "".join(
        row(s) + row(s, gpu=1, use="0", used=500, watts=60) + row(s, gpu=2)
        for s in range(0, 4000, 10)
    )
    judgement = judged(log(tmp_path, rows))
    assert judgement.verdict.key == "log.some_idle"
    assert "No sample shows work on 1 of 3 GPUs (1)" in say(judgement.verdict)
    assert [gpu.verdict.key for gpu in judgement.gpus].count("log.idle_loaded") == 1


def test_a_short_silence_is_not_called_idle(tmp_path):
    gpu = judged(log(tmp_path, "".join(row(s, use="0", watts=60) for s in range(60)))).gpus[0]
    assert gpu.verdict.key == "log.idle_short"
    assert "too short to call it idle" in say(gpu.verdict)


def test_silence_that_the_power_contradicts_is_unknown(tmp_path):
    rows = "".join(row(s, use="0", watts=300) for s in range(0, 8000, 10))
    assert judged(log(tmp_path, rows)).gpus[0].verdict.key == "log.idle_contradicted"


def test_silence_with_gaps_is_unknown(tmp_path):
    times = [*range(0, 4000, 10), *range(8000, 12_000, 10)]
    judgement = judged(log(tmp_path, "".join(row(s, use="0", watts=60) for s in times)))
    gpu = judgement.gpus[0]
    assert gpu.verdict.key == "log.idle_gaps"
    assert gpu.held_seconds == pytest.approx(12_000, abs=20)
    assert gpu.observed_seconds == pytest.approx(8_030, abs=30)
    assert "67 % of that time; the rest are gaps" in words(judgement)


def test_a_card_that_only_encodes_is_not_idle(tmp_path):
    head = "timestamp, name, utilization.gpu [%], utilization.encoder [%], memory.used [MiB]\n"
    rows = "".join(
        f"2025/12/01 10:00:{s:02d}.000, NVIDIA L4, 0 %, 30 %, 500 MiB\n" for s in range(60)
    )
    judgement = judged(log(tmp_path, rows, head))
    assert judgement.gpus[0].work_max == 0.3
    assert "idle" not in judgement.gpus[0].verdict.key
    assert judgement.verdict.key == "log.one_used"


def test_a_card_cheaper_by_the_hour_but_dearer_by_the_run_is_no_saving(tmp_path):
    own = tmp_path / "prices.csv"
    own.write_text("accelerator,price_per_gpu_hour\nA10G,0.9\n")
    rows = "".join(row(s, use="100", used=15_000 + 50 * s, name="NVIDIA A10G") for s in range(60))
    path = log(tmp_path, rows.replace("81920", "23028"))
    judgement = judge(read_log(path), load_catalogue(own), NO_GUESS)
    gpu = judgement.gpus[0]
    assert gpu.device == "A10G"
    for one in gpu.candidates:
        if one.most_per_hour is not None and not one.is_current:
            assert one.most_per_hour > 0.85 * gpu.price_per_hour.amount
    assert gpu.verdict.key in {"log.none_cheaper", "log.try_cheaper", "log.try_unbounded"}
    assert "x the run time." not in say(gpu.verdict)


def test_memory_that_never_moves_at_the_cards_size_is_not_called_needed(tmp_path):
    gpu = judged(log(tmp_path, "".join(row(s, used=73_000) for s in range(60)))).gpus[0]
    assert gpu.memory_reserved
    assert "taken in advance" in say(gpu.verdict)
    moving = judged(log(tmp_path, "".join(row(s, used=1000 + 1200 * s) for s in range(60)))).gpus[0]
    assert not moving.memory_reserved


def test_a_log_without_header_says_that_its_columns_are_assumed(tmp_path):
    rows = "".join(f"2025/12/01 10:00:{s:02d}.000, 40 %, 3000 MiB\n" for s in range(60))
    keys = [message.key for message in judged(log(tmp_path, rows, "")).unknowable]
    assert "log.no_header" in keys


def test_a_card_told_that_is_not_the_logs_is_doubted(tmp_path):
    path = log(tmp_path, "".join(row(s, used=2000) for s in range(60)))
    assert any("memory.total is 80.0 GiB" in note for note in judged(path, Guess(model="T4")).notes)
    priced = judged(path, Guess(instance_type="g4dn.xlarge"))
    assert any("is --instance-type right?" in note for note in priced.notes)


def test_prices_of_another_currency_are_not_compared(tmp_path):
    prices = tmp_path / "prices.csv"
    prices.write_text("accelerator,price_per_gpu_hour,currency\nA100 SXM4 80GB,4,EUR\n")
    rows = "".join(row(s, use="10", used=20_000) for s in range(60))
    gpu = judge(read_log(log(tmp_path, rows)), load_catalogue(prices)).gpus[0]
    assert gpu.candidates[0].is_current
    assert gpu.verdict.key == "log.none_cheaper"
    assert "EUR 4.00/hour" in say(gpu.verdict)


def test_without_a_model_nothing_is_guessed(tmp_path):
    head = "timestamp, utilization.gpu [%], memory.used [MiB]\n"
    rows = "".join(f"2025/12/01 10:00:{s:02d}.000, 40 %, 3000 MiB\n" for s in range(60))
    judgement = judged(log(tmp_path, rows, head))
    gpu = judgement.gpus[0]
    assert (gpu.model, gpu.price_per_hour, gpu.run_cost) == ("", None, None)
    assert judgement.run_cost is None
    assert all(one.slowdown_at_most is None for one in gpu.candidates)
    assert "say it with --gpu" in words(judgement)


def test_the_user_may_name_the_model(tmp_path):
    head = "timestamp, utilization.gpu [%], memory.used [MiB]\n"
    rows = "".join(f"2025/12/01 10:00:{s:02d}.000, 40 %, 3000 MiB\n" for s in range(60))
    gpu = judged(log(tmp_path, rows, head), Guess(model="Tesla T4")).gpus[0]
    assert (gpu.device, gpu.model_from) == ("T4", "option")
    assert gpu.run_cost is not None


def test_a_missing_column_is_unknown_and_said_never_zero(tmp_path):
    head = "timestamp, index, name, memory.used [MiB], memory.total [MiB]\n"
    rows = "".join(
        f"2025/12/01 10:00:{s:02d}.000, 0, NVIDIA L4, 3000 MiB, 23034 MiB\n" for s in range(60)
    )
    judgement = judged(log(tmp_path, rows, head))
    gpu = judgement.gpus[0]
    assert gpu.kernel_mean is None
    assert gpu.kernel_zero_share is None
    assert gpu.energy_joules is None
    keys = [message.key for message in judgement.unknowable]
    assert {"log.unknown_kernel", "log.unknown_energy", "log.unknown_activity"} <= set(keys)
    assert " 0 % " not in words(judgement)


def test_an_empty_card_says_nothing_about_what_a_run_needs(tmp_path):
    head = "timestamp, index, name, memory.used [MiB], memory.total [MiB]\n"
    rows = "".join(
        f"2025/12/01 10:00:{s:02d}.000, {gpu}, NVIDIA L4, 4 MiB, 23034 MiB\n"
        for s in range(20)
        for gpu in (0, 1)
    )
    text = words(judged(log(tmp_path, rows, head)))
    assert "GPU 0, 1: at most 4 MiB" in text
    assert "GPU that would do" not in text


def test_skipped_lines_are_shown_with_their_number_and_reason(tmp_path):
    rows = row(0) + "garbage, that, is no row\n" + "".join(row(s) for s in range(1, 30))
    judgement = judged(log(tmp_path, rows))
    assert judgement.rows_read + judgement.rows_skipped == judgement.rows_present
    assert judgement.rows_skipped == 1
    assert "run.csv:3:" in words(judgement)


@pytest.mark.parametrize("name", ["table", "markdown", "json", "csv"])
def test_every_format_tells_the_judgement(tmp_path, name):
    text = find(name).log((judged(log(tmp_path, "".join(row(s) for s in range(60)))),), Look())
    assert "A100" in text


@given(st.floats(0, 1), st.sampled_from([one.key for one in CATALOGUE.devices]))
def test_the_same_card_is_never_slower(mean, key):
    spec = next(one for one in CATALOGUE.devices if one.key == key)
    slowdown = slowdown_at_most(spec, spec, mean)
    assert slowdown is None or slowdown == pytest.approx(1.0)


def test_another_architecture_is_allowed_what_measured_slowdowns_strayed():
    """Arithmetic alone held 40 of 100 measured ones (docs/accuracy.md): no bound to quote."""
    a100, h100, l40, l40s = (
        next(one for one in CATALOGUE.devices if one.key == key)
        for key in ("A100 SXM4 80GB", "H100 SXM5 80GB", "L40", "L40S")
    )
    margin = smaller_gpu_margins().high
    same, busy = slowdown_at_most(l40s, l40, 1.0), slowdown_at_most(h100, a100, 1.0)
    assert same == pytest.approx(max(1.0, l40s.fp16_tensor_flops / l40.fp16_tensor_flops,
                                     l40s.fp32_flops / l40.fp32_flops), rel=1e-6)  # fmt: skip
    bare = max(h100.fp16_tensor_flops / a100.fp16_tensor_flops,
               h100.fp32_flops / a100.fp32_flops)  # fmt: skip
    assert busy == pytest.approx(margin * bare)
    idle = slowdown_at_most(h100, a100, 0.1)
    assert idle == pytest.approx(0.9 + 0.1 * margin * bare), "what is no work of the card stays"


def test_the_page_says_what_the_margin_is(tmp_path):
    judgement = judged(log(tmp_path, "".join(row(second) for second in range(60))))
    assert f"is allowed {smaller_gpu_margins().high:.2f}x of what arithmetic says" in words(
        judgement
    )


@given(st.lists(st.floats(0, 1), min_size=1), st.floats(0, 1))
def test_a_quantile_is_one_of_the_samples(values, q):
    assert quantile(values, q) in values


@pytest.mark.restricted
def test_every_real_log_is_judged_and_loses_no_row(shared_data):
    for path in sorted((shared_data / "logs").glob("*.csv")):
        judgement = judged(path)
        assert judgement.rows_read + judgement.rows_skipped == judgement.rows_present
        assert judgement.gpus, path
        assert path.name in words(judgement)


@pytest.mark.parametrize("width", [40, 47, 60, 79, 100, 133, 200])
def test_nothing_is_cut_at_any_width(tmp_path, width):
    head = "timestamp, index, memory.used [MiB]\n"
    rows = "".join(f"2025/12/01 10:00:{s:02d}.000, 0, {2000 + s} MiB\n" for s in range(60))
    judgement = judged(log(tmp_path, rows, head))
    text = find("table").log((judgement,), Look(width=width))
    assert all(len(line) <= width for line in text.splitlines())
    text = " ".join(text.split())
    assert text.count("unkn") == text.count("unknown")
    assert all(
        f"USD {one.price_per_hour.amount:.2f}" in text for one in judgement.gpus[0].candidates[:6]
    )


def test_a_card_that_is_told_against_the_log_is_noted(tmp_path):
    judgement = judged(log(tmp_path, "".join(row(s) for s in range(60))), Guess(model="T4"))
    assert "The log names NVIDIA A100-SXM4-80GB; it is judged as T4, because --gpu says so." in (
        judgement.notes
    )


@pytest.mark.parametrize("told", ["A100 SXM4 80GB", "NVIDIA A100-SXM4-80GB", ""])
def test_the_same_card_by_another_name_is_no_contradiction(tmp_path, told):
    judgement = judged(log(tmp_path, "".join(row(s) for s in range(60))), Guess(model=told))
    assert not any("--gpu says so" in note for note in judgement.notes)


def test_memory_that_the_log_does_not_tell_is_the_cards_by_the_catalogue(tmp_path):
    head = "timestamp, index, name, utilization.gpu [%], memory.used [MiB]\n"
    rows = "".join(
        f"2025/12/01 10:00:{s:02d}.000, 0, NVIDIA GeForce RTX 4090, 50 %, 8000 MiB\n"
        for s in range(60)
    )
    judgement = judged(log(tmp_path, rows, head))
    (gpu,) = judgement.gpus
    assert gpu.memory_total_bytes is None
    assert gpu.card_memory_bytes == 24 * 1024**3
    assert "24.0 GiB (catalogue)" in words(judgement)
