"""The moments of a Gaussian process, against inner products of kernels written out term by term."""

import jax.numpy as jnp
import numpy as np
import pytest

from bayesdice_ppl.errors import LogsError, PoliciesError, SettingsError
from bayesdice_ppl.features.kernels import linear, matern, squared_exponential, sum_of
from bayesdice_ppl.features.low_rank import gram_root
from bayesdice_ppl.moments import process
from bayesdice_ppl.moments.process import PolicyPoints, process_moments

N, M, L, P = 12, 4, 3, 2


def laplace(x, y):
    """matern(0.5, 1.0), one pair of points at a time."""
    return np.exp(-np.sqrt(np.sum((x - y) ** 2)))


def log(seed=0):
    """(points, next, initial, reward, terminated), some of the points recurring."""
    rng = np.random.default_rng(seed)
    actions = rng.normal(size=(L, 1))
    states = rng.normal(size=(N + 1, 1))
    starts = rng.normal(size=(M, 1))

    def everywhere(state):
        return np.stack([np.column_stack([np.repeat(s, L), actions]) for s in state])

    at = np.column_stack([states[:-1], actions[rng.integers(L, size=N)]])
    ended = np.arange(N) % 5 == 4
    following = everywhere(states[1:])
    following[ended] = np.nan
    weights = [rng.dirichlet(np.ones(L), size=size) for size in (N, M)]
    return (
        at,
        PolicyPoints(following, weights[0]),
        PolicyPoints(everywhere(starts), weights[1]),
        rng.normal(1.0, 2.0, size=N),
        ended,
    )


class Functions:
    """Elements of the kernel's space as lists of (coefficient, point)."""

    def __init__(self, at, following, initial, ended, gamma, restart):
        self.starts = [list(zip(w, x, strict=True)) for x, w in zip(*initial, strict=True)]
        self.mean = [(c / len(self.starts), x) for start in self.starts for c, x in start]
        self.rows = []
        for i in range(len(at)):
            row = [(-1.0, at[i])]
            if gamma > 0 and not ended[i]:
                row += [
                    (gamma * w, x) for x, w in zip(following[0][i], following[1][i], strict=True)
                ]
            if gamma > 0 and ended[i] and restart:
                row += [(gamma * w, x) for w, x in self.mean]
            self.rows.append(row)
        self.b = [((1 - gamma) * w, x) for w, x in self.mean]
        self.centered = [start + [(-w, x) for w, x in self.mean] for start in self.starts]

    @staticmethod
    def product(f, g, kernel):
        return sum(a * b * kernel(x, y) for a, x in f for b, y in g)

    def gram(self, fs, gs, kernel=laplace):
        return np.array([[self.product(f, g, kernel) for g in gs] for f in fs])


CASES = [(0.9, True), (0.9, False), (1.0, True), (0.0, True)]


@pytest.mark.parametrize(("gamma", "restart"), CASES)
def test_inner_products_are_those_of_the_kernel(gamma, restart):
    at, following, initial, _, ended = data = log()
    found = process_moments(
        matern(0.5, 1.0), matern(0.5, 1.0), *data, gamma=gamma, restart=restart, normalized=False
    )
    f = Functions(at, following, initial, ended, gamma, restart)
    np.testing.assert_allclose(found.gram, f.gram(f.rows, f.rows), rtol=0, atol=1e-10)
    np.testing.assert_allclose(found.cross, f.gram(f.rows, [f.b])[:, 0], rtol=0, atol=1e-10)
    assert found.constant == pytest.approx(f.gram([f.b], [f.b])[0, 0], abs=1e-10)
    starts = found.initial @ found.initial.T
    np.testing.assert_allclose(starts, f.gram(f.centered, f.centered), rtol=0, atol=1e-10)
    mixed = found.design @ found.initial.T
    np.testing.assert_allclose(mixed, f.gram(f.rows, f.centered), rtol=0, atol=1e-10)


