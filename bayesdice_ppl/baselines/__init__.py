"""What BayesDICE is compared with: importance sampling, DICE estimators, and their intervals.

Each maker gives a `Baseline`, whose `estimate` takes logs and one policy and gives its value, with
an interval where the method has one.
"""

from bayesdice_ppl.baselines.coin_dice import coin_dice
from bayesdice_ppl.baselines.doubly_robust import doubly_robust
from bayesdice_ppl.baselines.dual_dice import dual_dice
from bayesdice_ppl.baselines.fitted_q import fitted_q
from bayesdice_ppl.baselines.importance_sampling import importance_sampling
from bayesdice_ppl.baselines.interface import Baseline, Estimate, Needs
from bayesdice_ppl.baselines.intervals import (
    bca_interval,
    bernstein_interval,
    hoeffding_interval,
    student_interval,
)
from bayesdice_ppl.baselines.lagrangian_dice import lagrangian_dice
from bayesdice_ppl.baselines.lstdq import lstdq
from bayesdice_ppl.baselines.marginalized import marginalized
from bayesdice_ppl.baselines.minimax_weight import minimax_weight

__all__ = [
    "Baseline",
    "Estimate",
    "Needs",
    "bca_interval",
    "bernstein_interval",
    "coin_dice",
    "doubly_robust",
    "dual_dice",
    "fitted_q",
    "hoeffding_interval",
    "importance_sampling",
    "lagrangian_dice",
    "lstdq",
    "marginalized",
    "minimax_weight",
    "student_interval",
]
