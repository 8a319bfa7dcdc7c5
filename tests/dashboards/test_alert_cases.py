"""Every alert fires, rests while all is well, and says nothing where data is missing.

Each case gives series in promtool's notation, a sample a minute unless said otherwise. ``gone`` is
what is left when exporter or agent stop being scraped in the middle, or never told of it; only
where missing data is an alert's matter may it fire then.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from gputailor_dashboards.alerts import ALERTS
from tests.dashboards.promtool import POD, TARGET, expect, held, series

GPU = {"node": "node-a", "gpu": "0", "gpu_uuid": "GPU-0"}
NODE = {"node": "node-a"}
AGENT = {"job": "gputailor", "instance": "agent:8080"}
DEVICE = "gputailor_device_"
SELF = "gputailor_exporter_"
OF_AGENT = "gputailor_agent_"
HOUR = 60

Made = list[dict[str, str]]


@dataclass(frozen=True)
class Case:
    """Series that make an alert fire at minute ``at`` with these labels, rest, and say nothing."""

    at: int
    labels: Mapping[str, str]
    fires: Made
    rests: Made
    gone: Made
    interval: str = "1m"
    #: Missing data is its matter.
    about_missing: bool = False


def device(name: str, values: str, **labels: str) -> dict[str, str]:
    return series(DEVICE + name, values, **TARGET, **GPU, **labels)


def source(name: str, values: str) -> dict[str, str]:
    return series(f"{SELF}last_success_timestamp_seconds", values, **TARGET, source=name)


def agent(name: str, values: str, **labels: str) -> dict[str, str]:
    return series(OF_AGENT + name, values, **AGENT, **labels)


def runs(outcome: str, values: str) -> dict[str, str]:
    # As a Prometheus without honorLabels writes it.
    return agent("job_runs_total", values, exported_job="rollup", outcome=outcome)


def a_day(**changes: str) -> Made:
    """A sample every five minutes, for 25 hours, of a node that is measured and not held."""
    given = {"observed": "0+300x300", "kubelet": "0+300x300"} | changes
    return [
        device("info", "1x300", parent_uuid=""),
        device("observed_seconds_total", given["observed"], signal="kernel"),
        device("up", "1x300"),
        source("kubelet", given["kubelet"]),
    ]


def is_held(count: int = 300) -> dict[str, str]:
    labels = {"namespace": "lab", "pod": "p", "pod_uid": "u", "container": "c"}
    name = "gputailor_container_gpu_allocated"
    return series(name, f"1x{count}", **NODE, **labels, gpu_uuid="GPU-0", sharing="exclusive")


def allocated_seconds(values: str) -> dict[str, str]:
    labels = {"namespace": "lab", "pod": "notebook-0", "pod_uid": "u1", "container": "main"}
    name = "gputailor_container_gpu_allocated_seconds_total"
    return series(name, values, **NODE, **labels, gpu_uuid="GPU-0")


XID = {"xid": "79"}
HEAT = {"reason": "hw_thermal_slowdown"}
LINK = {"link": "3"}
CASES = {
    "GpuLost": Case(
        at=15,
        labels=GPU,
        fires=[series(f"{DEVICE}up", "1x10 0x20", **TARGET, **GPU)],
        rests=[device("up", "1x30")],
        gone=[device("up", "1x10 _x20")],
    ),
    "GpuXidHardware": Case(
        at=12,
        labels={**GPU, **XID},
        fires=[device("xid_last_timestamp_seconds", "_x10 600x20", **XID)],
        rests=[
            device("xid_last_timestamp_seconds", "_x10 600x20", xid="31"),  # an application's
            device("xid_last_timestamp_seconds", "-9000x30", **XID),  # hours ago
        ],
        gone=[device("up", "1x30"), device("xid_last_timestamp_seconds", "1x2 _x20", **XID)],
    ),
    "GpuEccUncorrected": Case(
        at=20,
        labels=GPU,
        fires=[device("ecc_errors_total", "7x15 8x20", severity="uncorrected")],
        rests=[
            # What a card brings along is no news; corrected ones are no harm.
            device("ecc_errors_total", "7x35", severity="uncorrected"),
            device("ecc_errors_total", "0+5x35", severity="corrected"),
        ],
        gone=[device("ecc_errors_total", "_x15 8x20", severity="uncorrected")],
    ),
    "GpuRowRemapFailed": Case(
        at=20,
        labels=GPU,
        fires=[device("remapped_rows_failed", "1x30")],
        rests=[device("remapped_rows_failed", "0x30")],
        gone=[device("remapped_rows_failed", "1x4 _x26"), device("up", "1x30")],
    ),
    "GpuResetPending": Case(
        at=90,
        labels=GPU,
        fires=[device("retired_pages_pending", "1x100")],
        rests=[device("remapped_rows_pending", "0x100"), device("retired_pages_pending", "0x100")],
        gone=[device("remapped_rows_pending", "1x50 _x50")],
    ),
    "GpuThermalThrottling": Case(
        at=40,
        labels={**GPU, **HEAT},
        fires=[device("throttled_seconds_total", "0+30x60", **HEAT)],
        rests=[
            device("throttled_seconds_total", "0+6x60", **HEAT),
            device("throttled_seconds_total", "0+60x60", reason="sw_power_cap"),
        ],
        gone=[device("throttled_seconds_total", "0+30x10 _x50", **HEAT)],
    ),
    "GpuNvlinkDown": Case(
        at=20,
        labels={**GPU, **LINK},
        fires=[device("nvlink_up", "1x10 0x30", **LINK)],
        rests=[device("nvlink_up", "0x40", **LINK), device("nvlink_up", "1x40", link="4")],
        gone=[device("nvlink_up", "1x10 _x30", **LINK)],
    ),
    "GpuPcieNarrow": Case(
        at=100,
        labels=GPU,
        fires=[device("pcie_link_width", "8x120"), device("pcie_link_width_max", "16x120")],
        rests=[
            # Narrow at times, as a card that saves power may be.
            device("pcie_link_width", " ".join(["8x30 16x10"] * 4)),
            device("pcie_link_width_max", "16x160"),
        ],
        gone=[device("pcie_link_width", "8x120")],
    ),
    "GpuExporterBlind": Case(
        at=40,
        labels=NODE,
        fires=[
            series("up", "1x60", **TARGET),
            device("up", "1x60"),
            source("kubelet", "0+60x10 600x50"),
        ],
        rests=[
            series("up", "1x60", **TARGET),
            device("up", "1x60"),
            source("kubelet", "0+60x60"),
        ],
        gone=[series("up", "1x10 0x50", **TARGET), device("up", "1x10 _x50")],
        about_missing=True,
    ),
    "GpuCoverageLow": Case(
        at=120,
        labels=NODE,
        fires=[*held(150, observed="0+40x150"), allocated_seconds("0+60x150")],
        rests=[*held(150), allocated_seconds("0+60x150")],
        gone=[
            *held(150, observed="0+60x60 _x90", allocated="1x60 _x90"),
            allocated_seconds("0+60x60 _x90"),
        ],
    ),
    "GpuAllocationIdle": Case(
        at=160,
        labels=POD,
        fires=held(180),
        rests=held(180, active="0+30x180", watts=300),
        gone=held(180, observed="600x180"),
    ),
    "GpuNodeUnheld": Case(
        at=24 * HOUR + 30,
        labels=NODE,
        fires=a_day(),
        rests=[*a_day(), is_held()],
        gone=a_day(kubelet="0+300x100 _x20 30000x180"),
        interval="5m",
    ),
    "GpuTailorAgentSilent": Case(
        at=40,
        labels=AGENT,
        fires=[series("up", "1x10 0x50", **AGENT), agent("rollup_rows_total", "0+1x10 _x50")],
        rests=[
            series("up", "1x10 0x3 1x47", **AGENT),
            agent("rollup_rows_total", "0+1x60"),
            series("up", "0x60", job="another", instance="x"),
        ],
        gone=[series("up", "1x10 _x50", **AGENT), agent("rollup_rows_total", "0+1x10 _x50")],
    ),
    "GpuTailorUsageStale": Case(
        at=5 * HOUR,
        labels={},
        fires=[agent("usage_end_timestamp_seconds", "0x400")],
        rests=[agent("usage_end_timestamp_seconds", "0+60x400")],
        gone=[agent("usage_end_timestamp_seconds", "0x100 _x300")],
    ),
    "GpuTailorJobFailing": Case(
        at=4 * HOUR,
        labels={"job": "rollup"},
        fires=[runs("failed", "0x60 1x60 2x60 3x60 4x60"), runs("done", "5x300")],
        rests=[runs("failed", "0x60 1x60 2x60 3x60 4x60"), runs("done", "5x200 6x100")],
        gone=[runs("failed", "4x300")],
    ),
    "GpuTailorStoreFailing": Case(
        at=40,
        labels={"reason": "full"},
        fires=[agent("store_errors_total", "0x10 0+1x50", reason="full")],
        rests=[agent("store_errors_total", "4x60", reason="full")],
        gone=[agent("store_errors_total", "_x10 3x5 _x45", reason="full")],
    ),
    "GpuTailorReportUndelivered": Case(
        at=30,
        labels={},
        fires=[agent("outbox_messages", "0x10 1x50", state="given_up")],
        rests=[agent("outbox_messages", "9x60", state="sent")],
        gone=[agent("outbox_messages", "1x5 _x55", state="given_up")],
    ),
    "GpuTailorSettingsRefused": Case(
        at=20,
        labels={},
        fires=[agent("settings_reload_successful", "1x5 0x30")],
        rests=[agent("settings_reload_successful", "1x35")],
        gone=[agent("settings_reload_successful", "0x3 _x30")],
    ),
}
BY_NAME = {alert.name: alert for alert in ALERTS}


def test_every_alert_has_a_case():
    assert set(CASES) == set(BY_NAME)


@pytest.mark.parametrize("name", CASES)
def test_it_fires(name, tmp_path):
    case = CASES[name]
    expect(tmp_path, BY_NAME[name], case.fires, {case.at: [case.labels]}, interval=case.interval)


@pytest.mark.parametrize("name", CASES)
def test_it_rests_while_all_is_well(name, tmp_path):
    case = CASES[name]
    expect(tmp_path, BY_NAME[name], case.rests, {case.at: []}, interval=case.interval)


@pytest.mark.parametrize("name", CASES)
def test_missing_data_fires_only_what_is_about_missing_data(name, tmp_path):
    case = CASES[name]
    fired = [case.labels] if case.about_missing else []
    expect(tmp_path, BY_NAME[name], case.gone, {case.at: fired}, interval=case.interval)


@pytest.mark.parametrize("name", CASES)
def test_nothing_at_all_fires_nothing(name, tmp_path):
    expect(tmp_path, BY_NAME[name], [], {CASES[name].at: []}, interval=CASES[name].interval)


def test_given_up_messages_are_told_for_a_day_and_then_no_more(tmp_path):
    made = [agent("outbox_messages", "0x1 1x400", state="given_up")]
    fires = {60: [{}], 23 * HOUR: [{}], 25 * HOUR: []}
    expect(tmp_path, BY_NAME["GpuTailorReportUndelivered"], made, fires, interval="5m")


def test_a_gpu_beside_it_is_told_apart(tmp_path):
    made = [
        device("remapped_rows_failed", "1x30"),
        series(f"{DEVICE}remapped_rows_failed", "1x30", node="node-b", gpu="0", gpu_uuid="GPU-9"),
    ]
    both = [GPU, {"node": "node-b", "gpu": "0", "gpu_uuid": "GPU-9"}]
    expect(tmp_path, BY_NAME["GpuRowRemapFailed"], made, {20: both})


def test_clusters_in_one_store_are_told_apart(tmp_path):
    made = [
        series(f"{DEVICE}up", "0x30", **GPU, cluster="east"),
        series(f"{DEVICE}up", "1x30", **GPU, cluster="west"),
    ]
    expect(tmp_path, BY_NAME["GpuLost"], made, {10: [{**GPU, "cluster": "east"}]})
