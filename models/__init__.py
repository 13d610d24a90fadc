"""NumPyro programs: models and guides over moments, to read, trace, swap and run."""

from bayesdice_ppl.models.gradients import StopScore, reverse_gradient
from bayesdice_ppl.models.linear import Coordinates, Start, guide, model

__all__ = ["Coordinates", "Start", "StopScore", "guide", "model", "reverse_gradient"]
