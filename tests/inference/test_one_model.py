"""All candidates in one model: against loops, each candidate alone, repeated logs, the copula."""

from functools import partial

import jax
import numpy as np
import pytest
from numpyro.infer.util import log_density
from scipy.stats import chi2

import bayesdice_ppl as bd
from bayesdice_ppl import envs
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.inference import (
    cross_covariance,
    one_model_constraint,
    one_model_posterior,
    solve,
)
from bayesdice_ppl.models import joint_model
from bayesdice_ppl.preparation import prepare
from bayesdice_ppl.simulation import make_world

CLUSTERS = ("transition", "episode")


def covariance_of(found):
    problem = found.problem
    with jax.enable_x64(True):
        return np.asarray(
            cross_covariance(
                problem.cells,
                problem.moments,
                problem.pilots,
                by_episode=found.settings.by_episode,
            )
        )


def alone(found):
    """Mean and sd of (weights, value) of each candidate by itself, in closed form."""
    posterior = solve(found.problem, jax.random.key(0), found.settings).posterior
    factor = np.asarray(posterior.factor)
    return np.asarray(posterior.mean), np.sqrt((factor**2).sum(axis=-1))


def sds(posterior):
    return np.sqrt(np.diagonal(posterior.covariance)).reshape(posterior.mean.shape)


# The cross covariance, one transition at a time.


