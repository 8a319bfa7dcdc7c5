"""node_exporter's pressure stalls of a whole node; kubelets of today tell them per container.

Facts from node_exporter's pressure collector (prometheus/node_exporter, ``collector/``) and the
kernel's page on PSI; on by default, Linux 4.20 and later. They are the node's, so other pods may
have caused them: they stand beside the container's figures, never in their place. The node is named
by the scrape (``node``, ``nodename``), else by ``node_uname_info`` of the same target.
"""

from typing import Final

from gputailor_agent.model.containers import pressure

NAME: Final = "node_exporter"
TITLE: Final = "node_exporter"

#: Counters by name, and the amount that each adds to. The kernel tells no "full" of CPU of a node.
COUNTERS: Final = {
    "node_pressure_cpu_waiting_seconds_total": pressure("node", "cpu", "some"),
    "node_pressure_io_waiting_seconds_total": pressure("node", "io", "some"),
    "node_pressure_io_stalled_seconds_total": pressure("node", "io", "full"),
    "node_pressure_memory_waiting_seconds_total": pressure("node", "memory", "some"),
    "node_pressure_memory_stalled_seconds_total": pressure("node", "memory", "full"),
}
#: Names the node; its label ``nodename`` is the kernel's host name.
UNAME: Final = "node_uname_info"
BOOTED: Final = "node_boot_time_seconds"
