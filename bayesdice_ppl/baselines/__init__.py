"""What BayesDICE is compared with: importance sampling, DICE estimators, and their intervals.

Each maker gives a `Baseline`, whose `estimate` takes logs and one policy and gives its value, with
an interval or draws where the method has them. `make` makes one by name, `catalog` lists the names,
and `estimate_all` asks one for every candidate.
"""

from bayesdice_ppl.baselines.bayesian.bayes_optimal import bayes_optimal_ranking
from bayesdice_ppl.baselines.bayesian.bdqn import bdqn
from bayesdice_ppl.baselines.bayesian.beta_bandit import beta_bandit
from bayesdice_ppl.baselines.bayesian.dirichlet_model import dirichlet_model
from bayesdice_ppl.baselines.bayesian.lstdq_bootstrap import lstdq_bootstrap
from bayesdice_ppl.baselines.dice.coin_dice import coin_dice
from bayesdice_ppl.baselines.dice.dual_dice import dual_dice
from bayesdice_ppl.baselines.dice.lagrangian_dice import lagrangian_dice
from bayesdice_ppl.baselines.estimates import Estimates, estimate_all
from bayesdice_ppl.baselines.interface import Baseline, Estimate, Needs
from bayesdice_ppl.baselines.registry import catalog, make
from bayesdice_ppl.baselines.value.fitted_q import fitted_q
from bayesdice_ppl.baselines.value.lstdq import lstdq
from bayesdice_ppl.baselines.weighting.doubly_robust import doubly_robust
from bayesdice_ppl.baselines.weighting.importance_sampling import importance_sampling
from bayesdice_ppl.baselines.weighting.intervals import (
    bca_interval,
    bernstein_interval,
    hoeffding_interval,
    student_interval,
)
from bayesdice_ppl.baselines.weighting.marginalized import marginalized
from bayesdice_ppl.baselines.weighting.minimax_weight import minimax_weight

__all__ = [
    "Baseline",
    "Estimate",
    "Estimates",
    "Needs",
    "bayes_optimal_ranking",
    "bca_interval",
    "bdqn",
    "bernstein_interval",
    "beta_bandit",
    "catalog",
    "coin_dice",
    "dirichlet_model",
    "doubly_robust",
    "dual_dice",
    "estimate_all",
    "fitted_q",
    "hoeffding_interval",
    "importance_sampling",
    "lagrangian_dice",
    "lstdq",
    "lstdq_bootstrap",
    "make",
    "marginalized",
    "minimax_weight",
    "student_interval",
]
