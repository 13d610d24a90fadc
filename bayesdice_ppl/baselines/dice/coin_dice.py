"""CoinDICE: the least and the greatest value over all reweightings of the log that are plausible.

The value is the saddle point of a Lagrangian in a ratio and a Q, and so a function of the weights
of the logged transitions and starts. By empirical likelihood, the values at weights in a ball of
divergence chi-square / 2 around the log's own make a confidence interval.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import final

import numpy as np
from scipy.stats import chi2

from bayesdice_ppl.baselines.dice.divergence import DIVERGENCES, Members, least
from bayesdice_ppl.baselines.interface import Estimate, Estimator, Query
from bayesdice_ppl.baselines.rows import Rows
from bayesdice_ppl.baselines.settings import only_with, optional_ridge
from bayesdice_ppl.baselines.value.bellman import Evaluation, evaluate
from bayesdice_ppl.checks import one_of
from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.features.maps import FeatureChoice

MOST_ROUNDS = 1000
STANDSTILL = 1e-7
"""At the end the next round can gain no more than this share of the distance from the center."""
NEGLIGIBLE = 1e-9
"""A gain, in sizes of the rewards, that counts as none, as in a log without spread."""
_LONGEST = 1.0 - 1e-9
"""No step takes all of a transition's weight, as its pair would cease to be logged."""


@final
@dataclass(frozen=True)
class CoinDice(Estimator):
    """CoinDICE confidence intervals.

    Parameters
    ----------
    divergence
        ``"kl"``, KL(w || log), whose weights the method's own code takes; ``"reverse_kl"``,
        KL(log || w), Owen's empirical likelihood; or ``"chi_square"``, with which the ends are
        those of a normal interval but for weights that would be negative.
    ridge, features, renormalize
        As for `lstdq`.

    Notes
    -----
    ::

        {value(w) : sum_i f(n w_i) + sum_e f(m v_e) <= chi2_{1, level} / 2}

        value(w) = max_zeta min_Q sum_e v_e (1 - gamma) Q(s0_e, pi)
            + sum_i w_i zeta(s_i, a_i) (r_i + gamma Q(s'_i, pi) - Q(s_i, a_i))

    (Dai, Nachum, Chow, Li, Szepesvari and Schuurmans, "CoinDICE: off-policy confidence interval
    estimation", 2020; there f is twice ours and the bound is chi2 / n on its mean). zeta and Q are
    linear on the same features, one-hot for labels. Transitions and starts of episodes are weighted
    apart, each start once, where the method's own code gives every transition the start of its
    episode and so counts starts by length. The ends are found on the saddle point itself and not
    on a linearization of it; value(w) is not convex in w, so that they are those which are reached
    by descent from the log's own weights.

    The interval is right in large samples when transitions are independent given their pairs, as
    on labels; on features that do not express Q, errors of one episode move together and it is too
    narrow. In small samples it is too narrow as well, most where a pair that matters was logged a
    few times with one reward: what is not in the log has no weight to move. It needs no
    propensities. Pairs that were never logged have Q = 0 at every weight, the value of the log's
    mean reward (rewards are standardized first, as for `lstdq`), which no interval covers;
    with ``renormalize`` their mass goes to logged ones.
    """

    divergence: str = "kl"
    _: KW_ONLY
    ridge: float | None = None
    features: FeatureChoice | None = None
    renormalize: bool = only_with(False, features=(None,))
    name = "coin_dice"
    gives = "interval"
    standardized = True

    def __post_init__(self) -> None:
        one_of("divergence", self.divergence, DIVERGENCES)
        optional_ridge(self.ridge)

    def answer(self, query: Query, level: float) -> Estimate:
        """Find the least and the greatest value in the ball."""
        rows = query.rows(self.features, renormalize=self.renormalize, merge=True)
        radius = 0.5 * float(chi2.ppf(level, 1))
        center = evaluate(rows, self.ridge)
        lower, upper = (
            extreme_value(rows, center, sign, radius, self.divergence, self.ridge)
            for sign in (1.0, -1.0)
        )
        return Estimate(center.value, lower, upper)


def extreme_value(
    rows: Rows,
    center: Evaluation,
    sign: float,
    radius: float,
    divergence: str,
    ridge: float | None,
) -> float:
    """The least value over the ball around the log's own weights, or with sign -1 the greatest.

    Notes
    -----
    Each round takes the saddle point at the present weights, at which the Lagrangian is linear in
    the weights. It finds the weights in the ball at which that is least, and goes there, or a part
    of the way if the value does not fall enough. At the end the weights, the ratio and Q are each
    the best against the two others, which is the minimax of the method.

    Raises
    ------
    LogsError
        The rounds do not converge.
    """
    step = rows.step
    weight, start_weight, now = step.weight, step.start_weight, center
    negligible = NEGLIGIBLE * float(step.weight @ np.abs(step.reward))
    for _ in range(MOST_ROUNDS):
        samples = (
            Members(sign * now.ratio * now.error, step.counts),
            Members(sign * now.entry * now.start_value, step.start_count),
        )
        aims = least(samples, radius, divergence)
        moves = (aims[0] - weight, aims[1] - start_weight)
        gain = -float(samples[0].slope @ moves[0] + samples[1].slope @ moves[1])
        if gain <= STANDSTILL * abs(now.value - center.value) + negligible:
            return now.value
        length = _LONGEST
        while True:
            trial = weight + length * moves[0], start_weight + length * moves[1]
            then = evaluate(rows, ridge, *trial)
            # Halving ends: for small steps the value falls by the gain.
            if sign * (now.value - then.value) >= 1e-3 * length * gain or length < 1e-6:
                break
            length *= 0.5
        weight, start_weight, now = *trial, then
    raise LogsError(
        f"coin_dice has not converged after {MOST_ROUNDS} rounds: the log says too little about "
        "this policy for its value to be a smooth function of the log's weights. Use a longer log, "
        "or renormalize=True."
    )


coin_dice = CoinDice
