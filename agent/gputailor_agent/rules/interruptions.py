"""What interruptions cost: pure arithmetic of checkpoints and restarts, all times in seconds.

A run of T on capacity that is taken away every M on average, with a checkpoint of d every tau and R
to start again, takes T (1 + d / tau + (tau / 2 + R) / M): half an interval is lost each time. The
best interval is tau* = sqrt(2 d M) (Young, 1974), as long as d is small against M.
"""

import math


def time_factor(checkpoint: float, restart: float, between: float, tau: float) -> float:
    """1 + d / tau + (tau / 2 + R) / M: how much longer a run takes; all in seconds."""
    saving = checkpoint / tau if tau > 0 else 0.0  # checkpoints that take no time
    return 1.0 + saving + (tau / 2 + restart) / between


def best_interval(checkpoint: float, between: float) -> float:
    """tau* = sqrt(2 d M), never less than a checkpoint takes; seconds (Young, 1974)."""
    return max(checkpoint, math.sqrt(2 * checkpoint * between))


def pays_from(checkpoint: float, restart: float, ratio: float, most: float) -> float | None:
    """Least mean time between interruptions (s) at which spot at ``ratio`` of the price pays.

    With tau*, E / p = ratio (1 + sqrt(2 d / M) + R / M); it is a quadratic in 1 / sqrt(M). None
    where spot is too dear without any interruption.
    """
    if ratio <= 0:
        return 0.0
    slack = most / ratio - 1.0
    if slack <= 0:
        return None
    half = math.sqrt(2 * checkpoint) / 2
    # The quadratic's positive root, in the form that does not lose a small R to rounding.
    below = half + math.sqrt(half * half + restart * slack)
    return (below / slack) ** 2
