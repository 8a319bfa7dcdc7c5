"""The AMD dialect: whole cards and partitions, pods and Slurm jobs."""

import pytest

from tests.agent.dialects.served import history_of, rows_of, samples_of

MIB = 1024**2


def page(prefix="", partition="spx", **more):
    labels = {
        "gpu_id": "2", "gpu_uuid": "card-2", "gpu_partition_id": "0", "hostname": "n5",
        "gpu_compute_partition_type": partition, "card_series": "AMD Instinct MI300X OAM",
        "pod": "train-0", "namespace": "team", "container": "main", "driver_version": "6.12",
        **more,
    }  # fmt: skip
    told = ",".join(f'{name}="{value}"' for name, value in labels.items())
    return f"""
{prefix}gpu_gfx_activity{{{told}}} 80
{prefix}gpu_umc_activity{{{told}}} 25
{prefix}gpu_vcn_activity{{{told},vcn_index="0"}} 0
{prefix}gpu_vcn_activity{{{told},vcn_index="1"}} 10
{prefix}gpu_prof_tensor_active_percent{{{told}}} 12
{prefix}gpu_used_vram{{{told}}} 4096
{prefix}gpu_total_vram{{{told}}} 196592
{prefix}gpu_package_power{{{told}}} 400
"""


@pytest.mark.parametrize("prefix", ["", "amd_"])
def test_a_page_gives_this_row(prefix):
    assert rows_of(page(prefix)) == [
        {
            "of": ("team", "train-0", "main", "card-2"), "dialect": "amd", "hours": 1.0,
            "kernel": 0.8, "memcopy": 0.25, "decoder": 0.1, "tensor": 0.12,
            "memory": 4096 * MIB, "of_memory": 196592 * MIB, "watts": 400.0,
        }
    ]  # fmt: skip


def test_a_partition_is_a_device_of_its_card_and_has_no_activity_of_the_whole():
    (row,) = rows_of(page(partition="cpx", gpu_partition_id="3"))
    assert row["of"][3] == "card-2/3"
    assert row["memory"] == 4096 * MIB
    assert not {"kernel", "memcopy"} & set(row)
    assert row["watts"] is None


def test_a_slurm_job_stands_in_for_the_pod():
    (row,) = rows_of(page(pod="", namespace="", container="", job_id="4711"))
    assert row["of"] == ("slurm", "4711@n5", "job", "card-2")


def test_the_exporters_own_pod_holds_nothing():
    (row,) = rows_of(page(pod="default-metrics-exporter-vvvkm"))
    assert row["of"][:3] == ("", "", "")


def test_the_card_is_described():
    (device,) = history_of(samples_of(page(), job="amd", instance="x:5000")).devices
    assert (device.vendor, device.model, device.node) == ("amd", "AMD Instinct MI300X OAM", "n5")
