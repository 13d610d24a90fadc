"""The chance constraint: penalties of the residual, its sampling covariance, and the price.

The stationarity of a ratio is not observed through a likelihood but through a residual that
ought to be small; these modules say how small, measured by what, and at which price.
"""

from bayesdice_ppl.constraint.chance import (
    AuxiliaryConstraint,
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
from bayesdice_ppl.constraint.quadratic_loss import (
    LevelBound,
    QuadraticLoss,
    bernstein_bound,
    cvar_bound,
    exceedance,
    expected_excess,
    loss_of_gaussian,
    whitening,
)

__all__ = [
    "AuxiliaryConstraint",
    "ChanceConstraint",
    "Huber",
    "LevelBound",
    "Mahalanobis",
    "Penalty",
    "Power",
    "Price",
    "QuadraticLoss",
    "Squared",
    "bernstein_bound",
    "chance_price",
    "cvar_bound",
    "exceedance",
    "expected_excess",
    "invertible",
    "live_rows",
    "loss_of_gaussian",
    "mahalanobis",
    "residual_covariance",
    "residual_rank",
    "start_weight",
    "whitening",
]
