"""The all-smi dialect: both label styles, MIG instances."""

import pytest

from tests.agent.dialects.served import history_of, rows_of, samples_of


@pytest.mark.parametrize("labels", ['uuid="GPU-5",index="0"', 'gpu_uuid="GPU-5",gpu_index="0"'])
def test_a_page_gives_this_row(labels):
    at = f'gpu="NVIDIA L4",instance="node-8",{labels}'
    page = f"""
all_smi_gpu_utilization{{{at}}} 25.5
all_smi_gpu_memory_used_bytes{{{at}}} 8e9
all_smi_gpu_memory_total_bytes{{{at}}} 24e9
all_smi_gpu_power_consumption_watts{{{at}}} 40.5
"""
    assert rows_of(page) == [
        {
            "of": ("", "", "", "GPU-5"), "dialect": "all_smi", "hours": 1.0, "kernel": 0.255,
            "memory": 8_000_000_000, "of_memory": 24_000_000_000, "watts": 40.5,
        }
    ]  # fmt: skip
    (device,) = history_of(samples_of(page, job="all-smi", instance="x:9090")).devices
    assert (device.node, device.vendor, device.index) == ("node-8", "nvidia", "0")


def test_a_mig_instance_is_a_device_of_its_card():
    at = 'gpu_uuid="GPU-5",gpu_index="0",host="n",mig_uuid="MIG-1",mig_profile="1g.5gb"'
    page = f"all_smi_mig_instance_utilization_gpu{{{at}}} 55\n"
    (row,) = rows_of(page)
    assert (row["of"][3], row["graphics"]) == ("MIG-1", 0.55)
