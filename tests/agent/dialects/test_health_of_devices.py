"""The whole way of a device's health: an exporter's page, a server, rows, a profile, the rule."""

import msgspec
import pytest

from gputailor_agent.model.judgement import Confidence, Finding, Severity, SilenceKind
from gputailor_agent.model.profile import Window
from gputailor_agent.reports.wording import say
from gputailor_agent.rules.health import RULE
from tests.agent.dialects.served import BEGIN, HOUR, history_of, samples_of
from tests.agent.factories import context, pod, profile
from tests.agent.rules.advice_parts import check_words, key, number

CARD = "GPU-11111111-2222-3333-4444-555555555555"
LABELS = f'UUID="{CARD}",gpu="0",Hostname="node-a",modelName="NVIDIA A100-SXM4-80GB"'
HELD = f'{LABELS},namespace="team-a",pod="train-0",container="main"'
STEP = 300
NANO = 1e9


def dcgm(held=HELD, **changing):
    """A dcgm-exporter's samples; ``changing``: metrics of health whose values change."""
    page = f"DCGM_FI_DEV_GPU_UTIL{{{held}}} 90\nDCGM_FI_DEV_FB_USED{{{held}}} 2048\n"
    page += "".join(f"DCGM_FI_DEV_{name}{{{held}}} 0\n" for name in changing)
    samples = samples_of(page, job="dcgm", instance="node-a:9400")
    return [
        (labels, changing.get(labels["__name__"].removeprefix("DCGM_FI_DEV_"), value))
        for labels, value in samples
    ]


def conditions(*samples, pod_name="train-0"):
    """What the container's row of the hour says of its device."""
    found = [row for row in history_of(*samples).rows if row.key.pod == pod_name]
    (row,) = [row for row in found if row.key.gpu_uuid]
    return row.conditions


def answer(*samples):
    """What the rule says of six such hours."""
    history = history_of(*samples)
    now = BEGIN + 6 * HOUR
    usage = [
        msgspec.structs.replace(
            row, key=msgspec.structs.replace(row.key, cluster="test", hour=hour)
        )
        for row in history.rows
        if row.key.gpu_uuid
        for hour in range(BEGIN, now, HOUR)
    ]
    made, world = profile(
        usage, [pod(start=BEGIN)], devices=history.devices,
        window=Window(start=float(BEGIN), end=float(now)),
    )  # fmt: skip
    said = RULE.evaluate(made, context(world))
    check_words(said)
    return said


def after(minutes, value, before=0.0):
    """A value that changes once, so many minutes into the hour."""
    return lambda at: value if at > BEGIN + minutes * 60 else before


def rising(per_second, start=12e9):
    """A counter that stood at ``start`` when the hour began."""
    return lambda at: start + per_second * (at - BEGIN)


# ---- the latest Xid ----------------------------------------------------------------------------


def test_a_change_of_the_latest_xid_proves_an_error_and_is_a_finding():
    page = dcgm(XID_ERRORS=after(22, 79.0), CLOCKS_EVENT_REASONS=0.0)
    assert conditions(page)["xid/79"] == 1.0
    said = answer(page)
    assert isinstance(said, Finding)
    assert (key(said), said.severity) == ("health.hardware", Severity.HIGH)
    assert "Xid 79: the GPU fell off the bus" in say(said.message)
    assert said.change.command == "kubectl cordon node-a"


def test_a_latest_xid_that_stays_proves_none_and_is_told():
    told = conditions(dcgm(XID_ERRORS=79.0, CLOCKS_EVENT_REASONS=0.0))
    assert not any(name.startswith(("xid/", "untold/")) for name in told)
    assert key(answer(dcgm(XID_ERRORS=79.0, CLOCKS_EVENT_REASONS=0.0))) == "health.fine"


def test_a_latest_xid_that_goes_back_to_none_is_an_exporter_that_began_anew():
    assert "xid/79" not in conditions(dcgm(XID_ERRORS=after(30, 0.0, before=79.0)))


@pytest.mark.parametrize("minutes", [-1, 0, 1, 4, 5, 59])
def test_a_change_counts_once_whenever_in_the_hour_it_came(minutes):
    told = conditions(dcgm(XID_ERRORS=after(minutes, 48.0, before=31.0)))
    assert told.get("xid/48") == (1.0 if minutes >= 0 else None)
    assert "xid/31" not in told


