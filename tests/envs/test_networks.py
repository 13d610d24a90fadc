"""The trained policy's network: its arithmetic, its file, and how well it plays."""

import csv
import json
from importlib.resources import files

import gymnasium
import numpy as np
import pytest

from bayesdice_ppl.envs.networks import apply, load_network
from bayesdice_ppl.envs.reacher import reacher_action, reacher_network
from bayesdice_ppl.errors import EnvironmentSpecError

RNG = np.random.default_rng(0)
LAYERS = {
    "weight_0": RNG.normal(size=(3, 4)),
    "bias_0": RNG.normal(size=4),
    "weight_1": RNG.normal(size=(4, 2)),
    "bias_1": RNG.normal(size=2),
}


def write(path, **changes):
    arrays = {name: value for name, value in {**LAYERS, **changes}.items() if value is not None}
    np.savez(path, **arrays)
    return path


def test_a_network_is_its_layers(tmp_path):
    network = load_network(write(tmp_path / "n.npz"))
    inputs = RNG.normal(size=(6, 3))
    by_hand = np.empty((6, 2))
    for i in range(6):
        hidden = [
            max(0.0, sum(inputs[i, p] * LAYERS["weight_0"][p, h] for p in range(3)) + bias)
            for h, bias in enumerate(LAYERS["bias_0"])
        ]
        for q in range(2):
            total = sum(hidden[h] * LAYERS["weight_1"][h, q] for h in range(4))
            by_hand[i, q] = np.tanh(total + LAYERS["bias_1"][q])
    np.testing.assert_allclose(apply(network, inputs), by_hand, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bias_1": None}, "expected the arrays"),
        ({"extra": np.zeros(2), "more": np.zeros(2)}, "expected the arrays"),
        ({"bias_0": np.zeros(5)}, "layer 0"),
        ({"weight_1": np.zeros((5, 2))}, "layer 1"),
        ({"weight_0": np.full((3, 4), np.nan)}, "layer 0.*finite"),
    ],
)
def test_files_that_hold_no_network_are_refused(tmp_path, changes, message):
    with pytest.raises(EnvironmentSpecError, match=message):
        load_network(write(tmp_path / "n.npz", **changes))


def test_pickled_arrays_are_not_read(tmp_path):
    path = tmp_path / "n.npz"
    np.savez(path, weight_0=np.array([{"run": "me"}], dtype=object), bias_0=np.zeros(1))
    with pytest.raises(ValueError, match="allow_pickle"):
        load_network(path)


def test_the_shipped_network_is_of_two_layers_of_64():
    network = reacher_network()
    assert [weight.shape for weight in network.weights] == [(10, 64), (64, 64), (64, 2)]
    source = files("bayesdice_ppl.envs").joinpath("reacher_policy/weights.npz")
    assert len(source.read_bytes()) < 50_000


def test_its_learning_curve_and_return_stand_beside_it():
    folder = files("bayesdice_ppl.envs").joinpath("reacher_policy")
    record = json.loads(folder.joinpath("training.json").read_text())
    rows = list(csv.DictReader(folder.joinpath("learning_curve.csv").read_text().splitlines()))
    returns = [float(row["mean_return"]) for row in rows]
    assert record["mean_return"] > -6
    assert record["steps_trained"] == int(rows[-1]["step"])
    assert record["best_step"] == int(rows[int(np.argmax(returns))]["step"])
    # Converged: more than ten evaluations after the best brought nothing better.
    assert len(returns) - 1 - int(np.argmax(returns)) > 10


def test_the_shipped_policy_returns_better_than_minus_six_on_ordinary_reacher():
    n_episodes = 150
    env = gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make("Reacher-v5")] * n_episodes)
    observation, _ = env.reset(seed=123)
    returns = np.zeros(n_episodes)
    for _ in range(50):
        observation, reward, _, truncated, _ = env.step(np.asarray(reacher_action(observation)))
        returns += reward
    assert truncated.all()
    assert returns.mean() - 5 * returns.std(ddof=1) / np.sqrt(n_episodes) > -6
    record = json.loads(
        files("bayesdice_ppl.envs").joinpath("reacher_policy/training.json").read_text()
    )
    error = np.hypot(returns.std(ddof=1) / np.sqrt(n_episodes), record["standard_error"])
    assert abs(returns.mean() - record["mean_return"]) < 5 * error
