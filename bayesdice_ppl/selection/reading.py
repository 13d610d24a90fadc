"""Read from a belief what selection needs: draws of the values, names, and support information.

A belief is any DataTree with `posterior/value` and a dim `policy`. What the logs can and cannot
say about each candidate may be absent, and is then reported as absent, never made up.
"""

import json
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
from jaxtyping import Float

from bayesdice_ppl.belief import SupportWarning
from bayesdice_ppl.errors import BeliefError

if TYPE_CHECKING:
    import xarray as xr

SUPPORT_VARIABLES = ("moved_mass", "lost_mass", "effective_sample_size", "negative_mass")


@final
class Draws(NamedTuple):
    """Draws of the values and the names of their columns.

    Attributes
    ----------
    names : tuple of str
        The N candidates.
    values : Float[ndarray, "chain draw N"]
        Their values, reward per step, finite, float64.
    """

    names: tuple[str, ...]
    values: Float[np.ndarray, "chain draw N"]


def read_statistic(belief: "xr.DataTree", variable: str) -> str:
    """What a variable of the posterior is: its name, or for `value` the first statistic fitted."""
    if variable != "value":
        return variable
    settings = belief.attrs.get("settings", "{}")
    try:
        found = json.loads(settings).get("statistic", ["mean"])
    except (TypeError, ValueError, AttributeError):
        return "mean"
    return str(found[0]) if found else "mean"


def read_draws(belief: "xr.DataTree", statistic: str = "value") -> Draws:
    """Take the draws of the policy values out of a belief.

    Parameters
    ----------
    belief : xarray.DataTree
        With `posterior/value`, dims policy, draw and, unless there is only one, chain; the
        coordinate `policy` names the candidates.
    statistic : str
        The variable of `posterior` that is read.

    Returns
    -------
    Draws
        Names, and values of shape (chains, draws, N) in reward per step.

    Raises
    ------
    BeliefError
        If any of this is missing, a name is no string or not unique, there are fewer than two
        draws, or a value is NaN or infinite.
    """
    value = _variable(belief, "posterior", statistic)
    if value is None and statistic != "value":
        known = ", ".join(str(name) for name in belief["posterior"].data_vars if name != "weights")
        raise BeliefError(
            f"the belief has no posterior/{statistic}; it has {known}. Fit it with statistic= a "
            "list that holds it."
        )
    if value is None:
        raise BeliefError(
            "a belief is a DataTree with `posterior/value` (chain, draw, policy): this one has no "
            "such variable"
        )
    extra = sorted(str(dim) for dim in set(value.dims) - {"chain", "draw", "policy"})
    missing = sorted({"draw", "policy"} - set(value.dims))
    if extra or missing:
        raise BeliefError(
            f"posterior/value has dims {', '.join(map(str, value.dims))}: expected chain, draw, "
            "policy (chain may be left out)"
        )
    if "policy" not in value.coords:
        raise BeliefError("posterior/value has no coordinate `policy`: name the candidates")
    names = value.coords["policy"].values.tolist()
    for name in names:
        if not isinstance(name, str) or not name:
            raise BeliefError(f"policy names must be strings, got {name!r}")
        if names.count(name) > 1:
            raise BeliefError(f"two candidates are named {name!r}: names must be unique")
    if "chain" not in value.dims:
        value = value.expand_dims("chain")
    values = np.asarray(value.transpose("chain", "draw", "policy").values)
    if values.dtype.kind not in "iuf":
        raise BeliefError(f"posterior/value must be real numbers, got {values.dtype}")
    values = values.astype(np.float64)
    if not names or values.shape[0] * values.shape[1] < 2:
        raise BeliefError(
            f"posterior/value has shape {values.shape}: one policy and two draws are the least"
        )
    wrong = (~np.isfinite(values)).sum(axis=(0, 1))
    if wrong.any():
        worst = int(np.argmax(wrong > 0))
        raise BeliefError(
            f"policy {names[worst]!r} has values that are NaN or infinite in {wrong[worst]} of "
            f"{values.shape[0] * values.shape[1]} draws: fit it again or leave it out"
        )
    with np.errstate(over="ignore"):
        spread = values.max() - values.min()
    if not np.isfinite(spread):
        raise BeliefError(
            f"values between {values.min():.3g} and {values.max():.3g} are too far apart for "
            "double precision: rescale the rewards"
        )
    return Draws(tuple(names), values)


def read_warnings(belief: "xr.DataTree", names: tuple[str, ...]) -> list[SupportWarning] | None:
    """Take the support warnings about these candidates out of a belief's attributes.

    Parameters
    ----------
    belief : xarray.DataTree
        Whose attribute `support_warnings`, if there is one, is a JSON list of objects with
        `policy`, `reason` and `abstain`.
    names : tuple of str
        The candidates; warnings about others are left out.

    Returns
    -------
    list of SupportWarning or None
        None if the belief has no such attribute.

    Raises
    ------
    BeliefError
        If the attribute cannot be read so.
    """
    text = belief.attrs.get("support_warnings")
    if text is None:
        return None
    try:
        entries = [
            SupportWarning(_text(entry["policy"]), _text(entry["reason"]), entry["abstain"] is True)
            for entry in json.loads(text)
        ]
    except (TypeError, KeyError, json.JSONDecodeError) as error:
        raise BeliefError(
            "the belief's attribute `support_warnings` must be a JSON list of objects with "
            f"`policy`, `reason` and `abstain`: {error!r}"
        ) from error
    return [entry for entry in entries if entry.policy in names]


def read_support(belief: "xr.DataTree", names: tuple[str, ...]) -> dict[str, dict[str, float]]:
    """Take the support figures of these candidates out of a belief's constant data.

    Parameters
    ----------
    belief : xarray.DataTree
        Perhaps with `constant_data/moved_mass`, `lost_mass`, `effective_sample_size` and
        `negative_mass`, each with a dim `policy`.
    names : tuple of str
        The candidates.

    Returns
    -------
    dict
        For each name the figures there are, NaN where one is not given for this candidate.
    """
    support: dict[str, dict[str, float]] = {name: {} for name in names}
    for variable in SUPPORT_VARIABLES:
        figures = _variable(belief, "constant_data", variable)
        if figures is None:
            continue
        known: dict[Any, Any] = {}
        if figures.dims == ("policy",) and "policy" in figures.coords:
            known = dict(zip(figures.coords["policy"].values.tolist(), figures.values, strict=True))
        for name in names:
            support[name][variable] = float(known.get(name, np.nan))
    return support


def _variable(belief: "xr.DataTree", group: str, name: str) -> "xr.DataArray | None":
    """Look a variable up in a group; None where there is no such group, variable or tree."""
    groups = getattr(belief, "children", {})
    return groups[group].data_vars.get(name) if group in groups else None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a string")
    return value
