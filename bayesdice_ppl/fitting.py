"""Logs and candidates in, belief out: the library's main function.

`fit` only joins the parts, in the order in which data flows: the prepared problem, a posterior,
joint draws, and the belief that holds them with what the logs support.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import PRNGKeyArray

from bayesdice_ppl import statistics
from bayesdice_ppl.belief import SupportWarning, annotate
from bayesdice_ppl.features import FeatureChoice
from bayesdice_ppl.fit_layout import lay_out
from bayesdice_ppl.fit_statistics import (
    by_statistic,
    count_statistics,
    first_statistic,
    invert_quantiles,
    warnings_of_others,
)
from bayesdice_ppl.inference import (
    Normalization,
    NutsSettings,
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
from bayesdice_ppl.preparation import check_logged_policy, default_features, prepare_fit
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
    include_logged: bool = False,
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
    include_logged
        True: the policy that logged is one more policy of the belief, the last, named
        ``"logged"``, so that the candidates can be held against it. It is estimated from the same
        log, by how often it took each action in each state, and the belief knows that it is:
        ``belief.attrs["logged_policy"]`` has its name. For labels and one-hot features.
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
        include_logged=include_logged,
    )
    choices = [
        choose(features=default_features(logs) if given is None else given, prior_sd=sd)
        for given, sd in alternatives(features, prior_sd)
    ]
    settings = choices[0]
    table: tuple[Alternative, ...] = ()
    if len(choices) > 1:
        for each in choices:
            check_logged_policy(logs, each)
        # The choice is made for the candidates alone.
        judged = [each._replace(include_logged=False) for each in choices]
        settings, table = choose_regularization(logs, policies, judged, rng_key, folds=folds)
        settings = settings._replace(include_logged=include_logged)
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
    belief = lay_out(prepared, (problem, solution, drawn), (others, more), rng_key)
    if table:
        annotate(belief, regularization=table)
    return belief
