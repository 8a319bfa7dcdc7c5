"""Several sources of one hour: the better one counts per device and signal, and it is shown."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputailor_agent.model.usage import Device, SignalUse, UsageKey, UsageRow, Warmup
from gputailor_agent.rollup.mixing import Told, filled_by, mix

HOUR = 3600
CARD = "GPU-0"
A100 = Device(cluster="test", gpu_uuid=CARD, node="n", model="A100")


def use(mean, seconds=HOUR):
    return SignalUse(observed_seconds=float(seconds), active_seconds=mean * seconds)


def row(dialect="gputailor", *, pod="p", uid="u", gpu=CARD, seconds=HOUR, share=1.0, **levels):
    figures = {
        name: levels.pop(name)
        for name in ("energy_joules", "memory_peak_bytes", "memory_peak_kind", "last_active")
        if name in levels
    }
    who = ("team", "main") if pod else ("", "")
    return UsageRow(
        key=UsageKey(
            cluster="test", namespace=who[0], pod=pod, pod_uid=uid if pod else "",
            container=who[1], gpu_uuid=gpu, hour=0,
        ),
        dialect=dialect,
        allocated_seconds=float(seconds),
        share=share,
        signals={
            name: level if isinstance(level, SignalUse) else use(level, seconds)
            for name, level in levels.items()
        },
        **figures,
    )  # fmt: skip


def told(*rows, names=(), devices=(A100,)):
    return Told(rows, {device.gpu_uuid: device for device in devices}, names)


def means(one):
    return {name: round(part.mean, 3) for name, part in one.signals.items()}


def test_signals_that_our_exporter_cannot_read_come_from_the_next_and_the_rest_stays():
    ours = row(kernel=0.9, dram=0.2, memory_peak_bytes=7)
    dcgm = row("dcgm", uid="", kernel=0.5, sm=0.4, tensor=0.1, memory_peak_bytes=5)
    (mixed,) = mix([told(ours, names=[CARD]), told(dcgm)], HOUR)
    assert mixed.key == ours.key
    assert means(mixed) == {"kernel": 0.9, "dram": 0.2, "sm": 0.4, "tensor": 0.1}
    assert (mixed.dialect, mixed.memory_peak_bytes) == ("gputailor", 7)
    assert mixed.filled == {"sm": "dcgm", "tensor": "dcgm"}
    assert filled_by(mixed) == {"gputailor", "dcgm"}


def test_a_signal_read_for_a_few_minutes_gives_way_to_one_read_all_hour():
    ours = row(seconds=1200, kernel=0.9)
    (mixed,) = mix([told(ours), told(row("dcgm", kernel=0.5))], HOUR)
    assert means(mixed) == {"kernel": 0.5}
    assert mixed.filled == {"kernel": "dcgm"}
    assert mixed.allocated_seconds == HOUR


def test_a_signal_read_for_most_of_the_hour_stays():
    ours = row(seconds=2400, kernel=0.9)
    (mixed,) = mix([told(ours), told(row("dcgm", kernel=0.5))], HOUR)
    assert (means(mixed), mixed.filled) == ({"kernel": 0.9}, {})
    assert mixed.allocated_seconds == 2400


def test_the_warm_up_goes_with_its_signal():
    warm = {"sm": Warmup(observed_seconds=600.0, active_seconds=60.0)}
    dcgm = msgspec.structs.replace(row("dcgm", sm=0.4), warmup=warm)
    (mixed,) = mix([told(row(kernel=0.9)), told(dcgm)], HOUR)
    assert mixed.warmup == warm


def test_a_pod_that_our_exporter_does_not_name_on_a_card_it_knows_does_not_hold_it():
    stale = row("dcgm", pod="ended", kernel=0.0)
    assert mix([told(row(kernel=0.5), names=[CARD]), told(stale)], HOUR) == [row(kernel=0.5)]
    assert mix([told(names=[CARD]), told(stale)], HOUR) == []


def test_an_exporter_that_knows_no_holders_leaves_them_to_another():
    dcgm = row("dcgm", kernel=0.5)
    assert mix([told(), told(dcgm)], HOUR) == [dcgm]


def test_two_containers_side_by_side_get_nothing_of_the_whole_device():
    ours = [row(pod=pod, share=0.5, kernel=0.3) for pod in ("a", "b")]
    dcgm = row("dcgm", pod="a", sm=0.9)  # it shows one of the two only
    assert mix([told(*ours), told(dcgm)], HOUR) == ours


def test_two_containers_one_after_the_other_each_get_their_own():
    ours = [row(pod=pod, seconds=1800, kernel=0.3) for pod in ("a", "b")]
    dcgm = [row("dcgm", pod=pod, seconds=1800, sm=sm) for pod, sm in (("a", 0.1), ("b", 0.2))]
    a, b = mix([told(*ours), told(*dcgm)], HOUR)
    assert (means(a)["sm"], means(b)["sm"]) == (0.1, 0.2)


@pytest.mark.parametrize(("ours", "theirs"), [("u", ""), ("", "u"), ("u", "u")])
def test_a_uid_that_one_source_does_not_know_is_no_difference(ours, theirs):
    (mixed,) = mix([told(row(uid=ours, kernel=1.0)), told(row("dcgm", uid=theirs, sm=0.4))], HOUR)
    assert means(mixed)["sm"] == 0.4
    assert mixed.key.pod_uid == ours


def test_pods_of_one_name_with_other_uids_are_not_mixed_up():
    (mixed,) = mix([told(row(uid="1", kernel=1.0)), told(row("dcgm", uid="2", sm=0.4))], HOUR)
    assert means(mixed) == {"kernel": 1.0}


def test_of_two_pods_of_one_name_an_unknown_uid_is_neither():
    ours = [row(uid=uid, seconds=1800, kernel=1.0) for uid in ("1", "2")]
    assert mix([told(*ours), told(row("dcgm", uid="", sm=0.4))], HOUR) == ours


def instance(name, profile="3g.40gb"):
    return Device(cluster="test", gpu_uuid=name, parent_uuid=CARD, mig_profile=profile)


def test_a_mig_instance_is_the_same_under_either_name():
    ours = told(row(gpu="MIG-x", graphics=0.5), devices=[A100, instance("MIG-x")])
    dcgm = told(row("dcgm", gpu="MIG-GPU-0/2", sm=0.3), devices=[instance("MIG-GPU-0/2")])
    (mixed,) = mix([ours, dcgm], HOUR)
    assert (mixed.key.gpu_uuid, means(mixed)) == ("MIG-x", {"graphics": 0.5, "sm": 0.3})


def test_of_two_alike_mig_instances_of_one_container_none_is_guessed():
    names = ("MIG-x", "MIG-y")
    ours = told(
        *(row(gpu=name, graphics=0.5) for name in names), devices=[A100, *map(instance, names)]
    )
    dcgm = told(row("dcgm", gpu="MIG-GPU-0/2", sm=0.3), devices=[instance("MIG-GPU-0/2")])
    assert all(means(one) == {"graphics": 0.5} for one in mix([ours, dcgm], HOUR))


def test_what_nobody_holds_fills_the_row_of_the_one_that_held_the_device_all_hour():
    smi = row("nvidia_gpu_exporter", pod="", encoder=0.1, energy_joules=5.0)
    (mixed,) = mix([told(row("hami", kernel=0.4)), told(smi)], HOUR)
    assert (means(mixed), mixed.energy_joules) == ({"kernel": 0.4, "encoder": 0.1}, 5.0)
    part = row("hami", seconds=1800, kernel=0.4)
    assert mix([told(part), told(smi)], HOUR) == [part]


def test_a_better_source_without_pods_counts_before_a_poorer_one_with_them():
    dcgm = row("dcgm", pod="", kernel=0.5, sm=0.2)
    (mixed,) = mix([told(dcgm), told(row("gke", kernel=0.4, memory_peak_bytes=3))], HOUR)
    assert (mixed.dialect, mixed.key.pod) == ("dcgm", "p")
    assert means(mixed) == {"kernel": 0.5, "sm": 0.2}
    assert mixed.filled == {"memory_peak_bytes": "gke"}


def test_a_device_of_which_no_source_names_a_holder_has_one_row_without_a_pod():
    (mixed,) = mix(
        [told(row("dcgm", pod="", kernel=0.5)), told(row("nvitop", pod="", encoder=0.1))], HOUR
    )
    assert (mixed.key.pod, means(mixed)) == ("", {"kernel": 0.5, "encoder": 0.1})


def test_a_device_without_a_holder_is_idle_where_its_exporter_names_holders_of_others():
    other = Device(cluster="test", gpu_uuid="GPU-1", node="n")
    held, idle = row("dcgm", kernel=0.5), row("dcgm", pod="", gpu="GPU-1", kernel=0.0)
    assert mix([told(held, idle, devices=[A100, other])], HOUR) == [held]


levels = st.dictionaries(
    st.sampled_from(["kernel", "sm", "tensor", "dram"]),
    st.tuples(st.integers(0, 4).map(lambda n: n / 4), st.integers(1, HOUR)),
    max_size=4,
)


@given(st.lists(levels, min_size=1, max_size=4))
def test_every_signal_is_one_sources_own_and_the_best_is_observed_half_as_long_as_any(told_levels):
    rows = [
        row(f"d{at}", **{name: use(*one) for name, one in parts.items()})
        for at, parts in enumerate(told_levels)
    ]
    (mixed,) = mix([told(one) for one in rows], HOUR)
    assert set(mixed.signals) == set().union(*told_levels)
    for name, found in mixed.signals.items():
        by = mixed.filled.get(name, "d0")
        assert found == rows[int(by[1:])].signals[name]
        longest = max(one.signals[name].observed_seconds for one in rows if name in one.signals)
        assert found.observed_seconds >= longest / 2


def test_a_devices_health_is_one_sources_word_and_never_added_up():
    def suffering(dialect, **told):
        known = {name.replace("_", "/", 1): amount for name, amount in told.items()}
        return msgspec.structs.replace(row(dialect, kernel=0.5), conditions=known)

    dcgm = told(suffering("dcgm", xid_79=1.0, throttled_thermal=60.0))
    ours = told(suffering("gputailor", xid_79=2.0, throttled_hw_slowdown=0.0))
    (mixed,) = mix([ours, dcgm], HOUR)
    assert mixed.conditions == {"xid/79": 2.0, "throttled/hw_slowdown": 0.0}
    deaf = told(suffering("gputailor", amp_candidate=30.0))
    (filled,) = mix([deaf, dcgm], HOUR)
    assert filled.conditions == {"amp/candidate": 30.0, "xid/79": 1.0, "throttled/thermal": 60.0}
    assert filled.filled["health"] == "dcgm"
