"""Whether logged propensities fit the actions that were taken.

An action's rows, each over its propensity, must add up to the rows of its state. Over all states
the squared differences have the law of Pearson's chi-square, also where propensities vary.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from bayesdice_ppl.belief import SupportWarning
from bayesdice_ppl.fitting import gauges
from bayesdice_ppl.fitting.inputs import Inputs

BY_CHANCE = 0.001
"""Share of logs with right propensities that are taken for wrong ones."""
_EQUAL = 1e-6
"""Probability that no action has, and is rounding."""


class Misfit(NamedTuple):
    """How far propensities are from the shares of actions.

    Attributes
    ----------
    statistic, mean, variance
        Pearson's chi-square over all states, and its moments under right propensities.
    error
        Relative error of the propensities that the statistic has beyond its mean: root mean square
        over the rows.
    """

    statistic: float
    mean: float
    variance: float
    error: float

    @property
    def chance(self) -> float:
        """Probability of a statistic as large under right propensities, by a gamma law."""
        from scipy.special import gammaincc

        if not (self.mean > 0.0 and self.variance > 0.0):
            return 1.0 if self.statistic <= self.mean else 0.0
        rate = self.mean / self.variance
        return float(gammaincc(self.mean * rate, self.statistic * rate))

    @property
    def found(self) -> float:
        """The error, or 0 if it may be by chance."""
        return self.error if self.chance < BY_CHANCE else 0.0


def misfit(
    state: Int[np.ndarray, " n"],
    action: Int[np.ndarray, " n"],
    chance: Float[np.ndarray, " n"],
    n_actions: int,
) -> Misfit:
    """Compare the propensities of a log with its actions.

    Parameters
    ----------
    state, action
        Codes, shape (n,).
    chance
        Probability of each action that was taken, shape (n,).
    n_actions
        Size of the action space.

    Notes
    -----
    With n_s the rows of a state, u_a = sum over the rows of a of 1 / p, less n_s, has mean zero,
    given whatever came before each row. Its variance is the sum of 1 / p_t(a) over the state's rows
    less n_s. With 1 / p_t(a) taken as the mean 1 / q_a over the action's rows, weighted by itself,
    the statistic is sum_a u_a^2 q_a / n_s, with the mean sum_a (1 - q_a).

    Where an action of a state has one propensity, actions that were never taken add n_s times what
    the others leave, and the sum is Pearson's statistic, with its moments (Haldane, 1937). Which of
    the other actions have a propensity is not known: the mean is that of all.
    """
    key = state.astype(np.int64) * (int(action.max()) + 1) + action
    _, first, pair = np.unique(key, return_index=True, return_inverse=True)
    of_state = np.unique(state, return_inverse=True)[1]
    rows = np.bincount(of_state).astype(np.float64)
    of_pair = of_state[first]
    inverse = np.bincount(pair, 1.0 / chance)
    share = inverse / np.bincount(pair, 1.0 / chance**2)
    changed = np.abs(chance * share[pair] ** -1.0 - 1.0) > _EQUAL
    varies = np.bincount(of_state, changed) > 0.0
    off = inverse - rows[of_pair]
    left = np.maximum(1.0 - np.bincount(of_pair, share), 0.0)
    logged = np.bincount(of_pair)
    others = np.where(left > _EQUAL, np.maximum(n_actions - logged, 1), 0)
    fixed_left = np.where(varies, 0.0, left)
    statistic = float((off**2 * share / rows[of_pair]).sum() + rows @ fixed_left)
    kinds = logged + others
    mean = kinds - 1.0 + np.where(varies, left, 0.0)
    each = others**2 / np.where(others > 0, np.maximum(left, _EQUAL), 1.0)
    inverses = np.bincount(of_pair, 1.0 / share) + each
    variance = 2.0 * mean + (inverses - kinds**2 - 2.0 * kinds + 2.0) / rows
    error = np.sqrt(max(statistic - float(mean.sum()), 0.0) / len(state))
    return Misfit(statistic, float(mean.sum()), float(variance.sum()), float(error))


def misfit_of(inputs: Inputs) -> Misfit | None:
    """The same for a log of labels; None where it has no propensities."""
    logs, mask = inputs.logs, inputs.rows.mask
    if logs.propensity is None or not inputs.settings.tabular:
        return None
    state, action = logs.state[mask], logs.action[mask]
    n_actions = len(logs.action_labels) if inputs.actions is None else len(inputs.actions)
    return misfit(state, action, logs.propensity[mask], n_actions)


def wrong_propensities(names: tuple[str, ...], found: Misfit | None) -> list[SupportWarning]:
    """Warn where propensities do not fit the actions of the log.

    Parameters
    ----------
    names
        Names of the candidates.
    found
        From `misfit_of`.
    """
    if found is None:
        return []
    reason = (
        f"rests on a log whose propensities do not fit its actions: they are off by "
        f"{found.error:.0%} (root mean square), where chance allows less. This belief does not use "
        "them, but importance sampling does. Check the column propensity."
    )
    return [w for name in names for w in gauges.PROPENSITIES.judge(name, found.found, reason)]
