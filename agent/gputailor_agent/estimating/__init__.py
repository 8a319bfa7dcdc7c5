"""Memory that a model needs, before anything runs: arithmetic with its uncertainty.

Pure: a model's sizes and settings in, bytes by part out. Files are read by ``reading`` alone.
"""

from gputailor_agent.estimating.amounts import Amount, Estimate, Part
from gputailor_agent.estimating.reading import config_shape, read_model
from gputailor_agent.estimating.serving import Serving, estimate_serving
from gputailor_agent.estimating.shapes import ModelError, ModelShape, guessed_shape
from gputailor_agent.estimating.training import Training, estimate_training

__all__ = [
    "Amount",
    "Estimate",
    "ModelError",
    "ModelShape",
    "Part",
    "Serving",
    "Training",
    "config_shape",
    "estimate_serving",
    "estimate_training",
    "guessed_shape",
    "read_model",
]
