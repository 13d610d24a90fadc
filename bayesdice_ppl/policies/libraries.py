"""Candidates trained with other libraries: Stable-Baselines3 and d3rlpy.

Both are asked through what their models offer, and neither is imported. A policy without a density,
one that takes the same vector always, is given a spread: without one nothing in a log bears on it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bayesdice_ppl.errors import PoliciesError
from bayesdice_ppl.policies.asking import number_array, plain_array
from bayesdice_ppl.policies.gaussian import GaussianPolicy
from bayesdice_ppl.policies.given import FunctionPolicy
from bayesdice_ppl.policies.interface import ContinuousPolicy, Policy
from bayesdice_ppl.policies.scored import epsilon_greedy


def from_stable_baselines3(model: Any, *, epsilon: float = 0.0) -> Policy | ContinuousPolicy:
    """The policy of a model of Stable-Baselines3.

    Parameters
    ----------
    model
        A PPO, A2C or TRPO with labeled or vector actions, or a DQN.
    epsilon
        For a DQN: the share of uniformly drawn actions.

    Returns
    -------
    Policy or ContinuousPolicy
        Probabilities of the actions; or a Gaussian, as it is before an environment clips it. Log
        the action that was drawn.

    Raises
    ------
    PoliciesError
        The model is of another kind, such as SAC and TD3, or explores by noise that depends on the
        state (gSDE).
    """
    network: Any = getattr(model, "policy", None)
    to_tensor = getattr(network, "obs_to_tensor", None)
    if not callable(to_tensor):
        raise _unknown("stable-baselines3", model)
    if hasattr(model, "q_net"):
        return epsilon_greedy(lambda obs: model.q_net(to_tensor(np.asarray(obs))[0]), epsilon)
    if epsilon:
        raise PoliciesError(
            f"epsilon: expected it for a DQN alone, found it for {type(model).__name__}."
        )
    if not callable(getattr(network, "get_distribution", None)) or getattr(model, "use_sde", False):
        raise _unknown("stable-baselines3", model)

    def law(obs: Any) -> Any:
        tensor = to_tensor(np.asarray(obs, dtype=np.float32))[0]
        return network.get_distribution(tensor).distribution

    def center(obs: Any) -> Any:
        return number_array(plain_array(law(obs).mean), "mean")

    if hasattr(network, "log_std"):
        sd = np.exp(number_array(plain_array(network.log_std), "log_std"))
        return GaussianPolicy(center, sd)
    return FunctionPolicy(lambda obs: law(obs).probs)


def from_d3rlpy(
    algorithm: Any, *, epsilon: float | None = None, sd: Any = None
) -> Policy | ContinuousPolicy:
    """The policy of an algorithm of d3rlpy.

    Parameters
    ----------
    algorithm
        Anything with ``predict(observations)`` and ``action_size``.
    epsilon
        For labeled actions: the share of uniformly drawn actions (0).
    sd
        For vectors: standard deviation of normal noise around what it predicts, one number or one
        for each number of an action.

    Raises
    ------
    PoliciesError
        It is nothing of that kind, or the spread that belongs to its actions is missing.
    """
    predict, n_actions = (
        getattr(algorithm, "predict", None),
        getattr(algorithm, "action_size", None),
    )
    if not callable(predict) or n_actions is None:
        raise _unknown("d3rlpy", algorithm)
    if sd is not None:
        if epsilon is not None:
            raise PoliciesError("epsilon: expected it or sd, found both. sd is for vectors.")

        def center(obs: Any) -> Any:
            return number_array(predict(np.asarray(obs)), "predict")

        return GaussianPolicy(center, sd)

    def scores(obs: Any) -> np.ndarray:
        chosen = number_array(predict(np.asarray(obs)), "predict")
        if chosen.ndim != 1:
            raise PoliciesError(
                f"predict: expected a label for each observation, found shape {chosen.shape}. Its "
                "actions are vectors: give sd=, the spread of the actions that would be taken."
            )
        return (chosen[:, None] == np.arange(int(n_actions))).astype(np.float64)

    return epsilon_greedy(scores, 0.0 if epsilon is None else epsilon)


def _unknown(library: str, model: Any) -> PoliciesError:
    return PoliciesError(
        f"{library}: expected a model whose probabilities or Gaussian are known, found "
        f"{type(model).__name__}. Wrap it yourself: an object with probs(obs), or with "
        "sample(rng_key, obs, n) and log_prob(obs, action)."
    )