def test_a_change_that_newer_releases_put_into_labels_is_one_all_the_same():
    """The code is a label there, so that a change ends one series and begins another."""
    change = BEGIN + 22 * 60
    calm, broken = (
        f'DCGM_FI_DEV_XID_ERRORS{{{HELD},err_code="{code}",err_msg="x"}} {code}\n'
        for code in (0, 79)
    )
    (first,) = samples_of(calm, job="dcgm", instance="node-a:9400")
    (second,) = samples_of(broken, job="dcgm", instance="node-a:9400")
    series = [
        (first[0], lambda at: 0.0 if at <= change else None),
        (second[0], lambda at: 79.0 if at > change else None),
    ]
    assert conditions(dcgm(), series)["xid/79"] == 1.0


def test_who_comes_to_a_card_with_an_old_error_is_not_charged_with_it():
    """The pod before met it; the one that follows finds the same code there."""
    change, handed = BEGIN + 20 * 60, BEGIN + 40 * 60
    first = dcgm(XID_ERRORS=lambda at: 79.0 if at > change else 0.0)
    second = dcgm(HELD.replace("train-0", "next-0"), XID_ERRORS=79.0)
    pages = [
        *((labels, _until(value, handed)) for labels, value in first),
        *((labels, _since(value, handed)) for labels, value in second),
    ]
    assert conditions(pages)["xid/79"] == 1.0
    assert "xid/79" not in conditions(pages, pod_name="next-0")


def _until(value, end):
    return lambda at: (value(at) if callable(value) else value) if at <= end else None


def _since(value, begin):
    return lambda at: (value(at) if callable(value) else value) if at > begin else None


def test_errors_that_a_newer_release_counts_by_code_are_all_counted():
    name = "DCGM_EXP_XID_ERRORS_TOTAL"
    (one,) = samples_of(f'{name}{{{HELD},xid="94"}} 1\n', job="dcgm", instance="node-a:9400")
    three = [(one[0], lambda at: None if at <= BEGIN + 900 else 3.0)]
    assert conditions(dcgm(), three)["xid/94"] == 3.0
    told_before = [(one[0], lambda at: 5.0 if at <= BEGIN + 900 else 7.0)]
    assert conditions(dcgm(), told_before)["xid/94"] == 2.0


# ---- ECC and rows ------------------------------------------------------------------------------


def test_uncorrected_ecc_errors_are_a_finding_though_no_xid_is_told():
    page = dcgm(ECC_DBE_VOL_TOTAL=after(10, 3.0, before=1.0), CLOCKS_EVENT_REASONS=0.0)
    assert conditions(page)["ecc/uncorrected"] == 2.0
    said = answer(page)
    assert key(said) == "health.hardware"
    assert "12 uncorrected ECC errors" in say(said.message)  # of six hours alike


def test_ecc_errors_of_before_are_not_this_containers():
    assert "ecc/uncorrected" not in conditions(dcgm(ECC_DBE_VOL_TOTAL=4.0))


def test_corrected_errors_are_shown_and_decide_nothing():
    page = dcgm(ECC_SBE_VOL_TOTAL=after(10, 9.0), ECC_DBE_VOL_TOTAL=0.0, CLOCK_THROTTLE_REASONS=1.0)
    said = answer(page)
    assert (said.kind, key(said)) == (SilenceKind.FINE, "health.fine")
    assert number(said, "corrected ECC errors").value == 54.0


def test_totals_of_the_drivers_life_and_of_the_cards_are_one_count():
    page = dcgm(ECC_DBE_VOL_TOTAL=after(10, 1.0), ECC_DBE_AGG_TOTAL=after(10, 8.0, before=7.0))
    assert conditions(page)["ecc/uncorrected"] == 1.0


def test_a_counter_that_fell_began_anew():
    page = dcgm(ECC_DBE_VOL_TOTAL=after(10, 2.0, before=5.0))
    assert conditions(page)["ecc/uncorrected"] == 2.0


def test_a_row_that_could_not_be_remapped_is_a_finding():
    said = answer(dcgm(ROW_REMAP_FAILURE=1.0))
    assert key(said) == "health.hardware"
    assert "a memory row that could not be remapped" in say(said.message)


# ---- throttling --------------------------------------------------------------------------------


