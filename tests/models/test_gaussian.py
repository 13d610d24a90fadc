"""Conditioning in gain form against dense Bayes, and against pencil and paper."""

import jax
import numpy as np
import pytest

from bayesdice_ppl.models.gaussian import condition, condition_value


@pytest.fixture(autouse=True, params=["eigenvectors", "cholesky"])
def factorization(request, monkeypatch):
    """Every test goes through both ways of factoring: the one for few rows, and for many."""
    if request.param == "cholesky":
        monkeypatch.setattr("bayesdice_ppl.models.gaussian.WIDE", 0)


def conditioned(G, c, V, mean, scale):
    with jax.enable_x64(True):
        found = condition(*(np.asarray(x, dtype=np.float64) for x in (G, c, V, mean, scale)))
        return tuple(np.asarray(x) for x in found)


def value_conditioned(G, c, V, mean, scale):
    with jax.enable_x64(True):
        found = condition_value(*(np.asarray(x, dtype=np.float64) for x in (G, c, V, mean, scale)))
        return tuple(np.asarray(x) for x in found)


def dense_bayes(G, c, V, mean, scale):
    """Information form: needs the inverse of V."""
    precision = np.diag(1.0 / np.asarray(scale) ** 2) + G.T @ np.linalg.solve(V, G)
    covariance = np.linalg.inv(precision)
    right = np.asarray(mean) / np.asarray(scale) ** 2 - G.T @ np.linalg.solve(V, c)
    return covariance @ right, covariance


def random_problem(seed, rows=5, columns=4):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(rows, rows))
    return (
        rng.normal(size=(rows, columns)),
        rng.normal(size=rows),
        root @ root.T / 50 + 0.01 * np.eye(rows),
        rng.normal(size=columns),
        rng.uniform(0.5, 10.0, size=columns),
    )


def two_armed_bandit(counts, scatter, means, target):
    """G, c and Sigma / n of a bandit's log, written out by hand at the ratio target n / n_a."""
    counts, scatter, means, target = map(np.asarray, (counts, scatter, means, target))
    n = counts.sum()
    zeta = target * n / counts
    G = np.array(
        [
            [-counts[0] / n, 0.0, 0.0],
            [0.0, -counts[1] / n, 0.0],
            [counts[0] * means[0] / n, counts[1] * means[1] / n, -1.0],
        ]
    )
    c = np.array([target[0], target[1], 0.0])
    mean = np.array([-target[0], -target[1], target @ means])
    second = np.zeros((3, 3))
    for a in range(2):
        row = np.zeros(3)
        row[a], row[2] = -1.0, means[a]
        second += zeta[a] ** 2 * counts[a] / n * np.outer(row, row)
        second[2, 2] += zeta[a] ** 2 * scatter[a] / n
    return G, c, (second - np.outer(mean, mean)) / n, zeta


BANDIT = {
    "counts": (30, 70),
    "scatter": (30 * 0.2, 70 * 0.05),
    "means": (0.4, 0.9),
    "target": (0.75, 0.25),
}


