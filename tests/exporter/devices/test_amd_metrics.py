"""AMD's table of metrics is read where C puts its fields, and nothing is made of what it lacks."""

import ctypes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputailor_exporter.devices.amd_activity import Activity
from gputailor_exporter.devices.amd_metrics import parse_metrics
from gputailor_exporter.metrics import Signal
from tests.fakes.amd_tables import TABLES, table

#: A Navi 10 on Linux 5.15 (public capture: Ricks-Lab/gpu-utils issue 122).
NAVI_10 = {
    "temperature_edge": 53,
    "temperature_hotspot": 53,
    "temperature_mem": 58,
    "temperature_vr": (0, 0, 0),
    "average_gfx_activity": 0,
    "average_umc_activity": 0,
    "average_socket_power": 12,
    "energy_accumulator": 6294297477348589567,
    "system_clock_counter": 142426363985407644,
    "current_gfxclk": 100,
    "current_socclk": 1266,
    "current_uclk": 1085,
}


def test_the_third_table_is_as_long_as_a_real_card_says():
    assert ctypes.sizeof(TABLES[3]) == 120


def test_a_navi_10_says_what_it_has():
    found = parse_metrics(table(3, **NAVI_10))
    assert found is not None
    assert (found.gfx_percent, found.umc_percent, found.video_percent) == (0, 0, None)
    assert found.power_watts == 12
    assert found.temperatures_celsius == {"edge": 53.0, "junction": 53.0, "memory": 58.0}
    assert found.clocks_hertz == {"graphics": 100e6, "memory": 1085e6}
    assert found.gfx_acc is None
    assert found.throttlers is None


@pytest.mark.parametrize("content", sorted(TABLES))
def test_every_layout_puts_its_fields_where_c_does(content):
    values = {
        "average_gfx_activity": 11,
        "average_umc_activity": 22,
        "energy_accumulator": 333 << 40,
        "system_clock_counter": 444 << 40,
        "gfx_activity_acc": 555_555,
        "mem_activity_acc": 666_666,
        "current_gfxclk": (1700, 2100) if content > 3 else 2100,
        "current_uclk": 1300,
    }
    if content > 1:
        values["firmware_timestamp"] = 777 << 30
    found = parse_metrics(table(content, **values))
    assert found is not None
    assert (found.content, found.gfx_percent, found.umc_percent) == (content, 11, 22)
    assert (found.energy, found.system_time) == (333 << 40, 444 << 40)
    assert (found.gfx_acc, found.mem_acc) == (555_555, 666_666)
    assert found.firmware_time == (777 << 30 if content > 1 else None)
    assert found.clocks_hertz == {"graphics": 2100e6, "memory": 1300e6}
    assert found.partitions == ()


@pytest.mark.parametrize("content", [4, 5, 6, 7, 8])
def test_bytes_over_xgmi_are_summed_over_the_links_that_are_there(content):
    read, written = (10, 20, 0xFFFFFFFFFFFFFFFF), (1, 2)
    found = parse_metrics(table(content, xgmi_read_data_acc=read, xgmi_write_data_acc=written))
    assert found.xgmi_bytes == {"rx": 30 * 1024, "tx": 3 * 1024}


@pytest.mark.parametrize("content", [6, 7, 8])
def test_each_partition_has_its_compute_dies(content):
    found = parse_metrics(table(content, ((5,), (7,), (9, 11)), accumulation_counter=4))
    assert [part.busy_acc for part in found.partitions] == [(5,), (7,), (9, 11)]
    assert found.ticks == 4


@given(st.binary(max_size=300))
def test_any_bytes_are_a_table_or_none(content):
    parse_metrics(content)


@given(st.binary(min_size=400, max_size=6000), st.integers(0, 255), st.integers(0, 255))
def test_any_bytes_behind_any_header_are_a_table_or_none(content, form, revision):
    size = min(len(content), 0xFFFF)
    parse_metrics(size.to_bytes(2, "little") + bytes([form, revision]) + content[4:])


@pytest.mark.parametrize(("form", "content"), [(2, 3), (3, 0), (1, 0), (1, 9)])
def test_a_table_that_is_not_known_is_not_read(form, content):
    known = bytearray(table(3))
    known[2], known[3] = form, content
    assert parse_metrics(bytes(known)) is None


def test_a_table_cut_short_is_not_read():
    assert parse_metrics(table(5)[:200]) is None


def stepped(*tables: bytes, partition: int | None = None):
    activity = Activity(partition)
    return [activity.advance(parse_metrics(one)) for one in tables]


