"""Rewards as a fit sees them: from their mean, in their sd. Neither zero nor unit then matter.

Cells hold sums of squares. At rewards of 1e8 with a spread of 1 these lose every digit of the
spread, and a width that is made from them is wrong by half without a sign. And a penalty that is
not measured in the residual's covariance adds squared rewards to squared probabilities, which has a
meaning only in some unit of the reward.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np
from jaxtyping import Float

from bayesdice_ppl.belief import BeliefView
from bayesdice_ppl.fitting.settings import FitSettings
from bayesdice_ppl.logs import AnyLogs, CountedLogs, RewardUnits, usable_rows
from bayesdice_ppl.statistics import Statistic

if TYPE_CHECKING:
    from xarray import DataTree

AS_LOGGED = RewardUnits()
FAR = 1e3
"""Spreads from zero past which the mean is taken off for other statistics than the mean."""


def units_of(logs: AnyLogs, settings: FitSettings) -> RewardUnits:
    """Units in which a fit sees the rewards.

    Notes
    -----
    The zero stays where it means something: a reward of zero follows an absorbing termination for
    ever, and a transform of one's own may do anything with it. Without the value constraint a value
    is the mean of ratio times reward and of nothing else, as in the paper: a constant then counts
    as often as the draws of the ratio say, whose mean is not exactly one.

    A statistic other than the mean may be the same for every reward that was logged, as the CVaR of
    a reward that is mostly 0: then it has no spread at all, which a sum would blur. For these the
    rewards stay as they are, unless they are so far from zero that this costs more.
    """
    ends = logs.reward_ends if isinstance(logs, AnyLogs) else None
    if ends is None or ends[0] == ends[1]:
        # Not a log, which preparation says better; or nothing to measure in.
        return AS_LOGGED
    own = any(statistic.shift is None for statistic in settings.statistic)
    if own or not settings.constraint.value_constraint:
        return AS_LOGGED
    absorbs = settings.on_termination == "absorb" and settings.gamma > 0.0
    zero_means = absorbs and bool(np.any(logs.terminated))
    units = logs.reward_units(zero_means=zero_means)
    if settings.plain:
        return units
    far = abs(units.origin + units.center) > FAR * units.scale
    return units._replace(scale=1.0) if far else AS_LOGGED


def in_units[L: AnyLogs](logs: L, units: RewardUnits) -> L:
    """The log with its rewards in other units."""
    return logs if units == AS_LOGGED else cast("L", logs.in_units(units))


def settings_in_units(settings: FitSettings, units: RewardUnits) -> FitSettings:
    """The settings of a fit that sees rewards in other units: the kind of rewards is in them."""
    kind = settings.prior.rewards
    if kind is None or units == AS_LOGGED:
        return settings
    return replace(settings, prior=replace(settings.prior, rewards=kind.into(units)))


def from_units(
    belief: DataTree, units: RewardUnits, logs: AnyLogs, settings: FitSettings
) -> DataTree:
    """The belief of the rewards as they were logged, from that in other units.

    Parameters
    ----------
    belief
        The belief.
    units
        In which its rewards were.
    logs
        The log as it was.
    settings
        What was fitted; the first statistic is ``value``.
    """
    if units == AS_LOGGED:
        return belief
    statistics = settings.statistic
    posterior, step = "posterior", RewardUnits(scale=units.scale)
    moved = {f"{posterior}/{each}": _of_statistic(units, each) for each in statistics}
    first = _of_statistic(units, statistics[0])
    of_variable = {
        BeliefView.value: first,
        BeliefView.guide_mean: first,
        BeliefView.prior_mean: first,
        BeliefView.guide_sd: RewardUnits(scale=first.scale),
        BeliefView.prior_sd: RewardUnits(scale=first.scale),
        BeliefView.action_standard_error: RewardUnits(scale=first.scale),
    }
    moved |= {f"{each.group}/{each.name}": own for each, own in of_variable.items()}
    for path, own in moved.items():
        group, name = path.split("/", 1)
        held = belief[group].data_vars
        if name in held:
            _put(belief, group, name, own.back(held[name].to_numpy()))
    _unseen_from_units(belief, units, first, settings.gamma)
    # There and back would cost the rewards their last digit.
    if isinstance(logs, CountedLogs):
        low, high = json.loads(belief.attrs[BeliefView.reward_range.name])
        ends = [float(units.back(low)), float(units.back(high))]
        belief.attrs[BeliefView.reward_range.name] = json.dumps(ends)
        belief.attrs[BeliefView.reward_sd.name] *= units.scale
    else:
        used = logs.reward[usable_rows(logs, settings.gamma).mask]
        group, name = BeliefView.reward.group, BeliefView.reward.name
        _put(belief, group, name, used)
        belief.attrs[BeliefView.reward_sd.name] = units.scale * float(np.std(units.into(used)))
    for attribute, own in (
        (BeliefView.logged_value, units),
        (BeliefView.logged_value_standard_error, step),
    ):
        found = belief.attrs.get(attribute.name)
        if found is not None:
            belief.attrs[attribute.name] = float(own.back(found))
    return belief


def _unseen_from_units(
    belief: DataTree, units: RewardUnits, first: RewardUnits, gamma: float
) -> None:
    """What pairs that were never logged add, in place."""
    view = BeliefView(belief)
    if not view.has(BeliefView.unseen_mass):
        return
    # A step at such a pair and all that follow it count from another zero.
    zero = 0.0 if gamma == 1.0 else (first.origin + first.center) / (1.0 - gamma)
    moved = {
        BeliefView.unseen_base: first.scale * view.unseen_base
        + zero * view.unseen_mass.sum(axis=1),
        BeliefView.unseen_shift: first.scale * view.unseen_shift,
        BeliefView.unseen_spread: first.scale * view.unseen_spread,
        BeliefView.unseen_move: first.scale * view.unseen_move,
        BeliefView.unseen_covariance: first.scale**2 * view.unseen_covariance,
    }
    for each, array in moved.items():
        _put(belief, each.group, each.name, array)


def _put(belief: DataTree, group: str, name: str, data: Float[np.ndarray, "..."]) -> None:
    """Give a variable of a belief other numbers, in place.

    Assigning to a tree joins and compares all of a group, which takes longer than the fit of a
    small log.
    """
    belief[group].data_vars[name].variable.data = data


def _of_statistic(units: RewardUnits, statistic: Statistic) -> RewardUnits:
    """Units of a statistic of the reward."""
    shift = statistic.shift or 0.0
    return RewardUnits(shift * units.origin, shift * units.center, units.scale)
