"""Standard errors of held-out losses, and the weights of the mixture with the least loss.

A held-out loss is a U-statistic: each episode counts in its own term and in those of all others.
The spread of its terms alone would make its standard error half of what it is.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float

EQUAL = 1e-9
"""Share of the size of a loss below which two losses are equal."""


def pseudo_values(
    terms: Float[np.ndarray, "*V m"], held_out: Bool[np.ndarray, "F m"]
) -> Float[np.ndarray, "*V m"]:
    """Jackknife pseudo-values of a U-statistic of pairs within folds, from its terms.

    Parameters
    ----------
    terms
        Of each episode the mean over the others of its fold, shape (..., m).
    held_out
        The episodes of each fold, of three or more, shape (F, m).

    Returns
    -------
    array
        Shape (..., m). They have the mean of the terms in each fold, and the spread that gives
        the statistic's standard error: sd / sqrt(m).

    Notes
    -----
    Without episode e the mean of a fold of k episodes is (k U - 2 x_e) / (k - 2), so that the
    pseudo-value k U - (k - 1) U_without is (2 (k - 1) x_e - k U) / (k - 2) (Arvesen, 1969).
    """
    found = np.empty_like(terms)
    for fold in held_out:
        own = terms[..., fold]
        k = own.shape[-1]
        mean = own.mean(axis=-1, keepdims=True)
        found[..., fold] = (2.0 * (k - 1.0) * own - k * mean) / (k - 2.0)
    return found


def stacking_weights(products: Float[np.ndarray, "V V"]) -> Float[np.ndarray, " V"]:
    """Weights w >= 0 that sum to 1 and make w' M w least.

    Parameters
    ----------
    products
        M, symmetric: the held-out products of each two fits, shape (V, V). Noise may make it
        indefinite.

    Returns
    -------
    array
        Shape (V,). Equal where all fits are equal.
    """
    from scipy.optimize import minimize

    size = len(products)
    scale = float(np.abs(products).max())
    if size == 1 or scale == 0.0:
        return np.full(size, 1.0 / size)
    matrix = products / scale

    def loss(weights: Float[np.ndarray, " V"]) -> float:
        return float(weights @ matrix @ weights)

    best = np.full(size, 1.0 / size)
    for start in (best, *np.eye(size)):
        found = minimize(
            loss,
            start,
            jac=lambda weights: 2.0 * matrix @ weights,
            bounds=[(0.0, 1.0)] * size,
            constraints={"type": "eq", "fun": lambda weights: weights.sum() - 1.0},
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 1000},
        )
        weights = np.clip(found.x, 0.0, None)
        weights = weights / weights.sum()
        if loss(weights) < loss(best) - EQUAL:
            best = weights
    return best
