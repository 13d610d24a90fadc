"""Models of Stable-Baselines3, d3rlpy and PyTorch themselves, where they are installed.

What a model draws or predicts by its own means is compared with the probabilities that are read
from it. Models are as they are made, before any training, which is as good for that.
"""

import gymnasium
import jax
import numpy as np
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.errors import PoliciesError
from bayesdice_ppl.policies import from_d3rlpy, from_stable_baselines3
from bayesdice_ppl.policies.asking import plain_array
from tests.logs.sources.world import own_log, play

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
DRAWS = 4_000
RNG = np.random.default_rng(0)


def points(space, n=3):
    space.seed(1)
    return np.array([space.sample() for _ in range(n)])


@pytest.mark.parametrize("kind", ["PPO", "A2C"])
@pytest.mark.parametrize("name", ["CartPole-v1", "FrozenLake-v1"])
def test_labels_are_drawn_as_often_as_is_read(kind, name):
    library = pytest.importorskip("stable_baselines3")
    model = getattr(library, kind)("MlpPolicy", gymnasium.make(name), seed=0, device="cpu")
    policy = from_stable_baselines3(model)
    obs = points(model.observation_space)
    found = plain_array(bd.Policies({"a": policy})["a"].probs(obs))
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-6)
    for one, law in zip(obs, found, strict=True):
        drawn = model.predict(np.repeat(one[None], DRAWS, axis=0), deterministic=False)[0]
        shares = np.bincount(drawn, minlength=len(law)) / DRAWS
        assert (np.abs(shares - law) < 5.0 * np.sqrt(law * (1.0 - law) / DRAWS) + 1e-9).all()


def test_a_dqn_is_greedy_and_epsilon_is_shared_out():
    library = pytest.importorskip("stable_baselines3")
    model = library.DQN("MlpPolicy", gymnasium.make("CartPole-v1"), seed=0, device="cpu")
    obs = points(model.observation_space, 20)
    greedy = model.predict(obs, deterministic=True)[0]
    found = np.asarray(from_stable_baselines3(model, epsilon=0.2).probs(obs))
    np.testing.assert_allclose(found, np.where(np.eye(2)[greedy] > 0, 0.9, 0.1), atol=1e-6)


def test_vectors_are_drawn_as_is_read():
    library = pytest.importorskip("stable_baselines3")
    torch = pytest.importorskip("torch")
    model = library.PPO("MlpPolicy", gymnasium.make("Pendulum-v1"), seed=0, device="cpu")
    obs = points(model.observation_space)
    mean, sd = from_stable_baselines3(model).normal_moments(obs)
    many = torch.as_tensor(np.repeat(obs, DRAWS, axis=0))
    with torch.no_grad():
        drawn = model.policy(many)[0].numpy().reshape(len(obs), DRAWS, -1)
    spread = np.broadcast_to(np.asarray(sd), drawn.shape[:1] + drawn.shape[2:])
    assert (np.abs(drawn.mean(axis=1) - mean) < 5.0 * spread / np.sqrt(DRAWS)).all()
    np.testing.assert_allclose(drawn.std(axis=1), spread, rtol=5.0 / np.sqrt(2.0 * DRAWS))


@pytest.mark.parametrize("kind", ["SAC", "TD3", "PPO with gSDE"])
def test_models_whose_law_is_not_known_are_refused(kind):
    library = pytest.importorskip("stable_baselines3")
    env = gymnasium.make("Pendulum-v1")
    if kind == "PPO with gSDE":
        model = library.PPO("MlpPolicy", env, use_sde=True, device="cpu")
    else:
        model = getattr(library, kind)("MlpPolicy", env, buffer_size=10, device="cpu")
    with pytest.raises(PoliciesError, match="Wrap it yourself"):
        from_stable_baselines3(model)


def shaped(algorithm, actions):
    """An algorithm of d3rlpy for observations of two numbers."""
    dataset = pytest.importorskip("d3rlpy.dataset")
    n = 60
    made = dataset.MDPDataset(
        observations=RNG.normal(size=(n, 2)).astype(np.float32),
        actions=actions,
        rewards=RNG.normal(size=n).astype(np.float32),
        terminals=(np.arange(n) % 10 == 9).astype(np.float32),
        **({"action_size": 3} if actions.ndim == 1 else {}),
    )
    algorithm.build_with_dataset(made)
    return algorithm


@pytest.mark.parametrize("kind", ["DQNConfig", "DiscreteCQLConfig", "DiscreteBCConfig"])
def test_d3rlpy_labels_are_those_that_it_predicts(kind):
    algos = pytest.importorskip("d3rlpy.algos")
    algorithm = shaped(getattr(algos, kind)().create(), RNG.integers(0, 3, 60))
    obs = RNG.normal(size=(20, 2)).astype(np.float32)
    found = np.asarray(from_d3rlpy(algorithm, epsilon=0.3).probs(obs))
    np.testing.assert_allclose(found, 0.1 + 0.7 * np.eye(3)[algorithm.predict(obs)], atol=1e-6)


@pytest.mark.parametrize("kind", ["CQLConfig", "TD3PlusBCConfig"])
def test_d3rlpy_vectors_are_those_that_it_predicts(kind):
    algos = pytest.importorskip("d3rlpy.algos")
    algorithm = shaped(
        getattr(algos, kind)().create(), RNG.uniform(-1, 1, size=(60, 1)).astype(np.float32)
    )
    obs = RNG.normal(size=(5, 2)).astype(np.float32)
    mean, sd = from_d3rlpy(algorithm, sd=0.1).normal_moments(obs)
    np.testing.assert_allclose(mean, algorithm.predict(obs), rtol=1e-5)
    assert sd == 0.1
    with pytest.raises(PoliciesError, match="give sd="):
        from_d3rlpy(algorithm).probs(obs)


def test_a_network_of_torch_with_gradients_is_a_candidate():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Softmax(dim=1))

    def policy(obs):
        return network(torch.as_tensor(np.asarray(obs), dtype=torch.float32))

    logs = own_log(play(episodes=60), vectors=True, actions=[0, 1])
    wrapped = bd.Policies({"a": policy})["a"]
    probs = plain_array(wrapped.probs(logs.observation[:4]))
    expected = policy(logs.observation[:4]).detach().numpy()
    np.testing.assert_allclose(probs, expected, rtol=1e-6)
    belief = bd.fit(logs, {"a": policy}, gamma=0.0, rng_key=jax.random.key(0))
    assert np.isfinite(belief["posterior"]["value"]).all()
