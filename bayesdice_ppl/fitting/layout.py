"""From a fit to its belief: measure support, warnings and the achieved constraint.

Logs and engine are both known here, so that the belief carries every warning about itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from bayesdice_ppl.arrays import compiled_for_jax, each
from bayesdice_ppl.belief import OwnVariables, SupportWarning, make_belief, origin
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.fitting import gauges
from bayesdice_ppl.fitting.choose_features import Alternative
from bayesdice_ppl.fitting.history import not_markov
from bayesdice_ppl.fitting.inputs import Inputs, Prepared
from bayesdice_ppl.fitting.overidentification import overidentification, unlike_others
from bayesdice_ppl.fitting.propensities import misfit_of, wrong_propensities
from bayesdice_ppl.fitting.reweighting import unlike_rows
from bayesdice_ppl.fitting.row_facts import RowFacts, facts_of
from bayesdice_ppl.fitting.settings import FitSettings
from bayesdice_ppl.fitting.simulated_states import outside_log
from bayesdice_ppl.fitting.support import (
    action_sampling_error,
    measure_support,
    support_warnings,
)
from bayesdice_ppl.fitting.tails import tail_warnings
from bayesdice_ppl.fitting.unseen import predicted_states, rests_on_unseen
from bayesdice_ppl.fitting.warnings import (
    adaptive_log,
    capped_weight,
    constant_reward,
    many_features,
    moved_shift,
    much_left_out,
    no_mode,
    odd_spread,
    one_start,
    outside_states,
    poor_clone,
    sampling_diagnostics,
    shared_errors,
    short_log,
    thin_spread,
    thin_tail,
    trained_networks,
    unconverged,
    unmet_constraint,
    unmixed,
    wrong_weights,
)
from bayesdice_ppl.inference import Draws, Problem, Solution, Tails, Unseen
from bayesdice_ppl.inference.achieved import closed_form_bounds
from bayesdice_ppl.logs import Logs
from bayesdice_ppl.models import Ratio
from bayesdice_ppl.policies import LOGGED

if TYPE_CHECKING:
    from xarray import DataTree

    from bayesdice_ppl.statistics import Statistic


class FittedValues(NamedTuple):
    """What was fitted of the belief's value.

    Attributes
    ----------
    problem, solution, drawn
        Problem, solution and draws.
    unseen
        What pairs that were never logged add; None where they add nothing.
    """

    problem: Problem
    solution: Solution
    drawn: Draws
    unseen: Unseen | None = None


def lay_out(
    prepared: Prepared,
    fitted: FittedValues,
    beside: tuple[Mapping[str, np.ndarray], Sequence[SupportWarning]],
    rng_key: PRNGKeyArray,
    table: Sequence[Alternative] = (),
) -> DataTree:
    """Lay out what was fitted as a belief.

    Parameters
    ----------
    prepared
        The problem of the plain mean, and the input that led to it.
    fitted
        The belief's value.
    beside
        Draws of each of several statistics by name, and the engine's warnings about them.
    rng_key
        The fit's key, kept as the seed.
    table
        The choices of features and prior that were compared, if there were several.

    Raises
    ------
    SettingsError
        Something is not finite.
    """
    others, more = beside
    inputs = prepared.inputs
    settings, logs, names = inputs.settings, inputs.logs, inputs.names
    facts = facts_of(inputs)
    spread = facts.spread
    problem, solution, drawn, unseen = fitted
    support = measure_support(prepared, facts.episode_shares(prepared.problem))
    df = np.asarray(problem.pilots.degrees_of_freedom)
    known = inputs.action_ratios
    outside = outside_log(inputs, rng_key)
    judged = overidentification(inputs, prepared.problem)
    index, tail_said = _tails(inputs, problem, facts)
    tails = problem.tails
    warnings = [
        *support_warnings(
            names,
            support,
            extrapolates=_extrapolates(inputs),
            latent=unseen is not None,
            n_episodes=_episodes_of_steps(logs),
            predicted=None if unseen is None else predicted_states(inputs),
        ),
        *one_start(inputs, problem, solution.value_sd),
        *rests_on_unseen(names, unseen, corrected=_corrected(problem)),
        *constant_reward(inputs, spread),
        *much_left_out(inputs),
        *many_features(inputs),
        *capped_weight(inputs),
        *outside_states(names, outside),
        *unlike_others(names, judged),
        *trained_networks(names, settings),
        *wrong_weights(inputs),
        *no_mode(names, prepared.problem.converged),
        *poor_clone(inputs),
        *thin_spread(names, df, problem.unit),
        *adaptive_log(names, problem.unit),
        *short_log(names, problem.unit),
        *shared_errors(names, problem.unit),
        *tail_said,
        *unconverged(names, solution.drift),
        *unmixed(names, solution),
        *more,
    ]
    mean, sd = solution.value_mean, solution.value_sd
    if unseen is not None:
        mean, sd, df = mean + unseen.shift, unseen.sd(sd), unseen.degrees_of_freedom
    statistic = settings.statistic[0]
    if settings.value_implied or statistic.inverted:
        mean, sd = drawn.value.mean(axis=0), drawn.value.std(axis=0, ddof=1)
    arrays = (mean, sd, drawn.value, *others.values())
    if not all(np.isfinite(array).all() for array in arrays):
        raise SettingsError(
            "rewards: expected rewards and prior scales that give a finite belief in double "
            "precision, found one that is not finite. Rescale the rewards to the order of 1."
        )
    if statistic.plain:
        warnings += odd_spread(names, sd, spread, settings.gamma)
        if settings.tabular and unseen is None:
            warnings += moved_shift(names, support.moved_mass, sd, spread.sd)
    held, problem_of_held = facts.in_order(problem)
    unfit = misfit_of(held)
    warnings += wrong_propensities(names, unfit)
    sound = unfit is not None and unfit.found <= gauges.PROPENSITIES.warns
    warnings += unlike_rows(held, problem_of_held, sd, sound=sound)
    warnings += not_markov(held, problem_of_held, sd)
    probability, bound = _achieved(problem, solution, drawn, settings)
    warnings += unmet_constraint(names, probability, settings)
    for one in settings.statistic:
        warnings += thin_tail(names, one, support.effective_sample_size)
    prior_mean, prior_sd = _prior(problem, statistic)
    # What a pair is worth to another statistic than the mean is no reward.
    in_rewards = unseen if statistic.plain else None
    own_lam, own_epsilon, own_probability = _normalization(problem, drawn)
    n_chains = 1 if solution.sampled is None else solution.sampled.shape[1]
    return make_belief(
        drawn.value.reshape(n_chains, -1, len(names)),
        names,
        statistics=others,
        own=_own_variables(prepared, drawn, unseen),
        loss=drawn.loss,
        elbo=solution.elbo if solution.elbo.size else None,
        reward=facts.kept,
        reward_range=None if facts.kept is not None else [spread.least, spread.most],
        guide_mean=mean,
        guide_sd=sd,
        degrees_of_freedom=df,
        skewness=_skewness(tails, unseen),
        effective_errors=None if tails is None else tails.effective,
        tail_index=index,
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
        capped_share=None if known is None else known.capped,
        outside_share=None if outside is None else outside.share,
        j_statistic=None if judged is None else judged.statistic,
        j_tests=None if judged is None else judged.tests,
        j_p_value=None if judged is None else judged.p_value,
        error_inflation=None if problem.unit is None else problem.unit.wider,
        unit=None if problem.unit is None else problem.unit.summary,
        clone=None if known is None else known.report,
        action_standard_error=None if settings.tabular else action_sampling_error(prepared),
        unseen_mass=None if unseen is None else unseen.mass,
        unseen_base=None if in_rewards is None else in_rewards.base,
        unseen_shift=None if in_rewards is None else in_rewards.shift,
        unseen_share=None if unseen is None else unseen.share,
        unseen_covariance=None if in_rewards is None else in_rewards.latents,
        unseen_spread=None if in_rewards is None else in_rewards.spread,
        unseen_move=None if in_rewards is None else in_rewards.move,
        unseen_alike=None if in_rewards is None else in_rewards.alike,
        unseen_state=None if unseen is None else _unseen_labels(inputs)[0],
        unseen_action=None if unseen is None else _unseen_labels(inputs)[1],
        **sampling_diagnostics(solution),
        **support._asdict(),
        **origin(
            logs,
            gamma=settings.gamma,
            restart=settings.form.moments.restart,
            rng_key=rng_key,
            earned=facts.logged_value(problem.unit),
        ),
        settings=settings.flat,
        engine=settings.engine_words,
        chains=_chains(solution, settings),
        without_draws=_without_draws(inputs, drawn),
        rows_left_out=inputs.rows.left_out,
        steps_left_out=list(inputs.rows.steps),
        action_space=inputs.action_source,
        n_actions=0 if inputs.actions is None else len(inputs.actions),
        support_warnings=warnings,
        reward_sd=spread.sd,
        logged_policy=LOGGED if settings.include_logged else None,
        regularization=table or None,
    )


def _chains(solution: Solution, settings: FitSettings) -> str:
    """What the chains of a belief are."""
    if solution.sampled is None or solution.sampled.shape[1] < 2:
        return (
            f"one chain of independent draws ({settings.inference.name}). No chains mixed, so that "
            "R-hat is not defined, and as many draws are effective as there are."
        )
    return (
        f"{solution.sampled.shape[1]} chains of {settings.inference.name}. constant_data has r_hat "
        "and effective_draws of the values as they were sampled. The joint draws were put in "
        "another order after that, so that R-hat of their chains says nothing."
    )


def _episodes_of_steps(logs: Logs) -> int:
    """Number of episodes, or 1 where each row is an episode of its own."""
    return logs.n_episodes if logs.n_episodes < logs.n_transitions else 1


def _skewness(tails: Tails | None, unseen: Unseen | None) -> np.ndarray | None:
    """That of the values as they are drawn; see `bayesdice_ppl.inference.draw`."""
    if tails is None or unseen is None:
        return None if tails is None else tails.skewness
    return np.asarray(tails.diluted(unseen.kept_lean).skewness)


def _corrected(problem: Problem) -> bool:
    """Whether a bias was taken out of the means of logged pairs."""
    return problem.unit is not None and problem.unit.correction is not None


def _tails(
    inputs: Inputs, problem: Problem, facts: RowFacts
) -> tuple[Float[np.ndarray, " N"] | None, list[SupportWarning]]:
    """Index of the rewards' tail, if the value is their mean, and what is to be said of tails."""
    tails, index = problem.tails, None
    if tails is None:
        return None, []
    if inputs.settings.statistic[0].plain and inputs.settings.tabular:
        active = np.asarray(inputs.candidates.active) > 0.0
        index = facts.tail_indices(tails, active)
    return index, tail_warnings(inputs.names, tails, index)


