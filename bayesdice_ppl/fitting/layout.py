"""From a fit to its belief: numbers, warnings and settings, each in its group of the DataTree.

What the logs support and what the engine has to say against itself is measured here, where both are
known, so that the belief carries it wherever it goes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from bayesdice_ppl.belief import SupportWarning, make_belief
from bayesdice_ppl.diagnostics.logged import logged_value
from bayesdice_ppl.diagnostics.support import support_warnings
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.fitting.choose_features import Alternative
from bayesdice_ppl.fitting.inputs import Inputs, Prepared
from bayesdice_ppl.fitting.settings import FitSettings
from bayesdice_ppl.fitting.support import action_sampling_error, measure_support
from bayesdice_ppl.fitting.warnings import (
    constant_reward,
    many_features,
    moved_shift,
    much_left_out,
    odd_spread,
    sampling_diagnostics,
    thin_spread,
    thin_tail,
    unconverged,
    unmet_constraint,
    unmixed,
)
from bayesdice_ppl.inference import Draws, Problem, Solution
from bayesdice_ppl.inference.achieved import closed_form_bounds
from bayesdice_ppl.models import Ratio
from bayesdice_ppl.policies import LOGGED

if TYPE_CHECKING:
    from xarray import DataTree

    from bayesdice_ppl.statistics import Statistic


def lay_out(
    prepared: Prepared,
    fitted: tuple[Problem, Solution, Draws],
    beside: tuple[Mapping[str, np.ndarray], Sequence[SupportWarning]],
    rng_key: PRNGKeyArray,
    table: Sequence[Alternative] = (),
) -> DataTree:
    """Lay out what was fitted as a belief.

    Parameters
    ----------
    prepared
        The problem of the plain mean, with everything that led to it.
    fitted
        Problem, solution and draws of the belief's value.
    beside
        Draws of each of several statistics by name, and what the engine says against them.
    rng_key
        The fit's key, kept as the seed.
    table
        Among what features and prior were chosen, if they were.

    Raises
    ------
    SettingsError
        Something is not finite.
    """
    others, more = beside
    inputs = prepared.inputs
    settings, logs, names, used = inputs.settings, inputs.logs, inputs.names, inputs.reward
    problem, solution, drawn = fitted
    support = measure_support(prepared)
    df = np.asarray(problem.pilots.degrees_of_freedom)
    warnings = [
        *support_warnings(names, support, extrapolates=_extrapolates(inputs)),
        *constant_reward(inputs),
        *much_left_out(inputs),
        *many_features(inputs),
        *thin_spread(names, df),
        *unconverged(names, solution.drift),
        *unmixed(names, solution),
        *more,
    ]
    logged = logged_value(logs, settings.gamma, restart=settings.form.moments.restart)
    mean, sd = solution.value_mean, solution.value_sd
    statistic = settings.statistic[0]
    if settings.value_implied or statistic.inverted:
        mean, sd = drawn.value.mean(axis=0), drawn.value.std(axis=0, ddof=1)
    arrays = (mean, sd, drawn.value, *others.values())
    if not all(np.isfinite(array).all() for array in arrays):
        raise SettingsError(
            "the belief is not finite: rewards or prior scales are too large or too small for "
            "double precision. Rescale the rewards to the order of 1."
        )
    if statistic.plain:
        warnings += odd_spread(names, sd, used)
        if settings.tabular:
            warnings += moved_shift(names, support.moved_mass, sd, used)
    probability, bound = _achieved(problem, solution, drawn, settings)
    warnings += unmet_constraint(names, probability, settings)
    for each in settings.statistic:
        warnings += thin_tail(names, each, support.effective_sample_size)
    recorded, dimension = settings.model.record(tabular=settings.tabular)
    groups: dict[str, dict[str, np.ndarray]] = {
        "posterior": {
            "value": drawn.value,
            **others,
            recorded: drawn.recorded.astype(np.float32),
        },
        "sample_stats": {"loss": drawn.loss},
        "observed_data": {"reward": used},
        "constant_data": {
            "guide_mean": mean,
            "guide_sd": sd,
            "degrees_of_freedom": df,
            "svi_drift": solution.drift.max(axis=1),
            **_prior(problem, statistic),
            "correlation": drawn.correlation,
            "lam": np.array([price.lam for price in problem.prices]),
            "epsilon": np.array([price.epsilon for price in problem.prices]),
            "xi": np.array([price.xi for price in problem.prices]),
            "constraint_probability": probability,
            "surrogate_level": solution.level,
            "surrogate_bound": bound,
            **_normalization(problem, drawn),
            **sampling_diagnostics(solution),
            **support._asdict(),
            **_pair_table(prepared),
        },
    }
    if solution.elbo.size:
        groups["fit_data"] = {"elbo": solution.elbo}
    attrs = {
        "settings": settings.flat,
        "versions": {
            name: version(name) for name in ("bayesdice-ppl", "jax", "numpyro", "arviz", "numpy")
        },
        "rng_key": np.asarray(jax.random.key_data(rng_key)).tolist(),
        "n_transitions": logs.n_transitions,
        "n_episodes": logs.n_episodes,
        "n_terminated": int(logs.terminated.sum()),
        "rows_left_out": inputs.rows.left_out,
        "steps_left_out": list(inputs.rows.steps),
        "action_space": inputs.action_source,
        "n_actions": 0 if inputs.actions is None else len(inputs.actions),
        "logged_value": logged.value,
        "logged_value_standard_error": logged.standard_error,
        "logged_value_tail": logged.tail,
        "support_warnings": [warning._asdict() for warning in warnings],
        "reward_sd": float(np.std(used)),
    }
    if settings.include_logged:
        attrs["logged_policy"] = LOGGED
    coords = {
        "policy": list(names),
        "other_policy": list(names),
    }
    if settings.tabular:
        known = groups["constant_data"]
        labels = zip(known["pair_state"], known["pair_action"], strict=True)
        coords["pair"] = [f"{state}, {action}" for state, action in labels]
    if table:
        attrs["regularization"] = [row._asdict() for row in table]
    n_chains = 1 if solution.sampled is None else solution.sampled.shape[1]
    return make_belief(groups, coords, attrs, n_chains=n_chains, weights=dimension)


def _achieved(
    problem: Problem, solution: Solution, drawn: Draws, settings: FitSettings
) -> tuple[np.ndarray, np.ndarray]:
    """P_q(ell <= epsilon) and the surrogate's bound on the rest: exact, or else over the draws."""
    surrogate = settings.constraint.surrogate
    known = closed_form_bounds(problem, solution, surrogate, linear=settings.model.linear)
    if known is not None:
        return known.probability, known.bound
    epsilon = np.array([price.epsilon for price in problem.prices])
    excess = drawn.loss / epsilon
    bounds = [surrogate.bound(column) for column in excess.T]
    return np.mean(excess <= 1.0, axis=0), np.array(bounds)


