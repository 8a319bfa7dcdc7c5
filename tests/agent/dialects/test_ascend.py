"""The Ascend dialect: chips by their die, high-bandwidth memory, values that could not be read."""

from tests.agent.dialects.served import rows_of

MIB = 1024**2
WHO = 'pod_name="train-0",namespace="team",container_name="ms"'


def page(*, die="DIE-1", who=WHO, hbm=True, percent=60):
    labels = f'id="3",model_name="910B-Ascend-V1",vdie_id="{die}",pcie_bus_info="0000:61",{who}'
    high = f"""
npu_chip_info_hbm_used_memory{{{labels}}} 30000
npu_chip_info_hbm_total_memory{{{labels}}} 65536
npu_chip_info_hbm_bandwidth_utilization{{{labels}}} 40
"""
    return f"""
npu_chip_info_utilization{{{labels}}} {percent}
npu_chip_info_power{{{labels}}} 310.5
npu_chip_info_used_memory{{{labels}}} 700
npu_chip_info_total_memory{{{labels}}} 15000
{high if hbm else ""}
"""


def test_a_page_gives_this_row():
    assert rows_of(page(), node="n9") == [
        {
            "of": ("team", "train-0", "ms", "DIE-1"), "dialect": "ascend", "hours": 1.0,
            "kernel": 0.6, "dram": 0.4,
            "memory": 30000 * MIB, "of_memory": 65536 * MIB, "watts": 310.5,
        }
    ]  # fmt: skip


def test_a_chip_without_high_bandwidth_memory_has_the_plain_one():
    (row,) = rows_of(page(hbm=False), node="n9")
    assert (row["memory"], row["of_memory"]) == (700 * MIB, 15000 * MIB)


def test_a_chip_without_a_die_is_told_apart_by_node_and_number():
    (row,) = rows_of(page(die=""), node="n9")
    assert row["of"][3] == "n9:3"


def test_a_value_that_could_not_be_read_is_unknown():
    (row,) = rows_of(page(percent=-1), node="n9")
    assert "kernel" not in row


def test_the_namespace_is_the_pods_where_labels_were_not_honoured():
    (row,) = rows_of(page(), namespace="monitoring", pod="npu-exporter-x", container="exporter")
    assert row["of"][:3] == ("team", "train-0", "ms")


def test_a_virtual_npu_has_its_own_values():
    labels = f'id="0",model_name="310P3",v_dev_id="100",aicore_count="4",is_virtual="true",{WHO}'
    (row,) = rows_of(
        f"""
vnpu_pod_aicore_utilization{{{labels}}} 55
vnpu_pod_used_memory{{{labels}}} 2097152
vnpu_pod_total_memory{{{labels}}} 4194304
""",
        node="n1",
    )
    assert row["of"][3] == "n1:0/100"
    assert (row["kernel"], row["memory"], row["of_memory"]) == (0.55, 2048 * MIB, 4096 * MIB)
