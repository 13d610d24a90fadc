"""Tails: how heavy the rewards' tail is, and how few errors a width rests on.

A mean's spread is known from the log only if the log has seen what it may yet see. Where few large
rewards make up the variance, the next one may be larger. The largest rewards tell: they follow a
generalized Pareto law, whose index is near 0 for exponential rewards, and past 1/2 where there is
no variance.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from bayesdice_ppl.belief import SupportWarning
from bayesdice_ppl.fitting import gauges
from bayesdice_ppl.inference import Tails

MANY = 30.0
"""Effective errors past which a tail no longer matters: the mean is nearly normal."""
FEWEST = 100
"""Rewards that differ from the commonest, below which a tail index says nothing."""
_NORMAL_TAIL, _HALF = 10.0, 0.5


def tail_size(n: int) -> int:
    """How many of n values are the tail: min(n / 5, 3 sqrt(n))."""
    return int(3.0 * np.sqrt(n)) if n > 225 else n // 5


class TailLaw(NamedTuple):
    """The generalized Pareto law that the largest values follow.

    Attributes
    ----------
    threshold
        Where the tail begins.
    scale
        Of what is above it.
    shape
        The tail index: 0 for an exponential tail, past 1/2 without variance, past 1 without mean.
    """

    threshold: float
    scale: float
    shape: float


def tail_index(values: Float[np.ndarray, " n"], n: int | None = None) -> float:
    """Index of the generalized Pareto law that the largest values follow; NaN if they follow none.

    Parameters
    ----------
    values, n
        As for `tail_law`.
    """
    law = tail_law(values, n)
    return float("nan") if law is None else law.shape


def tail_law(values: Float[np.ndarray, " n"], n: int | None = None) -> TailLaw | None:
    """The generalized Pareto law that the largest values follow; None if they follow none.

    Parameters
    ----------
    values
        Shape (n,). The largest min(n / 5, 3 sqrt(n)) of them are the tail.
    n
        Their number, where ``values`` has only the largest of them: one more than the tail.

    Notes
    -----
    The fit of Zhang and Stephens (2009), drawn to 1/2 with the weight of 10 values, as for k-hat in
    Pareto-smoothed importance sampling (Vehtari et al., 2024). ArviZ has the same, and takes two
    seconds to load.
    """
    size = tail_size(len(values) if n is None else n)
    if size < 5:
        return None
    place = len(values) - size - 1
    tail = np.sort(np.partition(values, place)[place:])
    above = tail[1:] - tail[0]
    quartile = above[int(size / 4.0 + 0.5) - 1]
    if not quartile > above[0]:
        # Many values alike, such as counts, are no Pareto law.
        return None
    points = 30 + int(np.sqrt(size))
    rate = 1.0 - np.sqrt(points / (np.arange(1, points + 1) - 0.5))
    rate = rate / (3.0 * quartile) + 1.0 / above[-1]
    index = np.log1p(-rate[:, None] * above).mean(axis=1)
    fit = size * (np.log(-rate / index) - index - 1.0)
    weight = np.exp(fit - fit.max())
    best = float(rate @ weight / weight.sum())
    found = float(np.log1p(-best * above).mean())
    drawn = (size * found + _NORMAL_TAIL * _HALF) / (size + _NORMAL_TAIL)
    return TailLaw(float(tail[0]), -found / best, drawn)


def tail_indices(
    tails: Tails,
    reward: Float[np.ndarray, " n"],
    pair: Int[np.ndarray, " n"],
    active: Bool[np.ndarray, "N P"],
) -> Float[np.ndarray, " N"]:
    """Index of the rewards' longer tail for each candidate; NaN where nothing depends on it.

    Parameters
    ----------
    tails
        Of the beliefs of the mean reward.
    reward, pair
        Reward and pair of each row that is used, shape (n,).
    active
        Whether a candidate visits a pair, shape (N, P).

    Notes
    -----
    Rewards are measured from the mean of their pair. Of the rewards that most rows share, such as
    0 where few rows pay, none is in a tail.
    """
    found = np.full(len(tails.effective), np.nan)
    if not np.any(tails.effective < MANY):
        return found
    value, count = np.unique(reward, return_counts=True)
    differs = np.ones(len(reward), dtype=bool)
    if 2 * count.max() > len(reward):
        differs = reward != value[count.argmax()]
    visits = np.maximum(np.bincount(pair), 1)
    off = reward - (np.bincount(pair, reward) / visits)[pair]
    known: dict[bytes, float] = {}
    for j in np.flatnonzero(tails.effective < MANY):
        side = 1.0 if tails.skewness[j] >= 0.0 else -1.0
        # Candidates that visit the same pairs share their tail.
        key = np.packbits(active[j]).tobytes() + (b"+" if side > 0.0 else b"-")
        if key not in known:
            kept = side * off[differs & active[j][pair]]
            known[key] = tail_index(kept) if len(kept) >= FEWEST else float("nan")
        found[j] = known[key]
    return found


def tail_warnings(
    names: tuple[str, ...],
    tails: Tails,
    index: Float[np.ndarray, " N"] | None,
) -> list[SupportWarning]:
    """Warn where a width rests on few errors, or on a tail that has more to come.

    Parameters
    ----------
    names
        Names of the candidates.
    tails
        Of the beliefs.
    shape
        From `tail_indices`, or None where it was not looked at.
    """
    found: list[SupportWarning] = []
    none = gauges.HEAVY.abstains
    for j, name in enumerate(names):
        effective = float(tails.effective[j])
        heavy: list[SupportWarning] = []
        if index is not None and effective < MANY and not np.isnan(index[j]):
            reason = (
                f"has rewards with a heavy tail (index {index[j]:.2f}; past {none:g} there is no "
                f"variance), and {effective:.1f} effective errors make its width. Larger rewards "
                "than the log has may change its value. Log more, or choose a statistic of "
                "bounded rewards."
            )
            heavy = gauges.HEAVY.judge(name, index[j], reason)
        found += heavy
        if any(warning.abstain for warning in heavy):
            continue
        reason = (
            f"has a width that rests on {effective:.1f} effective errors, because few rewards "
            "differ from the others. Log more."
        )
        found += gauges.FEW_ERRORS.judge(name, effective, reason)
    return found