def test_nanoseconds_of_thermal_violation_are_throttled_time_and_a_finding():
    page = dcgm(THERMAL_VIOLATION=rising(0.3 * NANO), XID_ERRORS=0.0)
    assert conditions(page)["throttled/thermal"] == pytest.approx(0.3 * HOUR, rel=1e-3)
    said = answer(page)
    assert (key(said), said.confidence) == ("health.throttled", Confidence.MEDIUM)
    assert said.message.params["reason"] == "heat"
    assert said.message.params["share"] == pytest.approx(0.3, rel=1e-3)
    assert "longest of thermal" in number(said, "throttled by heat or power, worst GPU").formula


def test_a_power_cap_is_told_and_ordinary():
    page = dcgm(POWER_VIOLATION=rising(0.9 * NANO), THERMAL_VIOLATION=rising(0.0), XID_ERRORS=0.0)
    told = conditions(page)
    assert told["throttled/sw_power_cap"] == pytest.approx(0.9 * HOUR, rel=1e-3)
    assert told["throttled/thermal"] == 0.0
    assert key(answer(page)) == "health.fine"


def test_a_clock_is_never_held_down_for_longer_than_the_device_was_held():
    page = dcgm(THERMAL_VIOLATION=rising(7 * NANO))
    assert conditions(page)["throttled/thermal"] == HOUR


@pytest.mark.parametrize("name", ["CLOCKS_EVENT_REASONS", "CLOCK_THROTTLE_REASONS"])
def test_a_mask_that_stood_all_the_time_says_which_reasons(name):
    told = conditions(dcgm(**{name: float(0x40 | 0x08 | 0x01)}))
    assert told["throttled/hw_thermal_slowdown"] == HOUR
    assert told["throttled/hw_slowdown"] == HOUR
    assert told["throttled/sw_thermal_slowdown"] == 0.0


