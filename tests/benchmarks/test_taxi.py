"""The Taxi table: sparse beliefs are the library's own, and its rows are what `fit` gives."""

import jax
import numpy as np
import pytest
from scipy.stats import t as student_t

import bayesdice_ppl as bd
from bayesdice_ppl.fitting import flat_settings
from bayesdice_ppl.inference import run_pilot
from bayesdice_ppl.models import linear
from bayesdice_ppl.moments import build_moments, one_hot_features
from bayesdice_ppl.simulation import make_world
from benchmarks.layout import Setting
from benchmarks.sparse import believe_sparse
from benchmarks.taxi import SEED, Judged, judge, play_logs, run_size, summarize
from tests.marks import slow

FIELDS = {
    "mean": "guide_mean",
    "sd": "guide_sd",
    "df": "degrees_of_freedom",
    "moved": "moved_mass",
    "lost": "lost_mass",
}


def setting_in(world, n_episodes, max_steps, candidate=3):
    target = list(world.candidates.values())[candidate]
    return Setting(
        world.name, world.env, world.behavior, target, n_episodes, max_steps, world.gamma_hint
    )


def log_and_cells(setting, seed):
    """The same log twice: as `simulate` writes it, and counted."""
    key = jax.random.key(seed)
    (cells,) = play_logs(setting, key, 1)
    with jax.enable_x64(True):
        logs = bd.simulate(
            setting.env,
            setting.behavior,
            setting.n_episodes,
            setting.max_steps,
            rng_key=jax.random.split(key, 1)[0],
        )
    return logs, cells


def fitted(setting, logs):
    return bd.fit(
        logs,
        {"target": setting.target},
        gamma=setting.gamma,
        rng_key=jax.random.key(1),
        inference="exact",
        draws=2,
    )["constant_data"]


def dense_belief(cells, target, active, n_states, form):
    """The library's functions in their usual, dense form."""
    features = one_hot_features(cells, target, active, n_states)
    moments = build_moments(cells, features, form.moments)
    ratio = linear().build(cells, moments, form.prior)
    pilot = run_pilot(cells, ratio, form.moments)
    value = ratio.value_posterior(pilot.covariance, cells.n_transitions)
    return value.mean[-1], value.sd, pilot.degrees_of_freedom, pilot.by_pair


def candidate_on(cells, probabilities, *, kept_out=0):
    """Renormalized policy and active pairs, a few of which may be left out."""
    visits = np.bincount(cells.pair, cells.count, minlength=len(cells.pair_state))
    target = probabilities[cells.pair_state, cells.pair_action] * (visits > 0.0)
    total = np.bincount(cells.pair_state, target, minlength=len(probabilities))[cells.pair_state]
    target = np.divide(target, total, out=np.zeros_like(target), where=total > 0.0)
    active = (target > 0.0).astype(float)
    active[np.flatnonzero(active)[:kept_out]] = 0.0
    return target, active


@pytest.mark.parametrize(
    ("name", "episodes", "kept_out", "heavy"),
    [
        ("frozenlake", 10, 0, 100),
        slow("frozenlake", 50, 0, 3),
        slow("garnet", 5, 0, 100),
        ("garnet", 20, 3, 5),
    ],
)
def test_sparse_beliefs_equal_dense_ones(name, episodes, kept_out, heavy, monkeypatch):
    # Thousands of pairs are factored by Cholesky; here that is asked for.
    monkeypatch.setattr("bayesdice_ppl.models.gaussian.WIDE", 0)
    monkeypatch.setattr("benchmarks.sparse._HEAVY", heavy)
    setting = setting_in(make_world(name), episodes, 50)
    (cells,) = play_logs(setting, jax.random.key(2), 1)
    probabilities = setting.target.probabilities
    target, active = candidate_on(cells, probabilities, kept_out=kept_out)
    form = flat_settings(gamma=setting.gamma, inference="exact").form
    n_states = len(probabilities)
    found = believe_sparse(cells, target, active, n_states, form)
    mean, sd, df, ratio = dense_belief(cells, target, active, n_states, form)
    np.testing.assert_allclose([found.mean, found.sd, found.df], [mean, sd, df], rtol=1e-8)
    np.testing.assert_allclose(found.pilot, ratio, rtol=1e-8, atol=1e-8)


def test_what_has_no_sparse_form_is_refused():
    setting = setting_in(make_world("garnet"), 5, 50)
    (cells,) = play_logs(setting, jax.random.key(2), 1)
    target, active = candidate_on(cells, setting.target.probabilities)
    ended = cells._replace(terminated=np.ones_like(cells.terminated))
    for log, gamma in ((ended, 0.95), (cells, 1.0)):
        form = flat_settings(gamma=gamma, inference="exact").form
        with pytest.raises(ValueError, match="expected no termination"):
            believe_sparse(log, target, active, 20, form)


