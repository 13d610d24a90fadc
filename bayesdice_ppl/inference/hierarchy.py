"""A hierarchical model of a number that each state-action pair has, such as its mean reward.

The number of a pair is a common level, an effect of its state, an effect of its action and a
residual of its own. How far each of them varies is learned from the pairs that were logged. Pairs
that were never logged are then predicted, and vary as much as logged ones do.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from bayesdice_ppl.arrays import sums_by

SPREADS = (0.0, 0.15, 0.35, 0.65, 1.0, 1.5)
"""Standard deviations that each effect may have, in sds of the numbers at the logged pairs."""
LEAST = 1e-4
"""Posterior weight below which a combination of spreads is left out."""
MOST_NUMBERS = 2**21
"""Numbers of one array that are held at once."""


class PairNumbers(NamedTuple):
    """One number of each of P logged pairs, for J quantities.

    Attributes
    ----------
    state, action
        Codes of the pairs, from 0 to S - 1 and to A - 1, shape (P,).
    value
        The number as estimated, shape (J, P).
    noise
        Variance of each estimate, shape (J, P).
    known
        Which pairs have an estimate, shape (J, P).
    scale
        What a spread of 1 is, shape (J,), in the unit of the value.
    """

    state: Int[np.ndarray, " P"]
    action: Int[np.ndarray, " P"]
    value: Float[np.ndarray, "J P"]
    noise: Float[np.ndarray, "J P"]
    known: Bool[np.ndarray, "J P"]
    scale: Float[np.ndarray, " J"]


_BY_QUANTITY = ("value", "noise", "known", "scale")


class Sums(NamedTuple):
    """A sum over U pairs that were never logged, for each of the J quantities.

    Attributes
    ----------
    state, action
        Codes of the pairs, shape (U,).
    weight
        Weight of each pair in the sum, shape (J, U).
    """

    state: Int[np.ndarray, " U"]
    action: Int[np.ndarray, " U"]
    weight: Float[np.ndarray, "J U"]


class Prediction(NamedTuple):
    """What the model says of the J sums.

    Attributes
    ----------
    mean
        Posterior mean, shape (J,).
    slope
        How the mean moves with each estimate, shape (J, P).
    covariance
        Posterior covariance if the quantities are equal but for their estimates, shape (J, J).
        Its diagonal is the variance in any case.
    degrees_of_freedom
        Of the Student t with the kurtosis of the posterior, shape (J,).
    spread
        Posterior mean of the sd of one pair around what its state and action say, shape (J,).
    move
        Sd of what each sum would move by if the number of one of its pairs were known: their
        posterior covariance over the sd of that number, shape (J, U).
    """

    mean: Float[np.ndarray, " J"]
    slope: Float[np.ndarray, "J P"]
    covariance: Float[np.ndarray, "J J"]
    degrees_of_freedom: Float[np.ndarray, " J"]
    spread: Float[np.ndarray, " J"]
    move: Float[np.ndarray, "J U"]


class _EachPair(NamedTuple):
    """What is known of the number of each of the U pairs, at B combinations.

    Attributes
    ----------
    mean, variance
        Of the number, shape (B, U).
    with_sum
        Its covariance with the sum, shape (B, U).
    """

    mean: Float[np.ndarray, "B U"]
    variance: Float[np.ndarray, "B U"]
    with_sum: Float[np.ndarray, "B U"]


class _Solved(NamedTuple):
    """The model at B combinations of a quantity and spreads, as `_solve` finds it.

    Attributes
    ----------
    evidence
        Logarithm of the restricted likelihood, shape (B,).
    mean, slope
        As in `Prediction`, shapes (B,) and (B, P).
    factors
        The error of the sum is each factor times independent standard normals, shapes (B, X).
    pairs
        The pairs of the sum, one by one; None where only the evidence is asked for.
    """

    evidence: Float[np.ndarray, " B"]
    mean: Float[np.ndarray, " B"]
    slope: Float[np.ndarray, "B P"]
    factors: tuple[Float[np.ndarray, "B X"], ...]
    pairs: _EachPair | None = None


class _Mixed:
    """Moments of each pair's number over all spreads, gathered part by part."""

    def __init__(self, n_sums: int, n_pairs: int) -> None:
        shape = (n_sums, n_pairs)
        self.first: tuple[np.ndarray, np.ndarray] | None = None
        self.variance, self.with_sum = np.zeros(shape), np.zeros(shape)
        self.off, self.sum_off = np.zeros(shape), np.zeros((n_sums, 1))

    def add(
        self, share: Float[np.ndarray, "G J"], mean: Float[np.ndarray, "G J"], pairs: _EachPair
    ) -> None:
        """Add some spreads, with their shares and the means of the sums."""
        each = _EachPair(*(field.reshape(*share.shape, -1) for field in pairs))
        if self.first is None:
            # Means are taken from those of the first spreads, so that no large squares cancel.
            self.first = (each.mean[0], mean[0][:, None])
        off, sum_off = each.mean - self.first[0], mean[:, :, None] - self.first[1]
        weight = share[:, :, None]
        self.variance += (weight * (each.variance + off**2)).sum(axis=0)
        self.with_sum += (weight * (each.with_sum + off * sum_off)).sum(axis=0)
        self.off += (weight * off).sum(axis=0)
        self.sum_off += (weight * sum_off).sum(axis=0)

    def move(self) -> Float[np.ndarray, "J U"]:
        """Covariance of each sum with the numbers of its pairs, over the sds of these."""
        variance = np.maximum(self.variance - self.off**2, 0.0)
        known = variance > 0.0
        covariance = self.with_sum - self.off * self.sum_off
        moved: np.ndarray = np.where(known, covariance / np.sqrt(np.where(known, variance, 1)), 0.0)
        return moved


