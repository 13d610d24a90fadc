"""Logs and candidates in, belief out: the library's main function.

`fit` only joins the parts, in the order in which data flows: rows that can be used, pairs that
were logged, moments, the priced constraint, a posterior, joint draws, and what the logs support.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, final

import jax
import numpy as np
from jaxtyping import Int, PRNGKeyArray

from bayesdice_ppl.belief import make_belief
from bayesdice_ppl.diagnostics.logged import logged_value
from bayesdice_ppl.diagnostics.support import (
    Support,
    episode_share,
    state_flow,
    support_warnings,
)
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.features import LoggedPairs, logged_pairs, reach, renormalize
from bayesdice_ppl.inference import (
    Candidates,
    Draws,
    FitSettings,
    Problem,
    Solution,
    SviSettings,
    draw,
    make_settings,
    prepare,
    solve,
    split_key,
)
from bayesdice_ppl.logs import Logs, UsableRows, usable_rows
from bayesdice_ppl.moments import Cells, count_cells
from bayesdice_ppl.policies import AlignedPolicies, Policy, align_policies

if TYPE_CHECKING:
    from xarray import DataTree

_onto_pairs = jax.jit(jax.vmap(renormalize, in_axes=(0, None, None, None)))


@final
@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything between the input and the posterior, for those who bring their own inference.

    ``prepared.problem.of(j)`` gives the arguments of `bayesdice_ppl.models.model` and ``guide``.
    """

    logs: Logs
    aligned: AlignedPolicies
    rows: UsableRows
    pairs: LoggedPairs
    cells: Cells
    cell_of_row: Int[np.ndarray, " n"]
    candidates: Candidates
    dead_state: np.ndarray
    problem: Problem
    settings: FitSettings


def prepare_fit(logs: Logs, policies: Mapping[str, Policy], settings: FitSettings) -> Prepared:
    """Bring logs and candidates to the problem that inference solves.

    Raises
    ------
    LogsError, PoliciesError, SettingsError
        The input cannot be used; the message says where.
    """
    gamma = settings.gamma
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
    problem = prepare(cells, candidates, settings)
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


def fit(
    logs: Logs,
    policies: Mapping[str, Policy],
    *,
    gamma: float,
    rng_key: PRNGKeyArray,
    inference: str | None = None,
    penalty: str | None = None,
    surrogate: str | None = None,
    inner: str | None = None,
    on_termination: str | None = None,
    cluster: str | None = None,
    joint: bool | None = None,
    small_sample: bool | None = None,
    value_constraint: bool | None = None,
    lam: float | None = None,
    epsilon: float | None = None,
    xi: float | None = None,
    prior_sd: float | None = None,
    value_prior_sd: float | None = None,
    draws: int | None = None,
    svi: SviSettings | None = None,
    preset: str | None = None,
) -> DataTree:
    """Fit a joint belief over the candidates' values.

    Parameters
    ----------
    logs
        Logged transitions of one policy.
    policies
        Name -> candidate, e.g. a `Policies`.
    gamma
        Discount in [0, 1]: 0 is a bandit, 1 the average reward.
    rng_key
        A key of `jax.random`; the same key, logs and settings give the same belief.
    inference
        ``"svi"`` (default): the NumPyro program; ``"exact"``: its closed form.
    penalty
        ``"mahalanobis"`` (default, calibrated) or ``"squared"`` (the paper's).
    surrogate
        ``"markov"`` (default).
    inner
        ``"guide"`` (default) fits the multipliers; ``"exact"`` uses their closed form.
    on_termination
        ``"restart"`` (default): a fresh start follows; ``"absorb"``: reward 0 for ever.
    cluster
        ``"transition"`` (default) or ``"episode"``: what is independent of what.
    joint
        True (default): values move together as errors on the same logs do; False: the paper's
        product of marginals.
    small_sample
        True (default): pairs that were logged a few times widen the belief.
    value_constraint
        True (default): the noise of the rewards is part of the belief.
    lam, epsilon, xi
        The chance constraint P(ell <= epsilon) >= xi at price lambda; by default xi = 0.95,
        epsilon = chi2_{r, xi} / (2 n), lambda = n epsilon.
    prior_sd, value_prior_sd
        Prior standard deviations of the ratio (10), and of the value in those of the reward (10).
    draws
        Number of posterior draws (4,000).
    svi
        How SVI optimizes.
    preset
        ``"paper"``: squared penalty, no value constraint, independent candidates.

    Returns
    -------
    xarray.DataTree
        ``belief["posterior/value"]`` has the dims (chain, draw, policy), in reward per step.

    Raises
    ------
    LogsError, PoliciesError, SettingsError
        The input cannot be used; the message says where.

    References
    ----------
    Yang, Dai, Nachum, Tucker, Schuurmans, "Offline Policy Selection under Uncertainty".
    """
    check_key(rng_key)
    settings = make_settings(
        gamma=gamma,
        preset=preset,
        inference=inference,
        penalty=penalty,
        surrogate=surrogate,
        inner=inner,
        on_termination=on_termination,
        cluster=cluster,
        joint=joint,
        small_sample=small_sample,
        value_constraint=value_constraint,
        lam=lam,
        epsilon=epsilon,
        xi=xi,
        prior_sd=prior_sd,
        value_prior_sd=value_prior_sd,
        draws=draws,
        svi=svi,
    )
    prepared = prepare_fit(logs, policies, settings)
    key_solve, key_draw = split_key(rng_key)
    solution = solve(prepared.problem, key_solve, settings)
    drawn = draw(prepared.problem, solution, prepared.candidates, key_draw, settings)
    return _lay_out(prepared, solution, drawn, rng_key)


