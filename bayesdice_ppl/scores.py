"""Scores of a ranking, turned into losses: lower is better everywhere past this module.

A score compares a ranking with the policies' values (Yang et al., Offline Policy Selection under
Uncertainty, section 2.2). Each states its `depth`, how far down the ranking it looks, so that a
search need not try orders that cannot matter, and each averages ties exactly: all orderings of
policies with equal values are equally likely. NaN and infinite values have no place among others:
they are refused, by the policy's name where it is known.

With ``risk=bayesdice_ppl.risk.cvar(0.1)`` a ranking is judged by its loss in the worst tenth of
the belief's draws instead of the mean. Exact solvers hold for the mean alone; risks are searched.
"""

import operator
from collections.abc import Callable
from typing import Any, SupportsIndex

import numpy as np

from bayesdice_ppl import losses
from bayesdice_ppl.errors import ScoreError
from bayesdice_ppl.losses import Score
from bayesdice_ppl.risk import Risk, check_risk
from bayesdice_ppl.risk import mean as mean_risk

__all__ = [
    "Score",
    "accuracy",
    "correlation",
    "custom",
    "kendall",
    "ndcg",
    "normalized_regret",
    "precision",
    "regret",
    "safe_improvement",
    "spearman",
]


def _count(value: SupportsIndex, what: str, at_least: int = 1) -> int:
    """Read a whole number, or say what is wrong with it."""
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise ScoreError(f"{what} must be a whole number, got {value!r}") from None
    if number < at_least:
        raise ScoreError(f"{what} must be at least {at_least}, got {number}")
    return number


def _risk(risk: Risk | None) -> Risk:
    if risk is None:
        return mean_risk()
    check_risk(risk)
    return risk


def precision(k: SupportsIndex, *, risk: Risk | None = None) -> Score:
    """Share of the truly best k policies that are among the ranking's first k.

    Loss: 1 - precision@k. The order within the first k does not matter. With tied values, a
    policy counts by its probability of being in the true top k: of two policies tied for one
    place, each counts one half. At k = 1 it equals accuracy@1; at k = N every ranking has loss 0;
    when all values are equal every ranking has loss 1 - k/N. A launch of fewer than k policies,
    under a budget, counts the places that stay empty as wrong.

    Parameters
    ----------
    k : int
        1 <= k <= N.
    risk : Risk, optional
        What is made of the losses over draws; their mean if left out.

    Raises
    ------
    ScoreError
        If k is not a whole number of at least 1, or risk is none of `bayesdice_ppl.risk`; a k
        larger than N is refused by `Score.check`, and NaN or infinite values by `Score.losses`.
    """
    return losses.Precision(_count(k, "k of precision"), _risk(risk))


def accuracy(k: SupportsIndex, *, risk: Risk | None = None) -> Score:
    """Share of the places 1..k at which the ranking lists the policy truly of that place.

    Loss: 1 - accuracy@k. With tied values, a policy in a tie block of b places has each of them
    with probability 1/b. At k = 1 it equals precision@1; at k = N all places count. When all
    values are equal every ranking has loss 1 - 1/N. A launch of fewer than k policies, under a
    budget, counts the places that stay empty as wrong.

    Parameters
    ----------
    k : int
        1 <= k <= N.
    risk : Risk, optional
        What is made of the losses over draws; their mean if left out.

    Raises
    ------
    ScoreError
        If k is not a whole number of at least 1, or risk is none of `bayesdice_ppl.risk`; a k
        larger than N is refused by `Score.check`, and NaN or infinite values by `Score.losses`.
    """
    return losses.Accuracy(_count(k, "k of accuracy"), _risk(risk))


def regret(k: SupportsIndex, *, risk: Risk | None = None) -> Score:
    """Best value of all policies minus the best value among the ranking's first k.

    The loss is the regret itself, in units of the values (reward per step), and never negative.
    The order within the first k does not matter, and ties need no care: tied policies are worth
    the same. At k = 1 it is the regret of a single choice; at k = N, or when all values are equal,
    every ranking has loss 0.

    Parameters
    ----------
    k : int
        1 <= k <= N.
    risk : Risk, optional
        What is made of the losses over draws; their mean if left out.

    Raises
    ------
    ScoreError
        If k is not a whole number of at least 1, or risk is none of `bayesdice_ppl.risk`; a k
        larger than N is refused by `Score.check`, and NaN or infinite values by `Score.losses`.
    """
    return losses.Regret(_count(k, "k of regret"), _risk(risk))