def _normalization(problem: Problem, drawn: Draws) -> dict[str, np.ndarray]:
    """Price and achieved probability of the normalization, where it is a constraint of its own."""
    own = problem.constraint.auxiliary
    if own is None or drawn.normalization is None:
        return {}
    epsilon = np.asarray(own.epsilon)
    return {
        "normalization_lam": np.asarray(own.price) * epsilon,
        "normalization_epsilon": epsilon,
        "normalization_probability": np.mean(drawn.normalization <= epsilon, axis=0),
    }


def _prior(problem: Problem, statistic: Statistic) -> dict[str, np.ndarray]:
    """Prior of each value; NaN of a quantile, where it is one of the mass below it."""
    with jax.enable_x64(True):
        found = jax.vmap(_mean_and_sd)(problem.ratio)
    mean, sd = (np.asarray(array) for array in found)
    if statistic.inverted:
        mean, sd = np.full_like(mean, np.nan), np.full_like(sd, np.nan)
    return {"prior_mean": mean, "prior_sd": sd}


def _mean_and_sd(ratio: Ratio) -> tuple[Array, Array]:
    """Mean and standard deviation of one value's prior."""
    prior = ratio.value_prior()
    return prior.mean, jnp.sqrt(prior.variance)


def _extrapolates(inputs: Inputs) -> bool:
    """Whether features say something of actions that a state's logs do not have."""
    return not inputs.settings.tabular and not inputs.logs.vector_states


def _pair_table(prepared: Prepared) -> dict[str, np.ndarray]:
    """What the ratio's draws belong to: pairs; or, of features, the ratio that they give."""
    inputs = prepared.inputs
    pairs, logs = inputs.pairs, inputs.logs
    if inputs.settings.tabular and inputs.actions is not None:
        return {
            "pair_state": logs.state_labels[pairs.state].astype(str),
            "pair_action": inputs.actions[pairs.action].astype(str),
            "pair_count": np.bincount(pairs.of_row),
        }
    return {
        "pilot_ratio": np.asarray(prepared.problem.pilots.ratio)[:, inputs.cell_of_row],
        "action_standard_error": action_sampling_error(prepared),
    }