@pytest.mark.parametrize("seed", range(4))
def test_agrees_with_dense_bayes_where_the_noise_is_invertible(seed):
    problem = random_problem(seed)
    mean, covariance, _ = conditioned(*problem)
    expected_mean, expected = dense_bayes(*problem)
    np.testing.assert_allclose(mean, expected_mean, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(covariance, expected, rtol=1e-8, atol=1e-10)


def test_gain_moves_the_mean_against_the_residual_at_the_prior():
    G, c, V, mean0, scale = random_problem(11)
    mean, _, gain = conditioned(G, c, V, mean0, scale)
    np.testing.assert_allclose(mean, mean0 - gain @ (G @ mean0 + c), rtol=1e-12)


def test_a_row_given_twice_changes_nothing():
    G, c, V, mean0, scale = random_problem(5)
    twice = [*range(len(c)), 2]
    mean, covariance, _ = conditioned(G, c, V, mean0, scale)
    again = conditioned(G[twice], c[twice], V[np.ix_(twice, twice)], mean0, scale)
    np.testing.assert_allclose(again[0], mean, rtol=1e-7)
    np.testing.assert_allclose(again[1], covariance, rtol=1e-7, atol=1e-10)


def test_an_empty_row_changes_nothing():
    G, c, V, mean0, scale = random_problem(6)
    mean, covariance, _ = conditioned(G, c, V, mean0, scale)
    padded = np.zeros((6, 6))
    padded[:5, :5] = V
    again = conditioned(np.vstack([G, np.zeros(4)]), np.r_[c, 0.0], padded, mean0, scale)
    np.testing.assert_allclose(again[0], mean, rtol=1e-12)
    np.testing.assert_allclose(again[1], covariance, rtol=1e-12)


def test_a_row_without_noise_holds_exactly():
    mean, covariance, _ = conditioned(
        [[1.0, 1.0]], [-3.0], [[0.0]], mean=[0.0, 1.0], scale=[1.0, 2.0]
    )
    # x + y = 3 under N(0, 1) and N(1, 4): the surplus of 2 is split by variance, 1 : 4.
    np.testing.assert_allclose(mean, [0.4, 2.6], rtol=1e-11)
    np.testing.assert_allclose(covariance, 0.8 * np.array([[1, -1], [-1, 1]]), atol=1e-12)


def test_noise_of_the_bandit_has_an_exact_constraint():
    G, _, V, zeta = two_armed_bandit(**BANDIT)
    u = np.array([1 / zeta[0], 1 / zeta[1], 0.0])
    np.testing.assert_allclose(u @ V, 0.0, atol=1e-16)
    assert np.abs(u @ G).max() > 0.1


def test_the_exact_constraint_of_the_bandit_binds():
    G, c, V, zeta = two_armed_bandit(**BANDIT)
    mean, covariance, _ = conditioned(G, c, V, [1.0, 1.0, 0.5], [10.0, 10.0, 5.0])
    u = np.array([1 / zeta[0], 1 / zeta[1], 0.0])
    assert abs(u @ (G @ mean + c)) < 1e-12
    # A variance: zero up to the rounding of entries of order 0.1.
    assert abs(u @ G @ covariance @ G.T @ u) < 1e-15


def test_value_of_the_bandit_equals_pencil_and_paper():
    G, c, V, _ = two_armed_bandit(**BANDIT)
    counts, scatter, means, target = (np.asarray(BANDIT[k]) for k in BANDIT)
    mean, covariance, _ = conditioned(G, c, V, [1.0, 1.0, 0.5], [1e4, 1e4, 1e4])
    # Flat priors: the value is the target's mean of the arms' means, each with its own noise.
    assert mean[-1] == pytest.approx(target @ means, rel=1e-7)
    by_hand = np.sqrt(np.sum(target**2 * scatter / counts**2))
    assert np.sqrt(covariance[-1, -1]) == pytest.approx(by_hand, rel=1e-6)


def test_singular_noise_is_the_limit_of_small_noise():
    G, c, V, _ = two_armed_bandit(**BANDIT)
    prior = ([1.0, 1.0, 0.5], [3.0, 3.0, 2.0])
    mean, covariance, _ = conditioned(G, c, V, *prior)
    limit_mean, limit = dense_bayes(G, c, V + 1e-11 * np.eye(3), *prior)
    np.testing.assert_allclose(mean, limit_mean, rtol=1e-4)
    np.testing.assert_allclose(covariance, limit, rtol=1e-4, atol=1e-9)


def test_a_pseudo_inverse_of_the_noise_would_have_lost_the_constraint():
    """Guards the test above: the shortcut that must not be taken gives another answer."""
    G, c, V, _ = two_armed_bandit(**BANDIT)
    _, covariance, _ = conditioned(G, c, V, [1.0, 1.0, 0.5], [3.0, 3.0, 2.0])
    precision = np.diag(1 / np.array([3.0, 3.0, 2.0]) ** 2) + G.T @ np.linalg.pinv(V) @ G
    shortcut = np.linalg.inv(precision)
    assert shortcut[0, 0] > 1.5 * covariance[0, 0]


def test_covariance_stays_positive_semidefinite_under_a_wide_prior():
    G, c, V, _ = two_armed_bandit(**BANDIT)
    _, covariance, _ = conditioned(G, c, V, [1.0, 1.0, 0.5], [1e3, 1e3, 1e3])
    values = np.linalg.eigvalsh(covariance)
    assert values.min() > -1e-12 * values.max()


def repeated_and_empty_rows():
    G, c, V, mean0, scale = random_problem(8)
    rows = [*range(len(c)), 2, 2]
    noise = np.zeros((8, 8))
    noise[:7, :7] = V[np.ix_(rows, rows)]
    return np.vstack([G[rows], np.zeros(4)]), np.r_[c[rows], 0.0], noise, mean0, scale


def many_rows():
    return random_problem(9, rows=40, columns=60)


def bandit_with_wide_prior():
    G, c, V, _ = two_armed_bandit(**BANDIT)
    return G, c, V, [1.0, 1.0, 0.5], [1e2, 1e2, 1e2]


def row_without_noise():
    return [[1.0, 1.0]], [-3.0], [[0.0]], [0.0, 1.0], [1.0, 2.0]


@pytest.mark.parametrize(
    "problem",
    [
        lambda: random_problem(0),
        many_rows,
        repeated_and_empty_rows,
        bandit_with_wide_prior,
        row_without_noise,
    ],
    ids=["plain", "many rows", "repeated and empty rows", "singular noise", "exact row"],
)
def test_the_value_alone_is_what_conditioning_everything_says_of_it(problem):
    problem = problem()
    mean, covariance, gain = conditioned(*problem)
    lean_mean, variance, last = value_conditioned(*problem)
    # The Cholesky's jitter of 1e-12, seen through what is nearly redundant.
    np.testing.assert_allclose(lean_mean, mean, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(variance, covariance[-1, -1], rtol=1e-9)
    # Between rows that say the same the gain may be shared out in any way.
    G, _, V, _, scale = (np.asarray(x) for x in problem)
    innovation = (G * np.asarray(scale) ** 2) @ G.T + V
    np.testing.assert_allclose(last @ innovation, gain[-1] @ innovation, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_the_value_alone_agrees_with_dense_bayes(seed):
    problem = random_problem(seed)
    mean, variance, _ = value_conditioned(*problem)
    expected_mean, expected = dense_bayes(*problem)
    np.testing.assert_allclose(mean, expected_mean, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(variance, expected[-1, -1], rtol=1e-8)


def test_the_value_alone_of_the_bandit_equals_pencil_and_paper():
    G, c, V, _ = two_armed_bandit(**BANDIT)
    counts, scatter, means, target = (np.asarray(BANDIT[k]) for k in BANDIT)
    mean, variance, gain = value_conditioned(G, c, V, [1.0, 1.0, 0.5], [1e4, 1e4, 1e4])
    assert mean[-1] == pytest.approx(target @ means, rel=1e-7)
    by_hand = np.sum(target**2 * scatter / counts**2)
    assert variance == pytest.approx(by_hand, rel=2e-6)
    # Seen from the value's own row the gain is minus the action values: the arms' means.
    np.testing.assert_allclose(gain[:2] / gain[2], means, rtol=1e-6)
