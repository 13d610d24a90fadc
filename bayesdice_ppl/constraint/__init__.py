"""The chance constraint: penalties of the residual, its sampling covariance, and the price.

The log shows the stationarity of a ratio through a residual that should be small, and not through a
likelihood. These modules say how small, in which measure, and at which price.
"""

from bayesdice_ppl.constraint.chance import (
    AuxiliaryConstraint,
    ChanceConstraint,
    Price,
    chance_price,
    invertible,
    live_rows,
    residual_rank,
    row_mean_square,
)
from bayesdice_ppl.constraint.chi_square import QuadraticLoss, loss_of_gaussian
from bayesdice_ppl.constraint.covariance import (
    cross_covariance,
    residual_covariance,
    start_weight,
)
from bayesdice_ppl.constraint.penalties import Penalty, PenaltyChoice
from bayesdice_ppl.constraint.quantile_curves import Curve
from bayesdice_ppl.constraint.settings import Constraint, Normalization
from bayesdice_ppl.constraint.small_sample import (
    NORMAL_REWARDS,
    shrunk_spread,
    small_sample_covariance,
    small_sample_rule,
)
from bayesdice_ppl.constraint.sparse_covariance import SparseCovariance, sparse_covariance
from bayesdice_ppl.constraint.surrogates import Surrogate
from bayesdice_ppl.constraint.value_laws import ValueLaw, skewed

__all__ = [
    "NORMAL_REWARDS",
    "AuxiliaryConstraint",
    "ChanceConstraint",
    "Constraint",
    "Curve",
    "Normalization",
    "Penalty",
    "PenaltyChoice",
    "Price",
    "QuadraticLoss",
    "SparseCovariance",
    "Surrogate",
    "ValueLaw",
    "chance_price",
    "cross_covariance",
    "invertible",
    "live_rows",
    "loss_of_gaussian",
    "residual_covariance",
    "residual_rank",
    "row_mean_square",
    "shrunk_spread",
    "skewed",
    "small_sample_covariance",
    "small_sample_rule",
    "sparse_covariance",
    "start_weight",
]
