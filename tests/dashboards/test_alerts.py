"""Idle, lost and blind in depth: they fire and rest when they should, by ``promtool test rules``.

That every alert fires, rests, and is silent where data is missing, stands in test_alert_cases.
"""

import pytest
import yaml

from gputailor_dashboards.alerts.health import GPU_LOST
from gputailor_dashboards.alerts.idle import GPU_ALLOCATION_IDLE, QUIET
from gputailor_dashboards.alerts.measuring import GPU_EXPORTER_BLIND
from gputailor_dashboards.generating import generate
from tests.dashboards import prometheus
from tests.dashboards.promtool import HOLDER, POD, TARGET, expect, expect_value, held, series

HOUR = 60
DAY = 24 * HOUR
GPU = {"node": "node-a", "gpu": "0", "gpu_uuid": "GPU-0"}


def idle(folder, made, fires):
    expect(folder, GPU_ALLOCATION_IDLE, made, fires)


# -- GpuAllocationIdle -------------------------------------------------------------------------


def test_a_pod_that_never_used_its_gpu_fires_after_two_hours_and_ten_minutes(tmp_path):
    idle(tmp_path, held(180), {115: [], 125: [], 140: [POD], 180: [POD]})


def test_the_alert_says_who_and_how_many(tmp_path):
    generate(tmp_path)
    expected = {"exp_labels": {**POD, "severity": "warning"}, "exp_annotations": annotations("2")}
    document = {
        "rule_files": [str(tmp_path / "rules" / "gputailor.yaml")],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [*held(180), *held(180, gpu="1")],
                "alert_rule_test": [
                    {
                        "eval_time": "150m",
                        "alertname": "GpuAllocationIdle",
                        "exp_alerts": [expected],
                    }
                ],
            }
        ],
    }
    (tmp_path / "test.yaml").write_text(yaml.safe_dump(document), "utf-8")
    prometheus.run(prometheus.program("promtool"), "test", "rules", tmp_path / "test.yaml")


def annotations(count: str) -> dict[str, str]:
    given = GPU_ALLOCATION_IDLE.document()["annotations"]
    values = {f"$labels.{key}": value for key, value in POD.items()} | {"$value": count}
    for key, value in values.items():
        given = {name: text.replace(f"{{{{ {key} }}}}", value) for name, text in given.items()}
    assert not any("{{" in text for text in given.values())
    return given


def test_a_busy_gpu_rests(tmp_path):
    idle(tmp_path, held(400, active="0+54x400", watts=300), {140: [], 400: []})


def test_an_idle_mig_instance_fires_by_its_sm_activity(tmp_path):
    made = held(180)
    for one in made:
        one["series"] = one["series"].replace('signal="kernel"', 'signal="sm"')
        one["series"] = one["series"].replace('sharing="exclusive"', 'sharing="mig"')
    idle(tmp_path, made, {180: [POD]})


def test_video_work_without_kernels_rests(tmp_path):
    labels = {**HOLDER, "gpu_uuid": "GPU-0", "signal": "decoder"}
    video = series("gputailor_container_gpu_active_seconds_total", "0+10x200", **labels)
    idle(tmp_path, [*held(200), video], {200: []})


def test_one_second_of_work_within_two_hours_is_no_idleness(tmp_path):
    idle(tmp_path, held(200, active="0x100 1x100"), {140: [], 200: []})


def test_one_idle_gpu_beside_a_busy_one_rests(tmp_path):
    made = [*held(200), *held(200, gpu="1", active="0+30x200")]
    idle(tmp_path, made, {200: []})


def test_one_idle_replica_is_a_pod_of_its_own_and_the_busy_one_rests(tmp_path):
    busy = {"pod": "serve-1", "pod_uid": "u2"}
    made = [*held(200), *held(200, gpu="1", active="0+30x200", pod=busy)]
    idle(tmp_path, made, {200: [POD]})


def test_an_exporter_that_stops_takes_the_alert_with_it(tmp_path):
    gone = "1x150 _x60"
    made = held(210, allocated=gone, observed="0+60x150 _x60", active="0x150 _x60")
    idle(tmp_path, made, {150: [POD], 157: [], 210: []})


def test_counters_that_stand_still_are_not_observed_and_rest(tmp_path):
    idle(tmp_path, held(300, observed="600x300"), {140: [], 300: []})


