"""The one model's joint belief: each candidate alone, copies, the copula, repeated logs."""

import jax
import numpy as np
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl import envs
from bayesdice_ppl.fitting import fit_flat
from bayesdice_ppl.inference import one_model_posterior
from bayesdice_ppl.inference.copula import correlation_matrix, influence_covariance
from bayesdice_ppl.simulation import make_world

# Minutes in all: run by make test-slow.
pytestmark = pytest.mark.slow

CLUSTERS = ("transition", "episode")


def alone(plain, found):
    """Mean and sd of (weights, value) of each candidate by itself, in closed form."""
    posterior = plain.solve(found, jax.random.key(0)).posterior
    factor = np.asarray(posterior.factor)
    return np.asarray(posterior.mean), np.sqrt((factor**2).sum(axis=-1))


def sds(posterior):
    return np.sqrt(np.diagonal(posterior.covariance)).reshape(posterior.mean.shape)


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
def test_under_a_wide_prior_each_candidate_keeps_its_own_posterior(plain, world, cluster):
    logs, policies, gamma = world
    found = plain.prepare(
        logs,
        policies,
        gamma=gamma,
        cluster=cluster,
        inference="exact",
        prior_sd=1e4,
        value_prior_sd=1e4,
    )
    mean, sd = alone(plain, found)
    posterior = one_model_posterior(found.problem)
    assert sd.min() > 0.0
    # Candidates meet through the prior alone, whose share here is of the order of 1e-8.
    assert np.abs((posterior.mean - mean) / sd).max() < 1e-5
    np.testing.assert_allclose(sds(posterior), sd, rtol=1e-5)


def test_under_the_usual_prior_values_keep_their_posteriors(plain, world):
    logs, policies, gamma = world
    found = plain.prepare(logs, policies, gamma=gamma, inference="exact")
    mean, sd = alone(plain, found)
    posterior = one_model_posterior(found.problem)
    assert np.abs((posterior.mean - mean) / sd)[:, -1].max() < 0.03
    np.testing.assert_allclose(sds(posterior)[:, -1], sd[:, -1], rtol=0.01)


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_one_candidate_has_its_own_posterior(plain, cluster):
    found = plain.prepare(
        plain.log(8), plain.policies(9, 1), gamma=0.9, cluster=cluster, inference="exact"
    )
    mean, sd = alone(plain, found)
    posterior = one_model_posterior(found.problem)
    np.testing.assert_allclose(posterior.mean, mean, rtol=1e-8)
    np.testing.assert_allclose(sds(posterior), sd, rtol=1e-8)
    np.testing.assert_array_equal(posterior.correlation, [[1.0]])


def test_correlation_is_that_of_the_values_in_the_covariance(plain):
    posterior = one_model_posterior(
        plain.prepare(plain.log(8), plain.policies(9, 3), gamma=0.9).problem
    )
    n_latent = posterior.mean.shape[1]
    for j in range(3):
        for k in range(3):
            at, other = (j + 1) * n_latent - 1, (k + 1) * n_latent - 1
            spread = np.sqrt(posterior.covariance[at, at] * posterior.covariance[other, other])
            expected = posterior.covariance[at, other] / spread
            assert posterior.correlation[j, k] == pytest.approx(expected, abs=1e-12)


# Candidates that are the same.


@pytest.mark.parametrize(
    ("cluster", "small_sample"), [("transition", True), ("transition", False), ("episode", True)]
)
def test_a_candidate_given_twice_moves_with_itself_and_changes_no_other(
    plain, cluster, small_sample
):
    logs, three = plain.log(8), plain.policies(9, 3)
    options = {
        "gamma": 0.9,
        "cluster": cluster,
        "small_sample": small_sample,
        "prior_sd": 1e4,
        "value_prior_sd": 1e4,
    }
    four = bd.Policies({**three, "again": three["p1"]})
    found = plain.prepare(logs, four, **options)
    posterior = one_model_posterior(found.problem)
    fewer = one_model_posterior(plain.prepare(logs, three, **options).problem)
    same = [0, 1, 2, 1]
    np.testing.assert_allclose(posterior.correlation, fewer.correlation[same][:, same], atol=1e-6)
    assert posterior.correlation[1, 3] == pytest.approx(1.0, abs=1e-9)
    np.testing.assert_allclose(posterior.mean, fewer.mean[same], rtol=1e-5)
    np.testing.assert_allclose(sds(posterior), sds(fewer)[same], rtol=1e-5)


