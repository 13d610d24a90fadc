"""The Taxi table: counts without a log give what the library gives from the log's rows."""

import jax
import numpy as np
import polars as pl
import pytest
from scipy.stats import t as student_t

import bayesdice_ppl as bd
from bayesdice_ppl.fitting import FitSettings
from bayesdice_ppl.fitting.inputs import Prepared
from bayesdice_ppl.fitting.prepare import read_inputs
from bayesdice_ppl.fitting.support import measure_support
from bayesdice_ppl.inference import prepare_values
from bayesdice_ppl.models import ValueAlone
from bayesdice_ppl.simulation import make_world, sample_transitions
from benchmarks.layout import Setting
from benchmarks.taxi import SEED, Judged, judge, play_logs, run_size, summarize

FIELDS = ("mean", "sd", "df", "moved", "lost")


def setting_in(world, n_episodes, max_steps, candidate=3):
    target = list(world.candidates.values())[candidate]
    return Setting(
        world.name, world.env, world.behavior, target, n_episodes, max_steps, world.gamma_hint
    )


def logs_of(setting, keys):
    """The logs that `play_logs` counts, row by row."""
    found = []
    for key in keys:
        with jax.enable_x64(True):
            played = sample_transitions(
                setting.env.outcomes,
                setting.env.initial_distribution,
                setting.behavior.probabilities,
                setting.n_episodes,
                setting.max_steps,
                key,
            )
        played = jax.tree.map(np.asarray, played)
        episode, step = np.nonzero(played.logged)
        names = ("state", "action", "reward", "next_state", "terminated")
        rows = {name: getattr(played, name)[episode, step] for name in names}
        frame = pl.DataFrame({"episode_id": episode, "step": step, **rows})
        found.append(bd.Logs.from_dataframe(frame))
    return found


def log_and_cells(setting, seed):
    """The same log twice: row by row, and counted."""
    key = jax.random.key(seed)
    (cells,) = play_logs(setting, key, 1)
    return logs_of(setting, jax.random.split(key, 1))[0], cells


def fitted(setting, logs):
    """What the library says of the value from the log's rows, before their tails are looked at."""
    settings = FitSettings(setting.gamma, inference="exact")
    inputs = read_inputs(logs, {"target": setting.target}, settings)
    problem = prepare_values(inputs.cells, inputs.candidates, settings.form)
    support = measure_support(Prepared(inputs, problem))
    (price,) = problem.constraint.price
    ratio = ValueAlone(*(field[0] for field in problem.ratio))
    posterior = ratio.posterior(problem.pilots.covariance[0], price)
    return {
        "mean": posterior.mean[0],
        "sd": posterior.factor[0, 0],
        "df": problem.pilots.degrees_of_freedom[0],
        "moved": support.moved_mass[0],
        "lost": support.lost_mass[0],
    }


@pytest.mark.slow
def test_a_judgment_is_what_fit_computes():
    # So short a log that the candidate gets to states where it has nothing to go on.
    setting = setting_in(make_world("garnet"), 10, 8)
    logs, cells = log_and_cells(setting, 11)
    found, constants = judge(cells, setting), fitted(setting, logs)
    assert found.n_transitions == logs.n_transitions
    assert found.stranded
    assert constants["lost"] > 0.0
    for field in FIELDS:
        np.testing.assert_allclose(getattr(found, field), constants[field], rtol=1e-6, atol=1e-9)


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
    for logs in logs_of(setting, jax.random.split(jax.random.key(SEED), 2)):
        constants = fitted(setting, logs)
        mean.append(constants["mean"])
        sd.append(constants["sd"])
        df = constants["df"]
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
    for field in FIELDS:
        np.testing.assert_allclose(getattr(found, field), constants[field], rtol=1e-6, atol=1e-9)
