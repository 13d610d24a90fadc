"""What the log supports of each candidate, measured at the pilot's ratio."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from bayesdice_ppl.diagnostics.support import Support, episode_share, state_flow
from bayesdice_ppl.features import sampling_variance
from bayesdice_ppl.fitting.inputs import Prepared


def measure_support(prepared: Prepared) -> Support:
    """Hold every candidate against what was logged."""
    inputs, pilots = prepared.inputs, prepared.problem.pilots
    cells, logs = inputs.cells, inputs.logs
    ratio, error = np.asarray(pilots.ratio), np.asarray(pilots.error)
    mask = inputs.rows.mask
    n, m = float(cells.n_transitions), logs.n_episodes
    entering = np.asarray(pilots.start_weight)
    moved, lost = state_flow(
        cells,
        ratio,
        inputs.candidates.kept,
        inputs.dead_state,
        entering,
        inputs.settings.gamma,
    )
    rows = inputs.cell_of_row
    influence = ratio[:, rows] * (error[:, rows] + logs.reward[mask])
    initial = np.zeros((len(ratio), len(logs.state_labels)))
    initial[:, cells.initial_state] = np.asarray(pilots.start_value)
    starts = initial[:, logs.initial_state]
    starts = starts - starts.mean(axis=1, keepdims=True)
    entry = (n / m) * entering[:, None] * starts
    total, square = ratio @ cells.count, ratio**2 @ cells.count
    ess = np.where(square > 0.0, total**2 / np.where(square > 0.0, square, 1.0), 0.0)
    size = np.abs(ratio) @ cells.count
    below = np.maximum(-ratio, 0.0) @ cells.count
    negative = np.where(size > 0.0, below / np.where(size > 0.0, size, 1.0), 0.0)
    episode = episode_share(influence, entry, logs.episode[mask])
    return Support(moved, lost, ess, episode, negative)


def action_sampling_error(prepared: Prepared) -> Float[np.ndarray, " N"]:
    """Standard error of each value that comes of drawing actions instead of summing over them.

    Returns
    -------
    array
        Shape (N,), in reward per step; 0 where actions are labels.
    """
    inputs, pilots = prepared.inputs, prepared.problem.pilots
    cells = inputs.cells
    at_pair = cells.pair_features
    if inputs.sampling is None or at_pair is None:
        return np.zeros(len(inputs.names))
    feature_map, states, sampled = inputs.sampling
    slope = np.asarray(pilots.slope)[:, : at_pair.shape[1]]
    variance = sampling_variance(feature_map, states, sampled, slope)
    onward = (1.0 - cells.terminated) * inputs.settings.gamma * cells.count / cells.n_transitions
    # A state's draws are shared by all the transitions that lead to it and the episodes that start.
    inflow = np.zeros_like(variance)
    for j, ratio in enumerate(np.asarray(pilots.ratio)):
        inflow[j] = np.bincount(cells.successor, ratio * onward, minlength=len(states))
        start = np.bincount(cells.initial_state, cells.initial_weight, minlength=len(states))
        inflow[j] += np.asarray(pilots.start_weight)[j] * start
    return np.sqrt(np.sum(inflow**2 * variance, axis=1))
