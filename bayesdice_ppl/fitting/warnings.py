"""The warnings of a fit about its own belief, one sentence for each fault and candidate.

Each is a number past a threshold of its gauge (`bayesdice_ppl.fitting.gauges`): rewards that never
varied, transitions that could not be used, a spread that rests on too little, an engine that has
not converged.
"""

from __future__ import annotations

import numpy as np

from bayesdice_ppl.belief import SupportWarning
from bayesdice_ppl.digits import in_tenths
from bayesdice_ppl.fitting import gauges
from bayesdice_ppl.fitting.action_ratio import MOST
from bayesdice_ppl.fitting.gauges import Gauge
from bayesdice_ppl.fitting.inputs import Inputs
from bayesdice_ppl.fitting.row_facts import RewardSpread
from bayesdice_ppl.fitting.settings import FitSettings
from bayesdice_ppl.fitting.simulated_states import Outside
from bayesdice_ppl.inference import Problem, Solution, Unit
from bayesdice_ppl.statistics import Statistic

MEAN_ROUNDING = 1e-6
"""Equal up to rounding, action ratios have a mean without an error."""
EFFECTIVE_DRAWS, DIVERGING = 100.0, 0.01
"""Beside R-hat NUTS counts as not mixed with fewer effective draws, or with a larger share of
divergent ones."""


def constant_reward(inputs: Inputs, rewards: RewardSpread) -> list[SupportWarning]:
    """Warn when every usable reward is the same: their spread cannot be learned.

    Where a termination ends the rewards, as on CartPole, a policy earns what it lives.
    """
    moments = inputs.settings.form.moments
    lives = not moments.restart and moments.gamma > 0.0 and bool(np.any(inputs.cells.terminated))
    if rewards.most > rewards.least or (lives and rewards.least != 0.0):
        return []
    reason = (
        f"cannot be judged, because every logged reward is {rewards.least:g}. Log until rewards "
        "differ."
    )
    return _of_all(gauges.CONSTANT, inputs.names, 0.0, reason)


def _of_all(
    gauge: Gauge, names: tuple[str, ...], number: float, reason: str
) -> list[SupportWarning]:
    """One number and one reason for all candidates."""
    return [warning for name in names for warning in gauge.judge(name, number, reason)]


def much_left_out(inputs: Inputs) -> list[SupportWarning]:
    """Warn when much of the log could not be used."""
    share = inputs.rows.left_out / inputs.logs.n_transitions
    reason = (
        f"rests on a part of the log. {share:.0%} of the transitions are left out, because the log "
        f"does not say where {inputs.rows.missing:,} of them led. Add a column next_state that is "
        "filled in these rows, the last ones of episodes that did not terminate."
    )
    return _of_all(gauges.LEFT_OUT, inputs.names, share, reason)


def thin_spread(
    names: tuple[str, ...], df: np.ndarray, unit: Unit | None = None
) -> list[SupportWarning]:
    """Warn when the spread rests on so little that its own variance is large or infinite."""
    visits = ("few visits to the pairs that matter", "visits")
    groups = visits
    if unit is not None and unit.groupings:
        kinds = " or ".join(grouping.name for grouping in unit.groupings)
        groups = (f"few groups of rows that move together (those of one {kinds})", "groups")
    bound = np.zeros(len(names), dtype=bool)
    if unit is not None:
        bound = unit.binds[: len(names)]
    found = []
    # Three groups have two degrees of freedom up to rounding.
    for name, value, by_groups in zip(names, np.round(df, 9), bound, strict=True):
        rests, more = groups if by_groups else visits
        reason = (
            f"has {value:.1f} degrees of freedom, because it rests on {rests}. The width of "
            f"its belief is not reliable. Log more {more}."
        )
        found += gauges.FREEDOM.judge(name, value, reason)
    return found


def adaptive_log(names: tuple[str, ...], unit: Unit | None) -> list[SupportWarning]:
    """Warn when the logging policy followed its own rewards."""
    if unit is None or not unit.adaptive:
        return []
    known = unit.correction
    if known is not None:
        told = zip(names, known.reasons, known.abstains, strict=True)
        label, limit = gauges.ADAPTIVE.name, gauges.ADAPTIVE.abstains
        return [
            SupportWarning(name, reason, bool(abstains), label, None, limit)
            for name, reason, abstains in told
        ]
    return [
        warning
        for name, bias in zip(names, unit.adaptive_bias, strict=True)
        for warning in gauges.ADAPTIVE.judge(
            name,
            float(bias),
            "rests on a log whose policy seems to have followed its own rewards, as a bandit "
            "algorithm does. Actions that disappointed early were tried less, so their means are "
            f"too low. This may move the value by {in_tenths(bias)} of its standard errors, by "
            "which the belief is wider. Log a fixed policy.",
        )
    ]


