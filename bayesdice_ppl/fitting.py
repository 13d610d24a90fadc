"""Logs and candidates in, belief out: the library's main function.

`fit` only joins the parts, in the order in which data flows: the prepared problem, a posterior,
joint draws, and the belief that holds them with what the logs support.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from bayesdice_ppl.belief import SupportWarning, make_belief
from bayesdice_ppl.diagnostics.logged import logged_value
from bayesdice_ppl.diagnostics.support import support_warnings
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.inference import (
    Draws,
    FitSettings,
    NutsSettings,
    Solution,
    SviSettings,
    draw,
    make_settings,
    search_price,
    solve,
    split_key,
)
from bayesdice_ppl.keys import check_key
from bayesdice_ppl.logs import Logs
from bayesdice_ppl.penalties import PenaltyChoice
from bayesdice_ppl.policies import ContinuousPolicy, Policy
from bayesdice_ppl.preparation import Prepared, measure_support, prepare_fit

if TYPE_CHECKING:
    from xarray import DataTree

    from bayesdice_ppl.surrogates import Surrogate

THIN_DF = (2.0, 4.0)
"""Degrees of freedom at which the belief abstains (no variance), and at which it warns."""
LEFT_OUT = (0.2, 0.5)
"""Share of transitions left out at which the belief warns, and at which it abstains."""
NO_SPREAD = 1e-4
"""Share of the rewards' sd below which a belief has no width of its own."""
R_HAT, EFFECTIVE_DRAWS, DIVERGING = 1.05, 100.0, 0.01
"""Past these NUTS counts as not mixed: R-hat, effective draws, share of divergent ones."""
DRIFT = 0.1
"""How far SVI may move in its last window: mean in sds, sd relative."""


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
    on_termination: str | None = None,
    cluster: str | None = None,
    joint: bool | None = None,
    small_sample: bool | None = None,
    value_constraint: bool | None = None,
    lam: float | str | None = None,
    epsilon: float | None = None,
    xi: float | None = None,
    prior_sd: float | None = None,
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
    on_termination
        ``"restart"`` (default): a fresh start follows; ``"absorb"``: reward 0 for ever.
    cluster
        ``"transition"`` (default) or ``"episode"``: what is independent of what.
    joint
        True (default): values move together as errors on the same logs do; False: the paper's
        product of marginals.
    small_sample
        True (default): pairs that were logged a few times widen the belief. Off with the squared
        penalty, or without the value constraint, which it is a rule for.
    value_constraint
        True (default): the noise of the rewards is part of the belief.
    lam, epsilon, xi
        The chance constraint P(ell <= epsilon) >= xi at price lambda; by default xi = 0.95,
        epsilon = chi2_{r, xi} / (2 n), lambda = n epsilon. With ``lam="search"`` lambda is the
        least at which the constraint holds under q, which narrows q: it is then no longer
        calibrated.
    prior_sd, value_prior_sd
        Prior standard deviations of the ratio (10), and of the value in those of the reward (10).
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
    settings = make_settings(
        gamma=gamma,
        preset=preset,
        inference=inference,
        penalty=penalty,
        surrogate=surrogate,
        link=link,
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
        nuts=nuts,
    )
    prepared = prepare_fit(logs, policies, settings)
    key_solve, key_draw = split_key(rng_key)
    if settings.lam == "search":
        keys = (key_solve, key_draw)
        problem = search_price(
            prepared.problem, prepared.candidates, prepared.aligned.names, keys, settings
        )
        prepared = replace(prepared, problem=problem)
    solution = solve(prepared.problem, key_solve, settings)
    drawn = draw(prepared.problem, solution, prepared.candidates, key_draw, settings)
    return _lay_out(prepared, solution, drawn, rng_key)


