"""The bias of a policy that followed its own rewards, taken out of the values of a bandit.

Where the log has propensities that leave every action its chance, rows are weighted by them, and
nothing need be assumed of the arms. Elsewhere the means of a state's actions borrow from each
other; a value that this moves far is abstained from.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bayesdice_ppl.digits import in_tenths
from bayesdice_ppl.fitting import gauges
from bayesdice_ppl.fitting.adaptive import follow_chances
from bayesdice_ppl.fitting.inputs import Inputs
from bayesdice_ppl.fitting.propensities import misfit_of
from bayesdice_ppl.fitting.row_facts import facts_of
from bayesdice_ppl.inference import Correction, pooled_means, weighted_values
from bayesdice_ppl.inference.dependence import GroupedRows
from bayesdice_ppl.moments import PairRewards

FEWEST_VISITS = 5.0
"""Visits that the least propensity of a state must promise each action for weights to be used.
Thompson sampling leaves bad arms a thousandth, where weighted scores are far from normal."""
FAR = 1.5
"""How far a pooled value may be from that of the plain means, in its sds."""
MOST_PAIRS, MOST_SCORES = 2_000, 50_000_000
"""Most pairs that are pooled, and rows times candidates that are weighted: memory."""
_FOLLOWED = (
    "rests on a log whose policy seems to have followed its own rewards, as a bandit algorithm "
    "does. Actions that disappointed early were tried less, so their means are too low. "
)


def corrected[D: GroupedRows](inputs: Inputs, dependence: D | None) -> D | None:
    """Say how the values of an adaptive bandit log are corrected, where that is known.

    Parameters
    ----------
    inputs
        The input after checks and counting.
    dependence
        What is known of its rows, and whether its policy followed the rewards.

    Returns
    -------
    Dependence or None
        With a correction if the log is adaptive, at gamma = 0 on labels with transitions as the
        unit, for plain means of candidates that are known. Other values keep the width of the bias
        that they may have.
    """
    if dependence is None or not dependence.adaptive or dependence.by_episode:
        return dependence
    settings = inputs.settings
    known = settings.tabular and settings.gamma == 0.0 and settings.plain
    if not known or inputs.candidates.estimated is not None:
        return dependence
    correction = _weighted(inputs) or _pooled(inputs)
    return replace(dependence, correction=correction)  # type: ignore[type-var]


def _in_states(inputs: Inputs) -> tuple[np.ndarray, np.ndarray]:
    """Share of each pair's state in the values, and each candidate's probability of its action."""
    cells, candidates = inputs.cells, inputs.candidates
    n_states = len(inputs.logs.state_labels)
    share = np.bincount(cells.initial_state, cells.initial_weight, n_states)
    return share[cells.pair_state], np.asarray(candidates.target * candidates.active)


def _counted(inputs: Inputs) -> PairRewards:
    return facts_of(inputs).of_pairs


def _weighted(inputs: Inputs) -> Correction | None:
    """Adaptively weighted values, where propensities are sound and leave all actions a chance."""
    if inputs.counted is not None:
        # Weights follow the order of all rows.
        return None
    logs, mask = inputs.logs, inputs.rows.mask
    if logs.propensity is None or len(inputs.reward) * len(inputs.names) > MOST_SCORES:
        return None
    chance, pair, reward = logs.propensity[mask], inputs.pairs.of_row, inputs.reward
    chances = follow_chances(logs.state[mask], logs.action[mask], reward, chance)
    if not chances.sound or chances.fewest.min() < FEWEST_VISITS:
        return None
    fits = misfit_of(inputs)
    if fits is None or fits.found > gauges.PROPENSITIES.warns:
        return None
    share, target = _in_states(inputs)
    found = weighted_values(pair, reward, chance, inputs.pairs.state, target, share)
    plain = (target * share) @ _counted(inputs).mean
    n_policies = len(plain)
    reason = f"{_FOLLOWED}Rows are weighted by their propensities, which takes this out."
    return Correction(
        name="weighted",
        reasons=(reason,) * n_policies,
        shift=found.value - plain,
        covariance=found.covariance,
        degrees_of_freedom=np.maximum(found.effective - 1.0, 1.0),
        abstains=np.zeros(n_policies, dtype=bool),
    )


def _pooled(inputs: Inputs) -> Correction | None:
    """Values of means that borrow from each other within a state."""
    visits, mean, scatter = _counted(inputs)
    if len(visits) > MOST_PAIRS or not np.any(visits > 1.0):
        return None
    share, target = _in_states(inputs)
    pooled = pooled_means(inputs.pairs.state, visits, mean, scatter)
    weight = target * share
    shift = weight @ (pooled.mean - mean)
    covariance = weight @ pooled.covariance @ weight.T
    sd = np.sqrt(np.diagonal(covariance))
    moved = np.abs(shift) / np.where(sd > 0.0, sd, 1.0)
    reasons = tuple(
        f"{_FOLLOWED}Here the actions of a state borrow from each other, which moves the value by "
        f"{in_tenths(size)} of its standard errors. Log a fixed policy, or propensities that leave "
        "every action a chance."
        for size in moved
    )
    return Correction(
        name="pooled",
        reasons=reasons,
        shift=shift,
        covariance=covariance,
        degrees_of_freedom=np.full(len(shift), np.inf),
        abstains=moved > FAR,
    )
