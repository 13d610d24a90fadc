"""Predictions of pairs that were never logged against dense Gaussian formulas."""

import itertools

import numpy as np
import pytest

from bayesdice_ppl.inference.hierarchy import SPREADS, PairNumbers, Sums, predict


class Dense:
    """One quantity, with the covariance of all its numbers written out."""

    def __init__(self, pairs, sums, j):
        keep = pairs.known[j]
        self.seen = (pairs.state[keep], pairs.action[keep])
        self.asked = (sums.state, sums.action)
        self.y, self.noise = pairs.value[j, keep], pairs.noise[j, keep]
        self.weight, self.scale = sums.weight[j], pairs.scale[j]

    def covariance(self, left, right, spreads):
        (s, a), (t, b) = left, right
        by_state, by_action, _ = (self.scale * np.array(spreads)) ** 2
        return by_state * (s[:, None] == t) + by_action * (a[:, None] == b)

    def at(self, spreads):
        """Evidence, mean and variance of the sum by universal kriging."""
        own = (self.scale * spreads[2]) ** 2
        total = self.covariance(self.seen, self.seen, spreads) + np.diag(
            own + self.noise + (1e-6 * self.scale) ** 2
        )
        one, inverse = np.ones(len(self.y)), np.linalg.inv(total)
        information = one @ inverse @ one
        level = one @ inverse @ self.y / information
        cross = self.covariance(self.asked, self.seen, spreads)
        mean = self.weight @ (level + cross @ inverse @ (self.y - level))
        left = self.covariance(self.asked, self.asked, spreads)
        left = left + own * np.eye(len(self.weight)) - cross @ inverse @ cross.T
        short = 1.0 - cross @ inverse @ one
        left = left + np.outer(short, short) / information
        projector = inverse - np.outer(inverse @ one, one @ inverse) / information
        evidence = -0.5 * (
            np.linalg.slogdet(total)[1] + np.log(information) + self.y @ projector @ self.y
        )
        return evidence, mean, self.weight @ left @ self.weight

    def each(self, spreads):
        """Means and covariance of the pairs themselves, by universal kriging."""
        own = (self.scale * spreads[2]) ** 2
        total = self.covariance(self.seen, self.seen, spreads) + np.diag(
            own + self.noise + (1e-6 * self.scale) ** 2
        )
        inverse = np.linalg.inv(total)
        one = np.ones(len(self.y))
        cross = self.covariance(self.asked, self.seen, spreads)
        level = one @ inverse @ self.y / (one @ inverse @ one)
        short = 1.0 - cross @ inverse @ one
        left = self.covariance(self.asked, self.asked, spreads) + own * np.eye(len(self.weight))
        left = left - cross @ inverse @ cross.T + np.outer(short, short) / (one @ inverse @ one)
        return level + cross @ inverse @ (self.y - level), left

    def moved(self):
        """Covariance of the sum with each pair over its sd, all spreads mixed by the evidence."""
        grid = np.array(SPREADS)
        middle = (grid[1:] + grid[:-1]) / 2
        width = np.diff(np.concatenate([[grid[0]], middle, [grid[-1]]]))
        points = list(itertools.product(range(len(grid)), repeat=3))
        evidence = np.array([self.at(grid[list(point)])[0] for point in points])
        weight = np.array([width[list(point)].prod() for point in points])
        weight = weight * np.exp(evidence - evidence.max())
        weight /= weight.sum()
        means, inside = zip(*(self.each(grid[list(point)]) for point in points), strict=True)
        off = np.array(means) - weight @ np.array(means)
        total = np.tensordot(weight, np.array(inside), 1) + (weight[:, None] * off).T @ off
        return total @ self.weight / np.sqrt(np.diag(total))

    def mixed(self):
        """Mean, variance and fourth moment over all spreads."""
        grid = np.array(SPREADS)
        middle = (grid[1:] + grid[:-1]) / 2
        width = np.diff(np.concatenate([[grid[0]], middle, [grid[-1]]]))
        found, prior = [], []
        for i, j, k in itertools.product(range(len(grid)), repeat=3):
            found.append(self.at((grid[i], grid[j], grid[k])))
            prior.append(width[i] * width[j] * width[k])
        evidence, mean, variance = np.array(found).T
        weight = np.array(prior) * np.exp(evidence - evidence.max())
        weight /= weight.sum()
        center = weight @ mean
        off = mean - center
        fourth = weight @ (3 * variance**2 + 6 * variance * off**2 + off**4)
        return center, weight @ (variance + off**2), fourth


