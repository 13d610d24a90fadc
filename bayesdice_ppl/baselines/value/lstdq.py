"""LSTDQ: the action value as a linear function that satisfies the log's Bellman equation.

On labels it is the value of the policy in the model that counting gives; on features, of the
projected equation.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import final

from bayesdice_ppl.baselines.interface import Estimate, Estimator, Query
from bayesdice_ppl.baselines.settings import only_with, optional_ridge
from bayesdice_ppl.baselines.value.bellman import solve_value
from bayesdice_ppl.features.maps import FeatureChoice


@final
@dataclass(frozen=True)
class Lstdq(Estimator):
    """Least-squares temporal differences for the action value.

    Parameters
    ----------
    ridge
        Number of transitions, at least 0, that are made up for each feature, which earn the mean
        reward, as does all that follows them; None: 1e-6 on labels, where it may be 0, and 1e-3 on
        features.
    features
        None: one-hot for labels; for vectors the default features of `bayesdice_ppl.fit`, for which
        `estimate` needs a key.
    renormalize
        On one-hot features: let the candidate take only actions that were logged in a state, as
        `bayesdice_ppl.fit` does, instead of giving the others the value of the mean reward.

    Notes
    -----
    The weights theta of Q = phi'theta solve::

        sum_i phi_i (phi_i - gamma phi'_i)' theta + ridge theta = sum_i phi_i r_i

    with phi'_i = phi(s'_i, pi), past a termination the mean of phi(s0, pi) over episodes
    (restart) or 0 (absorb); the value is (1 - gamma) times the mean of phi(s0, pi)'theta over
    episodes, each once (Lagoudakis and Parr, "Least-squares policy iteration", 2003, section 6).
    At gamma = 1 Q is relative: r_i - rho stands for r_i, and the mean of phi(s0, pi)'theta is held
    at 0, which settles the average reward rho.

    It needs no propensities. On labels it is consistent when every pair that the policy visits is
    logged ever more often. Rewards are standardized first, so that r_i is counted from the log's
    mean reward, in standard deviations; where an absorbed episode earns 0 for ever, from 0. A pair
    that was never logged has Q = 0 (the ridge alone decides): it is worth the mean reward at every
    step after it, or 0 if episodes are absorbed; at gamma = 1 that is as if a fresh start followed.
    Features need not be able to express a constant: it is known without them. On features the
    value is only as good as they express Q, and the equation may be nearly singular far from the
    logging policy's own distribution.
    """

    ridge: float | None = None
    _: KW_ONLY
    features: FeatureChoice | None = None
    renormalize: bool = only_with(False, features=(None,))
    name = "lstdq"
    standardized = True

    def __post_init__(self) -> None:
        optional_ridge(self.ridge)

    def answer(self, query: Query, level: float) -> Estimate:
        """Solve the Bellman equation."""
        rows = query.rows(self.features, renormalize=self.renormalize)
        return Estimate(solve_value(rows, self.ridge))


lstdq = Lstdq