@pytest.mark.slow
def test_a_judgment_is_what_fit_computes():
    # So short a log that the candidate gets to states where it has nothing to go on.
    setting = setting_in(make_world("garnet"), 10, 8)
    logs, cells = log_and_cells(setting, 11)
    found, constants = judge(cells, setting), fitted(setting, logs)
    assert found.n_transitions == logs.n_transitions
    assert found.stranded
    assert constants["lost_mass"].item() > 0.0
    for field, constant in FIELDS.items():
        expected = constants[constant].item()
        np.testing.assert_allclose(getattr(found, field), expected, rtol=1e-6, atol=1e-12)


@pytest.mark.slow
def test_value_of_the_renormalized_candidate():
    world = make_world("garnet")
    setting = setting_in(world, 10, 20)
    logs, cells = log_and_cells(setting, 3)
    seen = np.zeros((20, 4), dtype=bool)
    seen[logs.state_labels[logs.state], logs.action_labels[logs.action]] = True
    policy = setting.target.probabilities * seen
    unseen = policy.sum(axis=1) == 0.0
    policy[unseen] = setting.target.probabilities[unseen]
    policy /= policy.sum(axis=1, keepdims=True)
    outcomes = world.env.outcomes
    value = np.zeros(20)
    for _ in range(2000):
        onward = outcomes.reward + setting.gamma * value[outcomes.next_state]
        value = np.sum(policy * np.sum(outcomes.probability * onward, axis=2), axis=1)
    expected = (1.0 - setting.gamma) * value.mean()
    found = judge(cells, setting)
    assert found.renormalized == pytest.approx(expected, rel=1e-10)
    assert found.moved > 0.0
    assert found.renormalized != pytest.approx(
        bd.true_value(world.env, setting.target, 0.95), rel=1e-3
    )


@pytest.mark.slow
def test_rows_are_made_of_fits():
    world = make_world("frozenlake")
    rows = run_size(world, 20, 50, 2)
    assert [row["policy"] for row in rows] == list(world.candidates)
    assert all(row["transitions"] == 1000 and row["trials"] == 2 for row in rows)
    setting = setting_in(world, 20, 50)
    truth = bd.true_value(world.env, setting.target, setting.gamma)
    mean, sd, held = [], [], []
    for key in jax.random.split(jax.random.key(SEED), 2):
        with jax.enable_x64(True):
            logs = bd.simulate(world.env, world.behavior, 20, 50, rng_key=key)
        constants = fitted(setting, logs)
        mean.append(constants["guide_mean"].item())
        sd.append(constants["guide_sd"].item())
        df = constants["degrees_of_freedom"].item()
        low, high = student_t.interval([0.5, 0.7, 0.8, 0.9, 0.95], df, mean[-1], sd[-1])
        held.append((low <= truth) & (truth <= high))
    row = rows[3]
    columns = [f"cov_{level}" for level in (50, 70, 80, 90, 95)]
    np.testing.assert_allclose([row[name] for name in columns], np.mean(held, axis=0))
    assert row["bias_sd"] == pytest.approx((np.mean(mean) - truth) / np.mean(sd), rel=1e-6)
    assert row["sd_ratio"] == pytest.approx(np.mean(sd) / np.std(mean), rel=1e-6)


def test_what_moving_does_is_told_from_what_chance_does():
    setting = setting_in(make_world("frozenlake"), 20, 50)
    truth = bd.true_value(setting.env, setting.target, setting.gamma)
    # Beliefs around the renormalized candidate's value, which is 3 sd away from the candidate's.
    off = student_t.ppf((np.arange(200) + 0.5) / 200, 8.0)
    judged = [
        Judged(
            mean=truth + 0.3 + 0.1 * one,
            sd=0.1,
            df=8.0,
            moved=0.01,
            lost=0.5 * (i < 4),
            stranded=i < 4,
            renormalized=truth + 0.3,
            pairs=30,
            degenerate=False,
            n_transitions=1000.0,
        )
        for i, one in enumerate(off)
    ]
    row = summarize(setting, "one", judged)
    assert row["bias_sd"] == pytest.approx(3.0)
    assert row["bias_of_moving"] == pytest.approx(3.0)
    assert row["mace_renormalized"] == pytest.approx(0.0, abs=1e-12)
    assert row["mace"] > 0.5
    assert row["passes"] is False
    assert (row["stranded"], row["lost_mean"], row["lost_max"]) == (0.02, 0.01, 0.5)


@pytest.mark.slow
@pytest.mark.parametrize("candidate", [0, 4])
def test_a_judgment_of_taxi_is_what_fit_computes(candidate):
    setting = setting_in(make_world("taxi"), 200, 100, candidate)
    logs, cells = log_and_cells(setting, 11)
    found, constants = judge(cells, setting), fitted(setting, logs)
    for field, constant in FIELDS.items():
        expected = constants[constant].item()
        np.testing.assert_allclose(getattr(found, field), expected, rtol=1e-6, atol=1e-12)
