"""Inventory out of kube-state-metrics' series, for a cluster that nobody may or need ask.

Series of one pod or node are put together as the object that they tell of, and read as any other
object is, so that the same pod is the same workload whoever tells of it. What the series do not
carry stays unknown: commands, environment, ports, volumes, exit codes of last attempts.

``names`` turns Prometheus' names back into Kubernetes'; ``rows`` finds an object's series;
``pods``, ``owning`` and ``nodes`` make objects, ``assembling`` the whole; ``missing`` says what is
not told and how to get it.
"""

from gputailor_agent.inventory.kube_state_metrics.assembling import inventory_of, lacking
from gputailor_agent.inventory.kube_state_metrics.missing import Missing
from gputailor_agent.inventory.kube_state_metrics.names import accelerator_pattern

__all__ = ["Missing", "accelerator_pattern", "inventory_of", "lacking"]
