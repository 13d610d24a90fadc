"""Rows in groups: how much more a value varies if groups are independent, and not rows.

A candidate's error is a sum over rows. If those of a group move together, the squares of the
groups' sums exceed the sum of the rows' squares. Everything that is asked of a grouping is a sum
over each group, so that a grouping of groups is made from them, and not from the rows again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from bayesdice_ppl.codes import combined, distinct

_ONE_GROUP, _TINY = 1e-9, 1e-14


class Grouping(NamedTuple):
    """Rows and episodes in groups whose errors may move together.

    Attributes
    ----------
    name
        What a group is: the name of a column, ``"episode"``, or a stretch of rows.
    of_row
        The group of each row that is used, shape (n,).
    of_episode
        The group of each episode's start, shape (m,).
    by_order
        Whether its groups are stretches of rows that follow each other, and no column's.
    """

    name: str
    of_row: Int[np.ndarray, " n"]
    of_episode: Int[np.ndarray, " m"]
    by_order: bool = False

    @property
    def size(self) -> int:
        """Number of groups of rows or starts."""
        return int(max(self.of_row.max(), self.of_episode.max())) + 1

    @property
    def of_rows(self) -> int:
        """Number of groups that have rows."""
        return int(np.count_nonzero(np.bincount(self.of_row)))

    @property
    def pairs(self) -> int:
        """Pairs of rows that share a group."""
        count = np.bincount(self.of_row)
        return int((count * (count - 1)).sum() // 2)

    def crossed(self, other: Grouping) -> Grouping:
        """Rows that share both groups."""
        code = combined(self.of_all, other.of_all)[1]
        n = len(self.of_row)
        return Grouping(f"{self.name} and {other.name}", code[:n], code[n:])

    def nests(self, other: Grouping) -> bool:
        """Whether one of the two lies within the other, as sessions do within users."""
        size = self.crossed(other).size
        return size == min(len(distinct(self.of_all)[0]), len(distinct(other.of_all)[0]))

    @property
    def of_all(self) -> Int[np.ndarray, " nm"]:
        """The group of each row, and then of each episode's start, shape (n + m,)."""
        return np.r_[self.of_row, self.of_episode].astype(np.int64)


class Items(NamedTuple):
    """What is independent without the groups: rows and starts, or their sums in an episode.

    Attributes
    ----------
    code
        The item of each row and start; None: each is its own.
    group
        The group of each item.
    size
        Number of groups.
    parent
        The group here of each group of the grouping before, where that one is finer; else None.
    """

    code: Int[np.ndarray, " nm"] | None
    group: Int[np.ndarray, " I"]
    size: int
    parent: Int[np.ndarray, " H"] | None = None

    def sums(self, values: Float[np.ndarray, " nm"]) -> Float[np.ndarray, " I"]:
        """Sum over the rows and starts of each item."""
        return values if self.code is None else np.bincount(self.code, values, len(self.group))

    def after(self, finer: Items) -> Items:
        """The same, made from the sums of another grouping if each of its groups lies in one."""
        if self.code is not None or finer.code is not None:
            return self
        parent = np.zeros(finer.size, dtype=np.int64)
        parent[finer.group] = self.group
        return self._replace(parent=parent) if np.all(parent[finer.group] == self.group) else self


class GroupSums(NamedTuple):
    """Sums over the items of each of G groups.

    Attributes
    ----------
    total, square, fourth
        Of the errors and their second and fourth powers, shape (G,).
    mass, mass_square
        Of the weights and their squares, shape (G,).
    mass_cube
        Of the weights' third power, over all items.
    """

    total: Float[np.ndarray, " G"]
    square: Float[np.ndarray, " G"]
    fourth: Float[np.ndarray, " G"]
    mass: Float[np.ndarray, " G"]
    mass_square: Float[np.ndarray, " G"]
    mass_cube: float

    def coarser(self, parent: Int[np.ndarray, " G"], size: int) -> GroupSums:
        """The same over groups of these groups, of which there are `size`."""

        def over(sums: Float[np.ndarray, " G"]) -> Float[np.ndarray, " H"]:
            return np.bincount(parent, sums, size)

        return GroupSums(
            over(self.total),
            over(self.square),
            over(self.fourth),
            over(self.mass),
            over(self.mass_square),
            self.mass_cube,
        )


class Spread(NamedTuple):
    """How much more variable a value is if groups are independent, and not items.

    Attributes
    ----------
    excess
        What the variance has beyond that of the items.
    degrees_of_freedom
        Of the variance by groups.
    score
        Standard errors of a normal that go with the probability of such an excess by chance.
    standard_error
        That of the excess, over the variance of the items.
    """

    excess: float
    degrees_of_freedom: float
    score: float
    standard_error: float


