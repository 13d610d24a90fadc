"""Rewards far from zero: a fit measures them from their mean, and the belief has it added again.

Cells hold sums of squares. At rewards of 1e8 with a spread of 1 these lose every digit of the
spread, and a width that is made from them is wrong by half without a sign.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from bayesdice_ppl.belief import BeliefView
from bayesdice_ppl.fitting.settings import FitSettings
from bayesdice_ppl.logs import Logs
from bayesdice_ppl.statistics import Statistic

if TYPE_CHECKING:
    from xarray import DataTree

FAR = 1e3
"""Spreads from zero past which the mean reward is taken off."""


def offset_of(logs: Logs, settings: FitSettings) -> float:
    """What is taken off all rewards; 0 where nothing need be, or where the zero means something.

    A reward of zero follows an absorbing termination for ever, and a transform of one's own may do
    anything with it.
    """
    reward = getattr(logs, "reward", None)
    if reward is None:
        # Not a log, which preparation says better.
        return 0.0
    absorbs = settings.on_termination == "absorb" and settings.gamma > 0.0
    if any(statistic.shift is None for statistic in settings.statistic) or (
        absorbs and bool(np.any(logs.terminated))
    ):
        return 0.0
    mean = float(np.mean(reward))
    spread = float(np.std(reward - mean))
    return mean if 0.0 < FAR * spread < abs(mean) else 0.0


def without_offset(logs: Logs, offset: float) -> Logs:
    """The log with a number taken off all rewards."""
    return logs if offset == 0.0 else replace(logs, reward=logs.reward - offset)


def with_offset(belief: DataTree, offset: float, statistics: Sequence[Statistic]) -> DataTree:
    """The belief of the rewards as they were, from that without the offset.

    Parameters
    ----------
    belief
        The belief.
    offset
        What was taken off all rewards.
    statistics
        What it has values of; the first is ``value``.
    """
    if offset == 0.0:
        return belief
    first = statistics[0].shift or 0.0
    moved = {str(statistic): statistic.shift or 0.0 for statistic in statistics}
    for name, shift in {**moved, BeliefView.value.name: first}.items():
        if name in belief["posterior"].data_vars:
            belief[f"posterior/{name}"] = belief[f"posterior/{name}"] + shift * offset
    for variable, shift in (
        (BeliefView.guide_mean, first),
        (BeliefView.prior_mean, first),
        (BeliefView.reward, 1.0),
    ):
        path = f"{variable.group}/{variable.name}"
        belief[path] = belief[path] + shift * offset
    belief.attrs[BeliefView.logged_value.name] += offset
    view = BeliefView(belief)
    gamma = float(view.settings["gamma"])
    if view.has(BeliefView.unseen_base) and gamma < 1.0:
        path = f"{BeliefView.unseen_base.group}/{BeliefView.unseen_base.name}"
        counted = view.unseen_mass.sum(axis=1) / (1.0 - gamma)
        belief[path] = belief[path] + first * offset * counted
    return belief
