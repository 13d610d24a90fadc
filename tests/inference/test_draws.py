"""Draws: Student's quantiles of a normal, whole draws kept together, one stream for all or many."""

import jax
import numpy as np
import pytest
from scipy.stats import kstest, norm, t

import bayesdice_ppl as bd
from bayesdice_ppl import Policies, TabularPolicy

N_DRAWS = 20_000


@pytest.fixture(scope="module")
def drawn(plain):
    """20 pulls of two arms, so that the degrees of freedom are few; one candidate stands twice."""
    env = bd.envs.Bandit((0.75, 0.25))
    logs = bd.simulate(env, bd.envs.bandit_policy(env, 0.5), 20, 1, rng_key=jax.random.key(3))
    names = {"good": 0.9, "again": 0.9, "bad": 0.1}
    policies = {name: bd.envs.bandit_policy(env, alpha) for name, alpha in names.items()}

    def make(**choices):
        options = {"gamma": 0.0, "inference": "exact", "draws": N_DRAWS, **choices}
        prepared = plain.prepare(logs, policies, **options)
        solution = plain.solve(prepared, jax.random.key(0))
        # Skewness has tests of its own.
        prepared = prepared._replace(problem=prepared.problem._replace(tails=None))
        draws = plain.draw(prepared, solution, jax.random.key(1))
        return prepared.problem, solution.posterior, draws

    return make


def standardized(posterior, draws, j):
    mean = np.asarray(posterior.mean)[j, -1]
    sd = np.sqrt(np.sum(np.asarray(posterior.factor)[j, -1] ** 2))
    return (draws.value[:, j] - mean) / sd


@pytest.mark.parametrize("joint", [True, False])
def test_values_follow_students_t(drawn, joint):
    problem, posterior, draws = drawn(joint=joint)
    for j in range(3):
        df = float(problem.pilots.degrees_of_freedom[j])
        assert 1.0 < df < 30.0
        scores = standardized(posterior, draws, j)
        assert kstest(scores, t(df).cdf).pvalue > 1e-4
        # The tails are heavier than a normal's.
        assert np.mean(np.abs(scores) > 3.0) > 1.5 * 2.0 * norm.sf(3.0)


def test_values_are_normal_without_the_small_sample_rule(drawn):
    _, posterior, draws = drawn(small_sample=False)
    for j in range(3):
        assert kstest(standardized(posterior, draws, j), norm.cdf).pvalue > 1e-4


@pytest.mark.parametrize("joint", [True, False])
def test_value_weights_and_loss_stay_one_draw(drawn, joint):
    problem, _, draws = drawn(joint=joint)
    for j in range(3):
        ratio, constraint, _ = problem.of(j)
        matrix, offset = np.asarray(ratio.matrix), np.asarray(ratio.moments.offset)
        residual = draws.recorded[:100, j] @ matrix[:, :-1].T + offset
        residual += draws.value[:100, j, None] * matrix[:, -1]
        with jax.enable_x64(True):
            expected = np.asarray(constraint.penalty.value(residual))
        np.testing.assert_allclose(draws.loss[:100, j], expected, rtol=1e-9)


def test_copies_share_their_draws_only_if_joint(drawn):
    _, _, joint = drawn(joint=True)
    np.testing.assert_array_equal(joint.value[:, 0], joint.value[:, 1])
    _, _, apart = drawn(joint=False)
    correlation = np.corrcoef(apart.value.T)
    # 5 standard errors of a correlation of 20,000 independent draws.
    assert np.all(np.abs(correlation[np.triu_indices(3, 1)]) < 5.0 / np.sqrt(20_000))


# Draws of one log of two arms, by hand.

PULLS = [(0, 1.0)] * 2 + [(0, 0.0)] * 3 + [(1, 1.0)] * 4 + [(1, 0.0)] * 2
TABLES = {"a": [[0.9, 0.1]], "b": [[0.3, 0.7]], "a_again": [[0.9, 0.1]]}


@pytest.fixture(scope="module")
def problem(plain):
    policies = Policies({name: TabularPolicy(table) for name, table in TABLES.items()})
    found = plain.prepare(
        plain.bandit(PULLS), policies, gamma=0.0, inference="exact", draws=N_DRAWS
    )
    return found, plain.solve(found, jax.random.key(0))


@pytest.fixture(scope="module")
def joint(plain, problem):
    return plain.draw(*problem, jax.random.key(3))


@pytest.fixture(scope="module")
def independent(plain, problem):
    return plain.draw(*problem, jax.random.key(3), joint=False)


def moments_of(problem):
    found, solution = problem
    mean, factor = (np.asarray(array) for array in solution.posterior)
    sd = np.sqrt((factor[:, -1] ** 2).sum(axis=-1))
    return mean[:, -1], sd, np.asarray(found.problem.pilots.degrees_of_freedom)


@pytest.mark.parametrize("which", ["joint", "independent"])
def test_values_are_student_t_with_the_rules_degrees_of_freedom(problem, which, request):
    draws = request.getfixturevalue(which)
    mean, sd, df = moments_of(problem)
    assert (df < 15.0).all()
    for j in range(3):
        standard = (draws.value[:, j] - mean[j]) / sd[j]
        for p in (0.001, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 0.999):
            share = np.mean(standard <= t.ppf(p, df[j]))
            assert abs(share - p) < 5 * np.sqrt(p * (1 - p) / N_DRAWS)


