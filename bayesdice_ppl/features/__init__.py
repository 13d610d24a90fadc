"""Feature maps: what the ratio and the multipliers can tell apart.

The tabular map is one-hot over the state-action pairs that the log holds.
"""

from bayesdice_ppl.features.one_hot import (
    LoggedPairs,
    Reach,
    logged_pairs,
    reach,
    renormalize,
)

__all__ = ["LoggedPairs", "Reach", "logged_pairs", "reach", "renormalize"]
