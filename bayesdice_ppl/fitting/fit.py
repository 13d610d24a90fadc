"""Logs and candidates in, belief out: the library's main function.

`fit` only joins the parts, in the order in which data flows: the prepared problem, a posterior,
joint draws, and the belief that holds them with its support and warnings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jaxtyping import PRNGKeyArray

from bayesdice_ppl.belief import annotate
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.features import FeatureChoice
from bayesdice_ppl.fitting.choose_features import Alternative, alternatives, choose_features
from bayesdice_ppl.fitting.counted import check_counted, check_counted_rewards
from bayesdice_ppl.fitting.defaults import with_defaults
from bayesdice_ppl.fitting.layout import FittedValues, lay_out
from bayesdice_ppl.fitting.prepare import check_logged_policy, prepare_fit
from bayesdice_ppl.fitting.row_facts import facts_of
from bayesdice_ppl.fitting.settings import (
    FitSettings,
    Numerics,
    flat_settings,
    refuse_moved,
    with_preset,
)
from bayesdice_ppl.fitting.several_rewards import OneReward, check_several, join_rewards
from bayesdice_ppl.fitting.statistics import (
    by_statistic,
    count_statistics,
    first_statistic,
    invert_quantiles,
    warnings_of_others,
)
from bayesdice_ppl.fitting.units import from_units, in_units, settings_in_units, units_of
from bayesdice_ppl.fitting.unseen import unseen_of
from bayesdice_ppl.inference import draw, search_price, solve
from bayesdice_ppl.keys import check_key, split_key
from bayesdice_ppl.logs import AnyLogs, CountedLogs, Logs
from bayesdice_ppl.logs.action_sets import RENORMALIZED
from bayesdice_ppl.logs.clock import note_on_order
from bayesdice_ppl.moments import Prior, check_rewards
from bayesdice_ppl.policies import ContinuousPolicy, Policies, Policy
from bayesdice_ppl.progress import parts, stage

if TYPE_CHECKING:
    import numpy as np
    from xarray import DataTree

    from bayesdice_ppl.belief import SupportWarning
    from bayesdice_ppl.constraint import Constraint
    from bayesdice_ppl.inference import Engine
    from bayesdice_ppl.models import RatioModel
    from bayesdice_ppl.statistics import Statistic


def fit(
    logs: AnyLogs,
    policies: Mapping[str, Any],
    *,
    gamma: float,
    rng_key: PRNGKeyArray,
    features: FeatureChoice | Sequence[FeatureChoice] | None = None,
    model: RatioModel | str | None = None,
    inference: Engine | str | None = None,
    statistic: Statistic | str | Sequence[Statistic | str] | None = None,
    behavior: str | None = None,
    on_termination: str | None = None,
    cluster: str | Sequence[str] | None = None,
    joint: bool | None = None,
    draws: int | None = None,
    include_logged: bool = False,
    preset: str | None = None,
    prior: Prior | Sequence[Prior] | None = None,
    constraint: Constraint | None = None,
    numerics: Numerics | None = None,
    **moved: Any,
) -> DataTree:
    """Fit a joint belief over the candidates' values.

    Parameters
    ----------
    logs
        Logged transitions of one policy.
    policies
        Name -> candidate: an object, a function, a dict, an array or a table, as `Policies` takes.
    gamma
        Discount in [0, 1]: 0 is a bandit, 1 the average reward.
    rng_key
        A key of `jax.random`; the same key, logs and settings give the same belief.
    features
        What ratio and multipliers can tell apart, from `bayesdice_ppl.features`. By default
        one-hot for labels. For vectors random Fourier features: of the state where the logging
        policy is known and gamma is above 0, at most 300 and one for 40 transitions; else of state
        and action, at most 200. From a list, the one with the least held-out loss is taken;
        ``belief.attrs["regularization"]`` reports all.
    model
        The model of the ratio: ``"linear"``, one made by `bayesdice_ppl.models`, or one of your own
        (see `bayesdice_ppl.models.RatioModel`). ``linear(link="exp")``, whose ratio is positive, is
        the default for vectors where the logging policy is known and gamma is above 0, ``linear()``
        elsewhere. ``neural()`` is a small network, and ``mean_deviation()`` the paper's networks.
    inference
        ``"auto"`` (default): the closed form where there is one; elsewhere on vectors the closed
        form around the mode, and else SVI. ``belief.attrs["engine"]`` says which. ``"svi"``: SVI on
        the NumPyro program; ``"exact"``: its closed form; ``"laplace"``: the closed form around the
        mode; ``"nuts"``: draws from the same program in several chains, which is slow and checks
        the others; ``"minmax"``: min-max training, for ``mean_deviation()``. Or an engine with its
        settings, from `bayesdice_ppl.inference`: ``Svi(windows=8)``, ``Nuts(chains=8)``.
    statistic
        What a value is: a statistic of the one-step reward from `bayesdice_ppl.statistics`, such as
        ``cvar(0.1)``; the mean if None. The first of a list is the belief's ``value``. Each is also
        kept under its own name, all in one joint belief.
    behavior
        For vectors, where the logging policy is known from. The ratio is then the candidate's
        probability of each action over the logging policy's, times a function that is learned.
        ``"logged"``: the log's propensities, the default where it has them. ``"cloned"``: a policy
        cloned from the log, the default elsewhere. ``"none"``: the whole ratio is learned.
    on_termination
        ``"restart"`` (default): a fresh start follows; ``"absorb"``: reward 0 for ever.
    cluster
        The independent unit: ``"transition"``, ``"episode"``, a column of the log such as
        ``"user_id"``, or two columns that cross, ``("user_id", "day")``. By default transitions for
        one-hot features, and episodes for others, which cannot express every action value; and
        beyond them what the log shows: if rows of one episode, of one value of a column (named as a
        unit, such as ``user_id`` or ``site``, or of 20 values and more), or rows that follow each
        other where there are few episodes, move together, these are the unit.
        ``belief.attrs["unit"]`` says which, and ``constant_data/error_inflation`` how much wider
        errors are. A belief that was told ``"transition"`` or ``"episode"`` has neither, unless its
        log is adaptive.
    joint
        True (default): values move together as errors on the same logs do; False: the paper's
        product of marginals.
    draws
        Number of posterior draws (4,000). NUTS divides them among its chains, rounding down.
    include_logged
        True: the belief has the logging policy too, as the last one, named ``"logged"``, to compare
        the candidates with. It is estimated by how often it took each action in each state, and
        the belief includes the error of that estimate. ``belief.attrs["logged_policy"]`` has its
        name. For labels and one-hot features.
    preset
        ``"paper"``: squared penalty, no value constraint, independent candidates.
    prior
        Prior standard deviations: ``bd.Prior(ratio_sd=10, value_sd=10)``; and what pairs that were
        never logged are worth: ``bd.Prior(unseen="pooled")``. From a list, one is chosen as for
        ``features``.
    constraint
        The chance constraint: ``bd.Constraint(penalty=..., surrogate=..., lam=..., ...)``.
    numerics
        What sets cost and Monte Carlo error: ``bd.Numerics(action_draws=32, folds=5)``.
    **moved
        No settings: names that were settings once are refused, with their new place.

    Returns
    -------
    xarray.DataTree
        ``belief["posterior/value"]`` has the dims (chain, draw, policy), in reward per step. Of a
        log that was read with several rewards, it is the value of the first; each has its value
        under its own name, ``belief["posterior/cost"]``, all in one joint belief.

    Raises
    ------
    LogsError, PoliciesError, SettingsError
        The input cannot be used; the message says where.

    References
    ----------
    Yang, Dai, Nachum, Tucker, Schuurmans, "Offline Policy Selection under Uncertainty".
    """
    refuse_moved("fit", moved)
    check_key(rng_key)
    given = with_preset(
        preset,
        {
            "model": model,
            "inference": inference,
            "statistic": statistic,
            "behavior": behavior,
            "on_termination": on_termination,
            "cluster": cluster,
            "joint": joint,
            "draws": draws,
            "include_logged": include_logged,
            "constraint": constraint,
            "numerics": numerics,
        },
    )
    given = with_defaults(logs, gamma, {**given, "features": features})
    maps = given.pop("features")
    choices = [
        FitSettings(gamma, **given, features=chosen, prior=width)
        for chosen, width in alternatives(maps, Prior() if prior is None else prior)
    ]
    return fit_settings(logs, policies, choices, rng_key)


def fit_settings(
    logs: AnyLogs,
    policies: Mapping[str, Policy | ContinuousPolicy],
    choices: Sequence[FitSettings],
    rng_key: PRNGKeyArray,
) -> DataTree:
    """Fit under the best of several settings that differ in features and prior; see `fit`."""
    candidates = policies if isinstance(policies, Policies) else Policies(policies)
    if isinstance(logs, CountedLogs):
        for each in choices:
            check_counted(logs, each)
    held = logs.sample if isinstance(logs, CountedLogs) else logs
    names = logs.rewards if isinstance(logs, Logs) else ()
    more: tuple[str, ...] = ()
    if isinstance(logs, CountedLogs) or len(names) < 2:
        one = _fit_reward(logs, candidates, choices, rng_key)
        belief, more = one.belief, facts_of(one.inputs).notes
    else:
        check_several(choices, names)
        fitted = [
            _fit_reward(logs.with_reward(name), candidates, choices, rng_key)
            for name in parts("rewards", names)
        ]
        belief = join_rewards(names, fitted, rng_key)
    notes = [*candidates.notes, *more]
    if isinstance(logs, Logs) and logs.allowed is not None:
        notes.append(RENORMALIZED)
    disorder = note_on_order(held) if isinstance(held, Logs) else None
    if disorder is not None:
        notes.append(disorder)
    if notes:
        annotate(belief, notes=notes)
    return belief


def _fit_reward(
    logs: AnyLogs,
    policies: Mapping[str, Policy | ContinuousPolicy],
    choices: Sequence[FitSettings],
    rng_key: PRNGKeyArray,
) -> OneReward:
    """Fit the log's reward, in units in which neither its zero nor its scale matter."""
    if isinstance(logs, CountedLogs):
        for each in choices:
            check_counted_rewards(logs, each)
    elif isinstance(logs, Logs):
        for each in choices:
            check_rewards(each.prior.rewards, logs.reward, logs.reward_name)
    units = units_of(logs, choices[0])
    moved = [settings_in_units(each, units) for each in choices]
    with stage("fit"):
        fitted = _fit(in_units(logs, units), policies, moved, rng_key)
    return fitted._replace(belief=from_units(fitted.belief, units, logs, choices[0]))


