"""The search for the policy that may be best, against all policies of small worlds."""

from itertools import product

import numpy as np
import pytest

from bayesdice_ppl.envs import Bandit, Garnet, InfiniteFrozenLake, RiverSwim
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.exploration.planning import planning
from bayesdice_ppl.exploration.spaces import as_policy, plan
from bayesdice_ppl.exploration.variational import variational
from bayesdice_ppl.models import pair_beliefs, pair_prior, policy_belief, quantile, variance
from tests.exploration_worlds import best_value, drawn_counts, exact_counts, value_of

PRIOR = pair_prior(0.0, 1.0)
WORLDS = {
    "bandit": (lambda: Bandit(np.linspace(0.1, 0.9, 10)), 0.0),
    "riverswim": (lambda: RiverSwim(6), 0.99),
    "frozenlake": (InfiniteFrozenLake, 0.99),
    **{f"garnet {i}": (lambda i=i: Garnet(8, 3, 3, seed=i), 0.95) for i in range(20)},
}


def found_in(name, engine, n=1e4):
    make, gamma = WORLDS[name]
    env = make()
    beliefs = pair_beliefs(exact_counts(env, n), PRIOR)
    found = engine.find(beliefs, gamma, variance(0.0), np.random.default_rng(0))
    return value_of(env, found.policy, gamma), best_value(env, gamma)


@pytest.mark.parametrize("name", WORLDS)
def test_without_optimism_and_with_full_data_it_is_the_best_policy(name):
    value, best = found_in(name, planning())
    assert value == pytest.approx(best, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("name", WORLDS)
def test_so_is_that_of_the_program_from_the_uniform_policy(name):
    value, best = found_in(name, variational(PRIOR, starts=0))
    assert value == pytest.approx(best, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("optimism", [variance(5.0), quantile()], ids=str)
def test_the_program_comes_as_far_as_planning(optimism):
    """On a small log; lambda_2 is large, so that both maximize the same."""
    counts, _ = drawn_counts(RiverSwim(4), np.full((4, 2), 0.5), 4, 10, 2)
    beliefs = pair_beliefs(counts, PRIOR)
    rng = np.random.default_rng(0)
    planned = planning().find(beliefs, 0.9, optimism, rng)
    engine = variational(PRIOR, lambda_2=20.0)
    fitted = engine.find(beliefs, 0.9, optimism, rng)
    assert fitted.score == pytest.approx(planned.score, rel=0.01)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("optimism", [variance(5.0), quantile(), quantile(0.9)], ids=str)
def test_it_finds_the_best_of_all_deterministic_policies(seed, optimism):
    env, gamma = Garnet(4, 2, 2, seed=seed), 0.9
    logged = np.full((4, 2), 0.5)
    logged[1], logged[3] = (1.0, 0.0), (0.0, 1.0)
    counts, _ = drawn_counts(env, logged, 3, 12, seed)
    beliefs = pair_beliefs(counts, PRIOR)
    steps = counts.visits.sum()
    every = []
    for actions in product(range(2), repeat=4):
        belief = policy_belief(beliefs, as_policy(np.array(actions), 2), gamma)
        every.append(float(optimism.score(belief.mean, belief.variance, steps)))
    found = planning().find(beliefs, gamma, optimism, np.random.default_rng(0))
    assert found.score == pytest.approx(max(every), rel=1e-9)


def test_a_random_policy_is_no_better():
    """U is convex in the occupancy: its best policies are deterministic."""
    counts, _ = drawn_counts(Garnet(4, 2, 2, seed=1), np.full((4, 2), 0.5), 3, 8, 0)
    beliefs, rng = pair_beliefs(counts, PRIOR), np.random.default_rng(1)
    found = planning().find(beliefs, 0.9, quantile(), rng)
    for _ in range(200):
        belief = policy_belief(beliefs, rng.dirichlet([0.5, 0.5], size=4), 0.9)
        assert quantile().score(belief.mean, belief.variance, counts.visits.sum()) <= found.score


def test_plans_are_those_of_value_iteration():
    for seed in range(5):
        env = Garnet(6, 3, 2, seed=seed)
        actions = plan(env.transition_matrix, env.reward_matrix, 0.95)
        assert value_of(env, as_policy(actions, 3), 0.95) == pytest.approx(best_value(env, 0.95))


def test_an_engine_says_what_is_not_its_default():
    said = [str(planning()), str(planning(starts=3)), str(variational(PRIOR, steps=500))]
    assert said == ["planning", "planning(starts=3)", "variational(steps=500)"]


def test_too_many_pairs_for_the_program_are_refused():
    beliefs = pair_beliefs(exact_counts(Bandit(np.full(5, 0.5)), 1.0), PRIOR)
    big = beliefs._replace(reward=np.zeros((500, 6)))
    with pytest.raises(SettingsError, match=r"500 states and 6 actions.*Use planning\(\)"):
        variational(PRIOR).find(big, 0.9, quantile(), np.random.default_rng(0))


def test_numbers_out_of_range_are_refused():
    with pytest.raises(SettingsError, match="planning: refined"):
        planning(refined=0)
    with pytest.raises(SettingsError, match="variational: steps"):
        variational(PRIOR, steps=0)