@pytest.mark.parametrize("wrap", [lambda kernel: kernel, sum_of])
@pytest.mark.parametrize(("gamma", "restart"), CASES)
def test_features_give_the_inner_products_of_their_kernel(gamma, restart, wrap):
    """Whether they are used as features, or as a kernel of which nothing else is known."""
    at, following, initial, _, ended = data = log(1)
    kernel = wrap(linear(lambda x: jnp.stack([x[:, 0], x[:, 1] ** 2, x[:, 0] * x[:, 1]], axis=1)))
    found = process_moments(kernel, kernel, *data, gamma=gamma, restart=restart, normalized=False)
    f = Functions(at, following, initial, ended, gamma, restart)

    def product(x, y):
        return x[0] * y[0] + x[1] ** 2 * y[1] ** 2 + x[0] * x[1] * y[0] * y[1]

    assert found.design.shape == (N, 3)
    np.testing.assert_allclose(found.gram, f.gram(f.rows, f.rows, product), atol=1e-9)
    np.testing.assert_allclose(found.cross, f.gram(f.rows, [f.b], product)[:, 0], atol=1e-9)
    prior = [[product(x, y) for y in at] for x in at]
    np.testing.assert_allclose(found.root @ found.root.T, prior, atol=1e-9)


def test_what_no_transition_tests_is_no_row():
    """A constant feature at gamma = 1: its D_i are rounding errors, and no constraint."""
    constant = linear(lambda x: jnp.stack([x[:, 0], jnp.ones(len(x))], axis=1))
    for kernel in (constant, sum_of(constant)):
        found = process_moments(kernel, kernel, *log(), gamma=1.0, normalized=False)
        assert found.design.shape == (N, 1)


@pytest.mark.parametrize("restart", [True, False])
def test_normalization_is_a_row_of_its_own(restart):
    data = log()
    kernel = matern(0.5, 1.0)
    options = {"gamma": 0.9, "restart": restart}
    with_row = process_moments(kernel, kernel, *data, **options)
    without = process_moments(kernel, kernel, *data, **options, normalized=False)
    np.testing.assert_array_equal(with_row.design[:, :-1], without.design)
    np.testing.assert_array_equal(with_row.stationary, [1.0] * len(without.offset) + [0.0])
    # 0.9 / 0.1 more steps stand behind an absorbing termination.
    mass = 1.0 if restart else np.where(data[4], 10.0, 1.0)
    ratio = np.random.default_rng(0).uniform(0, 2, size=N)
    assert with_row.residual(ratio)[-1] == pytest.approx(np.mean(ratio * mass) - 1.0)


def test_residual_and_value_are_means_over_transitions():
    data = log()
    kernel = matern(0.5, 1.0)
    found = process_moments(kernel, kernel, *data, gamma=0.9, restart=False, absorbed_reward=3.0)
    ratio = np.random.default_rng(0).uniform(0, 2, size=N)
    expected = sum(z * d for z, d in zip(ratio, found.design, strict=True)) / N + found.offset
    np.testing.assert_allclose(found.residual(ratio), expected, rtol=1e-12)
    value = np.mean(ratio * data[3]) + (1 - np.mean(ratio)) * 3.0
    assert found.implied_value(ratio) == pytest.approx(value, rel=1e-12)
    square = ratio @ found.gram @ ratio / N**2 + 2 * ratio @ found.cross / N + found.constant
    assert np.sum(found.residual(ratio) ** 2) == pytest.approx(square, rel=1e-10)


def test_mass_enters_anew_after_a_restart():
    kernel = matern(0.5, 1.0)
    data = log()
    again, absorbed = (
        process_moments(kernel, kernel, *data, gamma=0.9, restart=restart)
        for restart in (True, False)
    )
    np.testing.assert_allclose(again.entry, 0.9 * data[4])
    np.testing.assert_array_equal(absorbed.entry, 0.0)
    assert again.fresh == pytest.approx(0.1)


