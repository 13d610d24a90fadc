"""The warnings of a fit about its own belief, one sentence for each fault and candidate.

Each is a number past a threshold: rewards that never varied, transitions that could not be used, a
spread that rests on too little, an engine that has not converged.
"""

from __future__ import annotations

import numpy as np

from bayesdice_ppl.belief import SupportWarning
from bayesdice_ppl.fitting.action_ratio import MOST
from bayesdice_ppl.fitting.inputs import Inputs
from bayesdice_ppl.fitting.settings import FitSettings
from bayesdice_ppl.fitting.simulated_states import Outside
from bayesdice_ppl.inference import Solution, Unit
from bayesdice_ppl.statistics import Statistic

THIN_DF = (2.0, 4.0)
"""Degrees of freedom up to which the belief abstains (no finite variance), and warns."""
LEFT_OUT = (0.2, 0.5)
"""Share of transitions left out at which the belief warns, and at which it abstains."""
NO_SPREAD = 1e-4
"""Share of the rewards' sd below which a belief has no width of its own."""
R_HAT, EFFECTIVE_DRAWS, DIVERGING = 1.05, 100.0, 0.01
"""Past these NUTS counts as not mixed: R-hat, effective draws, share of divergent ones."""
MANY_FEATURES = (0.05, 0.1)
"""Features per transition past which a belief follows the noise: it warns, and it abstains."""
MEAN_WEIGHT = 5.0
"""Standard errors from 1 past which the mean of the action ratios is told."""
CAPPED = (0.05, 0.3)
"""Share of a candidate's weight above the cap of its action ratio: warns past, abstains past."""
OUTSIDE = (0.05, 0.1)
"""Share of a candidate's simulated time outside the log: warns past, abstains past."""
UNJUDGED = 0.3
"""The same share of the logging policy itself, past which the simulation says too little."""
ADAPTIVE_BIAS = 2.0
"""Possible bias by an adaptive policy, in standard errors of the value, past which it abstains."""
TAIL_MIN = 5.0
"""Effective transitions that a tail needs."""
UNMET = 0.05
"""P(ell <= epsilon) below which the features cannot satisfy the constraint."""
MOVED_SHIFT = (0.25, 1.0)
"""Possible shift of a value by unlogged actions, in its sds: warns past, abstains past."""
DRIFT = 0.1
"""How far SVI may move in its last window: mean in sds, sd relative."""


def constant_reward(inputs: Inputs) -> list[SupportWarning]:
    """Warn when every usable reward is the same: their spread cannot be learned.

    Where a termination ends the rewards, as on CartPole, a policy earns what it lives.
    """
    reward, moments = inputs.reward, inputs.settings.form.moments
    lives = not moments.restart and moments.gamma > 0.0 and bool(np.any(inputs.cells.terminated))
    if np.ptp(reward) > 0.0 or (lives and reward[0] != 0.0):
        return []
    reason = (
        f"cannot be judged, because every logged reward is {reward[0]:g}. Log until rewards differ."
    )
    return [SupportWarning(name, reason, True) for name in inputs.names]


def much_left_out(inputs: Inputs) -> list[SupportWarning]:
    """Warn when much of the log could not be used."""
    share = inputs.rows.left_out / inputs.logs.n_transitions
    if share <= LEFT_OUT[0]:
        return []
    reason = (
        f"rests on a part of the log. {share:.0%} of the transitions are left out, because the log "
        "does not say where some of them led. Add a column next_state."
    )
    return [SupportWarning(name, reason, share > LEFT_OUT[1]) for name in inputs.names]


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
        if value <= THIN_DF[1]:
            rests, more = groups if by_groups else visits
            reason = (
                f"has {value:.1f} degrees of freedom, because it rests on {rests}. The width of "
                f"its belief is not reliable. Log more {more}."
            )
            found.append(SupportWarning(name, reason, bool(value <= THIN_DF[0])))
    return found


