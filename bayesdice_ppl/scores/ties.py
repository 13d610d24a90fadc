"""True places of the policies in every draw, with ties averaged exactly.

Two policies can have the very same value in a draw: identical candidates do so in all of them.
Then every order of the tied policies is equally likely. The functions here average over these
orders in closed form. Only *exactly* equal values are tied; nothing is jittered.
"""

from itertools import combinations
from math import comb
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.stats import rankdata

from bayesdice_ppl.errors import ScoreError

# With more rows than this, the tie-breaks of a few draws would outweigh all the other draws.
MAX_TOP_SETS = 1_000_000
# Values that are ranked at a time: half a megabyte.
_PART = 1 << 16


@final
class Places(NamedTuple):
    """The block of true places that each policy shares in each draw.

    In draw m, policy i takes one of the places `first[m, i] + 1, ..., first[m, i] + size[m, i]`,
    each with the same probability.

    Attributes
    ----------
    first : Int[ndarray, "M N"]
        How many policies are strictly better.
    size : Int[ndarray, "M N"]
        How many policies have this value, the policy itself included.
    """

    first: Int[np.ndarray, "M N"]
    size: Int[np.ndarray, "M N"]


@final
class TopSets(NamedTuple):
    """Every set of policies that can be the true top k, draw by draw.

    A draw without a tie across place k has one row. A draw in which b policies are tied for the
    last c places has all C(b, c) rows. Given the set, tied policies take their places in every
    order with the same probability, so each one's mean place is all that matters of the order.

    Attributes
    ----------
    draw : Int[ndarray, "E"]
        Which draw a row belongs to.
    weight : Float[ndarray, "E"]
        Probability of the set within its draw; the rows of a draw sum to 1.
    member : Bool[ndarray, "E N"]
        Which policies are in the set.
    place : Float[ndarray, "E N"]
        Mean true place (1..k) of the members, given the set; 0 for the others.
    """

    draw: Int[np.ndarray, " E"]
    weight: Float[np.ndarray, " E"]
    member: Bool[np.ndarray, "E N"]
    place: Float[np.ndarray, "E N"]


def places(values: Float[np.ndarray, "M N"]) -> Places:
    """Rank the policies in every draw, highest value first.

    Parameters
    ----------
    values : Float[ndarray, "M N"]
        Values of N policies in M draws, finite.

    Returns
    -------
    Places
        Tie blocks, each array of shape (M, N).
    """
    n_draws, n_policies = values.shape
    # In parts that stay in the cache, which is faster than all draws at once.
    parts = np.array_split(-values, 1 + values.size // _PART)
    ranks = np.concatenate([rankdata(part, method="min", axis=1) for part in parts])
    first = ranks.astype(np.intp) - 1
    block = np.arange(n_draws)[:, None] * n_policies + first
    return Places(first, np.bincount(block.ravel(), minlength=block.size)[block])


def expected_places(block: Places) -> Float[np.ndarray, "M N"]:
    """Give the mean true place (1 is best) of each policy in each draw, ties averaged."""
    return block.first + (block.size + 1) / 2


def inclusion(block: Places, k: int) -> Float[np.ndarray, "M N"]:
    """Give the probability over tie-breaks that each policy is among the true top k."""
    return np.clip((k - block.first) / block.size, 0.0, 1.0)


def place_shares(block: Places) -> Float[np.ndarray, "N N"]:
    """Average over draws the probability that policy i (row) has true place j (column, from 0)."""
    n_draws, n_policies = block.first.shape
    row = np.arange(n_policies) * (n_policies + 1)
    share = (1.0 / block.size).ravel()
    # Blocks are runs of places: add 1 / size where a run starts, subtract it behind its end.
    length = n_policies * (n_policies + 1)
    begins = np.bincount((row + block.first).ravel(), share, length)
    ends = np.bincount((row + block.first + block.size).ravel(), share, length)
    steps = (begins - ends).reshape(n_policies, n_policies + 1)
    return np.cumsum(steps, axis=1)[:, :-1] / n_draws


def top_sets(block: Places, k: int) -> TopSets:
    """List every possible true top k of every draw, with its probability.

    Parameters
    ----------
    block : Places
        Tie blocks of M draws of N policies.
    k : int
        Size of the top, 1 <= k <= N.

    Returns
    -------
    TopSets
        At least one row per draw, the draws in order.

    Raises
    ------
    ScoreError
        So many policies are tied around place k that there are more than `MAX_TOP_SETS` sets.
    """
    settled = block.first + block.size <= k
    tied = (block.first < k) & ~settled
    slots = k - settled.sum(axis=1)
    n_tied = tied.sum(axis=1)
    kinds, kind_of = np.unique(np.stack([n_tied, slots], axis=1), axis=0, return_inverse=True)
    counts = [comb(int(b), int(c)) * int(np.sum(kind_of == i)) for i, (b, c) in enumerate(kinds)]
    if sum(counts) > max(MAX_TOP_SETS, len(slots)):
        most = int(n_tied.max())
        raise ScoreError(
            f"up to {most} policies are tied around place {k} in some draws: expected at most "
            f"{MAX_TOP_SETS:,} possible top-{k} sets to average over, found {sum(counts):,}. Leave "
            "out all but one of the candidates that are identical, or choose another k."
        )
    settled_place = np.where(settled, expected_places(block), 0.0)
    parts = []
    for i, (b, c) in enumerate(kinds):
        draw = np.flatnonzero(kind_of == i)
        if b == 0:
            parts.append(TopSets(draw, np.ones(len(draw)), settled[draw], settled_place[draw]))
            continue
        contenders = np.nonzero(tied[draw])[1].reshape(len(draw), b)
        chosen = contenders[:, list(combinations(range(b), c))].reshape(-1, c)
        n_sets = comb(int(b), int(c))
        row = np.repeat(draw, n_sets)
        member, place = settled[row], settled_place[row]
        np.put_along_axis(member, chosen, True, axis=1)
        # They fill the places k - c + 1, ..., k.
        np.put_along_axis(place, chosen, k - (c - 1) / 2, axis=1)
        parts.append(TopSets(row, np.full(len(row), 1.0 / n_sets), member, place))
    rows = TopSets(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))
    order = np.argsort(rows.draw, kind="stable")
    return TopSets(*(array[order] for array in rows))