def _achieved(
    problem: Problem, solution: Solution, drawn: Draws, settings: FitSettings
) -> tuple[np.ndarray, np.ndarray]:
    """P_q(ell <= epsilon), and the surrogate's bound: in closed form, or else over the draws."""
    surrogate = settings.constraint.surrogate
    linear = settings.model.linear or problem.tangent
    known = closed_form_bounds(problem, solution, surrogate, linear=linear)
    if known is not None:
        return known.probability, known.bound
    epsilon = np.array([price.epsilon for price in problem.prices])
    assert drawn.loss is not None  # the weights were not eliminated
    excess = drawn.loss / epsilon
    bounds = [surrogate.bound(column) for column in excess.T]
    return np.mean(excess <= 1.0, axis=0), np.array(bounds)


def _normalization(problem: Problem, drawn: Draws) -> tuple[np.ndarray | None, ...]:
    """Lambda, epsilon and achieved probability of a normalization with its own constraint."""
    own = problem.constraint.auxiliary
    if own is None or drawn.normalization is None:
        return None, None, None
    epsilon = np.asarray(own.epsilon)
    achieved = np.mean(drawn.normalization <= epsilon, axis=0)
    return np.asarray(own.price) * epsilon, epsilon, achieved


def _without_draws(inputs: Inputs, drawn: Draws) -> str | None:
    """Why the belief has no draws of the ratio, or None if it has."""
    if drawn.recorded is not None:
        return None
    if inputs.settings.numerics.weights is False:
        return "The belief has no draws of the ratio and of the loss, as weights=False asked for."
    n_policies, n_pairs = inputs.candidates.active.shape
    return (
        f"The belief has no draws of the ratio and of the loss: {n_pairs:,} pairs x {n_policies:,} "
        f"candidates x {inputs.settings.draws:,} draws. In Python "
        "numerics=bd.Numerics(weights=True) draws them."
    )