def test_many_candidates_go_the_way_for_many_rows(plain):
    """More than 512 rows are factored by Cholesky: those that were there must not move."""
    made, n_episodes, n_steps, gamma = small_worlds()["garnet"]
    logs = bd.simulate(made.env, made.behavior, n_episodes, n_steps, rng_key=jax.random.key(3))
    more = {f"other_{j}": envs.garnet_policy(made.env, 0.5, seed=10 + j) for j in range(2)}
    options = {"gamma": gamma, "prior_sd": 1e3, "value_prior_sd": 1e3}
    few = one_model_posterior(plain.prepare(logs, made.candidates, **options).problem)
    every = bd.Policies({**made.candidates, **more})
    found = plain.prepare(logs, every, **options)
    n, (_, n_rows, _) = len(made.candidates), found.problem.ratio.matrix.shape
    assert n * n_rows < 512 < len(every) * n_rows
    many = one_model_posterior(found.problem)
    np.testing.assert_allclose(many.correlation[:n, :n], few.correlation, rtol=0, atol=1e-5)
    off = (many.mean[:n] - few.mean)[:, -1] / sds(few)[:, -1]
    assert np.abs(off).max() < 1e-4


COPIED_PULLS = {
    "wider": [(0, 1.0)] * 3 + [(0, 0.0)] * 5 + [(1, 1.0)] * 4 + [(1, 0.0)] * 2,
    # One arm holds all the scatter, which the rule would shrink; it leaves a variance as it is.
    "as it is": [(0, 9.0), (0, -9.0)] + [(1, 0.0)] * 40,
}


@pytest.mark.parametrize("pulls", COPIED_PULLS.values(), ids=COPIED_PULLS)
def test_the_small_sample_rule_widens_copies_together(plain, pulls):
    table = np.array([0.6, 0.4])
    policies = bd.Policies({name: bd.TabularPolicy(table[None]) for name in "ab"})
    found = plain.prepare(
        plain.bandit(pulls), policies, gamma=0.0, prior_sd=1e4, value_prior_sd=1e4
    )
    arms = [np.array([r for a, r in pulls if a == arm]) for arm in (0, 1)]
    n_a = np.array([len(x) for x in arms])
    scatter = n_a * [x.var() for x in arms]
    plain_variance = np.sum(table**2 * scatter / n_a**2)
    pool = scatter.sum() / (n_a - 1).sum()
    shrunk = np.sum(table**2 * (scatter + 2 * pool) / (n_a + 1) / n_a)
    posterior = one_model_posterior(found.problem)
    assert posterior.correlation[0, 1] == pytest.approx(1.0, abs=1e-9)
    expected = np.sqrt(max(shrunk, plain_variance))
    np.testing.assert_allclose(sds(posterior)[:, -1], expected, rtol=1e-5)


# The copula.


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("small_sample", [False, True])
def test_the_copula_has_the_correlation_of_the_one_model(plain, world, small_sample, cluster):
    oracle, copula, drawn = three_correlations(plain, world, small_sample, cluster)
    assert np.abs(oracle - np.eye(len(oracle))).max() > 0.5
    assert np.abs(copula - oracle).max() < 0.05
    assert np.abs(drawn - oracle).max() < 0.05


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize(("name", "n_episodes", "n_steps"), [("bandit", 60, 1), ("garnet", 20, 30)])
def test_the_copula_has_the_correlation_of_the_one_model_of_a_small_log(
    plain, name, n_episodes, n_steps, cluster
):
    made, _, _, gamma = small_worlds()[name]
    logs = bd.simulate(made.env, made.behavior, n_episodes, n_steps, rng_key=jax.random.key(3))
    oracle, copula, drawn = three_correlations(plain, (logs, made.candidates, gamma), True, cluster)
    assert np.abs(oracle - np.eye(len(oracle))).max() > 0.5
    assert np.abs(copula - oracle).max() < 0.05
    assert np.abs(drawn - oracle).max() < 0.05


def three_correlations(plain, world, small_sample, cluster):
    """Of the one model, of the copula, and of the belief's own draws."""
    logs, policies, gamma = world
    options = {
        "gamma": gamma,
        "small_sample": small_sample,
        "cluster": cluster,
        "inference": "exact",
    }
    oracle = one_model_posterior(plain.prepare(logs, policies, **options).problem).correlation
    belief = fit_flat(logs, policies, rng_key=jax.random.key(4), **options)
    copula = belief["constant_data/correlation"].values
    return oracle, copula, np.corrcoef(belief["posterior/value"].values[0].T)


# Repeated logs.


def repeat(plain, env, behavior, policies, shape, gamma, n_logs):
    """Values' posterior means and one-model correlation of each log."""
    means, correlations = [], []
    for i in range(n_logs):
        key = jax.random.fold_in(jax.random.key(6), i)
        logs = bd.simulate(env, behavior, *shape, rng_key=key)
        problem = plain.prepare(
            logs, policies, gamma=gamma, inference="exact", small_sample=False
        ).problem
        posterior = one_model_posterior(problem)
        means.append(posterior.mean[:, -1])
        correlations.append(posterior.correlation)
    return np.array(means), np.array(correlations)