def normalized_regret(k: SupportsIndex, *, risk: Risk | None = None) -> Score:
    """Regret@k over the range of the values, draw by draw: a number between 0 and 1.

    The loss is (best of all - best of the first k) / (best of all - worst of all), without a unit;
    where all values of a draw are equal it is 0. It weighs a draw in which the candidates are
    nearly alike as much as one in which they are far apart; regret, in reward per step, does not.
    Ties and the edges k = 1 and k = N are as for `regret`.

    Parameters
    ----------
    k : int
        1 <= k <= N.
    risk : Risk, optional
        What is made of the losses over draws; their mean if left out.

    Raises
    ------
    ScoreError
        If k is not a whole number of at least 1, or risk is none of `bayesdice_ppl.risk`; a k
        larger than N is refused by `Score.check`, and NaN or infinite values by `Score.losses`.
    """
    return losses.NormalizedRegret(_count(k, "k of normalized_regret"), _risk(risk))


def ndcg(k: SupportsIndex, *, risk: Risk | None = None) -> Score:
    """Normalized discounted cumulative gain of the ranking's first k.

    The gain of a policy is its value above the worst policy's of the same draw, discounted by
    log2(1 + place), and the sum over the first k is divided by that of the best possible order.
    Loss: 1 - nDCG@k, between 0 and 1. Adding a constant to all values, or scaling them, changes
    nothing. Tied policies gain the same. At k = 1 the gain is that of the first policy over the
    best one's; at k = N the whole order counts; when all values are equal every ranking has loss
    0. A launch of fewer than k policies, under a budget, gains nothing at the places that stay
    empty.

    Parameters
    ----------
    k : int
        1 <= k <= N.
    risk : Risk, optional
        What is made of the losses over draws; their mean if left out.

    Raises
    ------
    ScoreError
        If k is not a whole number of at least 1, or risk is none of `bayesdice_ppl.risk`; a k
        larger than N is refused by `Score.check`, and NaN or infinite values by `Score.losses`.

    References
    ----------
    Järvelin and Kekäläinen, "Cumulated gain-based evaluation of IR techniques", 2002, with
    log2(1 + place) as the discount.
    """
    return losses.Ndcg(_count(k, "k of ndcg"), _risk(risk))


def correlation(k: SupportsIndex, *, risk: Risk | None = None) -> Score:
    """Pearson correlation between 1..k and the listed places of the truly best k policies.

    Let o_1, ..., o_k be the truly best k, in order, and p_j in 1..N the place at which the ranking
    lists o_j: the score is the correlation of (1, ..., k) with (p_1, ..., p_k). The loss is 1 -
    correlation, between 0 and 2. It depends on the whole ranking. With tied values the correlation
    is averaged over all tie-breaks, exactly; when all values are equal every ranking has loss 1.
    At k = N it is Spearman's rank correlation. Places further apart correlate better than their
    order alone would say, so what lies past the first k matters too.

    Parameters
    ----------
    k : int
        2 <= k <= N: one point has no correlation.
    risk : Risk, optional
        What is made of the losses over draws; their mean if left out.

    Raises
    ------
    ScoreError
        If k is not a whole number of at least 2, or risk is none of `bayesdice_ppl.risk`; a k
        larger than N is refused by `Score.check`, and NaN or infinite values by `Score.losses`.
        When losses are computed: if so many policies are tied around place k that the possible
        sets of the top k cannot be listed.
    """
    return losses.Correlation(_count(k, "k of correlation", at_least=2), _risk(risk))


def spearman(*, risk: Risk | None = None) -> Score:
    """Spearman's rank correlation between the ranking and the true order of all policies.

    The loss is 1 - correlation, between 0 and 2: the same as `correlation` at k = N, for those who
    do not want to say how many there are. With tied values the correlation is averaged over all
    tie-breaks, so that when all values are equal every ranking has loss 1. It takes N >= 2.

    Parameters
    ----------
    risk : Risk, optional
        What is made of the losses over draws; their mean if left out.

    Raises
    ------
    ScoreError
        If risk is none of `bayesdice_ppl.risk`; a single candidate is refused by `Score.check`,
        and NaN or infinite values by `Score.losses`.
    """
    return losses.Spearman(_risk(risk))