def short_log(names: tuple[str, ...], unit: Unit | None) -> list[SupportWarning]:
    """Warn when rows move together over more of the log than can be told."""
    if unit is None or not unit.cut:
        return []
    reason = (
        "has errors that still grow at the longest stretches that the log can be divided into "
        f"({unit.groupings[0].name}). Rows move together over longer than it tells. Log for "
        "longer, or name the column that they share in cluster=."
    )
    return _of_all(gauges.SHORT, names, 1.0, reason)


def shared_errors(names: tuple[str, ...], unit: Unit | None) -> list[SupportWarning]:
    """Tell of columns of few groups whose rows move together, which nobody named as a unit."""
    if unit is None:
        return []
    found = []
    for test in unit.suspected:
        reason = (
            f"has errors that rows of one {test.name} share. Its {test.size} groups may be a "
            "sample of more, as users are, or all that there are, as days of the week. If they are "
            f"a sample, errors are up to {test.wider:.1f} times as wide: use "
            f"cluster={test.name!r}."
        )
        found += _of_all(gauges.SHARED, names, test.wider, reason)
    return found


def one_start(inputs: Inputs, problem: Problem, sd: np.ndarray) -> list[SupportWarning]:
    """Warn where a log has one first state, which says nothing of how others would start.

    The number is c0 times the sd of the candidate's value over the logged states, in sds of its
    belief: what a first state like any other would move it by.
    """
    settings = inputs.settings
    if settings.gamma in (0.0, 1.0) or inputs.logs.n_episodes > 1 or not settings.tabular:
        return []
    reason = (
        "rests on one first state, as the log has one episode. Another would move its value by "
        "{:.1f} sds of its belief. Log more episodes."
    )
    found = []
    pilots, target = problem.pilots, inputs.candidates.target
    assert target is not None
    pairs, n_states = inputs.pairs, inputs.dead_state.shape[1]
    cells = inputs.cells
    visits = np.bincount(pairs.state[cells.pair], cells.count, n_states)
    for j, name in enumerate(inputs.names):
        action_value = np.asarray(pilots.slope)[j, : len(pairs.state)] * target[j]
        value = np.bincount(pairs.state, action_value, minlength=n_states)
        known = np.bincount(pairs.state, target[j], minlength=n_states) > 0.0
        weight = np.where(known, visits, 0) / max(visits[known].sum(), 1)
        spread = np.sqrt(weight @ (value - weight @ value) ** 2)
        number = float(np.asarray(pilots.start_weight)[j] * spread / max(sd[j], 1e-300))
        found += gauges.STARTS.judge(name, number, reason.format(number))
    return found


def odd_spread(
    names: tuple[str, ...], sd: np.ndarray, rewards: RewardSpread, gamma: float
) -> list[SupportWarning]:
    """Warn when a belief is wider than all rewards, or has no width although rewards vary.

    The range includes a reward of 0: in the units of a fit that is their mean, or where the zero
    means something, as what absorbed episodes earn.
    """
    found = []
    span = max(rewards.most, 0.0) - min(rewards.least, 0.0)
    advice = (
        "Check that all states are connected." if gamma == 1.0 else "Log a policy closer to it."
    )
    for name, value in zip(names, sd, strict=True):
        if not value <= gauges.WIDE.warns * span:
            reason = (
                "has a belief wider than the range of the rewards: the log does not determine its "
                f"value. {advice}"
            )
            found += gauges.WIDE.judge(name, value / span if span > 0.0 else np.inf, reason)
        elif rewards.most > rewards.least:
            reason = (
                "has a belief with no width, because nothing varied within the pairs that it "
                "visits. The log cannot tell how far they would vary. Log more visits."
            )
            found += gauges.NARROW.judge(name, value / rewards.sd, reason)
    return found


def many_features(inputs: Inputs) -> list[SupportWarning]:
    """Warn when there are so many features that the fit follows the noise of the log.

    In a linear world of 600 transitions, 30 features of a process left beliefs at two thirds of
    their width and two of their sds off; with 2,400 transitions they were right.
    """
    if inputs.settings.tabular:
        return []
    at_pair = inputs.cells.pair_features
    count = 0 if at_pair is None else int(np.any(at_pair != 0.0, axis=0).sum())
    n = int(inputs.cells.n_transitions)
    reason = (
        f"has {count} features for {n:,} transitions, which follow the noise of the log. Its "
        "belief is too narrow. Use fewer, or give fit a list of features to choose from."
    )
    return _of_all(gauges.FEATURES, inputs.names, count / n, reason)


