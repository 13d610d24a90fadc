"""A table of a belief in which R-hat and effective draws mean something, or are not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bayesdice_ppl.belief import BeliefView, read_moments, read_values

if TYPE_CHECKING:
    import pandas as pd
    from xarray import DataTree

INDEPENDENT = "draws of the belief are independent: no chains mixed, and R-hat is not defined."


def summary(belief: DataTree, *, round_to: int | None = None) -> pd.DataFrame:
    """Summarize the values of a belief.

    Parameters
    ----------
    belief
        With ``posterior/value``.
    round_to
        Decimals; by default none are rounded away.

    Returns
    -------
    pandas.DataFrame
        A row for each candidate: mean, sd and 90 % interval in reward per step, and the Monte
        Carlo error of the mean, ``mcse_mean``. Where chains mixed, as those of NUTS, also ``r_hat``
        and ``ess`` of the values as they were sampled. Elsewhere these are left out, and
        ``.attrs["chains"]`` says why. A value of few degrees of freedom has no mean or no sd: they
        are missing there, ``median`` is beside them, and ``.attrs["moments"]`` says why.

    Notes
    -----
    `arviz.summary` takes R-hat and effective draws from the order of the draws. Of one chain R-hat
    is NaN, and joint draws are in no order of sampling.
    """
    import pandas as pd

    view, draws = BeliefView(belief), read_values(belief)
    flat = draws.values.reshape(-1, len(draws.names))
    table = pd.DataFrame(
        {
            "mean": flat.mean(axis=0),
            "sd": flat.std(axis=0, ddof=1),
            "eti90_lb": np.quantile(flat, 0.05, axis=0),
            "eti90_ub": np.quantile(flat, 0.95, axis=0),
        },
        index=pd.Index(draws.names, name="policy"),
    )
    effective = np.full(len(draws.names), float(len(flat)))
    if view.has(BeliefView.r_hat):
        effective = view.effective_draws
        table["r_hat"], table["ess"] = view.r_hat, effective
    table["mcse_mean"] = table["sd"] / np.sqrt(effective)
    moments = read_moments(belief, draws.names)
    if moments.note:
        for name, there in (("mean", moments.mean), ("sd", moments.sd), ("mcse_mean", moments.sd)):
            table[name] = table[name].astype("Float64").mask(~there)
        table.insert(2, "median", np.median(flat, axis=0))
        table.attrs["moments"] = moments.note
    table.attrs["chains"] = view.chains or INDEPENDENT
    return table if round_to is None else table.round(round_to)
