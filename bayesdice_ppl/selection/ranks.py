"""How probable each place is for each policy, under the joint belief."""

from typing import TYPE_CHECKING

import numpy as np

from bayesdice_ppl.belief import Which, read_values
from bayesdice_ppl.scores import ties

if TYPE_CHECKING:
    import xarray as xr


def rank_probabilities(belief: "xr.DataTree", statistic: Which = "value") -> "xr.DataArray":
    """Give the probability that each policy truly has each place, 1 being the best.

    Parameters
    ----------
    belief : xarray.DataTree
        As for `select`.
    statistic : str
        Which variable of `posterior` the values are.

    Returns
    -------
    xarray.DataArray
        Named `rank_probability`, with dims `policy`, in the belief's order, and `place`, 1 to N.
        Policies that are tied in a draw share the places of their block equally, so that every row
        and every column sums to 1. ``.to_pandas()`` makes a table of it.

    Raises
    ------
    BeliefError
        The belief lacks draws or names, or a value is not finite.
    """
    import xarray as xr

    draws = read_values(belief, statistic)
    names = list(draws.names)
    shares = ties.place_shares(ties.places(draws.values.reshape(-1, len(names))))
    return xr.DataArray(
        # Sums of steps up and down may end just below 0.
        np.clip(shares, 0.0, 1.0),
        dims=["policy", "place"],
        coords={"policy": names, "place": np.arange(1, len(names) + 1)},
        name="rank_probability",
    )
