"""From logs and candidates to the problem that inference solves, and what the logs support.

This is where user data ends and mathematics begins: rows that can be used, pairs that were
logged, moments, the priced constraint. Those who bring their own inference start from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import jax
import numpy as np
from jaxtyping import Bool, Int

from bayesdice_ppl.diagnostics.support import Support, episode_share, state_flow
from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.features import LoggedPairs, logged_pairs, reach, renormalize
from bayesdice_ppl.inference import Candidates, FitSettings, Problem, make_settings
from bayesdice_ppl.inference import prepare as prepare_problem
from bayesdice_ppl.logs import Logs, UsableRows, usable_rows
from bayesdice_ppl.moments import Cells, count_cells
from bayesdice_ppl.policies import AlignedPolicies, ContinuousPolicy, Policy, align_policies

MIN_EPISODES = 10
"""Fewest episodes from which a spread between episodes is taken."""

_onto_pairs = jax.jit(jax.vmap(renormalize, in_axes=(0, None, None, None)))


@final
@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything between the input and the posterior.

    Attributes
    ----------
    logs, aligned
        The log, and the candidates on its states and the action space.
    rows
        Which transitions are used, and how many are left out.
    pairs, cells, cell_of_row
        The pairs that were logged, the counted log, and the cell of each row that is used.
    candidates
        The candidates on the logged pairs.
    dead_state
        States that each candidate reaches and in which it takes no logged action, shape (N, S).
    problem
        ``problem.of(j)`` gives candidate j's moments, constraint and coordinates: the arguments of
        `bayesdice_ppl.models.model` and ``guide``.
    settings
        Every choice that was made.
    """

    logs: Logs
    aligned: AlignedPolicies
    rows: UsableRows
    pairs: LoggedPairs
    cells: Cells
    cell_of_row: Int[np.ndarray, " n"]
    candidates: Candidates
    dead_state: Bool[np.ndarray, "N S"]
    problem: Problem
    settings: FitSettings


def prepare_fit(
    logs: Logs, policies: Mapping[str, Policy | ContinuousPolicy], settings: FitSettings
) -> Prepared:
    """Bring logs and candidates to the problem that inference solves.

    Raises
    ------
    LogsError, PoliciesError, SettingsError
        The input cannot be used; the message says where.
    """
    gamma = settings.gamma
    if not isinstance(logs, Logs):
        raise LogsError(
            f"logs: expected Logs (read_logs or Logs.from_dataframe), found {type(logs).__name__}."
        )
    _refuse_vectors(logs)
    if settings.by_episode and logs.n_episodes < MIN_EPISODES:
        raise LogsError(
            f"cluster='episode' takes the spread from whole episodes, of which the log has "
            f"{logs.n_episodes}; it needs at least {MIN_EPISODES}. Use cluster='transition'."
        )
    rows = usable_rows(logs, gamma)
    aligned = align_policies(logs, policies, needs_successors=gamma > 0.0)
    where = {label: i for i, label in enumerate(aligned.actions.tolist())}
    codes = np.array([where[label] for label in logs.action_labels.tolist()])
    pairs = logged_pairs(logs, codes, rows.mask)
    cells, cell_of_row = count_cells(logs, pairs, rows.mask, gamma, by_episode=settings.by_episode)

    onward = (cells.terminated == 0.0) & (gamma > 0.0)
    starts = np.zeros(len(logs.state_labels), dtype=bool)
    starts[cells.initial_state] = True
    with jax.enable_x64(True):
        everywhere = np.ones(len(pairs.state))
        found = _onto_pairs(aligned.probabilities, pairs.state, pairs.action, everywhere)
        targets, kept = (np.asarray(array) for array in found)
    edges = (cells.pair[onward], cells.successor[onward])
    reached = [reach(target, pairs.state, edges, starts) for target in targets]
    candidates = Candidates(targets, np.stack([r.pair for r in reached]).astype(np.float64), kept)
    problem = prepare_problem(cells, candidates, settings)
    return Prepared(
        logs,
        aligned,
        rows,
        pairs,
        cells,
        cell_of_row,
        candidates,
        np.stack([r.dead_state for r in reached]),
        problem,
        settings,
    )


def _refuse_vectors(logs: Logs) -> None:
    vectors = {}
    if logs.vector_states:
        vectors["state"] = f"observations (obs, {logs.state_labels.shape[1]} numbers)"
    if logs.vector_actions:
        vectors["action"] = f"actions (action, {logs.action_labels.shape[1]} numbers)"
    if vectors:
        names = " and ".join(f"'{name}'" for name in vectors)
        raise LogsError(
            f"the log's {' and '.join(vectors.values())} are vectors, and a fit needs labels, at "
            "gamma = 0 too: feature maps of vectors are not built yet. For now give integers or "
            f"strings as {names}, such as the number of the bin that each vector falls into."
        )


def prepare(
    logs: Logs, policies: Mapping[str, Policy | ContinuousPolicy], *, gamma: float, **given: Any
) -> Prepared:
    """Bring logs and candidates to the problem that the NumPyro program takes.

    Parameters
    ----------
    logs
        Logged transitions of one policy.
    policies
        Name -> candidate.
    gamma
        Discount in [0, 1].
    **given
        Any other setting of `bayesdice_ppl.fit`.

    Returns
    -------
    Prepared
        ``prepared.problem.of(j)`` gives the arguments of `bayesdice_ppl.models.model` and
        ``guide`` for the j-th candidate. Its arrays are float64: run your inference under
        ``jax.enable_x64(True)``.

    Raises
    ------
    LogsError, PoliciesError, SettingsError
        The input cannot be used; the message says where.
    """
    return prepare_fit(logs, policies, make_settings(gamma=gamma, **given))


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
        prepared.dead_state,
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
    return Support(moved, lost, ess, episode_share(influence, entry, logs.episode[mask]))