def kendall(*, risk: Risk | None = None) -> Score:
    """Kendall's tau between the ranking and the true order of all policies.

    The loss is 1 - tau, between 0 and 2, with tau the share of the N (N - 1) / 2 pairs that are
    listed in their true order minus the share listed against it. A pair of tied values counts as
    neither (tau-a, which is also the average over tie-breaks); when all values are equal every
    ranking has loss 1. It takes N >= 2.

    Parameters
    ----------
    risk : Risk, optional
        What is made of the losses over draws; their mean if left out.

    Raises
    ------
    ScoreError
        If risk is none of `bayesdice_ppl.risk`; a single candidate is refused by `Score.check`,
        and NaN or infinite values by `Score.losses`.
    """
    return losses.Kendall(_risk(risk))


def safe_improvement(
    baseline: str, *, xi: float = 0.05, k: SupportsIndex = 1, risk: Risk | None = None
) -> Score:
    """Regret@k among launches that are hardly ever worse than a baseline.

    A policy may go live only if P(value < value of the baseline) < xi under the belief, or if it
    is the baseline itself. Among those the loss is `regret`@k, held against the best of *all*
    policies, safe or not: so at k = 1 the answer is the candidate with the highest mean among
    the safe ones that are better than the baseline on average, and else the baseline stays. Values
    equal to the baseline's are not below it. Other edges are as for `regret`; where fewer than k
    policies are safe fewer go live.

    Parameters
    ----------
    baseline : str
        Name of a policy of the belief: a candidate, or ``"logged"``, the policy that logged, of
        a belief that was fitted with ``include_logged=True``.
    xi : float
        In (0, 1]: the most that the probability of being worse may come to.
    k : int
        How many go live; 1 <= k <= N.
    risk : Risk, optional
        What is made of the losses over draws; their mean if left out.

    Raises
    ------
    ScoreError
        If an argument is none of these; a baseline that the belief does not have is refused when
        a ranking is selected, and NaN or infinite values by `Score.losses`.

    References
    ----------
    Yang et al., "Offline Policy Selection under Uncertainty", figure 1: a user may prefer a policy
    only if p(rho_2 < rho_1) < xi.
    """
    if not isinstance(baseline, str) or not baseline:
        raise ScoreError(f"baseline must be the name of a policy, got {baseline!r}")
    if (
        isinstance(xi, bool)
        or not isinstance(xi, int | float | np.integer | np.floating)
        or not 0.0 < xi <= 1.0
    ):
        raise ScoreError(f"xi of safe_improvement must be a number in (0, 1], got {xi!r}")
    count = _count(k, "k of safe_improvement")
    return losses.SafeImprovement(count, _risk(risk), baseline, float(xi))


def custom(
    function: Callable[[Any, Any], Any],
    *,
    name: str | None = None,
    depth: int | None = None,
    higher_is_better: bool = False,
    risk: Risk | None = None,
) -> Score:
    """Judge rankings by a function of your own.

    Parameters
    ----------
    function : callable
        Takes `values`, Float (M, N), read-only, and `ranking`, Int (N,), all policies in the
        order of the values' columns as indices, best first; returns (M,) numbers, NumPy or JAX,
        one per draw. It treats ties as it sees fit. One that JAX can trace is compiled and called
        for many rankings at once where there are many to try, others once per ranking.
    name : str, optional
        Shown in tables and files; the function's own name if left out.
    depth : int, optional
        How far down the ranking the function looks, which is also how many policies go live; all
        the way if left out. A smaller depth makes the search shorter; selection checks it on the
        ranking that it returns.
    higher_is_better : bool
        If true the loss is minus what the function returns.
    risk : Risk, optional
        What is made of the losses over draws; their mean if left out.

    Returns
    -------
    Score
        With `k` None.

    Raises
    ------
    ScoreError
        If the function cannot be called, depth is not a whole number of at least 1, or risk is
        none of `bayesdice_ppl.risk`. When losses are computed: if the function returns something
        of another shape, or not finite.
    """
    if not callable(function):
        raise ScoreError(f"a custom score needs a function, got {function!r}")
    label = name or str(getattr(function, "__name__", type(function).__name__))
    looks_at = None if depth is None else _count(depth, f"depth of {label}")
    return losses.Custom(function, label, looks_at, higher_is_better, _risk(risk))