def test_a_signal_that_cannot_be_read_rests(tmp_path):
    made = [one for one in held(300) if "observed" not in one["series"]]
    idle(tmp_path, made, {140: [], 300: []})


def test_one_unknown_gpu_beside_an_idle_one_rests(tmp_path):
    made = [*held(300), *held(300, gpu="1", observed="600x300")]
    idle(tmp_path, made, {300: []})


def test_a_gap_of_ten_minutes_inside_the_window_rests(tmp_path):
    # The exporter was down and begins again at 0: what ran meanwhile is unknown.
    gap = "0+60x60 _x10 0+60x200"
    idle(
        tmp_path, held(270, observed=gap, active="0x60 _x10 0x200"), {140: [], 180: [], 205: [POD]}
    )


def test_a_counter_reset_does_not_hide_the_work_before_it(tmp_path):
    made = held(
        200, active="0+30x60 0x140", observed="0+60x60 0+60x140", last_active="0+60x60 _x140"
    )
    idle(tmp_path, made, {70: [], 140: [], 200: []})


def test_a_counter_reset_without_a_gap_does_not_reset_the_idle_time(tmp_path):
    idle(tmp_path, held(200, observed="0+60x60 0+60x140"), {140: [POD]})


def test_a_gpu_that_worked_fires_only_after_five_hours(tmp_path):
    made = held(420, active="0+30x60 1800x360", last_active="0+60x60 3600x360")
    idle(tmp_path, made, {200: [], 340: [], 400: [POD]})


def test_a_standby_inference_with_a_request_an_hour_rests(tmp_path):
    burst = " ".join(f"{number}x59" for number in range(1, 11))
    made = held(600, active=burst, memory_gib=40, last_active="0+60x600")
    idle(tmp_path, made, {140: [], 380: [], 600: []})


def loaded_and_asked_for_nothing(days: int) -> list[dict[str, str]]:
    """A sample every five minutes; the recorded series is given, as it would have been."""
    count = days * DAY // 5
    return [
        *held(
            count,
            active=f"0 30x{count}",
            observed=f"0+300x{count}",
            memory_gib=40,
            last_active=f"60x{count}",
        ),
        series(QUIET, f"_ 1x{count}", **POD),
    ]


def test_a_standby_inference_without_requests_rests_for_two_days(tmp_path):
    made = loaded_and_asked_for_nothing(days=2)
    expect(tmp_path, GPU_ALLOCATION_IDLE, made, {140: [], DAY: [], 2 * DAY: []}, interval="5m")


def test_a_loaded_model_that_nobody_asks_for_three_days_fires(tmp_path):
    made = loaded_and_asked_for_nothing(days=4)
    fires = {2 * DAY: [], 3 * DAY + HOUR: [POD]}
    expect(tmp_path, GPU_ALLOCATION_IDLE, made, fires, interval="5m")


def test_a_pod_is_recorded_as_quiet_only_while_it_is_seen_at_zero(tmp_path):
    # Work in minute 21, no scrape after minute 40.
    made = held(60, active="0x20 60x40", observed="0+60x40 _x20")
    expect_value(tmp_path, QUIET, made, {10: 1, 20: 1, 23: None, 35: 1, 50: None})


def test_power_that_contradicts_the_counters_rests(tmp_path):
    idle(tmp_path, held(300, watts=250), {140: [], 300: []})


def test_a_pod_that_ended_rests_although_its_counters_linger(tmp_path):
    idle(tmp_path, held(200, allocated="1x145 _x55"), {145: [POD], 152: [], 200: []})


def test_a_gpu_that_is_free_rests(tmp_path):
    made = [
        series("gputailor_device_active_seconds_total", "0x200", **GPU, signal="kernel"),
        series("gputailor_device_observed_seconds_total", "0+60x200", **GPU, signal="kernel"),
    ]
    idle(tmp_path, made, {200: []})


# -- GpuLost -----------------------------------------------------------------------------------


def up(values: str, **labels: str) -> dict[str, str]:
    return series("gputailor_device_up", values, **TARGET, **{**GPU, **labels})


def devices(expected: int, present: int) -> list[dict[str, str]]:
    counts = (("expected", expected), ("present", present))
    return [
        series("gputailor_exporter_devices", f"{count}x60", **TARGET, state=state)
        for state, count in counts
    ]