def _lay_out(
    prepared: Prepared, solution: Solution, drawn: Draws, rng_key: PRNGKeyArray
) -> DataTree:
    settings, logs, pairs = prepared.settings, prepared.logs, prepared.pairs
    names = prepared.aligned.names
    problem = prepared.problem
    support = measure_support(prepared)
    df = np.asarray(problem.pilots.degrees_of_freedom)
    warnings = [
        *support_warnings(names, support),
        *_constant_reward(names, logs, prepared),
        *_much_left_out(names, logs, prepared),
        *_thin_spread(names, df),
        *_unconverged(names, solution.drift),
        *_unmixed(names, solution),
    ]
    restart = settings.on_termination == "restart"
    logged = logged_value(logs, settings.gamma, restart=restart)
    mean = np.asarray(solution.posterior.mean)
    sd = np.sqrt(np.sum(np.asarray(solution.posterior.factor)[:, -1] ** 2, axis=-1))
    mean = mean[:, -1]
    if settings.link != "identity" and not settings.value_constraint:
        mean, sd = drawn.value.mean(axis=0), drawn.value.std(axis=0, ddof=1)
    if not (np.isfinite(mean).all() and np.isfinite(sd).all() and np.isfinite(drawn.value).all()):
        raise SettingsError(
            "the belief is not finite: rewards or prior scales are too large or too small for "
            "double precision. Rescale the rewards to the order of 1."
        )
    warnings += _odd_spread(names, sd, logs.reward[prepared.rows.mask])
    epsilon = np.array([price.epsilon for price in problem.prices])
    states = logs.state_labels[pairs.state]
    actions = prepared.aligned.actions[pairs.action]
    groups: dict[str, dict[str, np.ndarray]] = {
        "posterior": {"value": drawn.value, "weights": drawn.weights.astype(np.float32)},
        "sample_stats": {"loss": drawn.loss},
        "observed_data": {"reward": logs.reward[prepared.rows.mask]},
        "constant_data": {
            "guide_mean": mean,
            "guide_sd": sd,
            "degrees_of_freedom": df,
            "svi_drift": solution.drift.max(axis=1),
            "prior_mean": np.asarray(problem.moments.prior_mean)[:, -1],
            "prior_sd": np.asarray(problem.moments.prior_scale)[:, -1],
            "correlation": drawn.correlation,
            "lam": np.array([price.lam for price in problem.prices]),
            "epsilon": epsilon,
            "xi": np.array([price.xi for price in problem.prices]),
            "constraint_probability": np.mean(drawn.loss <= epsilon, axis=0),
            "surrogate_level": solution.level,
            "surrogate_bound": np.array(
                [settings.surrogate.bound(x) for x in (drawn.loss / epsilon).T]
            ),
            **sampling_diagnostics(solution),
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
        "n_terminated": int(logs.terminated.sum()),
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
    n_chains = 1 if solution.sampled is None else solution.sampled.shape[1]
    return make_belief(groups, coords, attrs, n_chains=n_chains)


def _constant_reward(
    names: tuple[str, ...], logs: Logs, prepared: Prepared
) -> list[SupportWarning]:
    """Say so when every usable reward is the same: their spread then cannot be learned."""
    reward = logs.reward[prepared.rows.mask]
    if np.ptp(reward) > 0.0:
        return []
    reason = (
        f"every logged reward is {reward[0]:g}, so that the logs cannot tell how far another "
        "policy's rewards would differ."
    )
    return [SupportWarning(name, reason, True) for name in names]


def _much_left_out(names: tuple[str, ...], logs: Logs, prepared: Prepared) -> list[SupportWarning]:
    """Say so when most of the log could not be used."""
    share = prepared.rows.left_out / logs.n_transitions
    if share <= LEFT_OUT[0]:
        return []
    reason = (
        f"{share:.0%} of the transitions are left out, since the log does not say where some of "
        "them led; add a column next_state."
    )
    return [SupportWarning(name, reason, share > LEFT_OUT[1]) for name in names]


def _thin_spread(names: tuple[str, ...], df: np.ndarray) -> list[SupportWarning]:
    """Say so when the spread itself rests on so little that it has no finite variance."""
    return [
        SupportWarning(
            name,
            f"its spread rests on few visits to the pairs that matter ({value:.1f} degrees of "
            "freedom), and has hardly a variance.",
            bool(value <= THIN_DF[0]),
        )
        for name, value in zip(names, df, strict=True)
        if value <= THIN_DF[1]
    ]


def _odd_spread(names: tuple[str, ...], sd: np.ndarray, reward: np.ndarray) -> list[SupportWarning]:
    """Say so when a belief is wider than all rewards, or has no width where rewards vary."""
    found = []
    span = float(np.ptp(np.append(reward, 0.0)))
    for name, value in zip(names, sd, strict=True):
        if value > span:
            reason = (
                f"its belief (sd {value:.3g}) is wider than the range of the rewards: the log does "
                "not determine its value (at gamma = 1, are all states connected?)."
            )
            found.append(SupportWarning(name, reason, True))
        elif np.ptp(reward) > 0.0 and value < NO_SPREAD * np.std(reward):
            reason = (
                "its belief has no width, since nothing ever varied within the state-action pairs "
                "it visits; the logs cannot tell how far they would vary."
            )
            found.append(SupportWarning(name, reason, True))
    return found


def _unconverged(names: tuple[str, ...], drift: np.ndarray) -> list[SupportWarning]:
    """Say so when SVI was still moving in its last window."""
    return [
        SupportWarning(
            name,
            f"SVI has not converged: in its last window the value's mean still moved by {mean:.2g} "
            f"sd and its sd by {sd:.0%}; give it more windows, or use inference='exact'.",
            True,
        )
        for name, (mean, sd) in zip(names, drift, strict=True)
        if not max(mean, sd) <= DRIFT
    ]


def sampling_diagnostics(solution: Solution) -> dict[str, np.ndarray]:
    """How well NUTS's chains mixed, on the values as they were sampled; nothing of other engines.

    The joint belief reorders draws, after which chains say nothing, so it is measured before.
    """
    if solution.sampled is None:
        return {}
    from numpyro.diagnostics import effective_sample_size, split_gelman_rubin

    values = np.moveaxis(solution.sampled[..., -1], 0, -1)
    return {
        "r_hat": np.asarray(split_gelman_rubin(values)),
        "effective_draws": np.asarray(effective_sample_size(values)),
        "diverging": np.asarray(solution.diverging),
    }


def _unmixed(names: tuple[str, ...], solution: Solution) -> list[SupportWarning]:
    """Say so when NUTS's chains disagree, or stumble."""
    found = sampling_diagnostics(solution)
    if not found:
        return []
    warnings = []
    for name, r_hat, ess, diverging in zip(names, *found.values(), strict=True):
        if not (r_hat <= R_HAT and ess >= EFFECTIVE_DRAWS and diverging <= DIVERGING):
            reason = (
                f"NUTS has not mixed: R-hat {r_hat:.3f}, {ess:.0f} effective draws, "
                f"{diverging:.1%} divergent; give it more warmup and draws."
            )
            warnings.append(SupportWarning(name, reason, True))
    return warnings


def _settings_dict(settings: FitSettings) -> dict[str, Any]:
    return {
        **settings._asdict(),
        "penalty": str(settings.penalty),
        "surrogate": str(settings.surrogate),
        "svi": settings.svi._asdict(),
        "nuts": settings.nuts._asdict(),
    }
