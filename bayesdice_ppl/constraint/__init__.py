"""The chance constraint: penalties of the residual, its sampling covariance, and the price.

The stationarity of a ratio is not observed through a likelihood but through a residual that
ought to be small; these modules say how small, measured by what, and at which price.
"""

from bayesdice_ppl.constraint.chance import (
    ChanceConstraint,
    Price,
    chance_price,
    invertible,
    live_rows,
    residual_rank,
)
from bayesdice_ppl.constraint.covariance import residual_covariance, start_weight
from bayesdice_ppl.constraint.penalties import (
    Huber,
    Mahalanobis,
    Penalty,
    Power,
    Squared,
    mahalanobis,
)

__all__ = [
    "ChanceConstraint",
    "Huber",
    "Mahalanobis",
    "Penalty",
    "Power",
    "Price",
    "Squared",
    "chance_price",
    "invertible",
    "live_rows",
    "mahalanobis",
    "residual_covariance",
    "residual_rank",
    "start_weight",
]
