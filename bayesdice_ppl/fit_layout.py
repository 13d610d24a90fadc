"""From a fit to its belief: measure support, warnings and the achieved constraint.

Logs and engine are both known here, so that the belief carries what they say against it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import PRNGKeyArray

from bayesdice_ppl import statistics
from bayesdice_ppl.belief import OwnVariables, SupportWarning, make_belief, origin
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.fit_warnings import (
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
from bayesdice_ppl.inference import (
    Draws,
    FitSettings,
    Problem,
    Solution,
)
from bayesdice_ppl.inference.achieved import closed_form_bounds
from bayesdice_ppl.policies import LOGGED
from bayesdice_ppl.prepared import Prepared, action_sampling_error, measure_support
from bayesdice_ppl.support import support_warnings

if TYPE_CHECKING:
    from xarray import DataTree

    from bayesdice_ppl.statistics import Statistic


def lay_out(
    prepared: Prepared,
    fitted: tuple[Problem, Solution, Draws],
    beside: tuple[Mapping[str, np.ndarray], Sequence[SupportWarning]],
    rng_key: PRNGKeyArray,
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

    Raises
    ------
    SettingsError
        Something is not finite.
    """
    others, more = beside
    settings, logs = prepared.settings, prepared.logs
    names = prepared.names
    problem, solution, drawn = fitted
    support = measure_support(prepared)
    df = np.asarray(problem.pilots.degrees_of_freedom)
    warnings = [
        *support_warnings(names, support, extrapolates=_extrapolates(prepared)),
        *constant_reward(names, logs, prepared),
        *much_left_out(names, logs, prepared),
        *many_features(names, prepared),
        *thin_spread(names, df),
        *unconverged(names, solution.drift),
        *unmixed(names, solution),
        *more,
    ]
    mean = np.asarray(solution.posterior.mean)
    sd = np.sqrt(np.sum(np.asarray(solution.posterior.factor)[:, -1] ** 2, axis=-1))
    mean = mean[:, -1]
    statistic = settings.statistic[0]
    implied = settings.link != "identity" and not settings.value_constraint
    if implied or statistic.name == "quantile":
        mean, sd = drawn.value.mean(axis=0), drawn.value.std(axis=0, ddof=1)
    arrays = (mean, sd, drawn.value, *others.values())
    if not all(np.isfinite(array).all() for array in arrays):
        raise SettingsError(
            "the belief is not finite: rewards or prior scales are too large or too small for "
            "double precision. Rescale the rewards to the order of 1."
        )
    if statistic == statistics.mean():
        used = logs.reward[prepared.rows.mask]
        warnings += odd_spread(names, sd, used)
        if settings.tabular:
            warnings += moved_shift(names, support.moved_mass, sd, used)
    probability, bound = _achieved(problem, solution, drawn, settings)
    warnings += unmet_constraint(names, probability, settings)
    for each in settings.statistic:
        warnings += thin_tail(names, each, support.effective_sample_size)
    prior_mean, prior_sd = _prior(problem, statistic)
    own_lam, own_epsilon, own_probability = _normalization(problem, drawn)
    n_chains = 1 if solution.sampled is None else solution.sampled.shape[1]
    return make_belief(
        drawn.value.reshape(n_chains, -1, len(names)),
        names,
        statistics=others,
        own=_own_variables(prepared, drawn),
        loss=drawn.loss,
        elbo=solution.elbo if solution.elbo.size else None,
        reward=logs.reward[prepared.rows.mask],
        guide_mean=mean,
        guide_sd=sd,
        degrees_of_freedom=df,
        svi_drift=solution.drift.max(axis=1),
        prior_mean=prior_mean,
        prior_sd=prior_sd,
        correlation=drawn.correlation,
        lam=np.array([price.lam for price in problem.prices]),
        epsilon=np.array([price.epsilon for price in problem.prices]),
        xi=np.array([price.xi for price in problem.prices]),
        constraint_probability=probability,
        surrogate_level=solution.level,
        surrogate_bound=bound,
        normalization_lam=own_lam,
        normalization_epsilon=own_epsilon,
        normalization_probability=own_probability,
        action_standard_error=None if settings.tabular else action_sampling_error(prepared),
        **sampling_diagnostics(solution),
        **support._asdict(),
        **origin(
            logs,
            gamma=settings.gamma,
            restart=settings.on_termination == "restart",
            rng_key=rng_key,
        ),
        settings=_settings_dict(settings),
        rows_left_out=prepared.rows.left_out,
        steps_left_out=list(prepared.rows.steps),
        action_space=prepared.gathered.action_source,
        n_actions=0 if prepared.actions is None else len(prepared.actions),
        support_warnings=warnings,
        reward_sd=float(np.std(logs.reward[prepared.rows.mask])),
        logged_policy=LOGGED if settings.include_logged else None,
    )