def loops(oracles, weights, base, *, by_episode):
    """Stacked Sigma: for two policies at a time, a loop over transitions and one over starts."""
    n, m = oracles[0].n, oracles[0].m
    blocks = []
    for oracle, w in zip(oracles, weights, strict=True):
        width = len(oracle.c)
        terms = []
        for row, k, term in zip(oracle.rows, oracle.pair_of_row, oracle.terms, strict=True):
            mass = 1.0
            if row["terminated"] and not oracle.restart:
                mass += oracle.gamma / (1.0 - oracle.gamma)
            # Rewards are counted from their mean, as the Mahalanobis penalty has them.
            counted = np.append(term[:-1], term[-1] - base * mass)
            terms.append(w[k] * oracle.active[k] * counted)
        starts = np.zeros((m, width))
        for e in range(m):
            starts[e, : len(oracle.pairs)] = oracle.entry(w) * (oracle.phi0[e] - oracle.phi0bar)
        blocks.append((np.array(terms), starts))
    sigma = []
    for terms, starts in blocks:
        line = []
        for other_terms, other_starts in blocks:
            block = np.zeros((terms.shape[1], other_terms.shape[1]))
            mean, other_mean = terms.mean(axis=0), other_terms.mean(axis=0)
            if by_episode:
                psi, other_psi = starts.copy(), other_starts.copy()
                for i, row in enumerate(oracles[0].rows):
                    psi[row["episode"]] += m / n * (terms[i] - mean)
                    other_psi[row["episode"]] += m / n * (other_terms[i] - other_mean)
                for e in range(m):
                    off, other_off = (
                        psi[e] - psi.mean(axis=0),
                        other_psi[e] - other_psi.mean(axis=0),
                    )
                    block += n / m**2 * np.outer(off, other_off)
            else:
                for i in range(n):
                    block += np.outer(terms[i] - mean, other_terms[i] - other_mean) / n
                for e in range(m):
                    block += n / m**2 * np.outer(starts[e], other_starts[e])
            line.append(block)
        sigma.append(line)
    return np.block(sigma)


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize(
    ("gamma", "on_termination"),
    [(0.0, "restart"), (0.9, "restart"), (0.9, "absorb"), (1.0, "restart")],
)
def test_cross_covariance_equals_loops_over_transitions(plain, gamma, on_termination, cluster):
    logs, policies = plain.log(8, rewards="continuous"), plain.policies(9, 3)
    found = prepare(
        logs,
        policies,
        gamma=gamma,
        on_termination=on_termination,
        cluster=cluster,
        small_sample=False,
    )
    restart = on_termination == "restart"
    oracles = [plain.problem(logs, p, gamma=gamma, restart=restart) for p in policies.values()]
    weights = np.asarray(found.problem.pilots.mean)[:, :-1]
    expected = loops(oracles, weights, logs.reward.mean(), by_episode=cluster == "episode")
    assert np.abs(expected).max() > 0.1
    # Rounding leaves the value's entry less: action values of 1 / (1 - gamma) cancel in it.
    np.testing.assert_allclose(covariance_of(found), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_diagonal_blocks_are_the_pilots_own_with_the_small_sample_term(plain, cluster):
    found = prepare(plain.log(8), plain.policies(9, 3), gamma=0.9, cluster=cluster)
    without = prepare(
        plain.log(8), plain.policies(9, 3), gamma=0.9, cluster=cluster, small_sample=False
    )
    pilots = np.asarray(found.problem.pilots.covariance)
    n_rows = pilots.shape[-1]
    sigma = covariance_of(found)
    for j, own in enumerate(pilots):
        block = slice(j * n_rows, (j + 1) * n_rows)
        np.testing.assert_allclose(sigma[block, block], own, rtol=0, atol=1e-12)
    added = sigma - covariance_of(without)
    entries = np.arange(n_rows - 1, len(sigma), n_rows)
    assert (added[entries, entries] > 0.0).all()
    added[entries, entries] = 0.0
    assert (added == 0.0).all()


# Each candidate alone.


def small_worlds():
    """Name -> (world, episodes, steps, discount)."""
    bandit = make_world("bandit", alpha=0.5, candidates=(0.0, 0.4, 0.75, 0.9), arms=(0.2, 0.5, 0.8))
    lake = make_world("frozenlake", alpha=0.0, candidates=(0.2, 0.5, 0.75, 0.9))
    garnet = make_world("garnet", alpha=0.3, candidates=(0.0, 0.3, 0.6, 0.8, 1.0))
    return {
        "bandit": (bandit, 200, 5, 0.0),
        "frozen_lake": (lake, 50, 100, 0.99),
        "garnet": (garnet, 50, 100, 0.95),
        "garnet_average": (garnet, 50, 100, 1.0),
    }


@pytest.fixture(scope="module", params=["bandit", "frozen_lake", "garnet", "garnet_average"])
def world(request):
    """(logs, candidates, discount) of a world with a known truth."""
    made, n_episodes, n_steps, gamma = small_worlds()[request.param]
    logs = bd.simulate(made.env, made.behavior, n_episodes, n_steps, rng_key=jax.random.key(3))
    return logs, made.candidates, gamma


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_under_a_wide_prior_each_candidate_keeps_its_own_posterior(world, cluster):
    logs, policies, gamma = world
    found = prepare(
        logs,
        policies,
        gamma=gamma,
        cluster=cluster,
        inference="exact",
        prior_sd=1e4,
        value_prior_sd=1e4,
    )
    mean, sd = alone(found)
    posterior = one_model_posterior(found.problem)
    assert sd.min() > 0.0
    # Candidates meet through the prior alone, whose share here is of the order of 1e-8.
    assert np.abs((posterior.mean - mean) / sd).max() < 1e-5
    np.testing.assert_allclose(sds(posterior), sd, rtol=1e-5)


def test_under_the_usual_prior_values_keep_their_posteriors(world):
    logs, policies, gamma = world
    found = prepare(logs, policies, gamma=gamma, inference="exact")
    mean, sd = alone(found)
    posterior = one_model_posterior(found.problem)
    assert np.abs((posterior.mean - mean) / sd)[:, -1].max() < 0.03
    np.testing.assert_allclose(sds(posterior)[:, -1], sd[:, -1], rtol=0.01)


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_one_candidate_has_its_own_posterior(plain, cluster):
    found = prepare(
        plain.log(8), plain.policies(9, 1), gamma=0.9, cluster=cluster, inference="exact"
    )
    mean, sd = alone(found)
    posterior = one_model_posterior(found.problem)
    np.testing.assert_allclose(posterior.mean, mean, rtol=1e-8)
    np.testing.assert_allclose(sds(posterior), sd, rtol=1e-8)
    np.testing.assert_array_equal(posterior.correlation, [[1.0]])


def test_correlation_is_that_of_the_values_in_the_covariance(plain):
    posterior = one_model_posterior(prepare(plain.log(8), plain.policies(9, 3), gamma=0.9).problem)
    n_latent = posterior.mean.shape[1]
    for j in range(3):
        for k in range(3):
            at, other = (j + 1) * n_latent - 1, (k + 1) * n_latent - 1
            spread = np.sqrt(posterior.covariance[at, at] * posterior.covariance[other, other])
            expected = posterior.covariance[at, other] / spread
            assert posterior.correlation[j, k] == pytest.approx(expected, abs=1e-12)


def test_value_of_a_bandit_equals_pencil_and_paper(plain):
    pulls = [(0, r) for r in (0.0, 1.0, 1.0, 4.0)] + [(1, r) for r in (2.0, 3.0, 5.0)]
    tables = np.array([[0.5, 0.5], [0.9, 0.1], [0.0, 1.0]])
    policies = bd.Policies({f"p{j}": bd.TabularPolicy(t[None]) for j, t in enumerate(tables)})
    found = prepare(
        plain.bandit(pulls),
        policies,
        gamma=0.0,
        small_sample=False,
        prior_sd=1e4,
        value_prior_sd=1e4,
    )
    posterior = one_model_posterior(found.problem)
    arms = [np.array([r for a, r in pulls if a == arm]) for arm in (0, 1)]
    noise = np.diag([x.var() / len(x) for x in arms])
    n_latent = posterior.mean.shape[1]
    values = slice(n_latent - 1, None, n_latent)
    np.testing.assert_allclose(posterior.mean[:, -1], tables @ [x.mean() for x in arms], rtol=1e-6)
    np.testing.assert_allclose(
        posterior.covariance[values, values], tables @ noise @ tables.T, rtol=1e-6, atol=1e-8
    )


# Candidates that are the same.


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_a_candidate_given_twice_moves_with_itself_and_changes_no_other(plain, cluster):
    logs, three = plain.log(8), plain.policies(9, 3)
    options = {
        "gamma": 0.9,
        "cluster": cluster,
        "small_sample": False,
        "prior_sd": 1e4,
        "value_prior_sd": 1e4,
    }
    four = bd.Policies({**three, "again": three["p1"]})
    found = prepare(logs, four, **options)
    sigma = covariance_of(found)
    assert np.linalg.matrix_rank(sigma, hermitian=True) < len(sigma)
    posterior = one_model_posterior(found.problem)
    fewer = one_model_posterior(prepare(logs, three, **options).problem)
    same = [0, 1, 2, 1]
    np.testing.assert_allclose(posterior.correlation, fewer.correlation[same][:, same], atol=1e-6)
    assert posterior.correlation[1, 3] == pytest.approx(1.0, abs=1e-9)
    np.testing.assert_allclose(posterior.mean, fewer.mean[same], rtol=1e-5)
    np.testing.assert_allclose(sds(posterior), sds(fewer)[same], rtol=1e-5)


def test_the_small_sample_rule_adds_to_each_copy_alone(plain):
    """What it costs that the rule adds nothing between policies, in numbers: V0 / (V0 + added)."""
    pulls = [(0, 1.0)] * 3 + [(0, 0.0)] * 5 + [(1, 1.0)] * 4 + [(1, 0.0)] * 2
    table = np.array([0.6, 0.4])
    policies = bd.Policies({name: bd.TabularPolicy(table[None]) for name in "ab"})
    found = prepare(plain.bandit(pulls), policies, gamma=0.0, prior_sd=1e4, value_prior_sd=1e4)
    n_a = np.array([8, 6])
    scatter = np.array([8 * (3 / 8) * (5 / 8), 6 * (4 / 6) * (2 / 6)])
    plain_variance = np.sum(table**2 * scatter / n_a**2)
    pool = scatter.sum() / (n_a - 1).sum()
    shrunk = np.sum(table**2 * (scatter + 2 * pool) / (n_a + 1) / n_a)
    posterior = one_model_posterior(found.problem)
    assert posterior.correlation[0, 1] == pytest.approx(plain_variance / shrunk, rel=1e-5)
    np.testing.assert_allclose(sds(posterior)[:, -1], np.sqrt(shrunk), rtol=1e-5)


def test_many_candidates_go_the_way_for_many_rows():
    """More than 512 rows are factored by Cholesky: those that were there must not move."""
    made, n_episodes, n_steps, gamma = small_worlds()["garnet"]
    logs = bd.simulate(made.env, made.behavior, n_episodes, n_steps, rng_key=jax.random.key(3))
    more = {f"other_{j}": envs.garnet_policy(made.env, 0.5, seed=10 + j) for j in range(2)}
    options = {"gamma": gamma, "prior_sd": 1e3, "value_prior_sd": 1e3}
    few = one_model_posterior(prepare(logs, made.candidates, **options).problem)
    every = bd.Policies({**made.candidates, **more})
    found = prepare(logs, every, **options)
    n, (_, n_rows, _) = len(made.candidates), found.problem.moments.matrix.shape
    assert n * n_rows < 512 < len(every) * n_rows
    many = one_model_posterior(found.problem)
    np.testing.assert_allclose(many.correlation[:n, :n], few.correlation, rtol=0, atol=1e-5)
    off = (many.mean[:n] - few.mean)[:, -1] / sds(few)[:, -1]
    assert np.abs(off).max() < 1e-4


def test_any_two_candidates_share_exact_constraints(plain):
    """Counts of a state's actions tell both the same: one constraint an action but the last."""
    found = prepare(
        plain.log(8, n_episodes=200, rewards="continuous"),
        plain.policies(9, 3),
        gamma=0.9,
        prior_sd=1e5,
        value_prior_sd=1e5,
    )
    sigma = covariance_of(found)
    values = np.linalg.eigvalsh(sigma)
    n_others, n_states, n_actions = 2, 4, 2
    assert (values < 1e-11 * values[-1]).sum() == n_others * n_states * (n_actions - 1)


# The copula.


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("small_sample", [False, True])
def test_the_copula_has_the_correlation_of_the_one_model(world, small_sample, cluster):
    logs, policies, gamma = world
    options = {
        "gamma": gamma,
        "small_sample": small_sample,
        "cluster": cluster,
        "inference": "exact",
    }
    oracle = one_model_posterior(prepare(logs, policies, **options).problem).correlation
    belief = bd.fit(logs, policies, rng_key=jax.random.key(4), **options)
    copula = belief["constant_data/correlation"].values
    drawn = np.corrcoef(belief["posterior/value"].values[0].T)
    assert np.abs(oracle - np.eye(len(oracle))).max() > 0.5
    assert np.abs(copula - oracle).max() < 0.05
    assert np.abs(drawn - oracle).max() < 0.05


# Repeated logs.


def repeat(env, behavior, policies, shape, gamma, n_logs):
    """Values' posterior means and one-model correlation of each log."""
    means, correlations = [], []
    for i in range(n_logs):
        key = jax.random.fold_in(jax.random.key(6), i)
        logs = bd.simulate(env, behavior, *shape, rng_key=key)
        problem = prepare(
            logs, policies, gamma=gamma, inference="exact", small_sample=False
        ).problem
        posterior = one_model_posterior(problem)
        means.append(posterior.mean[:, -1])
        correlations.append(posterior.correlation)
    return np.array(means), np.array(correlations)


def check_against_repeated_logs(means, correlations):
    n_logs = len(means)
    seen, claimed = np.corrcoef(means.T), correlations.mean(axis=0)
    error = np.sqrt(((1.0 - seen**2) ** 2 + correlations.var(axis=0)) / n_logs)
    upper = np.triu_indices(len(seen), 1)
    assert (np.abs(seen - claimed)[upper] < 4.5 * error[upper]).all()
    # Independence would be seen through.
    assert (np.abs(seen)[upper] > 10.0 * error[upper]).any()
    return seen, error


def test_values_of_a_bandit_err_together_over_repeated_logs_as_claimed():
    arms, pulled = np.array([0.2, 0.5, 0.8]), np.array([0.5, 0.3, 0.2])
    tables = np.array([[0.9, 0.1, 0.0], [0.5, 0.4, 0.1], [0.1, 0.2, 0.7], [0.0, 0.5, 0.5]])
    policies = bd.Policies({f"p{j}": bd.TabularPolicy(t[None]) for j, t in enumerate(tables)})
    env = envs.Bandit(arms)
    means, correlations = repeat(env, bd.TabularPolicy(pulled[None]), policies, (300, 1), 0.0, 300)
    seen, error = check_against_repeated_logs(means, correlations)
    # By pencil and paper: arms err independently, each by p (1 - p) over its number of pulls.
    covariance = (tables * (arms * (1.0 - arms) / pulled)) @ tables.T
    spread = np.sqrt(np.diagonal(covariance))
    expected = covariance / spread[:, None] / spread
    upper = np.triu_indices(4, 1)
    assert (np.abs(seen - expected)[upper] < 4.5 * error[upper]).all()
    np.testing.assert_allclose(correlations.mean(axis=0), expected, atol=0.01)


def test_values_of_a_garnet_err_together_over_repeated_logs_as_claimed():
    # All transitions that can be seen are seen in every log, so that one compilation serves all.
    env = envs.Garnet(3, 2, 2, seed=2)
    policies = bd.Policies(
        {
            f"p{j}": envs.garnet_policy(env, alpha, seed=j)
            for j, alpha in enumerate((0, 0.3, 0.6, 1))
        }
    )
    uniform = bd.TabularPolicy(np.full((3, 2), 0.5))
    means, correlations = repeat(env, uniform, policies, (20, 50), 0.95, 300)
    check_against_repeated_logs(means, correlations)


# The NumPyro program.


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_density_of_the_program_is_that_of_the_gaussian(plain, cluster):
    found = prepare(
        plain.log(8, rewards="continuous"), plain.policies(9, 3), gamma=0.9, cluster=cluster
    )
    posterior = one_model_posterior(found.problem)
    constraint = one_model_constraint(found.problem)
    values, axes = np.linalg.eigh(posterior.covariance)
    # Along the axes that are well within double precision and far above the ridge; the others
    # hold exactly, and stay where they are.
    free = values > 1e-7 * values[-1]
    assert 12 < free.sum() < len(values)
    z = 3.0 * np.random.default_rng(0).normal(size=(20, free.sum()))
    points = posterior.mean.ravel() + (z * np.sqrt(values[free])) @ axes[:, free].T
    log_gaussian = -0.5 * np.sum(z**2, axis=1)
    with jax.enable_x64(True):
        density = jax.jit(
            lambda given: log_density(
                partial(joint_model, inner="exact"), (found.problem.moments, constraint), {}, given
            )[0]
        )
        found_density = []
        for point in points:
            latent = point.reshape(posterior.mean.shape)
            given = {"zeta": latent[:, :-1], "value": latent[:, -1]}
            found_density.append(float(density(given)))
    assert np.ptp(log_gaussian) > 50.0
    assert np.ptp(found_density - log_gaussian) < 1e-3


def test_price_and_bound_of_the_program(plain):
    found = prepare(plain.log(8, rewards="continuous"), plain.policies(9, 3), gamma=0.9, xi=0.9)
    constraint = one_model_constraint(found.problem)
    n = found.logs.n_transitions
    assert float(constraint.price) == n
    rank = np.linalg.matrix_rank(covariance_of(found), hermitian=True)
    assert float(constraint.epsilon) == pytest.approx(chi2.ppf(0.9, rank) / (2 * n), rel=1e-9)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"penalty": "squared"}, "penalty"),
        ({"value_constraint": False}, "value_constraint"),
        ({"lam": 1.0}, "lam"),
    ],
)
@pytest.mark.parametrize("function", [one_model_posterior, one_model_constraint])
def test_what_the_one_model_does_not_hold_is_refused(plain, function, options, name):
    found = prepare(plain.log(8), plain.policies(9, 2), gamma=0.9, **options)
    with pytest.raises(SettingsError, match=f"^{name}: "):
        function(found.problem)
