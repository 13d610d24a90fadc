"""A belief is an ArviZ DataTree of posterior draws, so that every ArviZ function works on it.

Groups: ``posterior`` (value, weights), ``sample_stats`` (the chance-constraint loss of each draw),
``fit_data`` (the ELBO trace), ``observed_data`` and ``constant_data``; the settings, versions and
the seed are attributes. Draws are one chain, as they are independent; those of NUTS are as many as
were run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, final

import numpy as np

from bayesdice_ppl.errors import BeliefError
from bayesdice_ppl.outputs import staged_file

if TYPE_CHECKING:
    from xarray import DataTree

ENGINE: Final = "h5netcdf"


@final
class SupportWarning(NamedTuple):
    """One thing that the logs cannot tell about one candidate.

    Attributes
    ----------
    policy
        The candidate.
    reason
        What is missing, for people.
    abstain
        Whether it is bad enough that no recommendation should be made.
    """

    policy: str
    reason: str
    abstain: bool

    @property
    def sentence(self) -> str:
        """The reason, with the candidate's name."""
        return f"{self.policy}: {self.reason}"


def make_belief(
    groups: Mapping[str, Mapping[str, np.ndarray]],
    coords: Mapping[str, Any],
    attrs: Mapping[str, Any],
    *,
    n_chains: int = 1,
    weights: str = "pair",
) -> DataTree:
    """Lay out a belief as a DataTree.

    Parameters
    ----------
    groups
        Group -> variable -> array. ``posterior`` and ``sample_stats`` hold (S, N, ...) draws, to
        which the chain dimension is added here.
    coords
        ``policy`` and, for weights, ``pair``.
    attrs
        Attributes of the root; anything that is no string or number is stored as JSON.
    n_chains
        Number of equally long chains that the S draws are, one after another.
    weights
        What the weights of the ratio belong to: ``"pair"`` or ``"feature"``.
    """
    # ArviZ itself would load its plots, which take a second.
    from arviz_base import from_dict

    data = {
        name: {
            key: array.reshape(n_chains, -1, *array.shape[1:])
            if name in ("posterior", "sample_stats")
            else array
            for key, array in variables.items()
        }
        for name, variables in groups.items()
    }
    dims = {
        "value": ["policy"],
        "weights": ["policy", weights],
        "loss": ["policy"],
        "elbo": ["policy", "step"],
        "reward": ["transition"],
        "pair_state": ["pair"],
        "pair_action": ["pair"],
        "pair_count": ["pair"],
        "pilot_ratio": ["policy", "transition"],
        "correlation": ["policy", "other_policy"],
    }
    for key in (*groups.get("constant_data", {}), *groups.get("posterior", {})):
        dims.setdefault(key, ["policy"])
    flat = {
        key: value if isinstance(value, (str, int, float)) else json.dumps(value)
        for key, value in attrs.items()
    }
    return from_dict(data, coords=dict(coords), dims=dims, attrs={"/": flat})


def save_belief(belief: DataTree, path: str | os.PathLike[str]) -> Path:
    """Write a belief as netCDF, under a temporary name that is then renamed.

    Parameters
    ----------
    belief
        From `bayesdice_ppl.fit`.
    path
        The file, usually ending in ``.nc``.

    Raises
    ------
    OutputError
        The file cannot be written.
    """
    with staged_file(path) as scratch:
        belief.to_netcdf(scratch, engine=ENGINE)
    return Path(path)


def load_belief(path: str | os.PathLike[str]) -> DataTree:
    """Read a belief into memory.

    Parameters
    ----------
    path
        A netCDF file that `save_belief` wrote (any DataTree with ``posterior/value`` will do).

    Raises
    ------
    BeliefError
        There is no such file, or it holds no belief.
    """
    import xarray as xr

    source = Path(path)
    if not source.is_file():
        raise BeliefError(f"{source}: no such file; expected a belief written by bayesdice fit.")
    try:
        with xr.open_datatree(source, engine=ENGINE) as tree:
            belief = tree.load()
    except (OSError, ValueError, KeyError) as cause:
        raise BeliefError(
            f"{source}: not a belief in netCDF: {str(cause).splitlines()[0]}"
        ) from cause
    if "posterior" not in belief.children or "value" not in belief["posterior"].data_vars:
        raise BeliefError(f"{source}: holds no posterior/value; is it a belief?")
    return belief


def read_array(belief: DataTree, path: str) -> np.ndarray:
    """One variable of a belief as an array, by its path such as ``"posterior/value"``.

    Raises
    ------
    BeliefError
        The belief does not have it.
    """
    try:
        return np.asarray(belief[path].to_numpy())
    except KeyError as cause:
        raise BeliefError(f"the belief has no {path}; was it made by fit?") from cause


def belief_settings(belief: DataTree) -> dict[str, Any]:
    """Settings that a belief was fitted with, an empty dict where they were not kept."""
    return read_json(belief, "settings")


def read_json(belief: DataTree, name: str) -> dict[str, Any]:
    """An attribute that holds a JSON object, an empty dict where it is missing.

    Raises
    ------
    BeliefError
        It holds something else.
    """
    try:
        content = json.loads(belief.attrs.get(name, "{}"))
    except (TypeError, ValueError) as cause:
        raise BeliefError(f"the belief's attribute {name!r} is no JSON; was it edited?") from cause
    if not isinstance(content, dict):
        raise BeliefError(f"the belief's attribute {name!r} is no JSON object; was it edited?")
    return content
