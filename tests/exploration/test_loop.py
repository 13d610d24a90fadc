"""The loop: rows, logs, regret, and runs that go on."""

import gymnasium
import jax
import numpy as np
import pytest

from bayesdice_ppl.envs import Bandit, Garnet, RiverSwim
from bayesdice_ppl.errors import EnvironmentSpecError, OutputError, SettingsError
from bayesdice_ppl.exploration import bayesdice, explore, psrl, q_learning
from bayesdice_ppl.models import pair_prior
from tests.exploration_worlds import best_value, value_of

KEY = jax.random.key(3)


def go(env=None, explorer=None, **changed):
    given = {"rounds": 6, "steps": 20, "gamma": 0.9, "rewards": pair_prior(0.0, 1.0)}
    return explore(env or RiverSwim(4), explorer or psrl(), rng_key=KEY, **given | changed)


def test_regret_is_exact():
    env = RiverSwim(4)
    done = go(env)
    values = [value_of(env, policy, 0.9) for policy in done.policies]
    assert done.best == pytest.approx(best_value(env, 0.9))
    np.testing.assert_allclose(done.rounds["value"], values)
    np.testing.assert_allclose(
        done.rounds["regret"], np.cumsum(20 * (done.best - np.array(values)))
    )


def test_every_step_is_in_the_log():
    done = go()
    assert done.logs.n_transitions == 120
    assert done.logs.n_episodes == 6
    assert done.logs.propensity is not None
    frame = done.logs.to_dataframe()
    assert frame["reward"].mean() == pytest.approx(done.rounds["reward"].mean())
    assert np.all(done.logs.truncated.reshape(6, 20)[:, -1])


@pytest.mark.parametrize("explorer", [bayesdice(), q_learning()], ids=lambda one: one.name)
def test_a_run_that_was_killed_goes_on_to_the_same_curve(explorer, tmp_path):
    whole = go(explorer=explorer)
    go(explorer=explorer, rounds=3, folder=tmp_path / "run")
    # Killed between the two files of a round.
    (tmp_path / "run" / "rounds" / "00003.json").unlink()
    again = go(explorer=explorer, folder=tmp_path / "run")
    for name in ("reward", "mean", "sd", "score", "value", "regret"):
        assert again.rounds[name].to_list() == whole.rounds[name].to_list()
    np.testing.assert_array_equal(again.policies, whole.policies)
    assert again.logs.to_dataframe().equals(whole.logs.to_dataframe())


def test_a_folder_of_another_run_is_refused(tmp_path):
    go(rounds=2, folder=tmp_path / "run")
    with pytest.raises(OutputError, match=r"expected a run with gamma = 0\.8, found one with 0\.9"):
        go(gamma=0.8, folder=tmp_path / "run")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("mine")
    with pytest.raises(OutputError, match="expected an empty folder or a run"):
        go(folder=tmp_path / "mine")


def test_a_folder_without_a_round_takes_other_settings(tmp_path):
    """Such as after a range that did not hold all rewards."""
    narrow = pair_prior(0.0, 0.001)
    with pytest.raises(EnvironmentSpecError, match="Give a range that holds all rewards"):
        go(rewards=narrow, folder=tmp_path / "run")
    assert go(folder=tmp_path / "run").logs.n_transitions == 120


def test_a_round_that_cannot_be_read_is_named(tmp_path):
    whole = go(rounds=2, folder=tmp_path / "run")
    rows = tmp_path / "run" / "rounds" / "00002.parquet"
    rows.write_bytes(b"half")
    with pytest.raises(OutputError, match=r"00002\.parquet.*Delete 00002\.json"):
        go(rounds=2, folder=tmp_path / "run")
    rows.with_suffix(".json").unlink()
    again = go(rounds=2, folder=tmp_path / "run")
    assert again.logs.to_dataframe().equals(whole.logs.to_dataframe())


def test_terminations_start_anew():
    """Every step ends the episode with probability 0.3; the successor is then a start."""
    env = Garnet(4, 2, 2, seed=1, termination=0.3)
    done = go(env, rounds=4, steps=50)
    logs = done.logs
    assert logs.terminated.sum() > 30
    # A round starts with a reset, and each termination within it.
    within = logs.terminated.reshape(4, 50)[:, :-1].sum()
    assert logs.n_episodes == 4 + within
    assert np.all(np.diff(done.rounds["regret"]) >= -1e-12)


def test_a_game_of_gymnasium_has_no_known_regret():
    done = go(gymnasium.make("FrozenLake-v1"), bayesdice(), rounds=3)
    assert done.best is None
    assert done.rounds["regret"].null_count() == 3
    assert done.rounds["sd"].null_count() == 1  # the first policy is uniform
    assert done.logs.n_transitions == 60


@pytest.mark.parametrize(
    ("changed", "error", "said"),
    [
        (
            {"gamma": 1.0, "explorer": q_learning()},
            SettingsError,
            r"gamma: expected a discount in \[0, 1\) for q_learning",
        ),
        ({"rounds": 0}, SettingsError, "rounds: expected"),
        ({"rewards": pair_prior(0.0, 0.5)}, EnvironmentSpecError, "Give a range that holds all"),
    ],
    ids=["gamma", "rounds", "range"],
)
def test_bad_settings_are_refused(changed, error, said):
    with pytest.raises(error, match=said):
        go(Bandit([0.9, 0.8]), **changed)


def test_vectors_are_refused():
    with pytest.raises(EnvironmentSpecError, match=r"observation_space: expected Discrete"):
        go(gymnasium.make("CartPole-v1"))