def _achieved(
    problem: Problem, solution: Solution, drawn: Draws, settings: FitSettings
) -> tuple[np.ndarray, np.ndarray]:
    """P_q(ell <= epsilon) and the surrogate's bound on the rest: exact, or else over the draws."""
    known = closed_form_bounds(problem, solution, settings)
    if known is not None:
        return known.probability, known.bound
    epsilon = np.array([price.epsilon for price in problem.prices])
    excess = drawn.loss / epsilon
    bounds = [settings.surrogate.bound(column) for column in excess.T]
    return np.mean(excess <= 1.0, axis=0), np.array(bounds)


def _normalization(problem: Problem, drawn: Draws) -> tuple[np.ndarray | None, ...]:
    """Lambda, epsilon and achieved probability of a normalization with its own constraint."""
    own = problem.constraint.auxiliary
    if own is None or drawn.normalization is None:
        return None, None, None
    epsilon = np.asarray(own.epsilon)
    achieved = np.mean(drawn.normalization <= epsilon, axis=0)
    return np.asarray(own.price) * epsilon, epsilon, achieved


def _prior(problem: Problem, statistic: Statistic) -> tuple[np.ndarray, np.ndarray]:
    """Prior mean and sd of each value; NaN of a quantile, whose prior is of the mass below it."""
    mean = np.asarray(problem.moments.prior_mean)[:, -1]
    sd = np.asarray(problem.moments.prior_scale)[:, -1]
    if statistic.name == "quantile":
        mean, sd = np.full_like(mean, np.nan), np.full_like(sd, np.nan)
    return mean, sd


def _extrapolates(prepared: Prepared) -> bool:
    """Whether features say something of actions that a state's logs do not have."""
    return not prepared.settings.tabular and not prepared.logs.vector_states


def _own_variables(prepared: Prepared, drawn: Draws) -> OwnVariables:
    """Weights of the ratio, and the pairs or features that they belong to."""
    pairs, logs = prepared.pairs, prepared.logs
    weights = drawn.weights.astype(np.float32)
    if prepared.settings.tabular and prepared.actions is not None:
        state = logs.state_labels[pairs.state].astype(str)
        action = prepared.actions[pairs.action].astype(str)
        return OwnVariables(
            draws={"weights": (weights, ("policy", "pair"))},
            constants={
                "pair_state": (state, ("pair",)),
                "pair_action": (action, ("pair",)),
                "pair_count": (np.bincount(pairs.of_row), ("pair",)),
            },
            coords={"pair": [f"{s}, {a}" for s, a in zip(state, action, strict=True)]},
        )
    ratio = np.asarray(prepared.problem.pilots.ratio)[:, prepared.cell_of_row]
    return OwnVariables(
        draws={"weights": (weights, ("policy", "feature"))},
        constants={"pilot_ratio": (ratio, ("policy", "transition"))},
    )


def _settings_dict(settings: FitSettings) -> dict[str, Any]:
    return {
        **settings._asdict(),
        "penalty": str(settings.penalty),
        "surrogate": str(settings.surrogate),
        "features": str(settings.features),
        "statistic": [str(statistic) for statistic in settings.statistic],
        "normalization": settings.normalization and settings.normalization._asdict(),
        "svi": settings.svi._asdict(),
        "nuts": settings.nuts._asdict(),
    }