def test_a_normal_would_have_failed_the_test_above(problem, joint):
    mean, sd, _ = moments_of(problem)
    share = np.mean((joint.value[:, 0] - mean[0]) / sd[0] <= norm.ppf(0.001))
    assert share - 0.001 > 5 * np.sqrt(0.001 / N_DRAWS)


def test_without_the_rule_values_are_normal(plain):
    policies = Policies({name: TabularPolicy(table) for name, table in TABLES.items()})
    found = plain.prepare(
        plain.bandit(PULLS),
        policies,
        gamma=0.0,
        inference="exact",
        draws=N_DRAWS,
        small_sample=False,
    )
    solution = plain.solve(found, jax.random.key(0))
    draws = plain.draw(found, solution, jax.random.key(3))
    mean, sd, df = moments_of((found, solution))
    assert np.isinf(df).all()
    standard = (draws.value - mean) / sd
    for p in (0.001, 0.05, 0.5, 0.95, 0.999):
        off = np.abs((standard <= norm.ppf(p)).mean(axis=0) - p)
        assert (off < 5 * np.sqrt(p * (1 - p) / N_DRAWS)).all()


@pytest.mark.parametrize("which", ["joint", "independent"])
def test_weights_have_the_posteriors_mean_and_sd(problem, which, request):
    draws = request.getfixturevalue(which)
    mean, factor = (np.asarray(array) for array in problem[1].posterior)
    sd = np.sqrt((factor**2).sum(axis=-1))[:, :-1]
    off = draws.recorded.mean(axis=0) - mean[:, :-1]
    assert (np.abs(off) < 5 * sd / np.sqrt(N_DRAWS)).all()
    assert (np.abs(draws.recorded.std(axis=0) / sd - 1.0) < 5 / np.sqrt(2 * N_DRAWS)).all()


@pytest.mark.parametrize("which", ["joint", "independent"])
def test_value_weights_and_loss_of_a_draw_stay_together(problem, which, request):
    """The loss, recomputed by hand from a draw's own weights and value, is the loss it carries."""
    draws = request.getfixturevalue(which)
    ratio, constraint, _ = problem[0].problem.of(1)
    factor = np.asarray(constraint.penalty.factor)
    latent = np.column_stack([draws.recorded[:200, 1], draws.value[:200, 1]])
    residual = latent @ np.asarray(ratio.matrix).T + np.asarray(ratio.moments.offset)
    whitened = np.linalg.solve(factor, residual.T)
    loss = 0.5 * (whitened**2).sum(axis=0)
    np.testing.assert_allclose(draws.loss[:200, 1], loss, rtol=1e-3)
    assert np.ptp(loss) > 10 * loss.min()


def test_joint_draws_keep_every_marginal(plain, problem, joint):
    """Correlation is put in by reordering: drawn alone, a candidate has the same set of values."""
    found, solution = problem
    names = ("ratio", "constraint", "coordinates", "pilots")
    parts = {name: getattr(found.problem, name) for name in names}
    first = jax.tree.map(lambda x: x[:1], (parts, solution.posterior, found.inputs.candidates))
    alone = found._replace(
        problem=found.problem._replace(**first[0], tails=found.problem.tails.first(1)),
        inputs=found.inputs._replace(candidates=first[2]),
    )
    one = plain.draw(alone, solution._replace(posterior=first[1]), jax.random.key(3))
    for name in ("value", "loss"):
        np.testing.assert_allclose(
            np.sort(getattr(one, name)[:, 0]), np.sort(getattr(joint, name)[:, 0]), rtol=1e-9
        )


def test_one_policy_under_two_names_has_the_very_same_draws(joint):
    np.testing.assert_array_equal(joint.value[:, 0], joint.value[:, 2])
    np.testing.assert_array_equal(joint.recorded[:, 0], joint.recorded[:, 2])
    np.testing.assert_array_equal(joint.loss[:, 0], joint.loss[:, 2])
    assert joint.correlation[0, 2] == 1.0


def test_joint_draws_have_the_correlation_of_the_influences(joint):
    """By pencil: sum_a pi_a pi'_a s2_a / n_a over the two sds (gamma 0, one state)."""
    variance = np.array([np.var([r for a, r in PULLS if a == arm]) for arm in (0, 1)]) / np.array(
        [5, 6]
    )
    tables = np.array([TABLES["a"][0], TABLES["b"][0]])
    covariance = (tables * variance) @ tables.T
    by_pencil = covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1])
    assert joint.correlation[0, 1] == pytest.approx(by_pencil, abs=0.01)
    ranks = np.argsort(np.argsort(joint.value[:, :2], axis=0), axis=0)
    scores = norm.ppf((ranks + 0.5) / N_DRAWS)
    error = (1 - by_pencil**2) / np.sqrt(N_DRAWS)
    assert abs(np.corrcoef(scores.T)[0, 1] - joint.correlation[0, 1]) < 5 * error


def test_independent_draws_are_uncorrelated_even_for_one_policy_under_two_names(independent):
    found = np.corrcoef(independent.value.T) - np.eye(3)
    assert (np.abs(found) < 5 / np.sqrt(N_DRAWS)).all()
    np.testing.assert_array_equal(independent.correlation, np.eye(3))