def _prior(problem: Problem, statistic: Statistic) -> tuple[np.ndarray, np.ndarray]:
    """Prior mean and sd of each value; NaN for a quantile: its prior is on the mass below it."""
    with jax.enable_x64(True):
        mean, sd = (np.asarray(array) for array in _prior_values(problem.ratio))
    if statistic.inverted:
        mean, sd = np.full_like(mean, np.nan), np.full_like(sd, np.nan)
    return mean, sd


@compiled_for_jax
def _prior_values(ratio: Ratio) -> tuple[Any, Any]:
    """Mean and standard deviation of every value's prior."""

    def mean_and_sd(ratio: Ratio) -> tuple[Any, Any]:
        prior = ratio.value_prior()
        return prior.mean, jnp.sqrt(prior.variance)

    return each(mean_and_sd, ratio)


def _extrapolates(inputs: Inputs) -> bool:
    """Whether features say something about actions that were not logged in a state."""
    return not inputs.settings.tabular and not inputs.logs.vector_states


def _unseen_labels(inputs: Inputs) -> tuple[np.ndarray, np.ndarray]:
    """States and actions of the pairs that were never logged, as text."""
    assert inputs.unseen is not None  # they are latents
    assert inputs.actions is not None
    states = inputs.logs.state_labels[inputs.unseen.state].astype(str)
    return states, inputs.actions[inputs.unseen.action].astype(str)