def check_key(rng_key: Any) -> None:
    """Refuse anything that is no key of `jax.random`.

    Raises
    ------
    SettingsError
        With what to write instead.
    """
    typed = hasattr(rng_key, "dtype") and jax.dtypes.issubdtype(rng_key.dtype, jax.dtypes.prng_key)
    raw = getattr(rng_key, "shape", None) == (2,) and str(rng_key.dtype) == "uint32"
    if not (typed and rng_key.shape == ()) and not raw:
        raise SettingsError(
            f"rng_key: expected one key such as jax.random.key(0), found {type(rng_key).__name__}."
        )


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


def _lay_out(
    prepared: Prepared, solution: Solution, drawn: Draws, rng_key: PRNGKeyArray
) -> DataTree:
    settings, logs, pairs = prepared.settings, prepared.logs, prepared.pairs
    names = prepared.aligned.names
    problem = prepared.problem
    support = measure_support(prepared)
    warnings = support_warnings(names, support)
    restart = settings.on_termination == "restart"
    logged = logged_value(logs, settings.gamma, restart=restart)
    mean = np.asarray(solution.posterior.mean)
    sd = np.sqrt(np.sum(np.asarray(solution.posterior.factor)[:, -1] ** 2, axis=-1))
    epsilon = np.array([price.epsilon for price in problem.prices])
    states = logs.state_labels[pairs.state]
    actions = prepared.aligned.actions[pairs.action]
    groups: dict[str, dict[str, np.ndarray]] = {
        "posterior": {"value": drawn.value, "weights": drawn.weights.astype(np.float32)},
        "sample_stats": {"loss": drawn.loss},
        "observed_data": {"reward": logs.reward[prepared.rows.mask]},
        "constant_data": {
            "posterior_mean": mean[:, -1],
            "posterior_sd": sd,
            "degrees_of_freedom": np.asarray(problem.pilots.degrees_of_freedom),
            "correlation": drawn.correlation,
            "lam": np.array([price.lam for price in problem.prices]),
            "epsilon": epsilon,
            "constraint_probability": np.mean(drawn.loss <= epsilon, axis=0),
            **support._asdict(),
            "pair_state": states.astype(str),
            "pair_action": actions.astype(str),
            "pair_count": np.bincount(pairs.of_row),
        },
    }
    if solution.elbo.size:
        groups["fit_data"] = {"elbo": solution.elbo}
    attrs = {
        "settings": _settings_dict(settings),
        "versions": {
            name: version(name) for name in ("bayesdice-ppl", "jax", "numpyro", "arviz", "numpy")
        },
        "rng_key": np.asarray(jax.random.key_data(rng_key)).tolist(),
        "n_transitions": logs.n_transitions,
        "n_episodes": logs.n_episodes,
        "rows_left_out": prepared.rows.left_out,
        "steps_left_out": list(prepared.rows.steps),
        "action_space": prepared.aligned.source,
        "n_actions": len(prepared.aligned.actions),
        "logged_value": logged.value,
        "logged_value_standard_error": logged.standard_error,
        "logged_value_tail": logged.tail,
        "support_warnings": [warning._asdict() for warning in warnings],
        "reward_sd": float(np.std(logs.reward[prepared.rows.mask])),
    }
    coords = {
        "policy": list(names),
        "other_policy": list(names),
        "pair": [f"{s}, {a}" for s, a in zip(states, actions, strict=True)],
    }
    return make_belief(groups, coords, attrs)


def _settings_dict(settings: FitSettings) -> dict[str, Any]:
    return {**settings._asdict(), "svi": settings.svi._asdict()}