def test_prior_of_the_ratio_is_the_kernel_and_of_the_value_the_rewards():
    data = log()
    kernel = squared_exponential(0.5, 3.0)
    found = process_moments(kernel, kernel, *data, gamma=0.9, value_prior_sd=2.0)
    at = data[0]
    expected = 9 * np.exp(-((at[:, None] - at) ** 2).sum(axis=-1) / (2 * 0.5**2))
    np.testing.assert_allclose(found.root @ found.root.T, expected, atol=1e-10)
    assert found.value_mean == pytest.approx(data[3].mean())
    assert found.value_sd == pytest.approx(2.0 * data[3].std())
    absorbed = process_moments(
        kernel, kernel, *data, gamma=0.9, restart=False, absorbed_reward=-5.0
    )
    assert absorbed.value_sd == pytest.approx(10 * np.sqrt(np.mean((data[3] + 5.0) ** 2)))
    equal = process_moments(kernel, kernel, *data[:3], np.full(N, -4.0), data[4], gamma=0.9)
    assert equal.value_sd == pytest.approx(40.0)


def test_blocks_of_any_size_give_the_same(monkeypatch):
    kernel, features = matern(1.5, 1.0), linear(lambda x: jnp.concatenate([x, x**2], axis=1))
    whole = [process_moments(k, kernel, *log(), gamma=0.9) for k in (kernel, features)]
    monkeypatch.setattr(process, "BLOCK", 1)
    small = [process_moments(k, kernel, *log(), gamma=0.9) for k in (kernel, features)]
    for one, other in zip(whole, small, strict=True):
        np.testing.assert_allclose(one.gram, other.gram, rtol=0, atol=1e-12)


def test_a_bandit_needs_no_successors():
    at, _, initial, reward, ended = log()
    kernel = matern(0.5, 1.0)
    found = process_moments(kernel, kernel, at, None, initial, reward, ended, gamma=0.0)
    f = Functions(at, None, initial, ended, 0.0, True)
    np.testing.assert_allclose(found.gram - 1.0, f.gram(f.rows, f.rows), atol=1e-10)


def test_root_is_rank_revealing_and_pivots_determine_the_rest():
    rng = np.random.default_rng(3)
    thin = rng.normal(size=(9, 4))
    root, pivots = gram_root(thin @ thin.T)
    assert root.shape == (9, 4)
    np.testing.assert_allclose(root @ root.T, thin @ thin.T, atol=1e-12)
    np.testing.assert_array_equal(np.triu(root[pivots], 1), 0.0)
    assert (np.diagonal(root[pivots]) > 0).all()


def changed(data, where, value):
    return (*data[:where], value, *data[where + 1 :])


@pytest.mark.parametrize(
    ("where", "change", "error", "word"),
    [
        (0, lambda d: d[0][:, 0], LogsError, "points"),
        (0, lambda d: np.where(d[0] > 0, np.nan, d[0]), LogsError, "finite"),
        (1, lambda d: None, LogsError, "next_points"),
        (1, lambda d: PolicyPoints(d[1].points[:-1], d[1].weights), LogsError, "next_points"),
        (1, lambda d: PolicyPoints(d[1].points, 2 * d[1].weights), PoliciesError, "sum to 1"),
        (2, lambda d: PolicyPoints(d[2].points, d[2].weights[:, :1]), LogsError, "initial_points"),
        (3, lambda d: d[3][:-1], LogsError, "reward"),
    ],
)
def test_impossible_input_is_refused(where, change, error, word):
    data = log()
    kernel = matern(0.5, 1.0)
    with pytest.raises(error, match=word):
        process_moments(kernel, kernel, *changed(data, where, change(data)), gamma=0.9)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"gamma": 1.5}, "gamma"),
        ({"gamma": 1.0, "restart": False}, "average reward"),
        ({"gamma": 0.5, "value_prior_sd": 0.0}, "value_prior_sd"),
    ],
)
def test_impossible_settings_are_refused(options, word):
    kernel = matern(0.5, 1.0)
    with pytest.raises(SettingsError, match=word):
        process_moments(kernel, kernel, *log(), **options)


@pytest.mark.parametrize("bad", ["test", "ratio"])
def test_a_kernel_that_is_not_finite_is_refused(bad):
    def own(x, y):
        return jnp.log(-jnp.abs(x @ y.T))

    kernels = (own, matern(0.5, 1.0)) if bad == "test" else (matern(0.5, 1.0), own)
    with pytest.raises(SettingsError, match="kernel"):
        process_moments(*kernels, *log(), gamma=0.9)