def _own_variables(prepared: Prepared, drawn: Draws, unseen: Unseen | None) -> OwnVariables:
    """What the model records of the ratio, and the pairs or features that it belongs to."""
    inputs = prepared.inputs
    pairs, logs, tabular = inputs.pairs, inputs.logs, inputs.settings.tabular
    variable, dim = inputs.settings.model.record(tabular=tabular)
    draws = {}
    if drawn.recorded is not None:
        draws = {variable: (drawn.recorded.astype(np.float32), ("policy", dim))}
    if tabular and inputs.actions is not None:
        state = logs.state_labels[pairs.state].astype(str)
        action = inputs.actions[pairs.action].astype(str)
        coords = {"pair": [f"{s}, {a}" for s, a in zip(state, action, strict=True)]}
        if unseen is not None:
            states, actions = _unseen_labels(inputs)
            coords["unseen_pair"] = [f"{s}, {a}" for s, a in zip(states, actions, strict=True)]
        return OwnVariables(
            draws=draws,
            constants={
                "pair_state": (state, ("pair",)),
                "pair_action": (action, ("pair",)),
                "pair_count": (facts_of(inputs).visits.astype(np.int64), ("pair",)),
            },
            coords=coords,
        )
    ratio = np.asarray(prepared.problem.pilots.ratio)[:, inputs.cell_of_row]
    return OwnVariables(draws=draws, constants={"pilot_ratio": (ratio, ("policy", "transition"))})