def predict(pairs: PairNumbers, sums: Sums) -> Prediction:
    """Predict sums over pairs that were never logged.

    Parameters
    ----------
    pairs
        What is known of the logged pairs.
    sums
        The sums.

    Notes
    -----
    y_sa = level + b_s + c_a + e_sa + noise, with b, c, e normal of sds tau_s, tau_a, tau_e, and the
    level flat. The sds have a flat prior on `SPREADS`, by the width of each step (Gelman, "Prior
    distributions for variance parameters in hierarchical models", 2006). Given the sds everything
    is linear and normal (Henderson's mixed model equations); the posterior sums over them, with the
    restricted likelihood as the evidence.
    """
    if _n_actions(pairs, sums) > _n_states(pairs, sums):
        # States and actions play the same part, and the effects of the many are eliminated.
        pairs = pairs._replace(state=pairs.action, action=pairs.state)
        sums = sums._replace(state=sums.action, action=sums.state)
    n_sums, n_pairs = pairs.value.shape
    spreads, prior = _spreads(pairs, sums)
    # In a bandit all candidates have the same numbers.
    each = _first(pairs) if _all_alike(pairs) else pairs
    evidence = np.concatenate([found.evidence for found in _solved(each, sums, spreads)])
    evidence = evidence.reshape(len(spreads), -1) + np.log(prior)[:, None]
    evidence = np.broadcast_to(evidence, (len(spreads), n_sums))
    weight = np.exp(evidence - evidence.max(axis=0))
    weight /= weight.sum(axis=0)
    weight[weight < LEAST] = 0.0
    weight /= weight.sum(axis=0)
    kept = weight.max(axis=1) > 0.0
    share, spreads = weight[kept], spreads[kept]
    slope, covariance = np.zeros((n_sums, n_pairs)), np.zeros((n_sums, n_sums))
    means, variances, done = np.zeros_like(share), np.zeros_like(share), 0
    mixed = _Mixed(n_sums, len(sums.state))
    for found in _solved(pairs, sums, spreads, whole=True):
        n_points = len(found.mean) // n_sums
        here = slice(done, done + n_points)
        done += n_points
        part = share[here]
        means[here] = found.mean.reshape(n_points, n_sums)
        slope += np.einsum("gj,gjp->jp", part, found.slope.reshape(n_points, n_sums, n_pairs))
        for factor in found.factors:
            variances[here] += (factor**2).sum(axis=1).reshape(n_points, n_sums)
            scaled = factor.reshape(n_points, n_sums, -1) * np.sqrt(part)[:, :, None]
            covariance += np.einsum("gjx,gkx->jk", scaled, scaled, optimize=True)
        assert found.pairs is not None  # they are part of the whole
        mixed.add(part, means[here], found.pairs)
    mean = (share * means).sum(axis=0)
    off = means - mean
    covariance += (np.sqrt(share) * off).T @ (np.sqrt(share) * off)
    spread = pairs.scale * (share * spreads[:, 2:]).sum(axis=0)
    df = _matching_freedom(share, variances, off)
    return Prediction(mean, slope, covariance, df, spread, mixed.move())


