"""From what a source read to absolute hourly rows of use, one per container, device and hour.

``counters`` folds pages of counters (the unit of truth), ``gauges`` folds the point values of a
log. After this layer nothing knows where the numbers came from.
"""

from gputailor_agent.rollup.counters import CounterRollup
from gputailor_agent.rollup.gauges import Holder, rows_from_samples
from gputailor_agent.rollup.state import RollupState, StateError, decode_state, encode_state

__all__ = [
    "CounterRollup",
    "Holder",
    "RollupState",
    "StateError",
    "decode_state",
    "encode_state",
    "rows_from_samples",
]
