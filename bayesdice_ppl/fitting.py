"""Logs and candidates in, belief out: the library's main function.

`fit` only joins the parts, in the order in which data flows: the prepared problem, a posterior,
joint draws, and the belief that holds them with what the logs support.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from bayesdice_ppl import statistics
from bayesdice_ppl.belief import SupportWarning, make_belief
from bayesdice_ppl.diagnostics.logged import logged_value
from bayesdice_ppl.diagnostics.support import support_warnings
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.features import FeatureChoice
from bayesdice_ppl.fit_statistics import (
    by_statistic,
    count_statistics,
    first_statistic,
    invert_quantiles,
    warnings_of_others,
)
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
    Normalization,
    NutsSettings,
    Problem,
    Solution,
    SviSettings,
    draw,
    make_settings,
    search_price,
    solve,
    split_key,
)
from bayesdice_ppl.inference.achieved import closed_form_bounds
from bayesdice_ppl.keys import check_key
from bayesdice_ppl.logs import Logs
from bayesdice_ppl.penalties import PenaltyChoice
from bayesdice_ppl.policies import ContinuousPolicy, Policy
from bayesdice_ppl.preparation import default_features, prepare_fit
from bayesdice_ppl.prepared import Prepared, action_sampling_error, measure_support
from bayesdice_ppl.regularization import Alternative, alternatives, choose_regularization

if TYPE_CHECKING:
    from xarray import DataTree

    from bayesdice_ppl.statistics import Statistic
    from bayesdice_ppl.surrogates import Surrogate


def fit(
    logs: Logs,
    policies: Mapping[str, Policy | ContinuousPolicy],
    *,
    gamma: float,
    rng_key: PRNGKeyArray,
    inference: str | None = None,
    penalty: PenaltyChoice | str | None = None,
    surrogate: Surrogate | str | None = None,
    link: str | None = None,
    inner: str | None = None,
    features: FeatureChoice | Sequence[FeatureChoice] | None = None,
    folds: int = 5,
    action_draws: int | None = None,
    on_termination: str | None = None,
    cluster: str | None = None,
    joint: bool | None = None,
    small_sample: bool | None = None,
    value_constraint: bool | None = None,
    lam: float | str | None = None,
    epsilon: float | None = None,
    xi: float | None = None,
    normalization: Normalization | bool | None = None,
    statistic: Statistic | str | Sequence[Statistic | str] | None = None,
    prior_sd: float | Sequence[float] | None = None,
    value_prior_sd: float | None = None,
    draws: int | None = None,
    svi: SviSettings | None = None,
    nuts: NutsSettings | None = None,
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
        ``"svi"`` (default): the NumPyro program; ``"exact"``: its closed form; ``"nuts"``: draws
        from the same program in several chains, slow and the judge where there is no closed form.
    penalty
        ``"mahalanobis"`` (default, calibrated), ``"squared"`` (the paper's), or one made by
        `bayesdice_ppl.penalties`: ``power(p)``, ``huber(c)``.
    surrogate
        ``"markov"`` (default, and the only calibrated one), ``"cvar"``, ``"bernstein"``, ``"cdf"``,
        or one made by `bayesdice_ppl.surrogates`.
    link
        ``"identity"`` (default), or ``"softplus"``: no draw of the ratio is negative.
    inner
        ``"guide"`` (default) fits the multipliers; ``"exact"`` uses their closed form.
    features
        What ratio and multipliers can tell apart, from `bayesdice_ppl.features`. By default
        one-hot for labels; for vectors 200 random Fourier features, 100 for each label of an
        action or a state beside a vector. Of a list, the one with the least held-out constraint
        loss is taken, and all are reported in ``belief.attrs["regularization"]``.
    folds
        Number of folds, by episode, in which choices are held against each other.
    action_draws
        Even number of actions drawn in each state for the mean over a policy of continuous
        actions (32); the standard error that this leaves in a value is reported.
    on_termination
        ``"restart"`` (default): a fresh start follows; ``"absorb"``: reward 0 for ever.
    cluster
        ``"transition"`` or ``"episode"``: what is independent of what. By default transitions for
        one-hot features and episodes for others, which cannot express every action value.
    joint
        True (default): values move together as errors on the same logs do; False: the paper's
        product of marginals.
    small_sample
        True (default): pairs that were logged a few times widen the belief. Off with the squared
        penalty, without the value constraint, which it is a rule for, or with other features.
    value_constraint
        True (default): the noise of the rewards is part of the belief.
    lam, epsilon, xi
        The chance constraint P(ell <= epsilon) >= xi at price lambda; by default xi = 0.95,
        epsilon = chi2_{r, xi} / (2 n), lambda = n epsilon. With ``lam="search"`` lambda is the
        least at which the constraint holds under q, which narrows q: it is then no longer
        calibrated.
    normalization
        ``True``, or a `bayesdice_ppl.inference.Normalization` with its lambda_1, epsilon_1 and
        xi_1: mean_i zeta_i = 1 as a chance constraint of its own. By default it is a row of the
        residual like the others.
    statistic
        What a value is: a statistic of the one-step reward from `bayesdice_ppl.statistics`, such as
        ``cvar(0.1)``; the mean if None. Of a list the first is the belief's ``value``, and each is
        beside it under its own name, all in one joint belief.
    prior_sd, value_prior_sd
        Prior standard deviations of the ratio (10; of a list one is chosen as for ``features``),
        and of the value in those of the reward (10).
    draws
        Number of posterior draws (4,000); NUTS shares them out among its chains, and draws no
        remainder.
    svi, nuts
        How SVI optimizes, and how NUTS samples.
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
    choose = partial(
        make_settings,
        gamma=gamma,
        preset=preset,
        inference=inference,
        penalty=penalty,
        surrogate=surrogate,
        link=link,
        inner=inner,
        action_draws=action_draws,
        on_termination=on_termination,
        cluster=cluster,
        joint=joint,
        small_sample=small_sample,
        value_constraint=value_constraint,
        lam=lam,
        epsilon=epsilon,
        xi=xi,
        normalization=normalization,
        statistic=statistic,
        value_prior_sd=value_prior_sd,
        draws=draws,
        svi=svi,
        nuts=nuts,
    )
    choices = [
        choose(features=default_features(logs) if given is None else given, prior_sd=sd)
        for given, sd in alternatives(features, prior_sd)
    ]
    settings = choices[0]
    table: tuple[Alternative, ...] = ()
    if len(choices) > 1:
        settings, table = choose_regularization(logs, policies, choices, rng_key, folds=folds)
    prepared = prepare_fit(logs, policies, settings, rng_key)
    plain = settings.statistic == (statistics.mean(),)
    if plain:
        problem, candidates, names = prepared.problem, prepared.candidates, prepared.names
    else:
        entries = count_statistics(prepared, settings.statistic)
        problem, candidates, names = entries.problem, entries.candidates, entries.names
    keys = split_key(rng_key)
    if settings.lam == "search":
        problem = search_price(problem, candidates, names, keys, settings)
    solution = solve(problem, keys[0], settings)
    drawn = draw(problem, solution, candidates, keys[1], settings)
    others: dict[str, np.ndarray] = {}
    more: list[SupportWarning] = []
    if not plain:
        drawn = invert_quantiles(prepared, entries._replace(problem=problem), solution, drawn)
        others = by_statistic(prepared, drawn)
        more = warnings_of_others(prepared, problem, solution)
        problem, solution, drawn = first_statistic(prepared, problem, solution, drawn)
    belief = _lay_out(prepared, (problem, solution, drawn), (others, more), rng_key)
    if table:
        belief.attrs["regularization"] = json.dumps([row._asdict() for row in table])
    return belief


def _lay_out(
    prepared: Prepared,
    fitted: tuple[Problem, Solution, Draws],
    beside: tuple[Mapping[str, np.ndarray], Sequence[SupportWarning]],
    rng_key: PRNGKeyArray,
) -> DataTree:
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
    restart = settings.on_termination == "restart"
    logged = logged_value(logs, settings.gamma, restart=restart)
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
    groups: dict[str, dict[str, np.ndarray]] = {
        "posterior": {
            "value": drawn.value,
            **others,
            "weights": drawn.weights.astype(np.float32),
        },
        "sample_stats": {"loss": drawn.loss},
        "observed_data": {"reward": logs.reward[prepared.rows.mask]},
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
        "settings": _settings_dict(settings),
        "versions": {
            name: version(name) for name in ("bayesdice-ppl", "jax", "numpyro", "arviz", "numpy")
        },
        "rng_key": np.asarray(jax.random.key_data(rng_key)).tolist(),
        "n_transitions": logs.n_transitions,
        "n_episodes": logs.n_episodes,
        "n_terminated": int(logs.terminated.sum()),
        "rows_left_out": prepared.rows.left_out,
        "steps_left_out": list(prepared.rows.steps),
        "action_space": prepared.gathered.action_source,
        "n_actions": 0 if prepared.actions is None else len(prepared.actions),
        "logged_value": logged.value,
        "logged_value_standard_error": logged.standard_error,
        "logged_value_tail": logged.tail,
        "support_warnings": [warning._asdict() for warning in warnings],
        "reward_sd": float(np.std(logs.reward[prepared.rows.mask])),
    }
    coords = {
        "policy": list(names),
        "other_policy": list(names),
    }
    if settings.tabular:
        known = groups["constant_data"]
        labels = zip(known["pair_state"], known["pair_action"], strict=True)
        coords["pair"] = [f"{state}, {action}" for state, action in labels]
    n_chains = 1 if solution.sampled is None else solution.sampled.shape[1]
    weights = "pair" if settings.tabular else "feature"
    return make_belief(groups, coords, attrs, n_chains=n_chains, weights=weights)


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
    mean = np.asarray(problem.moments.prior_mean)[:, -1]
    sd = np.asarray(problem.moments.prior_scale)[:, -1]
    if statistic.name == "quantile":
        mean, sd = np.full_like(mean, np.nan), np.full_like(sd, np.nan)
    return {"prior_mean": mean, "prior_sd": sd}


def _extrapolates(prepared: Prepared) -> bool:
    """Whether features say something of actions that a state's logs do not have."""
    return not prepared.settings.tabular and not prepared.logs.vector_states


def _pair_table(prepared: Prepared) -> dict[str, np.ndarray]:
    """What the weights belong to: pairs, or features, with the ratio that these give on the log."""
    pairs, logs = prepared.pairs, prepared.logs
    if prepared.settings.tabular and prepared.actions is not None:
        return {
            "pair_state": logs.state_labels[pairs.state].astype(str),
            "pair_action": prepared.actions[pairs.action].astype(str),
            "pair_count": np.bincount(pairs.of_row),
        }
    return {
        "pilot_ratio": np.asarray(prepared.problem.pilots.ratio)[:, prepared.cell_of_row],
        "action_standard_error": action_sampling_error(prepared),
    }


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
