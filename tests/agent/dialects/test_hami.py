"""The HAMi dialect: containers on their parts of a card, by both sets of names."""

import pytest

from tests.agent.dialects.served import BEGIN, HOUR, history_of, rows_of, samples_of

GIB = 1024**3


def names_of_today(pod, percent, memory, limit, idle):
    who = f'namespace="team",pod="{pod}",container="main",vdevice_index="0",device_uuid="GPU-7"'
    return f"""
hami_container_device_utilization_ratio{{{who}}} {percent}
hami_vgpu_memory_used_bytes{{{who}}} {memory}
hami_vgpu_memory_limit_bytes{{{who}}} {limit}
hami_container_last_kernel_elapsed_seconds{{{who}}} {idle}
"""


def former_names(pod, percent, memory, limit, idle):
    who = f'podnamespace="team",podname="{pod}",ctrname="main",vdeviceid="0",deviceuuid="GPU-7"'
    return f"""
Device_utilization_desc_of_container{{{who}}} {percent}
vGPU_device_memory_usage_in_bytes{{{who}}} {memory}
vGPU_device_memory_limit_in_bytes{{{who}}} {limit}
Device_last_kernel_of_container{{{who}}} {idle}
"""


HOST = """
hami_host_gpu_utilization_ratio{node="n1",device_index="0",device_uuid="GPU-7",device_type="NVIDIA-L4"} 70
hami_host_gpu_memory_controller_utilization_ratio{device_index="0",device_uuid="GPU-7",device_type="NVIDIA-L4"} 20
hami_host_gpu_memory_used_bytes{node="n1",device_index="0",device_uuid="GPU-7",device_type="NVIDIA-L4"} 9e9
hami_host_gpu_power_usage_watts{node="n1",device_index="0",device_uuid="GPU-7",device_type="NVIDIA-L4"} 60
"""
BOTH = pytest.mark.parametrize("page", [names_of_today, former_names])


@BOTH
def test_two_containers_on_one_card_have_their_own_values_and_none_of_the_cards(page):
    a, b = rows_of(page("a", 30, 2 * GIB, 8 * GIB, 0) + page("b", 40, GIB, 4 * GIB, 7) + HOST)
    assert a == {
        "of": ("team", "a", "main", "GPU-7"), "dialect": "hami", "hours": 1.0, "kernel": 0.3,
        "memory": 2 * GIB, "of_memory": 8 * GIB, "watts": None,
    }  # fmt: skip
    assert (b["kernel"], b["memory"], b["of_memory"]) == (0.4, GIB, 4 * GIB)


@BOTH
def test_a_container_alone_on_a_card_has_the_cards_other_values(page):
    (row,) = rows_of(page("a", 30, 2 * GIB, 8 * GIB, 0) + HOST)
    assert (row["kernel"], row["memcopy"], row["watts"]) == (0.3, 0.2, 60.0)
    assert row["memory"] == 2 * GIB


@BOTH
def test_the_age_of_the_last_kernel_tells_when_the_container_was_last_active(page):
    history = history_of(samples_of(page("a", 0, 0, GIB, 80_450), job="h", instance="h:1"))
    (row,) = history.rows
    assert row.last_active == BEGIN + HOUR - 80_450
    assert row.signals["kernel"].mean == 0


@BOTH
def test_zero_beside_a_kernel_of_just_now_is_unknown(page):
    history = history_of(samples_of(page("a", 0, GIB, GIB, 4), job="h", instance="h:1"))
    (row,) = history.rows
    assert row.signals == {}
    assert any("although it ran a kernel" in problem for problem in history.problems)


def test_labels_that_were_not_honoured_are_read():
    (row,) = rows_of(
        names_of_today("a", 30, GIB, GIB, 1), pod="hami-device-plugin-x", namespace="kube-system"
    )
    assert row["of"] == ("team", "a", "main", "GPU-7")