def _spreads(
    pairs: PairNumbers, sums: Sums
) -> tuple[Float[np.ndarray, "G 3"], Float[np.ndarray, " G"]]:
    """Every combination of the sds of state, action and pair, with its prior weight."""
    grid = np.array(SPREADS)
    # Flat in the sd: each value stands for half of the way to its neighbors.
    edges = np.concatenate([grid[:1], (grid[1:] + grid[:-1]) / 2.0, grid[-1:]])
    each = (grid, np.diff(edges))
    # The one state, or the one action, that there is has the level for its effect.
    one = (np.zeros(1), np.ones(1))
    states = one if len(np.union1d(pairs.state, sums.state)) == 1 else each
    actions = one if len(np.union1d(pairs.action, sums.action)) == 1 else each
    points = np.stack(np.meshgrid(states[0], actions[0], grid, indexing="ij"), axis=-1)
    width = states[1][:, None, None] * actions[1][:, None] * each[1]
    return points.reshape(-1, 3), width.ravel()


def _matching_freedom(
    share: Float[np.ndarray, "G J"],
    variance: Float[np.ndarray, "G J"],
    off: Float[np.ndarray, "G J"],
) -> Float[np.ndarray, " J"]:
    """Degrees of freedom of the Student t with the kurtosis of a mixture of normals."""
    total = (share * (variance + off**2)).sum(axis=0)
    size = np.where(total > 0.0, total, 1.0)
    variance, square = variance / size, off**2 / size
    fourth = (share * (3.0 * variance**2 + 6.0 * variance * square + square**2)).sum(axis=0)
    excess = np.where(total > 0.0, fourth - 3.0, 0.0)
    return np.where(excess > 1e-9, 4.0 + 6.0 / np.maximum(excess, 1e-9), np.inf)


