"""The one model's covariance and program: against loops over transitions, and the Gaussian."""

from functools import partial

import jax
import numpy as np
import pytest
from numpyro.infer.util import log_density
from scipy.stats import chi2

import bayesdice_ppl as bd
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.inference import (
    one_model_constraint,
    one_model_posterior,
    stacked_covariance,
)
from bayesdice_ppl.models import joint_model
from bayesdice_ppl.simulation import make_world
from tests.marks import first_few, slow

CLUSTERS = ("transition", "episode")


def covariance_of(found):
    problem = found.problem
    with jax.enable_x64(True):
        return np.asarray(
            stacked_covariance(
                problem.cells,
                problem.ratio,
                problem.pilots,
                by_episode=found.inputs.settings.form.by_episode,
            )
        )


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
    [slow(0.0, "restart"), (0.9, "restart"), slow(0.9, "absorb"), slow(1.0, "restart")],
)
def test_cross_covariance_equals_loops_over_transitions(plain, gamma, on_termination, cluster):
    logs, policies = plain.log(8, rewards="continuous"), plain.policies(9, 3)
    found = plain.prepare(
        logs,
        policies,
        gamma=gamma,
        on_termination=on_termination,
        cluster=cluster,
        small_sample=False,
    )
    restart = on_termination == "restart"
    oracles = [plain.problem(logs, p, gamma=gamma, restart=restart) for p in policies.values()]
    weights = np.asarray(found.problem.pilots.by_pair)
    expected = loops(oracles, weights, logs.reward.mean(), by_episode=cluster == "episode")
    assert np.abs(expected).max() > 0.1
    # Rounding leaves the value's entry less: action values of 1 / (1 - gamma) cancel in it.
    np.testing.assert_allclose(covariance_of(found), expected, rtol=0, atol=1e-10)


def hidden_by_loops(found):
    """The small-sample rule's part of Sigma: for two policies at a time, a loop over pairs."""
    pilots = found.problem.pilots
    inputs, pairs = found.inputs, found.inputs.pairs
    deltas = np.asarray(pilots.error)[:, inputs.cell_of_row] + inputs.logs.reward
    n_policies, n = deltas.shape
    rows_of = [np.flatnonzero(pairs.of_row == p) for p in range(len(pairs.state))]
    before, after = np.zeros((2, n_policies, n_policies))
    for j in range(n_policies):
        for k in range(n_policies):
            scatter = []
            for rows in rows_of:
                x, y = deltas[j, rows], deltas[k, rows]
                scatter.append(np.sum(x * y) - np.sum(x) * np.sum(y) / len(rows))
            pool = sum(scatter) / sum(len(rows) - 1 for rows in rows_of)
            for p, rows in enumerate(rows_of):
                visits = len(rows)
                d = np.asarray(pilots.by_pair)[[j, k], p] * visits / n
                before[j, k] += d[0] * d[1] * scatter[p] / visits**2
                after[j, k] += d[0] * d[1] * (scatter[p] + 2 * pool) / (visits + 1) / visits
    return n * (after - before)


@pytest.mark.parametrize("cluster", first_few(CLUSTERS, 1))
def test_small_sample_rule_adds_its_cross_products_to_the_values_alone(plain, cluster):
    options = {"gamma": 0.9, "cluster": cluster}
    found = plain.prepare(plain.log(8), plain.policies(9, 3), **options)
    without = plain.prepare(plain.log(8), plain.policies(9, 3), small_sample=False, **options)
    pilots = np.asarray(found.problem.pilots.covariance)
    n_rows = pilots.shape[-1]
    sigma = covariance_of(found)
    for j, own in enumerate(pilots):
        block = slice(j * n_rows, (j + 1) * n_rows)
        np.testing.assert_allclose(sigma[block, block], own, rtol=0, atol=1e-12)
    added = sigma - covariance_of(without)
    values = np.ix_(*[np.arange(n_rows - 1, len(sigma), n_rows)] * 2)
    expected = hidden_by_loops(found)
    # No variance falls, so that what the pilots leave as it is does not come in.
    assert (np.diagonal(expected) > 0.0).all()
    np.testing.assert_allclose(added[values], expected, rtol=1e-8, atol=1e-12)
    added[values] = 0.0
    assert (added == 0.0).all()


def test_value_of_a_bandit_equals_pencil_and_paper(plain):
    pulls = [(0, r) for r in (0.0, 1.0, 1.0, 4.0)] + [(1, r) for r in (2.0, 3.0, 5.0)]
    tables = np.array([[0.5, 0.5], [0.9, 0.1], [0.0, 1.0]])
    policies = bd.Policies({f"p{j}": bd.TabularPolicy(t[None]) for j, t in enumerate(tables)})
    found = plain.prepare(
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


def test_any_two_candidates_share_exact_constraints(plain):
    """Counts of a state's actions tell both the same: one constraint an action but the last."""
    found = plain.prepare(
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


# The NumPyro program.


@pytest.mark.parametrize("cluster", first_few(CLUSTERS, 1))
def test_density_of_the_program_is_that_of_the_gaussian(plain, cluster):
    found = plain.prepare(
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
                partial(joint_model, inner="exact"), (found.problem.ratio, constraint), {}, given
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
    found = plain.prepare(
        plain.log(8, rewards="continuous"), plain.policies(9, 3), gamma=0.9, xi=0.9
    )
    constraint = one_model_constraint(found.problem)
    n = found.inputs.logs.n_transitions
    assert float(constraint.price) == n
    rank = np.linalg.matrix_rank(covariance_of(found), hermitian=True)
    assert float(constraint.epsilon) == pytest.approx(chi2.ppf(0.9, rank) / (2 * n), rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("cluster", ["transition", slow("episode")])
def test_program_stands_where_the_small_sample_rule_narrows_a_difference(plain, cluster):
    """On FrozenLake, whose rewards follow from the successors: Sigma falls below zero."""
    lake = make_world("frozenlake", alpha=0.0, candidates=(0.2, 0.5, 0.75, 0.9))
    logs = bd.simulate(lake.env, lake.behavior, 20, 30, rng_key=jax.random.key(3))
    found = plain.prepare(logs, lake.candidates, gamma=0.99, cluster=cluster)
    sigma = covariance_of(found)
    constraint = one_model_constraint(found.problem)
    factor = np.asarray(constraint.penalty.factor)
    live = np.asarray(constraint.penalty.rows) > 0.0
    sd = np.sqrt(np.diagonal(sigma)[live])
    unit, held = (x[np.ix_(live, live)] / sd[:, None] / sd for x in (sigma, factor @ factor.T))
    below = np.linalg.eigvalsh(unit)[0]
    assert below < -1e-9
    # What is put at zero moves no entry by more than it was below zero, and the ridge.
    assert np.abs(held - unit).max() < -below + 1e-8


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
    found = plain.prepare(plain.log(8), plain.policies(9, 2), gamma=0.9, **options)
    with pytest.raises(SettingsError, match=f"^{name}: "):
        function(found.problem)
