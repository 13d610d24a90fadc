"""The least loss of each draw: what a choice would lose if all values were known before it.

In a draw the values are known, and so is its best ranking for every score of this library but two:
a function of the user's is not looked into, and which policies are safe would itself depend on
what is known. Where the best ranking is not known for sure that is said, never guessed.
"""

import numpy as np
from jaxtyping import Bool, Float
from scipy.optimize import linear_sum_assignment

from bayesdice_ppl import ties
from bayesdice_ppl.errors import ScoreError
from bayesdice_ppl.losses import (
    Accuracy,
    Correlation,
    Kendall,
    Ndcg,
    NormalizedRegret,
    Precision,
    Regret,
    Score,
    Spearman,
)
from bayesdice_ppl.losses.structure import Assignment, Sorting, Structure
from bayesdice_ppl.selection.rules import Rules
from bayesdice_ppl.selection.solvers.budget import binds

_KNOWN = (
    Accuracy,
    Correlation,
    Kendall,
    Ndcg,
    NormalizedRegret,
    Precision,
    Regret,
    Spearman,
)


def check_known(score: Score) -> None:
    """Refuse scores whose best ranking of a draw is not known.

    Raises
    ------
    ScoreError
        For functions of the user's, safe improvement, and risks other than the mean.
    """
    if not isinstance(score, _KNOWN):
        raise ScoreError(
            f"the value of information is not defined for {score.name}: it needs to know the best "
            "ranking of any values. Ask for precision, accuracy, a regret, ndcg, correlation, "
            "spearman or kendall"
        )
    if not score.averaged:
        raise ScoreError(
            f"the value of information is how much the expected loss would fall, and {score.name} "
            "is another risk: leave out risk="
        )


def least_losses(
    values: Float[np.ndarray, "M N"], score: Score, rules: Rules, names: tuple[str, ...]
) -> Float[np.ndarray, " M"]:
    """Give the lowest loss that a ranking which is allowed has in each draw.

    Parameters
    ----------
    values : Float[ndarray, "M N"]
        Draws of the policy values, finite.
    score : Score
        One that `check_known` lets pass.
    rules : Rules
        Which launches are allowed, at least one.
    names : tuple of str
        Of the N policies, for errors.

    Returns
    -------
    Float[ndarray, "M"]
        In the units of the loss. Without rules it is 0 but for ties: a policy that is tied for a
        place has it only by a chance that no ranking changes.

    Raises
    ------
    ScoreError
        If there are rules and the best launch of each draw would be an integer program or, for
        correlation@k, has no solver; or if policies are tied within the first k places of
        correlation@k, for which the order of the values is then not always the best one.
    """
    if isinstance(score, Regret | NormalizedRegret):
        seen = score.seen(values)
        best: Float[np.ndarray, " M"] = seen.max(axis=1)
        return best - seen[:, _launchable(rules, score.k)].max(axis=1)
    if rules.free:
        return _of_own_orders(values, score, names)
    if isinstance(score, Correlation) or binds(rules, score.depth(len(names))):
        rule = "rules on the launch" if isinstance(score, Correlation) else "a budget"
        raise ScoreError(
            f"the best ranking of every draw by {score.name} is not known under {rule}: ask for "
            "the value of information about regret, or without"
        )
    structures = (score.structure(values[[draw]]) for draw in range(len(values)))
    return np.array([_least_loss(structure, rules) for structure in structures])


def _least_loss(structure: Structure | None, rules: Rules) -> float:
    """Assign the policies that may be launched to places, those that must be in any case."""
    if isinstance(structure, Sorting):
        table = np.outer(structure.merit, structure.weight)
    elif isinstance(structure, Assignment):
        table = structure.table
    else:
        raise AssertionError("scores of the whole ranking are refused where there are rules")
    table, required = table[~rules.excluded], rules.required[~rules.excluded]
    table = table[:, : len(table)]
    # Whoever lists one more of the required gains more than by anything else.
    drawn = table + required[:, None] * (1.0 + table.max() * table.shape[1])
    policies, places = linear_sum_assignment(drawn, maximize=True)
    return structure.offset - float(table[policies, places].sum())


def _launchable(rules: Rules, k: int) -> Bool[np.ndarray, " N"]:
    """Tell which policies some launch that is allowed holds."""
    if rules.required.sum() >= k:
        return rules.required
    room = rules.limit - rules.cost[rules.required].sum()
    return rules.required | (~rules.excluded & (rules.cost <= room))


def _of_own_orders(
    values: Float[np.ndarray, "M N"], score: Score, names: tuple[str, ...]
) -> Float[np.ndarray, " M"]:
    """Give the loss of each draw's own order in that draw.

    It is the least: for precision, accuracy, ndcg and Spearman's by exchanging neighbors that are
    in the wrong order, for Kendall's pair by pair, for correlation@k where it is 0.
    """
    block = ties.places(values)
    if isinstance(score, Correlation) and score.k not in (2, len(names)):
        _refuse_ties(block, score, names)
    losses = np.zeros(len(values))
    for draw in np.flatnonzero((block.size > 1).any(axis=1)):
        order = np.argsort(-values[draw], kind="stable")
        losses[draw] = score.losses(values[[draw]], order[None])[0, 0]
    return losses


def _refuse_ties(block: ties.Places, score: Correlation, names: tuple[str, ...]) -> None:
    """Refuse draws with ties in the top k: spreading tied policies out may then be better."""
    tied = (block.size > 1) & (block.first < score.k)
    if not tied.any():
        return
    draw = int(np.argmax(tied.any(axis=1)))
    one = int(np.argmax(tied[draw]))
    same = block.first[draw] == block.first[draw, one]
    other = int(np.flatnonzero(same)[1])
    raise ScoreError(
        f"{names[one]!r} and {names[other]!r} have equal values in draw {draw}: the best ranking "
        f"of such a draw by {score.name} is not known. Leave one of the two out, or ask about "
        "spearman"
    )
