"""Build a belief: arrays and attributes by name, each laid out as the schema says."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from bayesdice_ppl.belief.schema import (
    DRAWN,
    GROUPS,
    Attribute,
    BeliefView,
    OwnVariables,
    Variable,
    entries,
)
from bayesdice_ppl.logs import Logs
from bayesdice_ppl.logs.logged_value import LoggedValue, logged_value

if TYPE_CHECKING:
    from xarray import DataTree

    from bayesdice_ppl.logs import AnyLogs


def make_belief(
    values: Float[np.ndarray, "*chain S N"],
    names: Sequence[str],
    *,
    statistics: Mapping[str, Float[np.ndarray, "*chain S N"]] | None = None,
    own: OwnVariables | None = None,
    **known: Any,
) -> DataTree:
    """Lay out a belief as a DataTree; values and names alone make one.

    Parameters
    ----------
    values
        Draws of the candidates' values, shape (S, N) for one chain or (chains, S, N), in reward
        per step.
    names
        Names of the N candidates.
    statistics
        Draws of other statistics of the reward by their name, each of the shape of ``values``.
    own
        What the model of the ratio keeps for itself.
    **known
        Any other variable or attribute of `BeliefView`, by its name. None stands for one that is
        not known. Draws may be given chain by chain or one chain after another.

    Raises
    ------
    TypeError
        The schema has no entry of such a name.
    """
    # ArviZ itself would load its plots, which take a second.
    from arviz_base import from_dict

    table, own = entries(), OwnVariables() if own is None else own
    chains = values.shape[:-1] if values.ndim == 3 else (1, values.shape[0])
    groups: dict[str, dict[str, np.ndarray]] = {group: {} for group in GROUPS}
    dims: dict[str, list[str]] = {}
    attributes: dict[str, Any] = {}

    def place(group: str, name: str, array: np.ndarray, own_dims: Sequence[str]) -> None:
        array = np.asarray(array)
        if group in DRAWN:
            array = array.reshape(*chains, *array.shape[array.ndim - len(own_dims) :])
        groups[group][name], dims[name] = array, list(own_dims)

    value = BeliefView.value
    for name, array in ({value.name: values} | dict(statistics or {})).items():
        place(value.group, name, array, value.dims)
    for name, thing in known.items():
        match table.get(name):
            case Variable() as variable if thing is not None:
                place(variable.group, name, thing, variable.dims)
            case Attribute() if thing is not None:
                attributes[name] = thing
            case None:
                raise TypeError(f"make_belief: the schema of a belief has no entry {name!r}.")
    for group, variables in (("posterior", own.draws), ("constant_data", own.constants)):
        for name, (array, own_dims) in variables.items():
            place(group, name, array, own_dims)
    coords = {"policy": list(names), "other_policy": list(names)} | dict(own.coords)
    used = {dim for each in dims.values() for dim in each}
    belief: DataTree = from_dict(
        {group: variables for group, variables in groups.items() if variables},
        coords={dim: labels for dim, labels in coords.items() if dim in used},
        dims=dims,
    )
    annotate(belief, **attributes)
    return belief


def with_groups(
    belief: DataTree,
    groups: Mapping[str, Mapping[str, tuple[np.ndarray, Sequence[str]]]],
    coords: Mapping[str, Sequence[Any]],
) -> DataTree:
    """A copy of a belief with more groups, or with new ones in the place of its own.

    Parameters
    ----------
    belief
        The belief; it stays as it is.
    groups
        Group -> variable -> its array, with chain and draw first, and its own dims after them.
    coords
        Labels of these dims.
    """
    from arviz_base import from_dict

    dims = {name: list(own) for group in groups.values() for name, (_, own) in group.items()}
    used = {dim for each in dims.values() for dim in each}
    found: DataTree = from_dict(
        {group: {name: each[0] for name, each in own.items()} for group, own in groups.items()},
        coords={dim: list(labels) for dim, labels in coords.items() if dim in used},
        dims=dims,
    )
    whole = belief.copy()
    for group in groups:
        whole[group] = found[group]
    return whole


def annotate(belief: DataTree, **attributes: Any) -> None:
    """Set attributes of a belief, in place.

    Parameters
    ----------
    belief
        The belief.
    **attributes
        Attributes of `BeliefView` by their name. What is no text or number is stored as JSON.

    Raises
    ------
    TypeError
        The schema has no attribute of such a name.
    """
    table = entries()
    for name, content in attributes.items():
        if not isinstance(table.get(name), Attribute):
            raise TypeError(f"annotate: the schema of a belief has no attribute {name!r}.")
        plain = isinstance(content, str | int | float)
        belief.attrs[name] = content if plain else json.dumps(_without_tuples(content))


def origin(
    logs: AnyLogs,
    *,
    gamma: float,
    restart: bool,
    rng_key: Any,
    groups: Sequence[np.ndarray] = (),
    earned: LoggedValue | None = None,
) -> dict[str, Any]:
    """Attributes that say where a belief comes from, for `make_belief`.

    Parameters
    ----------
    logs
        The logs.
    gamma
        Discount in [0, 1].
    restart
        Whether a termination is followed by a fresh start.
    rng_key
        The key that made the draws; None where nothing was drawn.
    groups
        Ways to group the rows, if these move together.
    earned
        The logging policy's value, where it is known; else it is found from the rows.
    """
    import jax

    if earned is None:
        assert isinstance(logs, Logs)  # of a counted log it is known
        earned = logged_value(logs, gamma, restart=restart, groups=groups)
    return {
        "versions": versions(),
        "rng_key": None if rng_key is None else np.asarray(jax.random.key_data(rng_key)).tolist(),
        "n_transitions": logs.n_transitions,
        "n_episodes": logs.n_episodes,
        "n_terminated": logs.n_terminated,
        "logged_value": earned.value,
        "logged_value_standard_error": earned.standard_error,
        "logged_value_tail": earned.tail,
    }


def versions() -> dict[str, str]:
    """Versions of the library and of the packages that its numbers depend on."""
    return dict(_installed())


@cache
def _installed() -> tuple[tuple[str, str], ...]:
    """Each package with its version; reading them takes as long as a tenth of a small fit."""
    packages = ("bayesdice-ppl", "jax", "numpyro", "arviz", "numpy", "scipy")
    return tuple((name, version(name)) for name in packages)


def _without_tuples(thing: Any) -> Any:
    """Turn named tuples into objects, which JSON would write as lists."""
    if isinstance(thing, tuple) and hasattr(thing, "_asdict"):
        return _without_tuples(thing._asdict())
    if isinstance(thing, Mapping):
        return {key: _without_tuples(each) for key, each in thing.items()}
    if isinstance(thing, list | tuple):
        return [_without_tuples(each) for each in thing]
    return thing