def adaptive_log(names: tuple[str, ...], unit: Unit | None) -> list[SupportWarning]:
    """Warn when the logging policy followed its own rewards."""
    if unit is None or not unit.adaptive:
        return []
    known = unit.correction
    if known is not None:
        told = zip(names, known.reasons, known.abstains, strict=True)
        return [SupportWarning(name, reason, bool(abstains)) for name, reason, abstains in told]
    return [
        SupportWarning(
            name,
            "rests on a log whose policy seems to have followed its own rewards, as a bandit "
            "algorithm does. Actions that disappointed early were tried less, so their means are "
            f"too low. This may move the value by {bias:.1f} of its standard errors, by which the "
            "belief is wider. Log a fixed policy.",
            bool(bias > ADAPTIVE_BIAS),
        )
        for name, bias in zip(names, unit.adaptive_bias, strict=True)
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
    return [SupportWarning(name, reason, True) for name in names]


def odd_spread(
    names: tuple[str, ...], sd: np.ndarray, reward: np.ndarray, gamma: float
) -> list[SupportWarning]:
    """Warn when a belief is wider than all rewards, or has no width although rewards vary.

    The range includes a reward of 0: in the units of a fit that is their mean, or where the zero
    means something, as what absorbed episodes earn.
    """
    found = []
    span = float(np.ptp(np.append(reward, 0.0)))
    advice = (
        "Check that all states are connected." if gamma == 1.0 else "Log a policy closer to it."
    )
    for name, value in zip(names, sd, strict=True):
        if value > span:
            reason = (
                "has a belief wider than the range of the rewards: the log does not determine its "
                f"value. {advice}"
            )
            found.append(SupportWarning(name, reason, True))
        elif np.ptp(reward) > 0.0 and value < NO_SPREAD * np.std(reward):
            reason = (
                "has a belief with no width, because nothing varied within the pairs that it "
                "visits. The log cannot tell how far they would vary. Log more visits."
            )
            found.append(SupportWarning(name, reason, True))
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
    if count <= MANY_FEATURES[0] * n:
        return []
    reason = (
        f"has {count} features for {n:,} transitions, which follow the noise of the log. Its "
        "belief is too narrow. Use fewer, or give fit a list of features to choose from."
    )
    return [SupportWarning(name, reason, count > MANY_FEATURES[1] * n) for name in inputs.names]


def capped_weight(inputs: Inputs) -> list[SupportWarning]:
    """Warn when much of a candidate's weight lies above the cap of the action ratio."""
    known = inputs.action_ratios
    if known is None:
        return []
    return [
        SupportWarning(
            name,
            f"takes logged actions more than {MOST:g} times as often as the logging policy. "
            f"{share:.0%} of its weight is above that, and is left out. Log a policy closer to it.",
            bool(share > CAPPED[1]),
        )
        for name, share in zip(inputs.names, known.capped, strict=True)
        if share > CAPPED[0]
    ]


def outside_states(names: tuple[str, ...], outside: Outside | None) -> list[SupportWarning]:
    """Warn when a candidate would go where the log has not been, or when that cannot be judged.

    In worlds whose candidates fill a queue, empty a stock or reach a toxic dose, which the log
    hardly holds, beliefs were off by three to fifteen of their sds and nothing else said so.
    """
    if outside is None:
        return []
    if outside.logging > UNJUDGED:
        reason = (
            "cannot be checked for states outside the log. Simulated from the log's own "
            f"transitions, the logging policy itself spends {outside.logging:.0%} of its "
            "discounted time outside, as it does with a clock or a counter in the state. Log "
            "longer episodes, or leave such numbers out."
        )
        return [SupportWarning(name, reason, False) for name in names]
    return [
        SupportWarning(
            name,
            f"spends {value:.0%} of its discounted time outside the log, when it is simulated from "
            "the log's own transitions: far from all logged states, or where none of its actions "
            "was logged. What its belief says there is extrapolated. Log a policy closer to it.",
            bool(value > OUTSIDE[1]),
        )
        for name, value in zip(names, outside.share, strict=True)
        if value > OUTSIDE[0]
    ]


def poor_clone(inputs: Inputs) -> list[SupportWarning]:
    """Warn when the logging policy was cloned, and the clone does not act as it did."""
    known = inputs.action_ratios
    if known is None or known.report is None or not known.report.poor:
        return []
    reason = f"rests on a clone of the logging policy. {known.report.sentence}"
    return [SupportWarning(name, reason, False) for name in inputs.names]


def thin_tail(
    names: tuple[str, ...], statistic: Statistic, effective: np.ndarray
) -> list[SupportWarning]:
    """Warn when a statistic asks for a tail in which the log has too few transitions."""
    share = statistic.tail_share
    if share is None:
        return []
    return [
        SupportWarning(
            name,
            f"{statistic} rests on {share * count:.1f} effective transitions. Nothing is known of "
            "a tail beyond the rewards that were logged. Ask for a larger share, or log more.",
            True,
        )
        for name, count in zip(names, effective, strict=True)
        if share * count < TAIL_MIN
    ]


def unmet_constraint(
    names: tuple[str, ...], probability: np.ndarray, settings: FitSettings
) -> list[SupportWarning]:
    """Warn when no ratio on these features meets the constraint."""
    if settings.tabular or not settings.constraint.penalty.calibrated:
        return []
    return [
        SupportWarning(
            name,
            f"has P(ell <= epsilon) = {value:.2f}: no ratio on these features, under this prior, "
            "meets the constraint. Its value may be off by far more than its belief says. Log a "
            "policy closer to it, or give fit a list of features to choose from.",
            True,
        )
        for name, value in zip(names, probability, strict=True)
        if value < UNMET
    ]


def moved_shift(
    names: tuple[str, ...], moved_mass: np.ndarray, sd: np.ndarray, reward: np.ndarray
) -> list[SupportWarning]:
    """Warn when unlogged actions could move a value by much of its belief's width.

    The log cannot show what an unlogged action pays. If its reward differs by one sd of the logged
    rewards, the value moves by that sd times the action's share of the steps. On Taxi (20,000
    transitions) 0.8 % of the steps moved values by four posterior sds.
    """
    spread = float(np.std(reward))
    found = []
    for name, moved, width in zip(names, moved_mass, sd, strict=True):
        shift = moved * spread / width if width > 0.0 else 0.0
        if shift > MOVED_SHIFT[0]:
            reason = (
                f"takes actions that the log does not have at {moved:.2%} of its steps. If their "
                f"rewards differ by one sd of the logged ones, its value is off by {shift:.1f} sds "
                "of its belief. Log these actions."
            )
            found.append(SupportWarning(name, reason, bool(shift > MOVED_SHIFT[1])))
    return found


def no_mode(names: tuple[str, ...], converged: np.ndarray) -> list[SupportWarning]:
    """Warn when Laplace's approximation is taken around a point that is no mode."""
    reason = (
        "has no mode: the search for its ratio stopped before it settled. Use fewer features, or "
        "inference='nuts'."
    )
    return [
        SupportWarning(name, reason, True)
        for name, found in zip(names, converged, strict=True)
        if not found
    ]


def wrong_weights(inputs: Inputs) -> list[SupportWarning]:
    """Warn when action ratios do not average 1 over the log, as right ones do."""
    known = inputs.action_ratios
    if known is None:
        return []
    return [
        SupportWarning(
            name,
            f"its action ratios average {mean:.2f} over the log (standard error {error:.2g}), and "
            "right ones average 1. Check the propensities or the clone, or log a policy closer to "
            "it.",
            False,
        )
        for name, mean, error in zip(inputs.names, known.mean, known.error, strict=True)
        # Equal up to rounding, they have no error.
        if abs(mean - 1.0) > MEAN_WEIGHT * error + 1e-6
    ]


def unconverged(names: tuple[str, ...], drift: np.ndarray) -> list[SupportWarning]:
    """Warn when SVI was still moving in its last window."""
    return [
        SupportWarning(
            name,
            f"SVI has not converged: in the last window its mean moved by {mean:.2g} sd, and its "
            f"sd by {sd:.0%}. Raise windows in Svi(...), or use inference='exact', or "
            "'laplace' where the ratio is not linear.",
            True,
        )
        for name, (mean, sd) in zip(names, drift, strict=True)
        if not max(mean, sd) <= DRIFT
    ]


def sampling_diagnostics(solution: Solution) -> dict[str, np.ndarray]:
    """How well the chains of NUTS mixed, on the values as sampled; empty for other engines.

    It is measured before the copula reorders the draws: after that, chains mean nothing.
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


def unmixed(names: tuple[str, ...], solution: Solution) -> list[SupportWarning]:
    """Warn when the chains of NUTS disagree, or diverge."""
    found = sampling_diagnostics(solution)
    if not found:
        return []
    warnings = []
    for name, r_hat, ess, diverging in zip(names, *found.values(), strict=True):
        if not (r_hat <= R_HAT and ess >= EFFECTIVE_DRAWS and diverging <= DIVERGING):
            reason = (
                f"NUTS has not mixed: R-hat {r_hat:.3f}, {ess:.0f} effective draws, "
                f"{diverging:.1%} divergent. Raise warmup in Nuts(...), and draws."
            )
            warnings.append(SupportWarning(name, reason, True))
    return warnings
