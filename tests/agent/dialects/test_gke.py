"""The GKE dialect: the device plugin's names and the managed ones."""

from tests.agent.dialects.served import rows_of

CARD = 'accelerator_id="GPU-9",make="nvidia",model="Tesla T4"'


def test_a_page_of_the_device_plugin_gives_the_containers_row():
    who = f'{CARD},container="main",namespace="team",pod="serve-0"'
    page = f"""
duty_cycle{{{who}}} 35
memory_used{{{who}}} 4e9
memory_total{{{who}}} 15e9
duty_cycle_gpu_node{{{CARD}}} 36
memory_used_gpu_node{{{CARD}}} 5e9
memory_total_gpu_node{{{CARD}}} 15e9
"""
    assert rows_of(page) == [
        {
            "of": ("team", "serve-0", "main", "GPU-9"), "dialect": "gke", "hours": 1.0,
            "kernel": 0.35, "memory": 4_000_000_000, "of_memory": 15_000_000_000, "watts": None,
        }
    ]  # fmt: skip


def test_managed_names_are_read():
    who = f'{CARD},container_name="main",namespace_name="team",pod_name="serve-0",node_name="n"'
    page = f"""
kubernetes_io:container_accelerator_duty_cycle{{{who}}} 35
kubernetes_io:container_accelerator_memory_used{{{who}}} 4e9
"""
    (row,) = rows_of(page)
    assert row["of"] == ("team", "serve-0", "main", "GPU-9")
    assert (row["kernel"], row["memory"]) == (0.35, 4_000_000_000)


def test_a_device_that_nobody_holds_is_nobodys():
    (row,) = rows_of(f"duty_cycle_gpu_node{{{CARD}}} 0\n", pod="nvidia-gpu-device-plugin-q")
    assert row["of"][:3] == ("", "", "")
