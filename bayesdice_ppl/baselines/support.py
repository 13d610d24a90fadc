"""Warnings about what the log cannot tell of the candidates, whatever the method.

For labels the support is measured as by `bayesdice_ppl.fit`. The answers are checked too: how many
episodes they rest on, and whether any policy could have such a value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import PRNGKeyArray

from bayesdice_ppl.baselines.interface import Baseline, Estimate
from bayesdice_ppl.belief import SupportWarning
from bayesdice_ppl.fitting import FitSettings, gauges, prepare_fit
from bayesdice_ppl.fitting.inputs import Inputs
from bayesdice_ppl.fitting.propensities import misfit_of, wrong_propensities
from bayesdice_ppl.fitting.row_facts import facts_of
from bayesdice_ppl.fitting.support import (
    measure_support,
    support_warnings,
)
from bayesdice_ppl.fitting.units import in_units, units_of
from bayesdice_ppl.fitting.warnings import constant_reward, much_left_out
from bayesdice_ppl.logs import Logs
from bayesdice_ppl.policies import Policies

ROUNDING = 1e-12
"""Share of the largest reward by which a value may pass it."""


@dataclass(frozen=True, eq=False)
class Answers:
    """What a method says of all candidates.

    Attributes
    ----------
    method
        The baseline.
    names
        The N candidates, in the order given.
    estimates
        One `Estimate` each.
    logs, policies, gamma, level, rng_key, on_termination
        The question.
    """

    method: Baseline
    names: tuple[str, ...]
    estimates: tuple[Estimate, ...]
    logs: Logs
    policies: Policies
    gamma: float
    level: float
    rng_key: PRNGKeyArray | None
    on_termination: str


def support_of(found: Answers) -> tuple[dict[str, Any], dict[str, Any]]:
    """Figures and attributes that say what the log holds of every candidate.

    Returns
    -------
    (dict, dict)
        Variables of a belief's `constant_data`, each of shape (N,), and its attributes. Support is
        not measured here for logs of vectors: there are no figures, and `support_warnings` only
        about the answers themselves.
    """
    of_answers = [
        warning._asdict() for warning in (*few_episodes(found), *impossible_values(found))
    ]
    if found.logs.vector_states or found.logs.vector_actions:
        # An empty list would read as if the log had been found to cover the candidates.
        return {}, {"support_warnings": of_answers} if of_answers else {}
    figures, attrs = _measured(found)
    attrs["support_warnings"] += of_answers
    return figures, attrs


def warn_of_support(found: Answers) -> list[dict[str, Any]]:
    """Say what the log cannot tell of the candidates.

    Returns
    -------
    list of dict
        `policy`, `reason` and `abstain` each, as in a belief's `support_warnings`.
    """
    warnings: list[dict[str, Any]] = support_of(found)[1].get("support_warnings", [])
    return warnings


def impossible_values(found: Answers) -> tuple[SupportWarning, ...]:
    """Warn of values outside the rewards' range, where no mean of rewards can lie.

    Notes
    -----
    The range is that of the log, with 0 where terminated episodes are absorbed, and with a
    hundredth of its width to spare, and what rounding may do to its larger end. A value that is
    outside by more than the range's width is worthless, and abstains: the system cannot be solved
    on this log, or the propensities are not those of the logging policy.
    """
    rewards = found.logs.reward
    low, high = float(rewards.min()), float(rewards.max())
    if found.on_termination == "absorb" and found.logs.terminated.any():
        low, high = min(low, 0.0), max(high, 0.0)
    spare = 0.01 * (high - low) + ROUNDING * max(abs(low), abs(high))
    warnings = []
    for name, each in zip(found.names, found.estimates, strict=True):
        beyond = max(low - each.value, each.value - high)
        if beyond > spare:
            reason = (
                f"its value, {each.value:.4g}, lies outside the rewards' range, {low:.4g} to "
                f"{high:.4g}: no policy can have it."
            )
            warnings.append(SupportWarning(name, reason, beyond > high - low + spare))
    return tuple(warnings)


def few_episodes(found: Answers) -> tuple[SupportWarning, ...]:
    """Warn where importance weights leave few episodes to an estimate.

    Notes
    -----
    The gauge is `bayesdice_ppl.fitting.gauges.EPISODES`. The belief of `bayesdice_ppl.fit` does the
    same by its effective transitions, as its ratio weights transitions and importance
    sampling weights episodes (rows at gamma = 0). Abstaining ends `bayesdice select` with exit code
    3: an order that depends on a handful of episodes is as poor from one method as from another.

    Marginalized importance sampling weights transitions and has no such number. How many of these a
    ratio leaves is among the support warnings of logs of labels. For logs of vectors it is not
    measured here; the belief of `bayesdice_ppl.fit` says it for the same features.
    """
    alone = found.gamma == 0.0
    m = found.logs.n_transitions if alone else found.logs.n_episodes
    return tuple(
        warning
        for name, each in zip(found.names, found.estimates, strict=True)
        if each.effective_episodes is not None
        for warning in gauges.EPISODES.judge(
            name,
            each.effective_episodes,
            f"rests on {each.effective_episodes:.1f} effective {'rows' if alone else 'episodes'} "
            f"of {m:,}, by its importance weights.",
        )
    )


def _wrong_propensities(found: Answers, inputs: Inputs) -> list[SupportWarning]:
    """Warn of propensities that do not fit, where a method weights by them."""
    if not found.method.needs.propensities:
        return []
    return wrong_propensities(found.names, misfit_of(inputs), used=True)


def _measured(found: Answers) -> tuple[dict[str, Any], dict[str, Any]]:
    settings = FitSettings(found.gamma, on_termination=found.on_termination)
    logs = in_units(found.logs, units_of(found.logs, settings))
    prepared = prepare_fit(logs, found.policies, settings, guided=False, dependent=False)
    inputs, support = prepared.inputs, measure_support(prepared)
    # Each method has its own assumption about unlogged actions, and not that of `fit`.
    unmoved = support._replace(moved_mass=np.zeros(len(found.names)))
    warnings = [
        *(
            warning
            for name, moved in zip(found.names, support.moved_mass, strict=True)
            for warning in gauges.UNLOGGED.judge(
                name,
                moved,
                f"takes actions that the log does not have at {moved:.1%} of its steps; what "
                f"they are worth is {found.method.short}'s own assumption.",
            )
        ),
        *support_warnings(found.names, unmoved),
        *_wrong_propensities(found, inputs),
        *constant_reward(inputs, facts_of(inputs).spread),
        *much_left_out(inputs),
    ]
    return support._asdict(), {
        "rows_left_out": inputs.rows.left_out,
        "steps_left_out": list(inputs.rows.steps),
        "action_space": inputs.action_source,
        "n_actions": 0 if inputs.actions is None else len(inputs.actions),
        "support_warnings": [warning._asdict() for warning in warnings],
    }


__all__ = ["few_episodes", "impossible_values", "support_of", "warn_of_support"]