def over_repeated_logs(means, correlations):
    """Correlation of the means, its standard error, and of each pair the errors that the claimed
    correlation and that independence are off."""
    n_logs = len(means)
    seen, claimed = np.corrcoef(means.T), correlations.mean(axis=0)
    error = np.sqrt(((1.0 - seen**2) ** 2 + correlations.var(axis=0)) / n_logs)
    upper = np.triu_indices(len(seen), 1)
    return seen, error, np.abs(seen - claimed)[upper] / error[upper], (np.abs(seen) / error)[upper]


def bandit():
    """(rates of the arms, share of the pulls of each, candidates' probabilities of each)."""
    tables = [[0.9, 0.1, 0.0], [0.5, 0.4, 0.1], [0.1, 0.2, 0.7], [0.0, 0.5, 0.5]]
    return np.array([0.2, 0.5, 0.8]), np.array([0.5, 0.3, 0.2]), np.array(tables)


@pytest.mark.slow
def test_values_of_a_bandit_err_together_over_repeated_logs_as_claimed(plain):
    arms, pulled, tables = bandit()
    policies = bd.Policies({f"p{j}": bd.TabularPolicy(t[None]) for j, t in enumerate(tables)})
    env = envs.Bandit(arms)
    means, correlations = repeat(
        plain, env, bd.TabularPolicy(pulled[None]), policies, (300, 1), 0.0, 300
    )
    seen, error, off, independent = over_repeated_logs(means, correlations)
    assert off.max() < 4.5
    assert independent.max() > 10.0
    # By pencil and paper: arms err independently, each by p (1 - p) over its number of pulls.
    covariance = (tables * (arms * (1.0 - arms) / pulled)) @ tables.T
    spread = np.sqrt(np.diagonal(covariance))
    expected = covariance / spread[:, None] / spread
    upper = np.triu_indices(4, 1)
    assert (np.abs(seen - expected)[upper] < 4.5 * error[upper]).all()
    np.testing.assert_allclose(correlations.mean(axis=0), expected, atol=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("n", [30, 60])
def test_small_sample_rule_brings_the_copula_closer_to_repeated_small_logs(plain, n):
    """Mean error of the mean correlation over 300 logs: 0.114 to 0.059 at n = 30, 0.057 to 0.045
    at 60; root mean square error of one log's: 0.194 to 0.097, and 0.098 to 0.068."""
    arms, pulled, tables = bandit()
    policies = bd.Policies({f"p{j}": bd.TabularPolicy(t[None]) for j, t in enumerate(tables)})
    env, behavior = envs.Bandit(arms), bd.TabularPolicy(pulled[None])
    covariance = jax.jit(influence_covariance, static_argnames="small_sample")
    means, claims = [], {False: [], True: []}
    for i in range(300):
        logs = bd.simulate(env, behavior, n, 1, rng_key=jax.random.fold_in(jax.random.key(6), i))
        problem = plain.prepare(logs, policies, gamma=0.0).problem
        means.append(np.asarray(problem.pilots.value))
        with jax.enable_x64(True):
            for rule, claimed in claims.items():
                found = covariance(problem.cells, problem.pilots, small_sample=rule)
                claimed.append(correlation_matrix(np.asarray(found)))
    seen, _, distance, independent = over_repeated_logs(np.array(means), np.array(claims[True]))
    assert distance.max() < 4.5
    assert independent.max() > 10.0
    upper = np.triu_indices(len(tables), 1)
    off = {rule: (np.array(claimed) - seen)[:, *upper] for rule, claimed in claims.items()}
    gained = (off[False] ** 2 - off[True] ** 2).mean(axis=1)
    assert gained.mean() > 5.0 * gained.std() / np.sqrt(len(gained))
    mean_error = {rule: np.abs(x.mean(axis=0)).mean() for rule, x in off.items()}
    assert mean_error[True] < mean_error[False]


@pytest.mark.slow
def test_values_of_a_garnet_err_together_over_repeated_logs_as_claimed(plain):
    # All transitions that can be seen are seen in every log, so that one compilation serves all.
    env = envs.Garnet(3, 2, 2, seed=2)
    policies = bd.Policies(
        {
            f"p{j}": envs.garnet_policy(env, alpha, seed=j)
            for j, alpha in enumerate((0, 0.3, 0.6, 1))
        }
    )
    uniform = bd.TabularPolicy(np.full((3, 2), 0.5))
    means, correlations = repeat(plain, env, uniform, policies, (20, 50), 0.95, 300)
    _, _, off, independent = over_repeated_logs(means, correlations)
    assert off.max() < 4.5
    assert independent.max() > 10.0
