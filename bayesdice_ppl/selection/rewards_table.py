"""What each candidate does to every reward of a belief that has several."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float

from bayesdice_ppl.belief import BeliefView, Which, read_statistic, read_values
from bayesdice_ppl.belief.moments import read_moments
from bayesdice_ppl.errors import BeliefError

if TYPE_CHECKING:
    import polars as pl
    import xarray as xr


def several_rewards(belief: "xr.DataTree") -> list[str]:
    """Names of the rewards of a belief that was fitted to several; else none."""
    try:
        return [str(name) for name in BeliefView(belief).rewards]
    except BeliefError:
        # A belief of another program may use the attribute for something else.
        return []


def ranked_reward(belief: "xr.DataTree", statistic: Which) -> str | None:
    """What is ranked, in the names of the rewards; None where the belief has one."""
    rewards = several_rewards(belief)
    if not rewards:
        return None
    text = read_statistic(belief, statistic)
    return rewards[0] if statistic == "value" else text


def rewards_table(
    belief: "xr.DataTree",
    order: Sequence[str],
    limited: Sequence[str] = (),
    met: Float[np.ndarray, " N"] | None = None,
) -> "pl.DataFrame | None":
    """Tabulate the mean and sd of every reward of each candidate.

    Parameters
    ----------
    belief : xarray.DataTree
        The belief.
    order : sequence of str
        The candidates, in the order of the rows.
    limited : sequence of str
        Variables with a limit, which are shown as well.
    met : array, optional
        Probability that each candidate is within all limits, shape (N,), in the same order.

    Returns
    -------
    polars.DataFrame or None
        `policy`; for each reward its mean, under its name, and its sd, `<name>_sd`, per step, null
        where the value has none; and
        `p_within_limits` where there are limits. None where the belief has one reward and no
        limits.
    """
    import polars as pl

    names = list(dict.fromkeys([*several_rewards(belief), *limited]))
    if not names:
        return None
    columns: dict[str, Any] = {"policy": list(order)}
    for name in names:
        draws = read_values(belief, name)
        places = [draws.names.index(each) for each in order]
        values = draws.values.reshape(-1, len(draws.names))[:, places]
        # Degrees of freedom come from visits and groups, which all rewards share.
        there = read_moments(belief, draws.names)
        columns |= {
            name: _where(there.mean[places], values.mean(axis=0)),
            f"{name}_sd": _where(there.sd[places], values.std(axis=0, ddof=1)),
        }
    if met is not None:
        columns["p_within_limits"] = met
    return pl.DataFrame(columns)


def _where(there: Bool[np.ndarray, " N"], numbers: Float[np.ndarray, " N"]) -> "pl.Series":
    import polars as pl

    return pl.Series(np.where(there, numbers, np.nan), nan_to_null=True)