def test_a_mask_that_moves_below_every_fault_says_that_there_was_none():
    told = conditions(dcgm(CLOCKS_EVENT_REASONS=lambda at: float(at // 30 % 5)))
    assert told["throttled/hw_slowdown"] == 0.0
    assert "untold/throttled" not in told


def test_a_mask_that_changed_inside_five_minutes_leaves_them_unknown():
    told = conditions(dcgm(CLOCKS_EVENT_REASONS=after(22, 32.0)))
    assert told["untold/throttled"] == STEP
    assert told["throttled/sw_thermal_slowdown"] == 7 * STEP
    restless = dcgm(CLOCKS_EVENT_REASONS=lambda at: 32.0 * (at // 30 % 2), XID_ERRORS=0.0)
    said = answer(restless)
    assert (said.kind, said.missing_signals) == (SilenceKind.UNKNOWN, ("throttled_seconds",))


# ---- what nobody told --------------------------------------------------------------------------


def test_a_stock_exporter_tells_errors_and_no_throttling_so_nothing_is_called_fine():
    said = answer(dcgm(XID_ERRORS=0.0, ROW_REMAP_FAILURE=0.0))
    assert (said.kind, key(said)) == (SilenceKind.UNKNOWN, "health.unknown")
    assert said.missing_signals == ("throttled_seconds",)
    assert "DCGM_FI_DEV_THERMAL_VIOLATION" in say(said.message)
    assert number(said, "time of which errors were told").value == 1.0


def test_an_exporter_that_tells_throttling_alone_leaves_errors_unknown():
    said = answer(dcgm(CLOCKS_EVENT_REASONS=0.0))
    assert (said.kind, key(said)) == (SilenceKind.UNKNOWN, "health.unknown_errors")
    assert said.missing_signals == ("xid_errors",)


def test_an_exporter_that_tells_nothing_of_health_says_nothing_in_its_rows():
    assert conditions(dcgm()) == {}


def test_a_blank_value_is_unknown():
    told = conditions(dcgm(XID_ERRORS=9223372036854775794.0, THERMAL_VIOLATION=9.3e18))
    assert told == {"untold/throttled": HOUR, "untold/errors": HOUR}


def test_a_hole_in_the_history_is_unknown():
    """One step lacks values, and the one after it has nothing to be counted from."""
    hole = range(BEGIN + 1201, BEGIN + 1501)
    counter = rising(0.3 * NANO)
    page = dcgm(THERMAL_VIOLATION=lambda at: None if at in hole else counter(at))
    told = conditions(page)
    assert told["untold/throttled"] == 2 * STEP
    assert told["throttled/thermal"] == pytest.approx(0.3 * 10 * STEP, rel=1e-3)


# ---- whose it is -------------------------------------------------------------------------------


def test_whoever_takes_a_card_over_takes_over_its_counters():
    handed = BEGIN + 30 * 60
    counter = rising(0.5 * NANO)
    first = dcgm(THERMAL_VIOLATION=counter)
    second = dcgm(HELD.replace("train-0", "next-0"), THERMAL_VIOLATION=counter)
    pages = [
        *((labels, _until(value, handed)) for labels, value in first),
        *((labels, _since(value, handed)) for labels, value in second),
    ]
    for name in ("train-0", "next-0"):
        told = conditions(pages, pod_name=name)
        assert told["throttled/thermal"] == pytest.approx(0.5 * HOUR / 2, rel=0.02)


def test_a_shared_cards_health_counts_for_each_of_its_holders():
    other = dcgm(HELD.replace("train-0", "other-0"), XID_ERRORS=after(22, 79.0))
    pages = [*dcgm(XID_ERRORS=after(22, 79.0)), *other]
    for name in ("train-0", "other-0"):
        assert conditions(pages, pod_name=name)["xid/79"] == 1.0


def test_an_instances_health_is_its_cards():
    mig = f'{HELD},GPU_I_ID="7",GPU_I_PROFILE="1g.10gb"'
    page = dcgm(mig, XID_ERRORS=after(22, 79.0), FB_FREE=0.0)
    assert conditions(page)["xid/79"] == 1.0


# ---- other exporters ---------------------------------------------------------------------------

SMI = CARD.removeprefix("GPU-")


def smi(**changing):
    page = "".join(f'nvidia_smi_{name}{{uuid="{SMI}"}} 0\n' for name in changing)
    samples = samples_of(page, job="smi", instance="node-a:9835")
    return [(one, changing[one["__name__"].removeprefix("nvidia_smi_")]) for one, _ in samples]


def test_flags_of_another_exporter_fill_what_the_first_does_not_tell():
    told = smi(
        utilization_gpu_ratio=0.9, clocks_event_reasons_hw_slowdown=0.25,
        ecc_errors_uncorrected_volatile_total=after(10, 2.0),
    )  # fmt: skip
    (row,) = [row for row in history_of(dcgm(), told).rows if row.key.gpu_uuid]
    assert row.conditions == {"throttled/hw_slowdown": HOUR / 4, "ecc/uncorrected": 2.0}
    assert row.filled["health"] == "nvidia_gpu_exporter"


def test_counted_seconds_are_believed_beside_a_flag_that_saw_less():
    reason = "clocks_event_reasons_hw_thermal_slowdown"
    counted = "clocks_event_reasons_counters_hw_thermal_slowdown_seconds"
    told = smi(utilization_gpu_ratio=0.9, **{reason: 0.0, counted: rising(0.1, start=15_814.6)})
    (row,) = history_of(told).rows
    assert row.conditions["throttled/hw_thermal_slowdown"] == pytest.approx(0.1 * HOUR, rel=0.01)


def test_what_the_amd_exporter_tells_is_named_as_our_own_names_it():
    own = f'gpu_uuid="{CARD}",gpu_id="0",gpu_partition_id="0",hostname="node-a"'
    who = f'{own},namespace="team-a",pod="train-0",container="main"'
    values = {
        "gfx_activity": 90, "violation_socket_thermal_residency_percentage": 20,
        "violation_hbm_thermal_residency_percentage": 30, "violation_ppt_residency_percentage": 80,
        "violation_processor_hot_residency_percentage": 0,
    }  # fmt: skip
    page = "".join(f"gpu_{name}{{{who}}} {value}\n" for name, value in values.items())
    (ecc,) = samples_of(f"gpu_ecc_uncorrect_total{{{who}}} 0\n", job="amd", instance="a:1")
    told = conditions(samples_of(page, job="amd", instance="a:1"), [(ecc[0], after(9, 1.0))])
    assert told == {
        "ecc/uncorrected": 1.0, "throttled/hw_thermal_slowdown": 0.0,
        "throttled/sw_power_cap": 0.8 * HOUR, "throttled/sw_thermal_slowdown": 0.3 * HOUR,
    }  # fmt: skip
