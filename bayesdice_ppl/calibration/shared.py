"""What rows of one user or episode share: effects on the reward, as a log shows them.

Rows that are drawn one by one do not move together, so that a procedure with the wrong unit of
independence would look right on them. Here the log is asked by how much rewards of one group move
together. The groups of a simulated log then get effects of that size, drawn from the log's own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from bayesdice_ppl.codes import distinct
from bayesdice_ppl.logs import Logs

CLEAR = 3.0
"""Standard errors past which rewards of one group are taken to move together."""
FEWEST_GROUPS = 10
"""Groups from which that can be told: with fewer the score is far from normal."""
MOST = 2
"""Most ways to group the rows that are kept, such as users and their episodes."""
EPISODE = "episode"


class SharedEffect(NamedTuple):
    """An effect on the rewards that all rows of a group share.

    Attributes
    ----------
    name
        The column that groups the rows, or ``episode``.
    unit
        The group of each row of the log, shape (n,).
    effect
        Effects of the log's U groups, with mean zero, in units of the reward, shape (U,). Their
        variance is what rows of one group share, without the noise of a group's mean.
    """

    name: str
    unit: Int[np.ndarray, " n"]
    effect: Float[np.ndarray, " U"]

    @property
    def sd(self) -> float:
        """Standard deviation of the effects."""
        return float(np.sqrt(np.mean(self.effect**2)))

    def drawn(self, rng: np.random.Generator) -> Float[np.ndarray, " n"]:
        """Effects on the log's rows, with those of its groups drawn anew with replacement."""
        return rng.choice(self.effect, size=len(self.effect))[self.unit]


class Shares(NamedTuple):
    """How far rewards of one group move together.

    Attributes
    ----------
    variance
        Mean product of two rows of one group: the variance of what they share.
    score
        The same in its standard errors, if rows are independent.
    """

    variance: float
    score: float


def shares_of(off: Float[np.ndarray, " n"], unit: Int[np.ndarray, " n"]) -> Shares:
    """How far numbers of mean zero move together within groups.

    Parameters
    ----------
    off
        The numbers, shape (n,).
    unit
        The group of each, shape (n,).

    Notes
    -----
    The sum of the products of all pairs of rows of one group is the square of the group's sum less
    the sum of its squares. Its spread is that of independent rows with their signs drawn at
    random, so that a heavy tail does not deceive it.
    """
    count = np.bincount(unit).astype(np.float64)
    pairs = float((count * (count - 1.0)).sum())
    squares = np.bincount(unit, off**2)
    products = float((np.bincount(unit, off) ** 2 - squares).sum())
    spread = float((squares**2 - np.bincount(unit, off**4)).sum())
    # Rounding of a group of one row is no pair.
    if pairs == 0.0 or not spread > 1e-12 * float((squares**2).sum()):
        return Shares(0.0, 0.0)
    return Shares(products / pairs, products / np.sqrt(2.0 * spread))


def groupings_of(logs: Logs, asked: tuple[str, ...]) -> dict[str, Int[np.ndarray, " n"]]:
    """Ways to group the rows that a fit would look at, and those that it is asked for.

    Parameters
    ----------
    logs
        The log.
    asked
        Columns that ``cluster`` names.
    """
    names = dict.fromkeys((*asked, *logs.looked_at))
    found = {name: distinct(logs.group_codes(name))[1] for name in names if name in logs.groups}
    found[EPISODE] = np.asarray(logs.episode)
    return found


def shared_effects(
    off: Float[np.ndarray, " n"], groupings: dict[str, Int[np.ndarray, " n"]]
) -> tuple[list[SharedEffect], Float[np.ndarray, " n"]]:
    """Effects that rows of one group share, and what is left of the rewards without them.

    Parameters
    ----------
    off
        Each reward less the mean of its pair of state and action, shape (n,).
    groupings
        Ways to group the rows, by name.

    Returns
    -------
    (list, array)
        The effects, the clearest first; and what is left, shape (n,), with the variance that the
        effects leave.

    Notes
    -----
    A group's mean has the noise of its rows in it. The means are drawn together until their
    variance is that of what rows of one group share, and what is left is stretched by as much.
    """
    found: list[SharedEffect] = []
    left = off
    while len(found) < MOST:
        known = {each.name for each in found}
        shares = {
            name: shares_of(left, unit)
            for name, unit in groupings.items()
            if name not in known and unit.max(initial=-1) + 1 >= FEWEST_GROUPS
        }
        best = max(shares, key=lambda name: shares[name].score, default=None)
        if best is None or shares[best].score <= CLEAR:
            break
        unit = groupings[best]
        mean = np.bincount(unit, left) / np.maximum(np.bincount(unit), 1)
        centered = mean - mean.mean()
        total = float(np.mean(left**2))
        shared = min(shares[best].variance, total)
        within = left - mean[unit]
        stretch = np.sqrt((total - shared) / max(float(np.mean(within**2)), 1e-300))
        size = np.sqrt(shared / max(float(np.mean(centered**2)), 1e-300))
        found.append(SharedEffect(best, unit, size * centered))
        left = stretch * within
    return found, left
