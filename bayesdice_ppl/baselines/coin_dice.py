"""CoinDICE: the least and the greatest value over all reweightings of the log that it bears out.

The value is the saddle point of a Lagrangian in a ratio and a Q, and so a function of the weights
of the logged transitions and starts. By empirical likelihood, the values at weights in a ball of
divergence chi-square / 2 around the log's own make a confidence interval.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.stats import chi2

from bayesdice_ppl.baselines.bellman import Evaluation, evaluate
from bayesdice_ppl.baselines.checks import one_of, optional_ridge
from bayesdice_ppl.baselines.divergence import DIVERGENCES, Sample, least
from bayesdice_ppl.baselines.interface import Asked, Estimate
from bayesdice_ppl.baselines.on_rows import OnRows
from bayesdice_ppl.baselines.rows import Rows
from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.features.maps import FeatureChoice

MOST_ROUNDS = 1000
STANDSTILL = 1e-7
"""Share of the distance from the center that the next round could still gain at the end."""
NEGLIGIBLE = 1e-9
"""A gain that is nothing beside the size of the rewards, as a log without spread leaves it."""
_LONGEST = 1.0 - 1e-9
"""No transition's weight is taken away in one step, for its pair would cease to be logged."""


@final
@dataclass(frozen=True)
class CoinDice(OnRows):
    """A choice of CoinDICE; make one with `coin_dice`."""

    divergence: str
    merge = True

    @property
    def name(self) -> str:
        """Name in tables."""
        return "coin_dice"

    @property
    def gives(self) -> str:
        """An interval."""
        return "interval"

    def answer_rows(self, rows: Rows, asked: Asked) -> Estimate:
        """Find the least and the greatest value in the ball."""
        radius = 0.5 * float(chi2.ppf(asked.level, 1))
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
    """The least value over the ball, or with sign -1 the greatest.

    Parameters
    ----------
    rows
        The log and the policy.
    center
        The evaluation at the log's own weights.
    sign
        1 for the least value, -1 for the greatest.
    radius, divergence
        The ball, as for `bayesdice_ppl.baselines.divergence.least`.
    ridge
        As for `bayesdice_ppl.baselines.bellman.evaluate`.

    Notes
    -----
    Each round takes the saddle point at the present weights, at which the Lagrangian is linear in
    the weights, finds the weights in the ball at which that is least, and goes there, or a part of
    the way if the value would not fall as it should. At the end the weights, the ratio and Q are
    each the best against the two others, which is the minimax of the method.

    Raises
    ------
    LogsError
        The rounds do not come to rest.
    """
    step = rows.step
    weight, start_weight, now = step.weight, step.start_weight, center
    negligible = NEGLIGIBLE * float(step.weight @ np.abs(step.reward))
    for _ in range(MOST_ROUNDS):
        samples = (
            Sample(sign * now.ratio * now.error, step.counts),
            Sample(sign * now.entry * now.start_value, step.start_count),
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
        f"coin_dice has not come to rest after {MOST_ROUNDS} rounds: the log says too little about "
        "this policy for its value to be a smooth function of the log's weights."
    )


def coin_dice(
    divergence: str = "kl",
    *,
    ridge: float | None = None,
    features: FeatureChoice | None = None,
    renormalize: bool = False,
) -> CoinDice:
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
    few times with one reward: what the log did not show has no weight to move. It needs no
    propensities. Pairs that were never logged have Q = 0 at every weight, which no interval covers;
    with ``renormalize`` their mass goes to logged ones.

    Raises
    ------
    SettingsError
        The ridge is negative or not finite, or the divergence is another one.
    """
    return CoinDice(
        ridge=optional_ridge("coin_dice", ridge),
        features=features,
        renormalize=bool(renormalize),
        divergence=one_of("coin_dice", "divergence", divergence, DIVERGENCES),
    )


__all__ = ["CoinDice", "coin_dice"]
