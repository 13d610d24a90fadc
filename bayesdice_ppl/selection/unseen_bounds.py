"""The ranking that is best at worst, where pairs that were never logged may be anything in bounds.

No prior says what such a pair is worth; a user's bounds on the reward do. Every value is then an
interval. Candidates share the pairs, so their intervals move together: two of them whose intervals
overlap may still differ for sure. Rankings are judged in the corners of the bounds.
"""

from itertools import combinations, permutations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float

from bayesdice_ppl.belief import BeliefView, UnseenParts, read_statistic, read_values
from bayesdice_ppl.checks import is_number, one_of
from bayesdice_ppl.errors import BeliefError, SettingsError
from bayesdice_ppl.selection.certificate import judge
from bayesdice_ppl.selection.problem import RankingProblem
from bayesdice_ppl.selection.quick_ranking import quick_ranking
from bayesdice_ppl.selection.solvers import count_prefixes, solve

if TYPE_CHECKING:
    import xarray as xr

WAYS = ("pooled", "bounds")
"""Pairs that were never logged are as the belief has them, or anything between a user's bounds."""
MOST_JUDGED = 2_000
"""Rankings times corners up to which every ranking is judged in every corner."""
FEW_CANDIDATES = 8
"""Up to so many candidates each is favored over each other."""
MOST_CORNERS = 40
"""Candidates that get corners of their own, those of the most mass on pairs never logged."""
_LISTED = 5
_ROUNDING = 1e-9


class Corner(NamedTuple):
    """Values if each pair never logged is worth one of its bounds.

    Attributes
    ----------
    name
        What is assumed, as words that follow "if".
    values
        Draws, shape (M, N).
    """

    name: str
    values: Float[np.ndarray, "M N"]

    def permuted(self, order: list[int]) -> "Corner":
        """The same for policies listed in another order."""
        return Corner(self.name, np.ascontiguousarray(self.values[:, order]))


class AtWorst(NamedTuple):
    """The ranking that is best at worst.

    Attributes
    ----------
    prefix
        The ranking, in the numbers of the problem.
    loss
        Its highest loss over the corners.
    corner
        Where it is reached.
    tried
        How many rankings were compared.
    """

    prefix: tuple[int, ...]
    loss: float
    corner: Corner
    tried: int


def check_unseen(unseen: str, bounds: object) -> tuple[float, float] | None:
    """The bounds that are asked for; None where pairs never logged are as the belief has them.

    Raises
    ------
    SettingsError
        There is no such way, or the bounds are not two numbers, or they have no use.
    """
    one_of("unseen", unseen, WAYS)
    if unseen == "pooled":
        if bounds is not None:
            raise SettingsError(
                f"bounds: expected unseen='bounds' beside it, found unseen={unseen!r}, which has "
                "no use for bounds. Leave one of them out."
            )
        return None
    if (
        not isinstance(bounds, tuple | list)
        or len(bounds) != 2
        or not all(map(is_number, bounds))
        or bounds[0] > bounds[1]
    ):
        raise SettingsError(
            "bounds: expected the lowest and the highest reward of a step, such as (0, 1), found "
            f"{bounds!r}. With unseen='bounds' pairs that were never logged may pay anything "
            "between them."
        )
    return float(bounds[0]), float(bounds[1])


def parts_for_bounds(
    belief: "xr.DataTree", parts: UnseenParts | None, names: tuple[str, ...]
) -> UnseenParts:
    """What values owe to pairs never logged, where that can be bounded.

    Raises
    ------
    BeliefError
        The belief does not have them apart.
    SettingsError
        The discount is not 0, or the values are not mean rewards.
    """
    view = BeliefView(belief)
    gamma = view.settings.get("gamma")
    if gamma:
        raise SettingsError(
            f"unseen='bounds': expected a bandit, gamma = 0, found gamma = {gamma:g}. Where a pair "
            "that was never logged leads is not known, so that bounds on rewards do not bound its "
            "worth by a formula that holds for much of it. Use unseen='pooled'."
        )
    if read_statistic(belief) != "mean":
        raise SettingsError(
            "unseen='bounds': expected values that are mean rewards, found the statistic "
            f"{read_statistic(belief)}, which bounds on rewards do not bound. Use unseen='pooled'."
        )
    if parts is None and takes_logged_actions_alone(view):
        nothing, mean = np.zeros(len(names)), read_values(belief).values.mean(axis=(0, 1))
        return UnseenParts(
            np.zeros((len(names), 0)), mean, mean, nothing, np.zeros((len(names),) * 2)
        )
    if parts is None:
        raise BeliefError(
            "unseen='bounds': expected a belief that has pairs of state and action never logged "
            "as latents, found none. Fit it on labels with prior=bd.Prior(unseen='pooled'), the "
            "default."
        )
    return parts


def takes_logged_actions_alone(view: BeliefView) -> bool:
    """Whether the belief says that no candidate takes an action that the log does not have."""
    known = view.has(BeliefView.moved_mass) and view.has(BeliefView.lost_mass)
    return known and not np.any(view.moved_mass > _ROUNDING) and not np.any(view.lost_mass > 0.0)


