"""A history told again: what would have been advised at each moment, and what became of it.

``replay`` judges the history moment by moment with what was known then, ``hindsight`` holds each
advice against what came later, ``openings`` says what there was to find, ``results`` counts. Pure:
rows and an inventory in, figures out.
"""

from gputailor_agent.evaluation.backtest.history import History, known_at
from gputailor_agent.evaluation.backtest.replay import Replay, Settings, replay
from gputailor_agent.evaluation.backtest.results import outcome_of

__all__ = ["History", "Replay", "Settings", "known_at", "outcome_of", "replay"]
