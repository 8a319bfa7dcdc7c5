"""The plan: one primary recommendation per workload, and books that balance.

Alternatives are listed and never summed. GPUs are counted as whole ones (a MIG slice or a shared
device by its part, see ``rules.pricing``), so that for each model allocated + free + unavailable +
unknown = capacity, and workloads + free + unavailable + unknown = cost of the nodes. A GPU node's
whole price goes to its GPUs. Every sum is checked, and the checks are part of the plan.
"""

from gputailor_agent.planner.planning import MESSAGES, make_plan

__all__ = ["MESSAGES", "make_plan"]