def capped_weight(inputs: Inputs) -> list[SupportWarning]:
    """Warn when much of a candidate's weight lies above the cap of the action ratio."""
    known = inputs.action_ratios
    if known is None:
        return []
    return [
        warning
        for name, share in zip(inputs.names, known.capped, strict=True)
        for warning in gauges.CAPPED.judge(
            name,
            share,
            f"takes logged actions more than {MOST:g} times as often as the logging policy. "
            f"{share:.0%} of its weight is above that, and is left out. Log a policy closer to it.",
        )
    ]


def outside_states(names: tuple[str, ...], outside: Outside | None) -> list[SupportWarning]:
    """Warn when a candidate would go where the log has not been, or when that cannot be judged.

    In worlds whose candidates fill a queue, empty a stock or reach a toxic dose, which the log
    hardly holds, beliefs were off by three to fifteen of their sds and nothing else said so.
    """
    if outside is None:
        return []
    if outside.logging > gauges.UNJUDGED.warns:
        reason = (
            "cannot be checked for states outside the log. Simulated from the log's own "
            f"transitions, the logging policy itself spends {outside.logging:.0%} of its "
            "discounted time outside, as it does with a clock or a counter in the state. Log "
            "longer episodes, or leave such numbers out."
        )
        return _of_all(gauges.UNJUDGED, names, outside.logging, reason)
    return [
        warning
        for name, value in zip(names, outside.share, strict=True)
        for warning in gauges.OUTSIDE.judge(
            name,
            value,
            f"spends {value:.0%} of its discounted time outside the log, when it is simulated from "
            "the log's own transitions: far from all logged states, or where none of its actions "
            "was logged. What its belief says there is extrapolated. Log a policy closer to it.",
        )
    ]


def poor_clone(inputs: Inputs) -> list[SupportWarning]:
    """Warn when the logging policy was cloned, and the clone does not act as it did."""
    known = inputs.action_ratios
    if known is None or known.report is None or not known.report.poor:
        return []
    reason = f"rests on a clone of the logging policy. {known.report.sentence}"
    return _of_all(gauges.CLONE, inputs.names, 1.0, reason)


def thin_tail(
    names: tuple[str, ...], statistic: Statistic, effective: np.ndarray
) -> list[SupportWarning]:
    """Warn when a statistic asks for a tail in which the log has too few transitions."""
    share = statistic.tail_share
    if share is None:
        return []
    return [
        warning
        for name, count in zip(names, effective, strict=True)
        for warning in gauges.TAIL.judge(
            name,
            share * count,
            f"{statistic} rests on {share * count:.1f} effective transitions. Nothing is known of "
            "a tail beyond the rewards that were logged. Ask for a larger share, or log more.",
        )
    ]


def unmet_constraint(
    names: tuple[str, ...], probability: np.ndarray, settings: FitSettings
) -> list[SupportWarning]:
    """Warn when no ratio on these features, or none that was trained, meets the constraint."""
    trained = settings.needs_training
    if not settings.constraint.penalty.calibrated:
        return []
    what = "no ratio on these features, under this prior, meets the constraint"
    help_ = "Log a policy closer to it, or give fit a list of features to choose from"
    if settings.tabular:
        what, help_ = (
            "no ratio under this prior meets the constraint",
            "Raise ratio_sd in Prior(...)",
        )
    if trained:
        what, help_ = "its networks do not meet the constraint", "Raise steps in MinMax(...)"
    return [
        warning
        for name, value in zip(names, probability, strict=True)
        # Of labels with an engine of one's own it may not be known.
        if not (settings.tabular and np.isnan(value))
        for warning in gauges.UNMET.judge(
            name,
            value,
            f"has P(ell <= epsilon) = {value:.2f}: {what}. Its value may be off by far more than "
            f"its belief says. {help_}.",
        )
    ]


def trained_networks(names: tuple[str, ...], settings: FitSettings) -> list[SupportWarning]:
    """Abstain where networks were trained on vectors: nothing tells their wrong beliefs from right.

    On three logs of Reacher they were 2.7 of their sds too low on average, with the constraint met.
    """
    if settings.tabular or not settings.needs_training:
        return []
    reason = (
        f"rests on {settings.model}, trained on vectors. In trials such beliefs were off by almost "
        "three of their sds, and nothing in them said so. Leave model out to decide by the default."
    )
    return _of_all(gauges.NETWORKS, names, 1.0, reason)


