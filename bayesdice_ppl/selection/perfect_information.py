"""The least loss of each draw: what a choice would lose if all values were known before it.

In a single draw the values are known, and for nearly every score so is the best ranking. Where it
is not known for sure, for a function of the user's for example, the score is refused.
"""

import numpy as np
from jaxtyping import Bool, Float
from scipy.optimize import linear_sum_assignment

from bayesdice_ppl.errors import ScoreError
from bayesdice_ppl.scores import Score, ties
from bayesdice_ppl.scores.forms import Assignment, Coverage, Form, Sorting
from bayesdice_ppl.selection.problem import RankingProblem
from bayesdice_ppl.selection.rules import Rules


def check_known(score: Score) -> None:
    """Refuse scores whose best ranking of a draw is not known.

    Raises
    ------
    ScoreError
        For functions of the user's, safe improvement, and risks other than the mean.
    """
    if not score.own_order_is_best:
        raise ScoreError(
            f"{score.name}: expected precision, accuracy, a regret, ndcg, correlation, spearman or "
            "kendall, as the value of information needs the best ranking of every draw."
        )
    if not score.averaged:
        raise ScoreError(
            f"{score.name}: expected a score judged by its mean, as the value of information is by "
            "how much an expected loss would fall. Leave out risk=."
        )


def least_losses(problem: RankingProblem, names: tuple[str, ...]) -> Float[np.ndarray, " M"]:
    """Give the lowest loss that a ranking which is allowed has in each draw.

    Parameters
    ----------
    problem : RankingProblem
        Draws, a score that `check_known` lets pass, and rules that allow a launch.
    names : tuple of str
        Of the N policies, for errors.

    Returns
    -------
    Float[ndarray, "M"]
        In the units of the loss. Without rules it is 0 except for ties: a policy that is tied for
        a place has it only by a chance that no ranking changes.

    Raises
    ------
    ScoreError
        There are rules under which the best launch of each draw would be an integer program or,
        for correlation@k, has no solver; or policies are tied within the first k places of
        correlation@k, so that the order of the values need not be the best one.
    """
    values, score, rules, form = problem.values, problem.score, problem.rules, problem.form
    if isinstance(form, Coverage):
        best: Float[np.ndarray, " M"] = form.values.max(axis=0)
        return best - form.values[_launchable(rules, problem.depth)].max(axis=0)
    if rules.free:
        score.check_own_order(values, names)
        return _of_own_orders(problem)
    if not score.partial or rules.limits_cost(problem.depth):
        raise ScoreError(
            f"{score.name} under {'a budget' if score.partial else 'rules on the launch'}: the "
            "best ranking of every draw is not known. Use a regret, or leave out the rules."
        )
    forms = (score.form(score.digest(values[[draw]])) for draw in range(len(values)))
    return np.array([_least_loss(one, rules) for one in forms])


def _least_loss(form: Form | None, rules: Rules) -> float:
    """Assign the policies that may be launched to places, those that must be in any case."""
    if isinstance(form, Sorting):
        table = np.outer(form.merit, form.weight)
    elif isinstance(form, Assignment):
        table = form.table
    else:
        raise AssertionError("scores of the whole ranking are refused where there are rules")
    table, required = table[~rules.excluded], rules.required[~rules.excluded]
    table = table[:, : len(table)]
    # Listing one more of the required gains more than anything else.
    drawn = table + required[:, None] * (1.0 + table.max() * table.shape[1])
    policies, places = linear_sum_assignment(drawn, maximize=True)
    return form.offset - float(table[policies, places].sum())


def _launchable(rules: Rules, k: int) -> Bool[np.ndarray, " N"]:
    """Tell which policies are in any launch that is allowed."""
    if rules.required.sum() >= k:
        return rules.required
    room = rules.limit - rules.cost[rules.required].sum()
    return rules.required | (~rules.excluded & (rules.cost <= room))


def _of_own_orders(problem: RankingProblem) -> Float[np.ndarray, " M"]:
    """Give the loss of each draw's own order in that draw: 0 without ties.

    It is the least: for precision, accuracy, ndcg and Spearman's by exchanging neighbors that are
    in the wrong order, for Kendall's pair by pair, for correlation@k where it is 0.
    """
    values = problem.values
    losses = np.zeros(len(values))
    for draw in np.flatnonzero((ties.places(values).size > 1).any(axis=1)):
        order = np.argsort(-values[draw], kind="stable")
        losses[draw] = problem.score.losses(values[[draw]], order[None])[0, 0]
    return losses
