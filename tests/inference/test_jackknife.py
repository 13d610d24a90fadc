"""The delete-a-group jackknife against refits of shorter logs, row by row in plain NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.fitting import FitSettings, prepare_fit
from bayesdice_ppl.inference.jackknife import (
    deal_groups,
    jackknife_variance,
    left_out_values,
    widened,
)
from bayesdice_ppl.policies import GaussianPolicy

GAMMA, EPISODES, GROUPS = 0.8, 24, 6


def log(seed):
    """Episodes of unequal length on the line; about one step in eight ends its episode."""
    rng = np.random.default_rng(seed)
    rows = []
    for episode in range(EPISODES):
        x = rng.normal()
        for step in range(int(rng.integers(3, 12))):
            action = 0.5 * x + rng.normal()
            after = 0.6 * x + 0.5 * action + 0.3 * rng.normal()
            ended = bool(rng.random() < 0.12)
            rows.append([episode, step, x, action, after, x - action**2 + rng.normal(), ended])
            if ended:
                break
            x = after
    names = ["episode_id", "step", "obs_0", "action_0", "next_obs_0", "reward", "terminated"]
    return pl.DataFrame(rows, schema=names, orient="row")


POLICIES = {
    "near": GaussianPolicy(lambda obs: 0.4 * obs, 0.9),
    "far": GaussianPolicy(lambda obs: 0.1 * obs + 0.3, 0.7),
}


@pytest.fixture(scope="module", params=["restart", "absorb"])
def fitted(request):
    logs = bd.Logs.from_dataframe(log(4))
    settings = FitSettings(
        GAMMA,
        features=bd.features.polynomial(2),
        on_termination=request.param,
        inference="exact",
        cluster="episode",
        numerics=bd.Numerics(jackknife=0),
    )
    return prepare_fit(logs, POLICIES, settings, jax.random.key(0)), request.param == "restart"


def plain_value(prepared, j, weights, point, kept, *, restart):
    """Value on some episodes by the formulas of the method; Sigma at a given ratio."""
    inputs = prepared.inputs
    cells, form = inputs.cells, inputs.settings.form
    basis, tests = np.asarray(cells.basis), np.asarray(cells.pair_features)
    at_state = np.asarray(inputs.candidates.at_state)[j]
    live = [c for c in range(len(cells.count)) if cells.count[c] > 0 and kept[cells.episode[c]]]
    rewards = inputs.logs.reward
    center = rewards.mean()
    episodes = np.flatnonzero(kept)
    start = at_state[cells.initial_state[episodes]]
    start_mean = start.mean(axis=0)
    whole_mean = at_state[cells.initial_state].mean(axis=0)
    n, m = len(live), len(episodes)

    def rows(mean):
        found = []
        for c in live:
            ended = cells.terminated[c]
            after = (1 - ended) * at_state[cells.successor[c]] + restart * ended * mean
            mass = 1.0 if restart else 1.0 + GAMMA / (1 - GAMMA) * ended
            # With absorption the reward counts from 0, and its mean with the mass.
            reward = cells.reward_sum[c] - center * mass
            found.append([*(GAMMA * after - tests[cells.pair[c]]), mass, reward])
        return np.array(found)

    design = rows(start_mean)
    hat = np.array([basis[cells.pair[c]] for c in live])
    matrix = design.T @ hat / n
    constant = np.r_[(1 - GAMMA) * start_mean, -1.0, center]
    ratio = hat @ weights
    ended = np.array([cells.terminated[c] for c in live])
    entry = (1 - GAMMA) + restart * GAMMA * (ended @ ratio) / n
    # Sigma keeps the restarts of the whole log in its rows.
    terms = rows(whole_mean) * ratio[:, None]
    sigma = np.cov(terms.T, ddof=0)
    d = tests.shape[1]
    sigma[:d, :d] += (n / m) * entry**2 * np.cov(start.T, ddof=0)
    live_rows = np.flatnonzero(np.any(matrix != 0.0, axis=1) | (np.arange(len(matrix)) >= d))
    prior = prepared.inputs.settings.prior
    size = np.sqrt((basis**2).sum() / basis[:, 0].sum())
    scale = np.full(basis.shape[1], prior.ratio_sd / size)
    spread = rewards.std() if restart else np.sqrt(np.mean(rewards**2))
    mean = np.r_[1.0, np.zeros(basis.shape[1] - 1), center]
    deviations = np.r_[scale, spread * prior.value_sd]
    assert form.moments.centered
    joined = np.column_stack([matrix, np.zeros(len(matrix))])
    joined[-1, -1] = -1.0
    joined, constant, sigma = (
        joined[live_rows],
        constant[live_rows],
        sigma[np.ix_(live_rows, live_rows)],
    )
    innovation = (joined * deviations**2) @ joined.T + sigma / n
    gain = np.linalg.solve(innovation, (joined * deviations**2)).T
    return (mean - gain @ (joined @ mean + constant))[-1]


def left_out(groups):
    """1 for the episodes of each group, a row each."""
    mask = np.zeros((len(groups.episode), EPISODES))
    for own, episode, there in zip(mask, groups.episode, groups.started, strict=True):
        own[episode[there > 0.0]] += 1.0
    return mask


def test_each_value_is_that_of_a_log_without_the_group(fitted):
    prepared, restart = fitted
    cells, form = prepared.inputs.cells, prepared.inputs.settings.form
    groups = deal_groups(cells, GROUPS)
    for j in range(len(POLICIES)):
        with jax.enable_x64(True):
            ratio, _, _ = prepared.problem.of(j)
            covariance = prepared.problem.pilots.covariance[j]
            point = ratio.value_posterior(jnp.asarray(covariance), cells.n_transitions).mean
            found = left_out_values(cells, ratio, point, groups, form.moments)
        weights = np.asarray(point)[:-1]
        expected = [
            plain_value(prepared, j, weights, point, own == 0.0, restart=restart)
            for own in left_out(groups)
        ]
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_groups_share_out_every_transition_once(fitted):
    cells = fitted[0].inputs.cells
    groups = deal_groups(cells, GROUPS)
    episodes = left_out(groups)
    np.testing.assert_array_equal(episodes.sum(axis=0), 1.0)
    assert groups.started.sum() == EPISODES
    counted = groups.cell[groups.counted > 0.0]
    np.testing.assert_array_equal(np.sort(counted), np.flatnonzero(cells.count))
    for own, cell, here in zip(episodes, groups.cell, groups.counted, strict=True):
        assert own[cells.episode[cell[here > 0.0]]].all()
    sizes = [cells.count[cell[here > 0]].sum() for cell, here in zip(*groups[:2], strict=True)]
    assert max(sizes) - min(sizes) <= 12
    assert len(deal_groups(cells, 99).episode) == EPISODES


def test_of_a_mean_it_is_the_variance_of_a_mean():
    values = np.random.default_rng(1).normal(size=40)
    without = (values.sum() - values) / 39
    with jax.enable_x64(True):
        found = jackknife_variance(jnp.asarray(without))
    np.testing.assert_allclose(found, values.var(ddof=1) / 40, rtol=1e-10)


def test_the_jackknife_counts_a_quadratic_part_twice():
    """The mean of m normals, plus c times the mean product of two of them."""
    m, c, n_logs = 20, 3.0, 20_000
    x = np.random.default_rng(2).normal(size=(n_logs, m))

    def estimate(x):
        size = x.shape[-1]
        total, squares = x.sum(-1), (x**2).sum(-1)
        return total / size + c * (total**2 - squares) / (size * (size - 1))

    without = np.stack([estimate(np.delete(x, i, axis=1)) for i in range(m)], axis=1)
    with jax.enable_x64(True):
        found = np.asarray(jackknife_variance(jnp.asarray(without)))
    linear, quadratic = 1.0 / m, 2.0 * c**2 / (m * (m - 1))
    squares = (estimate(x) - estimate(x).mean()) ** 2
    error = squares.std() / np.sqrt(n_logs)
    np.testing.assert_allclose(squares.mean(), linear + quadratic, rtol=0, atol=5.0 * error)
    # Without one of m there are m - 1, and so is the size that the jackknife speaks of.
    twice = linear + 2.0 * quadratic * (m - 1) / (m - 2)
    error = found.std() / np.sqrt(n_logs)
    np.testing.assert_allclose(found.mean(), twice, rtol=0, atol=5.0 * error)


def test_a_belief_is_widened_and_never_narrowed(fitted):
    prepared, _ = fitted
    cells, form = prepared.inputs.cells, prepared.inputs.settings.form
    with jax.enable_x64(True):
        groups = deal_groups(cells, 25)
        for j in range(len(POLICIES)):
            ratio, _, _ = prepared.problem.of(j)
            pilot = jax.tree.map(lambda x, j=j: x[j], prepared.problem.pilots)
            before = ratio.value_posterior(pilot.covariance, cells.n_transitions)
            values = left_out_values(cells, ratio, before.mean, groups, form.moments)
            wide = widened(cells, ratio, pilot, groups, form.moments)
            after = ratio.value_posterior(wide.covariance, cells.n_transitions)
            own, found = float(before.sd) ** 2, float(jackknife_variance(values))
            expected = max(own, (own + found) / 2.0)
            np.testing.assert_allclose(float(after.sd) ** 2, expected, rtol=2e-3)