@pytest.fixture
def world():
    rng = np.random.default_rng(0)
    every = list(itertools.product(range(5), range(3)))
    seen = [pair for pair in every if rng.random() < 0.6]
    never = [pair for pair in every if pair not in seen]
    state, action = np.array(seen).T
    value = rng.normal(size=(2, len(seen)))
    known = np.ones(value.shape, dtype=bool)
    known[1, 2] = False
    pairs = PairNumbers(
        state, action, value, rng.uniform(0.1, 0.5, value.shape), known, np.array([1.3, 0.7])
    )
    weight = rng.random((2, len(never)))
    return pairs, Sums(*np.array(never).T, weight)


def test_mean_variance_and_kurtosis_are_those_of_the_dense_formulas(world):
    found = predict(*world)
    for j in range(2):
        mean, variance, fourth = Dense(*world, j).mixed()
        # Combinations of a weight below 1e-4 are left out, 216 in all.
        assert found.mean[j] == pytest.approx(mean, abs=2e-3)
        assert found.covariance[j, j] == pytest.approx(variance, rel=1e-2)
        df = 4.0 + 6.0 / (fourth / variance**2 - 3.0)
        assert found.degrees_of_freedom[j] == pytest.approx(df, rel=0.1)


def test_the_mean_is_the_slope_times_the_numbers(world):
    pairs, sums = world
    found = predict(pairs, sums)
    exact = (found.slope * np.where(pairs.known, pairs.value, 0.0)).sum(axis=1)
    np.testing.assert_allclose(exact, found.mean, atol=1e-12)
    # Moved together, all numbers move the mean by the weights' sum: there is a common level.
    np.testing.assert_allclose(found.slope.sum(axis=1), sums.weight.sum(axis=1), rtol=1e-12)
    assert (found.slope[~pairs.known] == 0.0).all()


def test_equal_quantities_are_predicted_alike(world):
    pairs, sums = world
    twice = PairNumbers(
        pairs.state,
        pairs.action,
        *(np.repeat(field[:1], 2, axis=0) for field in pairs[2:]),
    )
    found = predict(twice, sums._replace(weight=np.repeat(sums.weight[:1], 2, axis=0)))
    np.testing.assert_allclose(found.covariance, found.covariance[0, 0], rtol=1e-12)


def test_shifted_and_scaled_numbers_give_shifted_and_scaled_predictions(world):
    pairs, sums = world
    before = predict(pairs, sums)
    after = predict(
        pairs._replace(
            value=5.0 * pairs.value - 3.0, noise=25.0 * pairs.noise, scale=5.0 * pairs.scale
        ),
        sums,
    )
    moved = 5.0 * before.mean - 3.0 * sums.weight.sum(axis=1)
    np.testing.assert_allclose(after.mean, moved, rtol=1e-9)
    np.testing.assert_allclose(after.covariance, 25.0 * before.covariance, rtol=1e-9)


def test_one_logged_pair_says_where_but_hardly_how_far():
    one = PairNumbers(
        np.array([0]),
        np.array([1]),
        np.array([[2.0]]),
        np.array([[0.01]]),
        np.ones((1, 1), dtype=bool),
        np.array([1.0]),
    )
    found = predict(one, Sums(np.array([0]), np.array([2]), np.ones((1, 1))))
    assert found.mean[0] == pytest.approx(2.0)
    assert 0.5 < np.sqrt(found.covariance[0, 0]) < 2.5
    assert found.degrees_of_freedom[0] < 15


def test_many_actions_are_predicted_as_many_states_are(world):
    pairs, sums = world
    turned = predict(
        pairs._replace(state=pairs.action, action=pairs.state),
        sums._replace(state=sums.action, action=sums.state),
    )
    found = predict(pairs, sums)
    for one, two in zip(found, turned, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-8, atol=1e-12)


def test_what_a_known_pair_moves_the_sums_by_is_that_of_the_dense_formulas(world):
    found = predict(*world)
    for j in range(2):
        exact = Dense(*world, j).moved()
        # Combinations of a weight below 1e-4 are left out.
        np.testing.assert_allclose(found.move[j], exact, rtol=1e-2, atol=1e-3)


def test_a_sum_of_one_pair_moves_by_its_own_sd(world):
    pairs, sums = world
    weight = np.zeros_like(sums.weight)
    weight[:, 2] = 0.3
    found = predict(pairs, sums._replace(weight=weight))
    np.testing.assert_allclose(found.move[:, 2], np.sqrt(np.diag(found.covariance)), rtol=1e-9)
