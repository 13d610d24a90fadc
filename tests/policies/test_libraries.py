"""Models of other libraries, by stand-ins that have what the real ones have."""

import types

import numpy as np
import pytest

from bayesdice_ppl.errors import PoliciesError
from bayesdice_ppl.policies import from_d3rlpy, from_stable_baselines3

OBS = np.array([[1.0, 0.0], [0.0, 2.0]])
slot = types.SimpleNamespace


class Tensor:
    """An array that has to be detached and brought back, as a tensor has."""

    def __init__(self, array):
        self.array = np.asarray(array, dtype=np.float32)

    def detach(self):
        return self

    def cpu(self):
        return self

    def numpy(self):
        return self.array


def sb3(distribution, **more):
    policy = slot(
        obs_to_tensor=lambda obs: (Tensor(obs), True),
        get_distribution=lambda tensor: slot(distribution=distribution(tensor.numpy())),
        **more,
    )
    return slot(policy=policy, use_sde=False)


def test_a_categorical_policy():
    law = np.array([[0.2, 0.8], [0.7, 0.3]])
    policy = from_stable_baselines3(sb3(lambda obs: slot(probs=Tensor(law[: len(obs)]))))
    np.testing.assert_allclose(np.asarray(policy.probs(OBS).numpy()), law, rtol=1e-6)


def test_a_gaussian_policy():
    model = sb3(lambda obs: slot(mean=Tensor(2.0 * obs)), log_std=Tensor([0.0, np.log(2.0)]))
    mean, sd = from_stable_baselines3(model).normal_moments(OBS)
    np.testing.assert_allclose(mean, 2.0 * OBS)
    np.testing.assert_allclose(sd, [1.0, 2.0], rtol=1e-6)


def test_a_dqn_is_greedy_or_nearly():
    model = sb3(None)
    model.q_net = lambda tensor: Tensor(tensor.numpy() @ np.array([[1.0, 0.0], [0.0, 1.0]]))
    policy = from_stable_baselines3(model, epsilon=0.2)
    np.testing.assert_allclose(policy.probs(OBS), [[0.9, 0.1], [0.1, 0.9]])


def test_d3rlpy_with_labels_and_with_vectors():
    labels = slot(predict=lambda obs: np.array([1, 0]), action_size=3)
    np.testing.assert_allclose(
        from_d3rlpy(labels, epsilon=0.3).probs(OBS), [[0.1, 0.8, 0.1], [0.8, 0.1, 0.1]]
    )
    vectors = slot(predict=lambda obs: -np.asarray(obs), action_size=2)
    mean, sd = from_d3rlpy(vectors, sd=0.1).normal_moments(OBS)
    np.testing.assert_array_equal(mean, -OBS)
    assert sd == 0.1


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: from_stable_baselines3(slot()), "expected a model whose probabilities"),
        (lambda: from_stable_baselines3(slot(policy=slot(obs_to_tensor=len))), "Wrap it yourself"),
        (lambda: from_stable_baselines3(sb3(None), epsilon=0.1), "for a DQN alone"),
        (lambda: from_d3rlpy(slot(predict=len)), "expected a model whose probabilities"),
        (lambda: from_d3rlpy(slot(predict=len, action_size=2), epsilon=0.1, sd=1.0), "found both"),
        (
            lambda: from_d3rlpy(slot(predict=lambda o: np.asarray(o), action_size=2)).probs(OBS),
            "give sd=",
        ),
    ],
    ids=["nothing", "no law", "epsilon", "no size", "both", "vectors"],
)
def test_models_without_a_law_are_refused(make, words):
    with pytest.raises(PoliciesError, match=words):
        make()
