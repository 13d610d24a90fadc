"""Average beliefs: a mixture whose draws come from each of several beliefs by its weight."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import jax
import numpy as np
from jaxtyping import Int, PRNGKeyArray

from bayesdice_ppl.belief import (
    BeliefView,
    SupportWarning,
    make_belief,
    read_statistic,
    read_values,
    read_warnings,
)
from bayesdice_ppl.comparison.compare import Comparison
from bayesdice_ppl.errors import BeliefError, SettingsError
from bayesdice_ppl.keys import check_key

if TYPE_CHECKING:
    from xarray import DataTree

SUM = 1e-6
"""How far the sum of weights may be from 1."""


def stack(
    beliefs: Mapping[str, DataTree],
    weights: Mapping[str, float] | Comparison,
    *,
    rng_key: PRNGKeyArray,
) -> DataTree:
    """Average beliefs about the same candidates into one.

    Parameters
    ----------
    beliefs
        Name -> belief.
    weights
        Name -> weight, at least 0, with a sum of 1; or a `Comparison` of the same names.
    rng_key
        A key of `jax.random`, which chooses draws.

    Returns
    -------
    xarray.DataTree
        A belief with as many draws as the first. Each draw is one draw of one belief, for all
        candidates together, and each belief has a number of draws in proportion to its weight.
        Every warning of a belief of some weight is a warning of the average. Of beliefs of several
        rewards it is the average of the first, which a note says.

    Raises
    ------
    SettingsError
        Weights are negative, do not sum to 1, or have other names than the beliefs.
    BeliefError
        The beliefs are about different candidates or different statistics.
    """
    check_key(rng_key)
    given = weights.weights if isinstance(weights, Comparison) else weights
    share = _checked(beliefs, given)
    names = list(beliefs)
    draws = {name: read_values(belief) for name, belief in beliefs.items()}
    first = draws[names[0]]
    for name in names[1:]:
        if set(draws[name].names) != set(first.names):
            raise BeliefError(
                f"stack: expected the same candidates in all beliefs, found "
                f"{', '.join(first.names)} in {names[0]!r} and {', '.join(draws[name].names)} in "
                f"{name!r}."
            )
        if _what(beliefs[name]) != _what(beliefs[names[0]]):
            raise BeliefError(
                f"stack: expected one statistic of one reward in all beliefs, found "
                f"{_what(beliefs[names[0]])} in {names[0]!r} and {_what(beliefs[name])} in "
                f"{name!r}."
            )
    size = first.values.shape[0] * first.values.shape[1]
    taken = []
    for j, (name, count) in enumerate(zip(names, shares_of(share, size), strict=True)):
        found = draws[name]
        order = [found.names.index(each) for each in first.names]
        flat = found.values[..., order].reshape(-1, len(first.names))
        key = jax.random.fold_in(rng_key, j)
        taken.append(flat[_rows(len(flat), int(count), key)])
    mixed = np.concatenate(taken)
    shuffled = np.asarray(jax.random.permutation(jax.random.fold_in(rng_key, len(names)), size))
    view = BeliefView(beliefs[names[0]])
    told = (
        f"; of {', '.join(view.rewards)} it is of {view.rewards[0]} alone" if view.rewards else ""
    )
    return make_belief(
        mixed[shuffled],
        first.names,
        support_warnings=_warnings(beliefs, share, first.names),
        logged_value=view.logged_value,
        notes=[
            "an average of beliefs: "
            + ", ".join(f"{name} {w:.3g}" for name, w in zip(names, share, strict=True))
            + told
        ],
    )


def _what(belief: DataTree) -> str:
    """What the values of a belief are: a statistic, and of which reward where there are several."""
    rewards = BeliefView(belief).rewards
    return f"{read_statistic(belief)}{f' of {rewards[0]}' if rewards else ''}"


def _checked(beliefs: Mapping[str, DataTree], given: Mapping[str, float]) -> list[float]:
    if not beliefs or set(given) != set(beliefs):
        raise SettingsError(
            f"stack: expected a weight for each of {', '.join(map(repr, beliefs)) or 'no beliefs'}"
            f", found {', '.join(map(repr, given)) or 'none'}."
        )
    share = [float(given[name]) for name in beliefs]
    if not all(w >= 0.0 for w in share) or abs(sum(share) - 1.0) > SUM:
        raise SettingsError(
            f"stack: expected weights of at least 0 that sum to 1, found {share}. Divide them by "
            "their sum."
        )
    return share


def shares_of(share: list[float], size: int) -> Int[np.ndarray, " V"]:
    """Whole numbers in proportion to shares, which sum to a size: by largest remainder."""
    exact = np.asarray(share) / sum(share) * size
    counts = np.floor(exact).astype(np.int64)
    left = np.argsort(-(exact - counts), kind="stable")[: size - counts.sum()]
    counts[left] += 1
    return counts


def _rows(available: int, wanted: int, key: PRNGKeyArray) -> Int[np.ndarray, " k"]:
    """Which draws: each as often as any other, but for one."""
    rounds, rest = divmod(wanted, available)
    some = np.asarray(jax.random.permutation(key, available))[:rest]
    return np.concatenate([np.tile(np.arange(available), rounds), some])


def _warnings(
    beliefs: Mapping[str, DataTree], share: list[float], names: tuple[str, ...]
) -> list[SupportWarning] | None:
    found: list[SupportWarning] = []
    for (name, belief), weight in zip(beliefs.items(), share, strict=True):
        own = read_warnings(belief, names)
        if weight == 0.0 or own is None:
            continue
        found += [each._replace(reason=f"{each.reason} (in {name})") for each in own]
    known = any(read_warnings(belief, names) is not None for belief in beliefs.values())
    return found if known else None
