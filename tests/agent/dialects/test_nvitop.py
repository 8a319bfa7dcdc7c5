"""The nvitop dialect: units stand in the names."""

from tests.agent.dialects.served import history_of, rows_of, samples_of

MIB = 1024**2
LABELS = 'devicename="NVIDIA L40S",hostname="node-2",index="1",uuid="GPU-1"'

# Written by hand in the shape of the exporter's pages; figures are ours.
PAGE = f"""
gpu_utilization_Percentage{{{LABELS}}} 23
gpu_memory_utilization_Percentage{{{LABELS}}} 8
gpu_encoder_utilization_Percentage{{{LABELS}}} 1
gpu_decoder_utilization_Percentage{{{LABELS}}} 0
gpu_memory_percent_Percentage{{{LABELS}}} 50
gpu_memory_used_MiB{{{LABELS}}} 23000
gpu_memory_total_MiB{{{LABELS}}} 46000
gpu_power_usage_W{{{LABELS}}} 120
"""


def test_a_page_gives_this_row():
    assert rows_of(PAGE) == [
        {
            "of": ("", "", "", "GPU-1"), "dialect": "nvitop", "hours": 1.0,
            "kernel": 0.23, "memcopy": 0.08, "encoder": 0.01, "decoder": 0.0,
            "memory": 23000 * MIB, "of_memory": 46000 * MIB, "watts": 120.0,
        }
    ]  # fmt: skip


def test_the_node_is_the_exporters_host():
    (device,) = history_of(samples_of(PAGE, job="nvitop", instance="a:5050")).devices
    assert (device.node, device.model, device.index) == ("node-2", "NVIDIA L40S", "1")
