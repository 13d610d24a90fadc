"""Draws: Student's quantiles of a normal, whole draws kept together, one stream for all or many."""

import jax
import numpy as np
import pytest
from scipy.stats import kstest, norm, t

import bayesdice_ppl as bd
from bayesdice_ppl.inference import draw, make_settings, solve
from bayesdice_ppl.preparation import prepare_fit


@pytest.fixture(scope="module")
def drawn():
    """20 pulls of two arms, so that the degrees of freedom are few; one candidate stands twice."""
    env = bd.envs.Bandit((0.75, 0.25))
    logs = bd.simulate(env, bd.envs.bandit_policy(env, 0.5), 20, 1, rng_key=jax.random.key(3))
    names = {"good": 0.9, "again": 0.9, "bad": 0.1}
    policies = {name: bd.envs.bandit_policy(env, alpha) for name, alpha in names.items()}

    def make(**choices):
        settings = make_settings(gamma=0.0, inference="exact", draws=20_000, **choices)
        prepared = prepare_fit(logs, policies, settings)
        solution = solve(prepared.problem, jax.random.key(0), settings)
        draws = draw(prepared.problem, solution, prepared.candidates, jax.random.key(1), settings)
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
        moments, constraint, _ = problem.of(j)
        matrix, offset = np.asarray(moments.matrix), np.asarray(moments.offset)
        residual = draws.weights[:100, j] @ matrix[:, :-1].T + offset
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