def _fit(
    logs: AnyLogs,
    policies: Mapping[str, Policy | ContinuousPolicy],
    choices: Sequence[FitSettings],
    rng_key: PRNGKeyArray,
) -> OneReward:
    settings = choices[0]
    table: tuple[Alternative, ...] = ()
    if len(choices) > 1 and isinstance(logs, CountedLogs):
        raise SettingsError(
            "features, prior: expected one choice for a log that is counted where it lies, found "
            f"{len(choices)}. A choice among several is made by rows that are held out."
        )
    if len(choices) > 1 and isinstance(logs, Logs):
        for each in choices:
            check_logged_policy(logs, each)
        # The choice is made for the candidates alone.
        judged = [replace(each, include_logged=False) for each in choices]
        best, table = choose_features(logs, policies, judged, rng_key)
        settings = replace(best, include_logged=settings.include_logged)
    trained = settings.needs_training
    with stage("log, features and first estimates"):
        prepared = prepare_fit(
            logs, policies, settings, rng_key, guided=False, judged=not trained, alone=True
        )
    inputs, form, engine = prepared.inputs, settings.form, settings.inference
    problem, candidates, names = prepared.problem, inputs.candidates, inputs.names
    if not settings.plain:
        entries = count_statistics(prepared)
        problem, candidates, names = entries.problem, entries.candidates, entries.names
    keys = split_key(rng_key)
    if form.constraint.searched:
        with stage("search of lambda"):
            problem = search_price(problem, candidates, names, keys, form, engine, settings.drawing)
    with stage(f"posterior ({engine.name})"):
        solution = solve(problem, keys[0], form, engine, settings.draws)
    with stage("joint draws"):
        unseen = unseen_of(inputs, problem, candidates)
        drawn = draw(problem, solution, candidates, keys[1], form, settings.drawing, unseen)
    others: dict[str, np.ndarray] = {}
    more: list[SupportWarning] = []
    if not settings.plain:
        entries = entries._replace(problem=problem)
        drawn = invert_quantiles(inputs, entries, solution, drawn, unseen)
        others = by_statistic(inputs, drawn)
        more = warnings_of_others(inputs, problem, solution)
        problem, solution, drawn = first_statistic(inputs, problem, solution, drawn)
    own = None if unseen is None else unseen.first(len(inputs.names))
    fitted = FittedValues(problem, solution, drawn, own)
    with stage("checks of the belief"):
        belief = lay_out(prepared, fitted, (others, more), rng_key, table)
    return OneReward(belief, inputs, problem, own)


def fit_flat(
    logs: AnyLogs,
    policies: Mapping[str, Policy | ContinuousPolicy],
    *,
    rng_key: PRNGKeyArray,
    **flat: Any,
) -> DataTree:
    """Fit under flat settings, as the command line and a belief have them."""
    check_key(rng_key)
    settings = settings_for(logs, **flat)
    return fit_settings(logs, policies, [settings], rng_key)


def settings_for(logs: AnyLogs, **flat: Any) -> FitSettings:
    """Settings from flat names, with the defaults that suit a log; see `fit_flat`."""
    # The words of `behavior` are checked beside the features that the log gets.
    late = ("behavior", "inference")
    asked = flat_settings(**{name: each for name, each in flat.items() if name not in late})
    model = None if flat.get("link") is None else asked.model
    own = flat.get("model") if model is None else model
    chosen = {**flat, "model": own, "constraint": asked.constraint}
    given = with_defaults(logs, asked.gamma, chosen)
    if model is not None:
        del given["model"]
    del given["constraint"]
    return flat_settings(**given)