def corners(
    values: Float[np.ndarray, "M N"],
    parts: UnseenParts,
    bounds: tuple[float, float],
    names: tuple[str, ...],
) -> list[Corner]:
    """Corners of the bounds: all low, all high, and those that favor one candidate.

    Of few candidates each is favored over each other; of many over their average, and the reverse.

    Parameters
    ----------
    values
        Draws of the belief's values, shape (M, N).
    parts
        What its values owe to pairs that were never logged.
    bounds
        Lowest and highest reward of a step.
    names
        The N candidates.
    """
    low, high = bounds
    rest, mass = parts.without(values), parts.mass
    found = [
        Corner("all of them pay the lowest reward", rest + mass.sum(axis=1) * low),
        Corner("all of them pay the highest reward", rest + mass.sum(axis=1) * high),
    ]
    if len(names) <= FEW_CANDIDATES:
        for i, j in permutations(range(len(names)), 2):
            name = f"those that {names[j]} takes more than {names[i]} pay the highest reward"
            rewards = np.where(mass[j] > mass[i], high, low)
            found.append(Corner(f"{name}, and the others the lowest", rest + mass @ rewards))
        return found
    ranked = np.argsort(-mass.sum(axis=1), kind="stable")[:MOST_CORNERS]
    for j in sorted(int(i) for i in ranked if mass[i].any()):
        own = mass[j] > mass.mean(axis=0)
        those = f"those that {names[j]} takes more than others pay the"
        for end, worth in (("highest", (low, high)), ("lowest", (high, low))):
            rewards = np.where(own, worth[1], worth[0])
            name = f"{those} {end} reward, and the others the opposite"
            found.append(Corner(name, rest + mass @ rewards))
    return found


def best_at_worst(problem: RankingProblem, every: list[Corner], limit: int | None) -> AtWorst:
    """Find the ranking whose highest loss over the corners is lowest.

    Parameters
    ----------
    problem
        The problem of the belief itself; the corners' values are in its order.
    every
        The corners.
    limit
        Most rankings to try one by one in each.

    Notes
    -----
    All rankings are compared where there are few and no rules. Else those are that are best in one
    corner, and the one that is best for the belief; a compromise that is best nowhere is missed.
    """
    problems = [RankingProblem(c.values, problem.score, problem.rules) for c in every]
    present = tuple(solve(problem, limit).prefix)
    prefixes = [present]
    for each in problems:
        quick = each.score.averaged and (each.rules.free or each.score.partial)
        prefix = quick_ranking(each, present) if quick else tuple(solve(each, limit).prefix)
        if prefix not in prefixes:
            prefixes.append(prefix)
    prefixes += [p for p in _few(problem, MOST_JUDGED // len(every)) if p not in prefixes]
    shape = (1, len(problem.values))
    losses = np.array([[judge(p, prefix, shape).risk for p in problems] for prefix in prefixes])
    best = int(np.argmin(losses.max(axis=1)))
    worst = int(np.argmax(losses[best]))
    return AtWorst(prefixes[best], float(losses[best, worst]), every[worst], len(prefixes))


def _few(problem: RankingProblem, most: int) -> list[tuple[int, ...]]:
    """Every ranking, if there are at most so many and all are allowed; else none."""
    if not problem.rules.free or count_prefixes(problem) > most:
        return []
    rankings = permutations if problem.score.ordered else combinations
    return [p for size in problem.sizes for p in rankings(problem.listable, size)]


def undecided(
    values: Float[np.ndarray, "M N"], parts: UnseenParts, bounds: tuple[float, float]
) -> list[tuple[int, int]]:
    """Pairs of candidates of which either may have the higher expected value within the bounds."""
    low, high = bounds
    mean, mass = parts.without(values).mean(axis=0), parts.mass
    found = []
    for i in range(len(mean)):
        gap = mass[i] - mass[i + 1 :]
        more, less = np.maximum(gap, 0.0).sum(axis=1), np.minimum(gap, 0.0).sum(axis=1)
        difference = mean[i] - mean[i + 1 :]
        lowest = difference + more * low + less * high
        highest = difference + more * high + less * low
        found += [(i, i + 1 + int(j)) for j in np.flatnonzero((lowest < 0.0) & (highest > 0.0))]
    return found


def notes_on_bounds(
    names: tuple[str, ...],
    parts: UnseenParts,
    bounds: tuple[float, float],
    worst: AtWorst,
    pairs: list[tuple[int, int]],
    n_corners: int,
) -> list[str]:
    """What a reader has to know of a choice within bounds."""
    total = len(names) * (len(names) - 1) // 2
    said = [
        f"{parts.mass.shape[1]} pairs of state and action that some candidate takes were never "
        f"logged. Each may pay from {bounds[0]:g} to {bounds[1]:g}. The loss is the highest in "
        f"{n_corners} corners of these bounds that were tried: it is reached if "
        f"{worst.corner.name}.",
        f"Of {worst.tried} rankings that were compared in these corners this one has the lowest "
        "such loss.",
    ]
    if not pairs:
        return [*said, "Within these bounds every pair of candidates is told apart on average."]
    shown = [f"{names[i]} and {names[j]}" for i, j in pairs[:_LISTED]]
    more = "" if len(pairs) <= _LISTED else f" and {len(pairs) - _LISTED:,} more"
    return [
        *said,
        f"{len(pairs):,} of {total:,} pairs of candidates cannot be told apart within these "
        f"bounds: {'; '.join(shown)}{more}.",
    ]
