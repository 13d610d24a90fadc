"""Search for the least lambda at which the chance constraint holds.

P_q(ell <= epsilon) rises with lambda, from its value under the prior to that at the ratio of least
loss. The search bisects log lambda for all candidates at once, each with its own bracket.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, PRNGKeyArray

from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.inference.achieved import closed_form_bounds
from bayesdice_ppl.inference.draws import Drawing, draw
from bayesdice_ppl.inference.engine import Engine, solve
from bayesdice_ppl.inference.problem import FitForm, Problem
from bayesdice_ppl.moments import Candidates

STEPS = 14
"""Halvings of the bracket: to a factor of 1.001 in lambda, far below Monte Carlo error."""
BRACKET = (1e-3, 1e4)
"""The search looks between these multiples of the default lambda."""


def search_price(
    problem: Problem,
    candidates: Candidates,
    names: tuple[str, ...],
    keys: tuple[PRNGKeyArray, PRNGKeyArray],
    form: FitForm,
    engine: Engine,
    drawing: Drawing,
) -> Problem:
    """Find the least lambda at which P_q(ell <= epsilon) is at least xi, for every candidate.

    Parameters
    ----------
    problem
        From `prepare`, at the default lambda.
    candidates, names
        The candidates on the logged pairs, and their names.
    keys
        Keys of the fits and of the draws, the same at each step, so that the probability rises
        smoothly. They are also those of the final fit, so that the result holds in its draws. If q
        is Gaussian and the loss quadratic, nothing is drawn.
    form, engine, drawing
        What is fitted, by which engine, and how it is drawn.

    Returns
    -------
    Problem
        The problem at the prices that were found.

    Raises
    ------
    SettingsError
        No lambda is enough: even the best ratio misses epsilon too often.
    """
    start = np.array([price.lam for price in problem.prices])
    epsilon = np.array([price.epsilon for price in problem.prices])
    low, high = (np.log(start * factor) for factor in BRACKET)

    def held(log_lam: Float[np.ndarray, " N"]) -> tuple[Problem, Float[np.ndarray, " N"]]:
        lam = np.exp(log_lam)
        constraint = problem.constraint._replace(price=lam / epsilon)
        prices = tuple(
            price._replace(lam=float(one)) for price, one in zip(problem.prices, lam, strict=True)
        )
        priced = problem._replace(constraint=constraint, prices=prices)
        solution = solve(priced, keys[0], form, engine, drawing.draws)
        known = closed_form_bounds(
            priced, solution, form.constraint.surrogate, linear=form.model.linear or priced.tangent
        )
        if known is not None:
            return priced, known.probability
        drawn = draw(priced, solution, candidates, keys[1], form, drawing)
        return priced, np.mean(drawn.loss <= epsilon, axis=0)

    _, probability = held(high)
    if np.any(probability < form.constraint.xi):
        worst = int(np.argmin(probability))
        raise SettingsError(
            f"lam='search', policy {names[worst]!r}: expected a lambda at which P(ell <= epsilon) "
            f"is at least xi = {form.constraint.xi:g}, found at most {probability[worst]:.3f}. "
            "Give a larger epsilon."
        )
    for _ in range(STEPS):
        middle = 0.5 * (low + high)
        _, probability = held(middle)
        enough = probability >= form.constraint.xi
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    found, _ = held(high)
    return found