def items_of(
    grouping: Grouping, episode: Int[np.ndarray, " n"], *, by_episode: bool = False
) -> Items:
    """The items of a grouping: rows and starts, or episodes, cut where groups divide them.

    Parameters
    ----------
    grouping
        The grouping.
    episode
        The episode of each row, shape (n,).
    by_episode
        Whether episodes are independent without the groups, and not rows.
    """
    group = grouping.of_all
    if not by_episode:
        return Items(None, group, grouping.size)
    m = len(grouping.of_episode)
    both = grouping.crossed(Grouping("episode", episode, np.arange(m))).of_all
    place = np.unique(both, return_index=True)[1]
    return Items(both, group[place], grouping.size)


def sums_over(
    groupings: list[Items], values: Float[np.ndarray, " nm"], weight: Float[np.ndarray, " nm"]
) -> list[GroupSums]:
    """Sums over the groups of each grouping; those of a coarser one from the finer before it.

    Parameters
    ----------
    groupings
        The groupings' items.
    values, weight
        What each row, and then each start, adds to the error, and how much of it is expected of
        it: the square of an item's error is in proportion to that of its weight, shape (n + m,).
    """
    found: list[GroupSums] = []
    for items in groupings:
        if items.parent is None:
            sums = group_sums(items.sums(values), items.sums(weight), items.group, items.size)
        else:
            sums = found[-1].coarser(items.parent, items.size)
        found.append(sums)
    return found


def group_sums(
    values: Float[np.ndarray, " I"],
    weight: Float[np.ndarray, " I"],
    group: Int[np.ndarray, " I"],
    size: int,
) -> GroupSums:
    """Sums over the items of each group.

    Parameters
    ----------
    values, weight
        Error and weight of each item, shape (I,).
    group, size
        The group of each item, and the number of groups.
    """
    square, of_weight = values**2, weight**2

    def over(column: Float[np.ndarray, " I"]) -> Float[np.ndarray, " G"]:
        return np.bincount(group, column, size)

    return GroupSums(
        over(values),
        over(square),
        over(square**2),
        over(weight),
        over(of_weight),
        float(of_weight @ weight),
    )


def spread_of(sums: GroupSums) -> Spread:
    """Excess of the variance by groups over that by items, corrected for their number.

    Sums are measured from the mean, which makes them smaller. The correction and the degrees of
    freedom (Bell and McCaffrey's) are exact if items are normal with one variance for a unit of
    squared weight and one correlation within groups. The sum over pairs that share a group has,
    under random signs, a known variance; its law is taken as that of a chi-square.
    """
    from scipy.special import chdtrc, ndtri

    independent, plain = float(sums.square.sum()), float(sums.total @ sums.total)
    mass, alone = sums.mass, sums.mass_square
    total_mass, whole = float(mass.sum()), float(alone.sum())
    pairs = mass**2 - alone
    if not (independent > 0.0 and whole > 0.0):
        return Spread(0.0, np.inf, 0.0, 0.0)
    scale = independent / whole
    more = scale * pairs.sum()
    correlation = min(max(plain - independent, 0.0) / more, 1.0) if more > 0.0 else 0.0
    own = scale * (alone + correlation * pairs)
    # The covariance of the sums, measured from the mean, is S - p s' - s p' + sigma p p'.
    share, total = mass / total_mass, own.sum()
    trace = total - 2.0 * share @ own + total * (share @ share)
    if trace < _ONE_GROUP * total:
        # One group has all the weight, and nothing tells how groups differ.
        return Spread(0.0, 1.0, 0.0, 0.0)
    left = np.stack([share, own], axis=1)
    middle = np.array([[total, -1.0], [-1.0, 0.0]])
    inner = middle @ (left.T @ left)
    trace_square = own @ own + 2.0 * np.trace(middle @ (left.T @ (left * own[:, None])))
    trace_square += np.trace(inner @ inner)
    # The same correction for the items themselves.
    kept = 1.0 - 2.0 * sums.mass_cube / (total_mass * whole) + whole / total_mass**2
    excess = plain * total / trace - independent / max(kept, _ONE_GROUP)
    error = np.sqrt(max(2.0 * float((sums.square**2 - sums.fourth).sum()), 0.0))
    score = 0.0
    # What corrects the squares for the mean that was taken off makes their noise larger too: much
    # so where one row has most of the weight.
    error *= max(total / trace, 1.0)
    if error > 0.0:
        freedom = 2.0 * (independent / error) ** 2
        by_chance = chdtrc(freedom, freedom * max(1.0 + excess / independent, 0.0))
        # Far out the normal law is as good, and does not run out of numbers.
        score = float(-ndtri(by_chance)) if by_chance > _TINY else excess / error
    df = float(trace**2 / trace_square) if trace_square > 0.0 else np.inf
    return Spread(float(excess), df, float(np.clip(score, -8.0, 8.0)), error / independent)
