"""Rewards of a log: their range, and what the logging policy earned."""

from __future__ import annotations

import numpy as np

from bayesdice_ppl.checking.section import Section, number, warning
from bayesdice_ppl.logs import Logs
from bayesdice_ppl.logs.logged_value import logged_value

CONSTANT = "constant rewards"


def look(logs: Logs, gamma: float, *, restart: bool) -> Section:
    """Summarize the rewards.

    Parameters
    ----------
    logs
        The log.
    gamma
        Discount.
    restart
        Whether a termination is followed by a new episode.
    """
    reward = logs.reward
    kinds = np.unique(reward)
    earned = logged_value(logs, gamma, restart=restart)
    facts = {
        "least": float(reward.min()),
        "mean": float(reward.mean()),
        "most": float(reward.max()),
        "sd": float(reward.std()),
        "distinct": len(kinds),
        "share_of_zeros": float(np.mean(reward == 0.0)),
        "logged_value": number(earned.value),
        "logged_value_standard_error": number(earned.standard_error),
    }
    faults, zeros = [], float(np.mean(reward == 0.0))
    if len(kinds) == 1:
        line = f"Every reward is {kinds[0]:.4g}."
        lives = gamma > 0.0 and not restart and bool(logs.terminated.any())
        if not lives:
            told = f"Every reward is {kinds[0]:.4g}, so that no candidate can be judged."
            faults.append(warning(CONSTANT, told, "reward"))
    else:
        values = "2 values" if len(kinds) == 2 else f"{len(kinds):,} values"
        line = (
            f"{kinds[0]:.4g} to {kinds[-1]:.4g}, mean {reward.mean():.4g}, sd {reward.std():.3g}; "
            f"{values}{f', {zeros:.1%} zeros' if zeros else ''}."
        )
    sure = (
        f"standard error {earned.standard_error:.2g}"
        if np.isfinite(earned.standard_error)
        else "one episode, and so no standard error"
    )
    lines = (line, f"The logging policy itself earned {earned.value:.4g} per step ({sure}).")
    return Section("rewards", "Rewards", facts, lines, faults=tuple(faults))
