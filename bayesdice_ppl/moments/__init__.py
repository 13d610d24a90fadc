"""Logs x policy x features -> moments: all that the constraint needs to know of the data."""

from bayesdice_ppl.moments.cells import Cells, count_cells, reward_moments
from bayesdice_ppl.moments.moments import Moments, MomentSettings, build_moments

__all__ = [
    "Cells",
    "MomentSettings",
    "Moments",
    "build_moments",
    "count_cells",
    "reward_moments",
]
