"""The best ranking there is for a two-armed Bernoulli bandit, from its exact posterior.

Candidates that differ in how often they pull the first arm are truly ordered by that probability,
upwards or downwards: only the sign of the difference of the arms is unknown.
The expected loss of a ranking is then a sum of two terms, and the least one is found by listing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import permutations
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float, Int
from scipy.integrate import quad_vec
from scipy.special import betainc, betaincc, betaincinv

from bayesdice_ppl.baselines.bayesian.beta_bandit import beta_prior
from bayesdice_ppl.errors import ScoreError, SettingsError
from bayesdice_ppl.scores import Score

MOST_RANKINGS = 100_000
"""Most rankings that are listed."""
LEAST_PRIOR = 0.02
"""Least parameter of the prior: below, too much of it lies under the smallest number there is."""
_LEVELS = np.array((1e-12, 1e-6, 1e-3, 0.05, 0.5, 0.95, 1.0 - 1e-3, 1.0 - 1e-6, 1.0 - 1e-12))
"""Quantiles at which the integrals are broken up, so that no narrow posterior is missed."""
_ROUNDING = 1e-12
_NOTHING = 1e-16
"""Probability that does not show beside 1."""


@final
class ArmComparison(NamedTuple):
    """Which of two arms is better, under independent Beta posteriors.

    Attributes
    ----------
    first_better
        P(p_1 > p_2 | data).
    second_better
        P(p_2 > p_1 | data).
    first_excess
        E[max(p_1 - p_2, 0) | data].
    second_excess
        E[max(p_2 - p_1, 0) | data].
    """

    first_better: float
    second_better: float
    first_excess: float
    second_excess: float


@final
class BayesOptimal(NamedTuple):
    """The ranking of least expected loss.

    Attributes
    ----------
    ranking
        Indices of the N candidates, best first, shape (N,).
    expected_loss
        Its posterior expected loss: in reward per step for regret, without a unit otherwise.
    """

    ranking: Int[np.ndarray, " N"]
    expected_loss: float


def compare_arms(
    wins: Sequence[float], pulls: Sequence[float], prior: tuple[float, float] = (1.0, 1.0)
) -> ArmComparison:
    """Compare two Bernoulli arms by their posteriors.

    Parameters
    ----------
    wins, pulls
        How often each of the two arms paid, and how often it was pulled.
    prior
        Parameters of the Beta prior of either arm.

    Notes
    -----
    With F_j the distribution function of arm j's posterior, Beta(a + wins, b + pulls - wins)::

        P(p_1 > p_2)         = int_0^1 F_2(F_1^-1(u)) du
        E[max(p_1 - p_2, 0)] = int_0^1 (1 - F_1(t)) F_2(t) dt

    by adaptive quadrature; both integrands lie in [0, 1]. Where p_1 is above 1/2 the first is taken
    of 1 - p_1 and 1 - p_2: numbers near 1 have no room for the posterior of an arm that always paid
    under a small prior. Under one below `LEAST_PRIOR` those near 0 have none either.

    Raises
    ------
    SettingsError
        These are not counts of two arms, or the prior is below `LEAST_PRIOR` or not a prior.
    """
    a, b = beta_prior("prior", prior)
    if min(a, b) < LEAST_PRIOR:
        raise SettingsError(
            f"prior: expected two numbers of at least {LEAST_PRIOR:g}, found {prior!r}."
        )
    won, pulled = _counts(wins, "wins"), _counts(pulls, "pulls")
    if np.any(won > pulled):
        arm = int(np.argmax(won > pulled))
        raise SettingsError(
            f"wins: expected no more wins than pulls, found {won[arm]:g} wins in {pulled[arm]:g} "
            f"pulls of arm {arm}."
        )
    x = (float(a + won[0]), float(b + pulled[0] - won[0]))
    y = (float(a + won[1]), float(b + pulled[1] - won[1]))
    return _compare(x, y)


@lru_cache(maxsize=1024)
def _compare(x: tuple[float, float], y: tuple[float, float]) -> ArmComparison:
    """Compare the posteriors Beta(*x) and Beta(*y); cached, as every score asks for it."""

    def excesses(t: float) -> np.ndarray:
        return np.array([betaincc(*x, t) * betainc(*y, t), betainc(*x, t) * betaincc(*y, t)])

    points = np.r_[betaincinv(*x, _LEVELS), betaincinv(*y, _LEVELS)]
    one, two = _integrate(excesses, points, 1.0).tolist()
    if x == y:
        return ArmComparison(0.5, 0.5, one, one)
    probability = _half(x, y, betainc) + _half(x[::-1], y[::-1], betaincc)
    return ArmComparison(probability, 1.0 - probability, one, two)


def expected_losses(
    comparison: ArmComparison,
    probabilities: Float[np.ndarray, " N"],
    score: Score,
    rankings: Int[np.ndarray, "R depth"],
) -> Float[np.ndarray, " R"]:
    """Exact posterior expected loss of rankings of a two-armed bandit's candidates.

    Parameters
    ----------
    comparison
        Of the two arms.
    probabilities
        Probability with which each candidate pulls the first arm, shape (N,).
    score
        From `bayesdice_ppl.scores`: precision, accuracy, regret, normalized_regret, ndcg,
        correlation, spearman or kendall, averaged over the posterior.
    rankings
        Indices of candidates, best first, shape (R, depth).

    Notes
    -----
    Values are v_j = p_2 + pi_j (p_1 - p_2), a straight line in pi_j: upwards with probability
    P(p_1 > p_2), downwards otherwise. Regret (Yang et al., "Offline Policy Selection under
    Uncertainty", section 2.2) is the one of pi or of -pi times |p_1 - p_2|; all the other losses
    are those of pi or of -pi themselves, as neither adding to all values nor scaling them changes
    them. Candidates with the same probability are tied, and averaged over tie-breaks.

    Raises
    ------
    ScoreError
        The score depends on more than that, or has another risk than the mean; or its k does not
        fit.
    SettingsError
        The probabilities are not probabilities.
    """
    target = _probabilities(probabilities)
    if not score.averaged or not score.own_order_is_best:
        raise ScoreError(
            "score: expected precision, accuracy, regret, normalized_regret, ndcg, correlation, "
            f"spearman or kendall, without a risk, found {score.name}. The order of the two arms "
            "does not settle its loss."
        )
    weights = comparison[2:] if score.per_step else comparison[:2]
    return score.losses(np.stack([target, -target]), rankings) @ np.array(weights)


def bayes_optimal_ranking(
    wins: Sequence[float],
    pulls: Sequence[float],
    probabilities: Float[np.ndarray, " N"],
    score: Score,
    prior: tuple[float, float] = (1.0, 1.0),
) -> BayesOptimal:
    """Rank the candidates of a two-armed Bernoulli bandit as well as its data allow.

    Parameters
    ----------
    wins, pulls
        How often each of the two arms paid, and how often it was pulled.
    probabilities
        Probability with which each candidate pulls the first arm, shape (N,).
    score
        As for `expected_losses`.
    prior
        Parameters of the Beta prior of either arm.

    Returns
    -------
    BayesOptimal
        The ranking of least posterior expected loss, which no other method can beat on average
        over that prior. Of several, and past the depth of the score, the candidates are in the
        order of their posterior means, then of their indices.

    Raises
    ------
    ScoreError, SettingsError
        As for `compare_arms` and `expected_losses`; or there are more than `MOST_RANKINGS`
        rankings.
    """
    comparison = compare_arms(wins, pulls, prior)
    target = _probabilities(probabilities)
    n = len(target)
    score.check(n)
    depth = score.depth(n)
    if math.perm(n, depth) > MOST_RANKINGS:
        raise SettingsError(
            f"probabilities: expected at most {MOST_RANKINGS:,} rankings, found "
            f"{math.perm(n, depth):,} of depth {depth} for {n} candidates. Use fewer candidates or "
            "a smaller k."
        )
    upwards = comparison.first_excess >= comparison.second_excess
    by_mean = np.argsort(-target if upwards else target, kind="stable")
    listed = by_mean[np.array(list(permutations(range(n), depth)))]
    losses = expected_losses(comparison, target, score, listed)
    least = losses.min()
    # Losses that differ by rounding are equal; the earliest is nearest to the order of means.
    best = listed[np.flatnonzero(losses <= least + _ROUNDING * max(1.0, abs(least)))[0]]
    rest = by_mean[~np.isin(by_mean, best)]
    return BayesOptimal(np.concatenate([best, rest]), float(least))


def _half(x: tuple[float, float], y: tuple[float, float], tail: Callable[..., np.ndarray]) -> float:
    """E[tail(p_1) 1(p_1 < 1/2)], with p_1 of parameters x and the tail that of parameters y."""
    end = float(betainc(*x, 0.5))
    if end < _NOTHING:
        return 0.0
    points = np.r_[_LEVELS, betainc(*x, betaincinv(*y, _LEVELS))]
    # Far below the least level the integrand is 0, and SciPy's inverse may not be a number.
    points = points[points >= _LEVELS[0]]
    return float(_integrate(lambda u: float(tail(*y, betaincinv(*x, u))), points, end))


def _integrate(
    integrand: Callable[[float], float | np.ndarray], points: np.ndarray, end: float
) -> Float[np.ndarray, " *k"]:
    inside = np.unique(points[(points > 0.0) & (points < end)])
    result, _ = quad_vec(
        integrand, 0.0, end, epsabs=1e-14, epsrel=1e-10, norm="max", points=inside.tolist()
    )
    return np.asarray(result)


def _counts(numbers: Sequence[float], what: str) -> Float[np.ndarray, "2"]:
    found = np.asarray(numbers, dtype=np.float64)
    if found.shape != (2,) or not np.all(np.isfinite(found)) or np.any(found < 0.0):
        raise SettingsError(
            f"{what}: expected a number of at least 0 for each of two arms, found {numbers!r}."
        )
    return found


def _probabilities(probabilities: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
    found = np.asarray(probabilities, dtype=np.float64)
    if found.ndim != 1 or len(found) == 0 or not np.all((found >= 0.0) & (found <= 1.0)):
        raise SettingsError(
            "probabilities: expected for each candidate its probability of the first arm, in "
            f"[0, 1], found {probabilities!r}."
        )
    return found


__all__ = [
    "ArmComparison",
    "BayesOptimal",
    "bayes_optimal_ranking",
    "compare_arms",
    "expected_losses",
]