def test_a_gpu_that_stops_answering_fires_after_two_minutes(tmp_path):
    expect(tmp_path, GPU_LOST, [up("1x10 0x20")], {10: [], 12: [], 14: [GPU], 30: [GPU]})


def test_a_short_hang_rests(tmp_path):
    expect(tmp_path, GPU_LOST, [up("1x10 0 1x20")], {11: [], 12: [], 20: []})


def test_an_exporter_that_says_nothing_is_no_lost_gpu(tmp_path):
    expect(tmp_path, GPU_LOST, [up("1x10 _x30")], {10: [], 14: [], 40: []})


def test_a_gpu_that_never_came_up_fires_for_its_node(tmp_path):
    made = [up("1x60"), *devices(expected=2, present=1)]
    expect(tmp_path, GPU_LOST, made, {5: [{"node": "node-a"}]})


def test_a_gpu_that_vanished_is_told_once(tmp_path):
    made = [up("1x60"), up("0x60", gpu="1", gpu_uuid="GPU-1"), *devices(expected=2, present=1)]
    lost = {"node": "node-a", "gpu": "1", "gpu_uuid": "GPU-1"}
    expect(tmp_path, GPU_LOST, made, {5: [lost]})


def test_all_gpus_there_rests(tmp_path):
    expect(tmp_path, GPU_LOST, [up("1x60"), *devices(2, 2)], {5: [], 60: []})


# -- GpuExporterBlind --------------------------------------------------------------------------

NODE = {"node": "node-a"}


def last_success(values: str) -> dict[str, str]:
    name = "gputailor_exporter_last_success_timestamp_seconds"
    return series(name, values, **TARGET, source="kubelet")


def offers_gpus(node: str) -> dict[str, str]:
    resource = {"resource": "nvidia_com_gpu", "unit": "integer"}
    return series("kube_node_status_allocatable", "8x60", node=node, **resource)


def blind(folder, made, fires):
    expect(folder, GPU_EXPORTER_BLIND, made, fires)


def test_an_exporter_that_does_not_answer_fires_after_ten_minutes(tmp_path):
    made = [series("up", "1x20 0x40", **TARGET), up("1x20 _x40")]
    blind(tmp_path, made, {20: [], 28: [], 35: [NODE], 60: [NODE]})


def test_a_node_that_was_taken_away_rests(tmp_path):
    made = [series("up", "1x20 _x40", **TARGET), up("1x20 _x40")]
    blind(tmp_path, made, {30: [], 60: []})


def test_another_target_that_is_down_rests(tmp_path):
    other = {"job": "node-exporter", "instance": "node-a:9100"}
    made = [series("up", "1x60", **TARGET), series("up", "0x60", **other), up("1x60")]
    blind(tmp_path, made, {60: []})


def test_a_source_that_cannot_be_read_fires(tmp_path):
    made = [series("up", "1x60", **TARGET), up("1x60"), last_success("0+60x10 600x50")]
    blind(tmp_path, made, {15: [], 25: [], 35: [NODE]})


def test_a_gpu_node_that_no_exporter_ever_saw_fires(tmp_path):
    made = [
        series("up", "1x60", **TARGET),
        up("1x60"),
        offers_gpus("node-a"),
        offers_gpus("node-b"),
    ]
    blind(tmp_path, made, {15: [{"node": "node-b"}]})


def test_a_healthy_exporter_rests(tmp_path):
    made = [
        series("up", "1x60", **TARGET),
        up("1x60"),
        last_success("0+60x60"),
        offers_gpus("node-a"),
    ]
    blind(tmp_path, made, {15: [], 60: []})


# -- rule files --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gputailor", "gputailor-dcgm", "gputailor-smi"])
def test_promtool_takes_the_rule_files(name, tmp_path):
    generate(tmp_path)
    text = prometheus.run(
        prometheus.program("promtool"), "check", "rules", tmp_path / "rules" / f"{name}.yaml"
    )
    assert "SUCCESS" in text


def test_the_helper_notices_an_alert_that_should_not_be(tmp_path):
    with pytest.raises(AssertionError, match="GpuLost"):
        expect(tmp_path, GPU_LOST, [up("0x20")], {10: []})
