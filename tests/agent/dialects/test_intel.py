"""The Intel dialect: both name sets, engine groups, tiles."""

from tests.agent.dialects.served import history_of, rows_of, samples_of

POD = 'kube_pod="serve-0",kube_namespace="team",kube_container="main"'


def test_a_page_with_names_of_today_gives_this_row():
    at = 'pci_bdf="0000:01:00.0"'
    page = f"""
hw_gpu_utilization_ratio{{{at},hw_gpu_task="all"}} 0.125
hw_gpu_utilization_ratio{{{at},hw_gpu_task="compute-all"}} 0.9
hw_gpu_utilization_ratio{{{at},hw_gpu_task="media-all"}} 0.2
hw_gpu_utilization_ratio{{{at},hw_gpu_task="copy-all"}} 0
hw_memory_usage_bytes{{{at},hw_memory_location="device"}} 5e9
hw_memory_size_bytes{{{at},hw_memory_location="device"}} 16e9
hw_power_watts{{{at},hw_sensor_location="package"}} 100
hw_power_watts{{{at},hw_sensor_location="card"}} 150
"""
    assert rows_of(page, node="n1") == [
        {
            "of": ("", "", "", "n1:0000:01:00.0"), "dialect": "intel", "hours": 1.0,
            "kernel": 0.9, "decoder": 0.2, "memcopy": 0.0,
            "memory": 5_000_000_000, "of_memory": 16_000_000_000, "watts": 100.0,
        }
    ]  # fmt: skip


def test_a_page_of_version_1_gives_this_row():
    at = f'uuid="card-1",dev_name="Data Center GPU Flex 170",pci_bdf="0000:4d:00.0",{POD}'
    page = f"""
xpum_engine_group_ratio{{{at},type="compute"}} 0.5
xpum_engine_group_ratio{{{at},type="render"}} 0.7
xpum_memory_used_bytes{{{at}}} 2e9
xpum_memory_bandwidth_ratio{{{at}}} 0.3
xpum_power_watts{{{at}}} 80
"""
    assert rows_of(page) == [
        {
            "of": ("team", "serve-0", "main", "card-1"), "dialect": "intel", "hours": 1.0,
            "kernel": 0.5, "dram": 0.3,
            "memory": 2_000_000_000, "of_memory": None, "watts": 80.0,
        }
    ]  # fmt: skip


def test_a_tile_is_a_device_of_its_card():
    page = 'xpum_engine_group_ratio{uuid="card-1",sub_dev="1",type="compute"} 0.5'
    (device,) = history_of(samples_of(page, job="xpum", instance="n:2")).devices
    assert (device.gpu_uuid, device.parent_uuid) == ("card-1/1", "card-1")
