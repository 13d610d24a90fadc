"""Whether logged propensities fit the actions that were taken.

An action's rows, each over its propensity, must add up to the rows of its state. What is left over
has mean zero, whatever came before each row, so that propensities may vary and may follow rewards.
If different parts of a log are off to the same side, the propensities are wrong.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from bayesdice_ppl.belief import SupportWarning
from bayesdice_ppl.codes import distinct
from bayesdice_ppl.fitting import gauges
from bayesdice_ppl.fitting.alike import UNITS, alike
from bayesdice_ppl.fitting.inputs import Inputs
from bayesdice_ppl.logs import Logs

BY_CHANCE = 0.001
"""Share of logs with right propensities that are taken for wrong ones."""
_MOST_NUMBERS = 20_000_000
"""Units times pairs, beyond which nothing is looked at: memory."""


class Misfit(NamedTuple):
    """How far propensities are from the shares of actions.

    Attributes
    ----------
    error
        Relative error of the propensities: root mean square over the rows, without what is noise.
    chance
        Probability of as large an error under right propensities.
    certain
        Whether propensities are 1 where several actions were taken in one state.
    """

    error: float
    chance: float
    certain: bool = False

    @property
    def found(self) -> float:
        """The error, or 0 if it may be by chance."""
        return self.error if self.chance < BY_CHANCE else 0.0


def misfit(
    state: Int[np.ndarray, " n"],
    action: Int[np.ndarray, " n"],
    chance: Float[np.ndarray, " n"],
    unit: Int[np.ndarray, " n"],
) -> Misfit:
    """Compare the propensities of a log with its actions.

    Parameters
    ----------
    state, action, unit
        Codes, shape (n,). Actions of one unit may have been drawn together.
    chance
        Probability of each action that was taken, shape (n,).

    Notes
    -----
    With n_s the rows of a state and U_u(a) the sum over unit u's rows of 1{a} / p, less its rows of
    the state, the statistic is sum_a q_a / n_s (U(a)^2 - sum_u U_u(a)^2), with q_a the mean of p
    over the rows of a, weighted by 1 / p. Under one wrong propensity of each action it is n times
    sum_a q_a (true share / q_a - 1)^2, on average; under right ones its mean is zero. A state whose
    propensities are all 1 has one action. If several were taken there, no test is needed.
    """
    key = state.astype(np.int64) * (int(action.max()) + 1) + action
    _, first, pair = np.unique(key, return_index=True, return_inverse=True)
    of_state = distinct(state)[1]
    rows, of_pair = np.bincount(of_state), of_state[first]
    impossible = _impossible(pair, of_state, chance)
    if impossible > 0.0:
        return Misfit(impossible, 0.0, certain=True)
    share = np.bincount(pair) / np.bincount(pair, 1.0 / chance)
    fold, n_pairs, n_states = unit % UNITS, len(first), len(rows)
    n_units = int(fold.max()) + 1
    if n_units * n_pairs > _MOST_NUMBERS:
        return Misfit(0.0, 1.0)
    taken = np.bincount(fold * n_pairs + pair, 1.0 / chance, n_units * n_pairs)
    visits = np.bincount(fold * n_states + of_state, minlength=n_units * n_states)
    off = taken.reshape(n_units, n_pairs) - visits.reshape(n_units, n_states)[:, of_pair]
    found = alike(off * np.sqrt(share / rows[of_pair]), 0.0, len(state))
    return Misfit(float(np.sqrt(max(found.variance, 0.0))), found.chance)


def _impossible(
    pair: Int[np.ndarray, " n"], of_state: Int[np.ndarray, " n"], chance: Float[np.ndarray, " n"]
) -> float:
    """Error of propensities that are all 1 in states where several actions were taken."""
    rows = np.bincount(of_state)
    sure = np.bincount(of_state, chance >= 1.0) == rows
    state = of_state[np.unique(pair, return_index=True)[1]]
    share = np.bincount(pair) / rows[state]
    by_state = np.bincount(state, (1.0 - share) ** 2, len(rows))
    return float(np.sqrt((by_state * rows * sure).sum() / len(pair)))


def misfit_of_rows(logs: Logs, mask: Bool[np.ndarray, " n"]) -> Misfit:
    """The same for the rows of a log of labels that has propensities.

    Actions may have been drawn by row, by episode or by a column that is named as a unit: the
    propensities are wrong if they are under each.

    Parameters
    ----------
    logs
        The log.
    mask
        The rows to look at, shape (n,).
    """
    assert logs.propensity is not None
    units = [np.arange(int(mask.sum())), *(logs.group_codes(name)[mask] for name in logs.looked_at)]
    if 1 < logs.n_episodes < logs.n_transitions:
        units.append(logs.episode[mask])
    own = (logs.state[mask], logs.action[mask], logs.propensity[mask])
    return max((misfit(*own, unit) for unit in units), key=lambda found: found.chance)


def misfit_of(inputs: Inputs) -> Misfit | None:
    """The same for the rows of a fit; None where the log has no propensities, or no labels."""
    if inputs.logs.propensity is None or not inputs.settings.tabular:
        return None
    return misfit_of_rows(inputs.logs, inputs.rows.mask)


def wrong_propensities(
    names: tuple[str, ...], found: Misfit | None, *, used: bool = False
) -> list[SupportWarning]:
    """Warn where propensities do not fit the actions of the log.

    Parameters
    ----------
    names
        Names of the candidates.
    found
        From `misfit_of`.
    used
        Whether the values rest on the propensities.
    """
    if found is None:
        return []
    what = (
        "propensities are 1 in states where several actions were taken, as if each had been the "
        "only one"
        if found.certain
        else "propensities do not fit its actions"
    )
    use = (
        "The value is as wrong as they are."
        if used
        else "This belief does not use them, but importance sampling does."
    )
    reason = (
        f"rests on a log whose {what}: they are off by {found.error:.0%} (root mean square). "
        f"{use} Check the column propensity."
    )
    return [w for name in names for w in gauges.PROPENSITIES.judge(name, found.found, reason)]
