"""Rules that rank candidates from draws, and the loss of each ranking at the true values.

With five candidates all 120 rankings are tried, as `bayesdice_ppl.select` does, but without its
table and certificate. A test compares the two.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from bayesdice_ppl import scores
from bayesdice_ppl.scores import Score
from bayesdice_ppl.selection.problem import RankingProblem
from bayesdice_ppl.selection.rules import no_rules
from bayesdice_ppl.selection.solvers.exhaustive import search

NUMBERS = ("mean", "mean + sd", "mean - sd", "5 % lower bound", "95 % upper bound")
"""Rules that sort by one number for each candidate."""


KS = (1, 2, 3, 4)
"""Every k that experiments on rules judge by."""


def sorting_numbers(
    draws: Float[np.ndarray, "S N"],
) -> dict[str, Float[np.ndarray, " N"]]:
    """Give what each of `NUMBERS` sorts by, highest first."""
    mean, sd = draws.mean(axis=0), draws.std(axis=0, ddof=1)
    lower, upper = np.quantile(draws, [0.05, 0.95], axis=0)
    return dict(zip(NUMBERS, (mean, mean + sd, mean - sd, lower, upper), strict=True))


def top_k_scores(ks: Sequence[int]) -> tuple[Score, ...]:
    """The paper's four scores at each k; correlation and accuracy, at 1 precision, from 2 on."""
    return (
        *(scores.regret(k) for k in ks),
        *(scores.precision(k) for k in ks),
        *(scores.accuracy(k) for k in ks if k > 1),
        *(scores.correlation(k) for k in ks if k > 1),
    )


def by_number(numbers: Float[np.ndarray, " N"]) -> Int[np.ndarray, " N"]:
    """Rank candidates by a number, highest first; equal ones in the order in which they are."""
    return np.argsort(-np.asarray(numbers), kind="stable")


def aligned(
    draws: Float[np.ndarray, "S N"], given: Sequence[Score]
) -> dict[str, Int[np.ndarray, " N"]]:
    """Rank candidates for each score by the least expected loss under a belief.

    Parameters
    ----------
    draws
        Of the candidates' values, a row a draw.
    given
        The scores.

    Returns
    -------
    dict
        Name of the score -> all N candidates, best first: those that the score looks at, then the
        others by posterior mean.
    """
    preference = by_number(draws.mean(axis=0))
    found = {}
    for score in given:
        problem = RankingProblem(draws, score, no_rules(len(preference))).permuted(
            preference.tolist()
        )
        prefix = preference[list(search(problem).prefix)].tolist()
        rest = [one for one in preference.tolist() if one not in prefix]
        found[score.name] = np.array(prefix + rest)
    return found


def shuffled(draws: Float[np.ndarray, "S N"], rng: np.random.Generator) -> Float[np.ndarray, "S N"]:
    """Draws with the same marginals and no correlation: each column in random order."""
    return rng.permuted(draws, axis=0)


def realized(
    truth: Float[np.ndarray, " N"],
    rankings: Mapping[str, Mapping[str, Int[np.ndarray, " N"]]],
    given: Sequence[Score],
) -> dict[tuple[str, str], float]:
    """Losses of rankings at the true values.

    Parameters
    ----------
    truth
        True values.
    rankings
        Name of the score to be judged by -> rule -> ranking.
    given
        The scores.

    Returns
    -------
    dict
        (name of the score, rule) -> loss.
    """
    losses: dict[tuple[str, str], float] = {}
    for score in given:
        rules = rankings[score.name]
        depth = score.depth(len(truth))
        places = np.stack([ranking[:depth] for ranking in rules.values()])
        found = score.losses(truth[None], places)[:, 0]
        losses |= {(score.name, rule): float(loss) for rule, loss in zip(rules, found, strict=True)}
    return losses


def loss_rows(
    truth: Float[np.ndarray, " N"],
    rankings: Mapping[str, Mapping[str, Int[np.ndarray, " N"]]],
    given: Sequence[Score],
    silent: Collection[str] = (),
) -> list[tuple[Any, ...]]:
    """Lay out what `realized` finds as rows of a table.

    Parameters
    ----------
    truth, rankings, given
        As for `realized`.
    silent
        Rules without a ranking.

    Returns
    -------
    list of tuple
        Name of the score without its k, k, rule and loss, score by score; the silent rules come
        last and have None.
    """
    losses = realized(truth, rankings, given)
    return [
        (score.name.partition("@")[0], score.k, rule, losses.get((score.name, rule)))
        for score in given
        for rule in (*rankings[score.name], *silent)
    ]
