"""The problem of a fit with everything that led to it, and what the logs support.

`Prepared` is where user data ends and mathematics begins: rows that can be used, features of what
was logged and of what the candidates would do, moments, the priced constraint.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from bayesdice_ppl.diagnostics.support import Support, episode_share, state_flow
from bayesdice_ppl.features import FeatureMap, SampledActions, sampling_variance
from bayesdice_ppl.inference import Candidates, FitSettings, Problem
from bayesdice_ppl.logs import Logs, UsableRows
from bayesdice_ppl.moments import Cells, LoggedPairs


class Sampling(NamedTuple):
    """What is needed to tell how far the sampling of actions moves a value.

    Attributes
    ----------
    feature_map
        The map.
    states
        States by code: vectors, shape (S, p), or codes, shape (S,).
    sampled
        The actions that were drawn.
    """

    feature_map: FeatureMap
    states: Shaped[np.ndarray, "S *p"]
    sampled: SampledActions


class Gathered(NamedTuple):
    """What was made of the input, before any mathematics.

    Attributes
    ----------
    logs
        The log.
    names
        Names of the candidates.
    actions, action_source
        Labels of the action space, shape (A,), or None for vectors; and where it came from.
    rows
        Which transitions are used, and how many are left out.
    pairs, cells, cell_of_row
        The pairs that were logged, the counted log, and the cell of each row that is used.
    candidates
        The candidates on what was logged.
    dead_state
        States that each candidate reaches and in which it takes no logged action, shape (N, S).
    settings
        Every choice that was made.
    sampling
        Of actions, where they are vectors; else None.
    """

    logs: Logs
    names: tuple[str, ...]
    actions: Shaped[np.ndarray, " A"] | None
    action_source: str
    rows: UsableRows
    pairs: LoggedPairs
    cells: Cells
    cell_of_row: Int[np.ndarray, " n"]
    candidates: Candidates
    dead_state: Bool[np.ndarray, "N S"]
    settings: FitSettings
    sampling: Sampling | None = None


@final
@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything between the input and the posterior.

    Attributes
    ----------
    gathered
        What was made of the input; its fields can be asked for here too.
    problem
        ``problem.of(j)`` gives candidate j's moments, constraint and coordinates: the arguments of
        `bayesdice_ppl.models.model` and ``guide``.
    """

    gathered: Gathered
    problem: Problem

    @property
    def logs(self) -> Logs:
        """The log."""
        return self.gathered.logs

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the candidates."""
        return self.gathered.names

    @property
    def actions(self) -> Shaped[np.ndarray, " A"] | None:
        """Labels of the action space, or None for vectors."""
        return self.gathered.actions

    @property
    def rows(self) -> UsableRows:
        """Which transitions are used."""
        return self.gathered.rows

    @property
    def pairs(self) -> LoggedPairs:
        """The pairs that were logged."""
        return self.gathered.pairs

    @property
    def cells(self) -> Cells:
        """The counted log."""
        return self.gathered.cells

    @property
    def cell_of_row(self) -> Int[np.ndarray, " n"]:
        """The cell of each row that is used."""
        return self.gathered.cell_of_row

    @property
    def candidates(self) -> Candidates:
        """The candidates on what was logged."""
        return self.gathered.candidates

    @property
    def settings(self) -> FitSettings:
        """Every choice that was made."""
        return self.gathered.settings


def measure_support(prepared: Prepared) -> Support:
    """Hold every candidate against what was logged."""
    cells, pilots, logs = prepared.cells, prepared.problem.pilots, prepared.logs
    ratio, error = np.asarray(pilots.ratio), np.asarray(pilots.error)
    mask = prepared.rows.mask
    n, m = float(cells.n_transitions), logs.n_episodes
    entering = np.asarray(pilots.start_weight)
    moved, lost = state_flow(
        cells,
        ratio,
        prepared.candidates.kept,
        prepared.gathered.dead_state,
        entering,
        prepared.settings.gamma,
    )
    rows = prepared.cell_of_row
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
    cells, pilots = prepared.cells, prepared.problem.pilots
    at_pair = cells.pair_features
    if prepared.gathered.sampling is None or at_pair is None:
        return np.zeros(len(prepared.names))
    feature_map, states, sampled = prepared.gathered.sampling
    slope = np.asarray(pilots.slope)[:, : at_pair.shape[1]]
    variance = sampling_variance(feature_map, states, sampled, slope)
    onward = (1.0 - cells.terminated) * prepared.settings.gamma * cells.count / cells.n_transitions
    # A state's draws are shared by all the transitions that lead to it and the episodes that start.
    inflow = np.zeros_like(variance)
    for j, ratio in enumerate(np.asarray(pilots.ratio)):
        inflow[j] = np.bincount(cells.successor, ratio * onward, minlength=len(states))
        start = np.bincount(cells.initial_state, cells.initial_weight, minlength=len(states))
        inflow[j] += np.asarray(pilots.start_weight)[j] * start
    return np.sqrt(np.sum(inflow**2 * variance, axis=1))