def moment(seconds: float, gfx: int, memory: int = 0, **more):
    """A table of an MI300X ``seconds`` after the start; accumulators in percent x ms."""
    return table(
        7,
        average_gfx_activity=99,
        average_umc_activity=99,
        system_clock_counter=int(seconds * 1e9),
        firmware_timestamp=int(seconds * 1e8),
        accumulation_counter=int(seconds * 1000),
        gfx_activity_acc=gfx % 2**32,
        mem_activity_acc=memory % 2**32,
        **more,
    )


def test_the_accumulators_give_the_exact_mean_of_the_whole_time():
    _, (signals, _) = stepped(moment(0, 1000), moment(7.5, 1000 + 300_000, 75_000))
    assert signals[Signal.KERNEL].value == pytest.approx(0.4)
    assert signals[Signal.KERNEL].covers_seconds == pytest.approx(7.5)
    assert signals[Signal.DRAM].value == pytest.approx(0.1)


def test_an_accumulator_that_wraps_goes_on():
    _, (signals, _) = stepped(moment(0, 2**32 - 10_000), moment(1, 2**32 + 40_000))
    assert signals[Signal.KERNEL].value == pytest.approx(0.5)


def test_an_accumulator_that_began_anew_gives_way_to_the_average():
    _, (signals, _) = stepped(moment(5, 4_000_000), moment(6, 10))
    assert signals[Signal.KERNEL].value == 0.99
    assert signals[Signal.KERNEL].covers_seconds is None


def test_an_accumulator_that_stands_still_on_a_busy_card_is_not_believed():
    _, (signals, _) = stepped(moment(0, 0), moment(1, 0))
    assert signals[Signal.KERNEL].value == 0.99


def test_before_1_6_the_firmwares_clock_counts_the_additions():
    def at(seconds, gfx):
        return table(
            3,
            gfx_activity_acc=gfx,
            mem_activity_acc=0,
            average_umc_activity=0,
            firmware_timestamp=int(seconds * 1e8),
            system_clock_counter=int(seconds * 1e9),
        )

    _, (signals, _) = stepped(at(0, 0), at(2, 50_000))
    assert signals[Signal.KERNEL].value == pytest.approx(0.25)
    assert Signal.MEMCOPY in signals  # on these cards the controller's time, not bandwidth
    assert Signal.DRAM not in signals


def test_a_partition_is_the_mean_of_its_own_dies():
    def at(seconds, *dies):
        return moment(seconds, 0, partitions=((0,), dies))

    _, (signals, _) = stepped(at(0, 0, 0), at(1, 20_000, 60_000), partition=1)
    assert signals[Signal.KERNEL].value == pytest.approx(0.4)


@given(
    st.lists(
        st.tuples(st.floats(0.0, 1.0), st.floats(0.1, 5.0)),
        min_size=2,
        max_size=30,
    )
)
def test_no_busy_time_is_lost_whatever_the_beat(spans):
    """Busy seconds by the readings are the busy seconds there were."""
    ticks, percent, busy = 0, 0, 0.0
    tables = [_quiet(0, 0)]
    for share, seconds in spans:
        additions = int(seconds * 1000)
        ticks += additions
        percent += round(share * 100) * additions
        busy += round(share * 100) / 100 * additions / 1000
        tables.append(_quiet(ticks, percent))
    counted = 0.0
    for signals, _ in stepped(*tables)[1:]:
        reading = signals[Signal.KERNEL]
        counted += reading.value * reading.covers_seconds
    assert counted == pytest.approx(busy)


def _quiet(ticks, gfx):
    return table(
        7,
        system_clock_counter=ticks * 1_000_000,
        accumulation_counter=ticks,
        gfx_activity_acc=gfx % 2**32,
        average_gfx_activity=0,
        mem_activity_acc=0,
        average_umc_activity=0,
    )


def test_throttled_cycles_add_up_to_the_time_throttled():
    """A quarter of the time at the power limit: every fourth cycle is counted."""
    tables = [
        moment(second, 0, ppt_residency_acc=second * 250, prochot_residency_acc=0)
        for second in range(101)
    ]
    counted = [throttle for _, throttle in stepped(*tables)[1:]]
    assert sum("sw_power_cap" in reasons for reasons in counted) == 25
    assert not any("hw_thermal_slowdown" in reasons for reasons in counted)


@pytest.mark.parametrize(
    ("bit", "reason"),
    [
        (0, "sw_power_cap"),
        (22, "sw_power_cap"),
        (36, "sw_thermal_slowdown"),
        (44, "hw_thermal_slowdown"),
        (47, "hw_thermal_slowdown"),
        (57, "hw_slowdown"),
    ],
)
def test_each_throttler_has_its_reason(bit, reason):
    ((_, reasons),) = stepped(table(3, indep_throttle_status=1 << bit))
    assert reasons == {reason}