def moved_shift(
    names: tuple[str, ...], moved_mass: np.ndarray, sd: np.ndarray, spread: float
) -> list[SupportWarning]:
    """Warn when unlogged actions could move a value by much of its belief's width.

    The log cannot show what an unlogged action pays. If its reward differs by one sd of the logged
    rewards, the value moves by that sd times the action's share of the steps. On Taxi (20,000
    transitions) 0.8 % of the steps moved values by four posterior sds.
    """
    found = []
    for name, moved, width in zip(names, moved_mass, sd, strict=True):
        shift = moved * spread / width if width > 0.0 else 0.0
        reason = (
            f"takes actions that the log does not have at {moved:.2%} of its steps. If their "
            f"rewards differ by one sd of the logged ones, its value is off by {shift:.1f} sds "
            "of its belief. Log these actions."
        )
        found += gauges.UNLOGGED_SHIFT.judge(name, shift, reason)
    return found


def no_mode(names: tuple[str, ...], converged: np.ndarray) -> list[SupportWarning]:
    """Warn when Laplace's approximation is taken around a point that is no mode."""
    reason = (
        "has no mode: the search for its ratio stopped before it settled. Use fewer features, or "
        "inference='nuts'."
    )
    return [
        warning
        for name, found in zip(names, converged, strict=True)
        for warning in gauges.MODE.judge(name, float(not found), reason)
    ]


def wrong_weights(inputs: Inputs) -> list[SupportWarning]:
    """Warn when action ratios do not average 1 over the log, as right ones do."""
    known = inputs.action_ratios
    if known is None:
        return []
    return [
        warning
        for name, mean, error in zip(inputs.names, known.mean, known.error, strict=True)
        for warning in gauges.WEIGHTS.judge(
            name,
            max(abs(mean - 1.0) - MEAN_ROUNDING, 0.0) / max(error, np.finfo(float).tiny),
            f"its action ratios average {mean:.2f} over the log (standard error {error:.2g}), and "
            "right ones average 1. Check the propensities or the clone, or log a policy closer to "
            "it.",
        )
    ]


def unconverged(names: tuple[str, ...], drift: np.ndarray) -> list[SupportWarning]:
    """Warn when SVI was still moving in its last window."""
    return [
        warning
        for name, (mean, sd) in zip(names, drift, strict=True)
        for warning in gauges.DRIFT.judge(
            name,
            float(np.max([mean, sd])),
            f"SVI has not converged: in the last window its mean moved by {mean:.2g} sd, and its "
            f"sd by {sd:.0%}. Raise windows in Svi(...), or use inference='exact', or "
            "'laplace' where the ratio is not linear.",
        )
    ]


def sampling_diagnostics(solution: Solution) -> dict[str, np.ndarray]:
    """How well the chains of NUTS mixed, on the values as sampled; empty for other engines.

    It is measured before the copula reorders the draws: after that, chains mean nothing.
    """
    if solution.sampled is None or solution.sampled.shape[1] < 2:
        return {}  # independent draws have no chains to compare
    from numpyro.diagnostics import effective_sample_size, split_gelman_rubin

    values = np.moveaxis(solution.sampled[..., -1], 0, -1)
    return {
        "r_hat": np.asarray(split_gelman_rubin(values)),
        "effective_draws": np.asarray(effective_sample_size(values)),
        "diverging": np.asarray(solution.diverging),
    }


def unmixed(names: tuple[str, ...], solution: Solution) -> list[SupportWarning]:
    """Warn when the chains of NUTS disagree, or diverge."""
    found = sampling_diagnostics(solution)
    if not found:
        return []
    warnings = []
    for name, r_hat, ess, diverging in zip(names, *found.values(), strict=True):
        limit = gauges.MIXING.warns
        if not (r_hat <= limit and ess >= EFFECTIVE_DRAWS and diverging <= DIVERGING):
            reason = (
                f"NUTS has not mixed: R-hat {r_hat:.3f}, {ess:.0f} effective draws, "
                f"{diverging:.1%} divergent. Raise warmup in Nuts(...), and draws."
            )
            label = gauges.MIXING.name
            warnings.append(SupportWarning(name, reason, True, label, float(r_hat), limit))
    return warnings