def _solved(
    pairs: PairNumbers, sums: Sums, spreads: Float[np.ndarray, "G 3"], *, whole: bool = False
) -> Iterator[_Solved]:
    """`_solve` at all spreads for all quantities, the quantities fastest, in parts that fit."""
    n_sums, n_pairs = pairs.value.shape
    columns = _n_actions(pairs, sums) + 1
    numbers = max((_n_states(pairs, sums) + columns) * columns, n_pairs, len(sums.state))
    size = max(MOST_NUMBERS // (n_sums * numbers), 1)
    repeats = n_sums if _all_alike(pairs) else 1
    for start in range(0, len(spreads), size):
        part = spreads[start : start + size]
        repeated = pairs._replace(
            value=np.tile(pairs.value, (len(part), 1)),
            noise=np.tile(pairs.noise, (len(part), 1)),
            known=np.tile(pairs.known, (len(part), 1)),
            scale=np.tile(pairs.scale, len(part)),
        )
        weight = np.tile(sums.weight, (len(part), 1)) if whole else sums.weight
        each = np.repeat(part, n_sums, axis=0)
        yield _solve(repeated, sums._replace(weight=weight), each, whole=whole, repeats=repeats)


def _first(pairs: PairNumbers) -> PairNumbers:
    """The first quantity alone."""
    return pairs._replace(**{name: getattr(pairs, name)[:1] for name in _BY_QUANTITY})


def _all_alike(pairs: PairNumbers) -> bool:
    """Whether all quantities have the same numbers."""
    fields = (getattr(pairs, name) for name in _BY_QUANTITY)
    return all(bool(np.all(field == field[:1])) for field in fields)


def _n_states(pairs: PairNumbers, sums: Sums) -> int:
    return int(max(pairs.state.max(), sums.state.max(initial=0))) + 1


def _n_actions(pairs: PairNumbers, sums: Sums) -> int:
    return int(max(pairs.action.max(), sums.action.max(initial=0))) + 1


def _solve(
    pairs: PairNumbers,
    sums: Sums,
    spreads: Float[np.ndarray, "B 3"],
    *,
    whole: bool,
    repeats: int = 1,
) -> _Solved:
    """The model at given spreads of each quantity, the effects of states eliminated.

    So many combinations in a row, `repeats`, differ in the weights of their sums alone.
    """
    n_sums = len(pairs.value)
    n_states, n_actions = _n_states(pairs, sums), _n_actions(pairs, sums)
    tau_s, tau_a, tau_e = pairs.scale * spreads.T
    # A spread of zero on estimates without noise has no density; rounding stands for noise.
    least = (1e-6 * pairs.scale) ** 2
    own = pairs.noise + tau_e[:, None] ** 2 + least[:, None]
    weight = np.where(pairs.known, 1.0 / own, 0.0)
    value = np.where(pairs.known, pairs.value, 0.0)
    cell = pairs.state * n_actions + pairs.action

    def table(rows: Float[np.ndarray, "B P"]) -> Float[np.ndarray, "B S A"]:
        found = np.zeros((n_sums, n_states * n_actions))
        found[:, cell] = rows
        return found.reshape(n_sums, n_states, n_actions)

    w, wy = table(weight), table(weight * value)
    by_state, by_action = w.sum(axis=2), w.sum(axis=1)
    inverse = tau_s[:, None] ** 2 / (1.0 + tau_s[:, None] ** 2 * by_state)
    # Columns: the level, then each action's effect in units of its sd.
    cross = np.concatenate([by_state[:, :, None], tau_a[:, None, None] * w], axis=2)
    normal = np.zeros((n_sums, n_actions + 1, n_actions + 1))
    effects = np.arange(1, n_actions + 1)
    normal[:, 0, 0] = by_state.sum(axis=1)
    normal[:, 0, 1:] = normal[:, 1:, 0] = tau_a[:, None] * by_action
    normal[:, effects, effects] = 1.0 + tau_a[:, None] ** 2 * by_action
    damped = inverse[:, :, None] * cross
    normal -= np.swapaxes(cross, 1, 2) @ damped
    y_state = wy.sum(axis=2)
    right = np.concatenate(
        [y_state.sum(axis=1)[:, None], tau_a[:, None] * wy.sum(axis=1)], axis=1
    ) - np.einsum("jsx,js->jx", damped, y_state)
    factor = np.linalg.cholesky(normal)
    half = np.linalg.solve(factor, right[:, :, None])[:, :, 0]
    square = (weight * value**2).sum(axis=1) - (inverse * y_state**2).sum(axis=1)
    evidence = -0.5 * (
        np.where(pairs.known, np.log(own), 0.0).sum(axis=1)
        + np.log1p(tau_s[:, None] ** 2 * by_state).sum(axis=1)
        + 2.0 * np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1)
        + square
        - (half**2).sum(axis=1)
    )
    if not whole:
        return _Solved(evidence, np.zeros(n_sums), np.zeros((n_sums, 0)), ())
    of_state = sums_by(sums.weight.T, sums.state, n_states).T
    of_action = sums_by(sums.weight.T, sums.action, n_actions).T
    asked = np.concatenate(
        [sums.weight.sum(axis=1)[:, None], tau_a[:, None] * of_action], axis=1
    ) - np.einsum("jsx,js->jx", damped, of_state)
    lower = np.linalg.solve(factor, asked[:, :, None])
    multiplier = np.linalg.solve(np.swapaxes(factor, 1, 2), lower)[:, :, 0]
    # The derivative of the mean: through the state's effect, and through level and actions.
    through_state = inverse * of_state
    centered = np.einsum("jsx,jx->js", damped, multiplier)

    def response(state: Int[np.ndarray, " X"], action: Int[np.ndarray, " X"]) -> np.ndarray:
        """Covariance of the sum with the effects that some pairs have."""
        of_pair: np.ndarray = (
            through_state[:, state]
            + multiplier[:, :1]
            + tau_a[:, None] * multiplier[:, 1:][:, action]
            - centered[:, state]
        )
        return of_pair

    slope = weight * response(pairs.state, pairs.action)
    factors = (
        lower[:, :, 0],
        np.sqrt(inverse) * of_state,
        tau_e[:, None] * sums.weight,
    )
    # One by one: a pair asks for the level, its action and its state.
    one = slice(None, None, repeats)
    effect = np.linalg.solve(np.swapaxes(factor[one], 1, 2), half[one, :, None])[:, :, 0]
    of_states = (inverse * y_state)[one] - np.einsum("jsx,jx->js", damped[one], effect)
    root = np.linalg.solve(factor[one], np.broadcast_to(np.eye(n_actions + 1), factor[one].shape))
    scale = tau_a[one, None]
    through_action = root[:, :, :1] + scale[:, :, None] * root[:, :, 1:]
    removed = root @ np.swapaxes(damped[one], 1, 2)
    off = through_action[:, :, sums.action] - removed[:, :, sums.state]
    variance = (off**2).sum(axis=1) + inverse[one][:, sums.state] + tau_e[one, None] ** 2
    of_pair = effect[:, :1] + scale * effect[:, 1:][:, sums.action] + of_states[:, sums.state]
    each = _EachPair(
        np.repeat(of_pair, repeats, axis=0),
        np.repeat(variance, repeats, axis=0),
        response(sums.state, sums.action) + tau_e[:, None] ** 2 * sums.weight,
    )
    return _Solved(evidence, (slope * value).sum(axis=1), slope, factors, each)
