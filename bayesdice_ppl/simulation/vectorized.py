"""Play worlds without a table: many copies at once, through Gymnasium's vector environments.

At each step the policy gives the actions of all copies at once. The copies are seeded from one JAX
key, so that the same key plays the same episodes whatever was played before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any, NamedTuple

import gymnasium
import jax
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from jaxtyping import Bool, Float, Shaped

from bayesdice_ppl.envs.restart import Restart
from bayesdice_ppl.envs.table_env import TableEnv
from bayesdice_ppl.envs.tabular import through_transparent
from bayesdice_ppl.errors import EnvironmentSpecError, PoliciesError
from bayesdice_ppl.keys import seed_sequence
from bayesdice_ppl.policies import ContinuousPolicy, Policy, TabularPolicy
from bayesdice_ppl.policies.named_columns import by_label
from bayesdice_ppl.policies.tabular import TOLERANCE, number_table
from bayesdice_ppl.simulation.tables import action_columns

COPIES = 128
"""Copies that are played at once; more copies share the cost of the policy."""

LARGE_TABLE = 100_000
"""Bytes from which an array of an environment is shared among its copies."""


class PlayedEpisodes(NamedTuple):
    """Played episodes, E of them, T steps each.

    Attributes
    ----------
    observation
        What was seen before each step and after the last, shape (E, T + 1) or (E, T + 1, p).
    action
        Shape (E, T) or (E, T, q).
    reward, terminated, truncated
        What the world gave, shape (E, T).
    propensity
        Probability or density of the action under the policy, shape (E, T).
    logged
        False for the steps after an end, whose other entries mean nothing, shape (E, T).
    """

    observation: Shaped[np.ndarray, "E T1 *p"]
    action: Shaped[np.ndarray, "E T *q"]
    reward: Float[np.ndarray, "E T"]
    terminated: Bool[np.ndarray, "E T"]
    truncated: Bool[np.ndarray, "E T"]
    propensity: Float[np.ndarray, "E T"]
    logged: Bool[np.ndarray, "E T"]


def play(
    env: Any, policy: Any, n_episodes: int, max_steps: int, rng_key: jax.Array
) -> Iterator[PlayedEpisodes]:
    """Play a policy for many episodes, batch by batch.

    Parameters
    ----------
    env
        A Gymnasium environment with discrete or vector observations and actions. It is played in
        copies and itself left as it is; a time limit from `gymnasium.make` is taken off.
    policy
        A policy with ``probs`` for discrete actions, with ``sample`` and ``log_prob`` for vectors.
    n_episodes, max_steps
        How many episodes, of at most how many steps.
    rng_key
        A JAX key.

    Yields
    ------
    PlayedEpisodes
        Up to 128 at a time, in all `n_episodes`.

    Raises
    ------
    EnvironmentSpecError
        Observations or actions are neither integers nor vectors.
    PoliciesError
        The policy does not give what the world's actions ask for.
    """
    if not isinstance(env, gymnasium.Env):
        raise EnvironmentSpecError(
            f"env: expected a tabular world or a Gymnasium environment, found {type(env).__name__}."
        )
    world = through_transparent(env)
    check_spaces(world)
    choose = _chooser(world, policy)
    n_copies = min(COPIES, n_episodes)
    copies = SyncVectorEnv(
        [lambda: _copy(world)] * n_copies, autoreset_mode=AutoresetMode.NEXT_STEP
    )
    try:
        for batch, first in enumerate(range(0, n_episodes, n_copies)):
            episodes = _play_batch(copies, choose, max_steps, jax.random.fold_in(rng_key, batch))
            kept = min(n_copies, n_episodes - first)
            yield PlayedEpisodes(*(field[:kept] for field in episodes))
    finally:
        copies.close()


def _copy(world: Any) -> Any:
    """Copy an environment; tables that never change are shared and not copied."""
    shared = {}
    layer = world
    while isinstance(layer, gymnasium.Wrapper):
        shared.update(_tables(layer))
        layer = layer.env
    shared.update(_tables(layer))
    try:
        return deepcopy(world, shared)
    except (TypeError, ValueError, AttributeError, RuntimeError) as cause:
        raise EnvironmentSpecError(
            f"env: {world} could not be copied, which playing it needs: {cause}. Give one that "
            "renders nothing and holds no open resource."
        ) from cause


def _tables(layer: Any) -> dict[int, Any]:
    """What deepcopy is to take as copied already: arrays of the layer, and tuples of them."""
    if not isinstance(layer, TableEnv | Restart):
        # The arrays of other environments may change as they are played.
        return {}
    parts = [
        part
        for value in vars(layer).values()
        for part in (value, *(value if isinstance(value, tuple) else ()))
        if isinstance(value, np.ndarray | tuple)
    ]
    return {
        id(part): part
        for part in parts
        if isinstance(part, np.ndarray) and part.nbytes > LARGE_TABLE
    }


def check_spaces(env: Any) -> None:
    """Refuse a world whose observations or actions are neither integers nor vectors.

    Raises
    ------
    EnvironmentSpecError
        With the space that was found.
    """
    for name, space in (("observation", env.observation_space), ("action", env.action_space)):
        counted = isinstance(space, gymnasium.spaces.Discrete) and space.start == 0
        vector = isinstance(space, gymnasium.spaces.Box) and len(space.shape) == 1
        if not (counted or vector):
            raise EnvironmentSpecError(
                f"{name}_space: expected Discrete (from 0) or a Box of one axis, found {space}. "
                "Use one of Gymnasium's wrappers, such as FlattenObservation."
            )


_Chooser = Callable[
    [jax.Array, np.random.Generator, np.ndarray],
    tuple[Shaped[np.ndarray, "E *q"], Float[np.ndarray, " E"]],
]


def _chooser(env: Any, policy: Any) -> _Chooser:
    """Return the function that draws one action in each observation, with its propensity."""
    space = env.action_space
    if isinstance(space, gymnasium.spaces.Box):
        if not isinstance(policy, ContinuousPolicy):
            raise PoliciesError(
                f"policy: this world's actions are vectors of {space.shape[0]}; expected an object "
                "with sample(rng_key, obs, n) and log_prob(obs, action), such as GaussianPolicy, "
                f"found {type(policy).__name__}."
            )
        return _vector_chooser(policy, space.shape[0])
    if not isinstance(policy, Policy):
        raise PoliciesError(
            f"policy: this world has {space.n} actions; expected an object with probs(obs) -> "
            f"(batch, {space.n}), found {type(policy).__name__}."
        )
    return _discrete_chooser(policy, int(space.n))


def _vector_chooser(policy: ContinuousPolicy, size: int) -> _Chooser:
    def choose(
        key: jax.Array, rng: np.random.Generator, obs: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        action = np.asarray(policy.sample(key, obs, 1))
        if action.shape != (1, len(obs), size):
            raise PoliciesError(
                f"policy: sample(rng_key, obs, 1) gave shape {action.shape} for {len(obs)} "
                f"observations; expected {(1, len(obs), size)}."
            )
        if not np.isfinite(action).all():
            raise PoliciesError(
                "policy: sample(rng_key, obs, 1) gave an action that is not finite."
            )
        log_density = np.asarray(policy.log_prob(obs, action[0]), dtype=np.float64)
        if log_density.shape != (len(obs),):
            raise PoliciesError(
                f"policy: log_prob(obs, action) gave shape {log_density.shape} for {len(obs)} "
                f"observations; expected {(len(obs),)}, one number an action."
            )
        with np.errstate(over="ignore"):
            density = np.exp(log_density)
        if not np.all(np.isfinite(density) & (density > 0.0)):
            worst = int(np.argmin(np.isfinite(density) & (density > 0.0)))
            raise PoliciesError(
                "policy: log_prob(obs, action): expected a positive, finite density at actions of "
                f"the policy, found the log density {log_density[worst]:g}."
            )
        return action[0], density

    return choose


def _discrete_chooser(policy: Policy, n_actions: int) -> _Chooser:
    columns = np.arange(n_actions)
    if isinstance(policy, TabularPolicy):
        # A table may label its columns in any order, and leave actions out.
        columns = action_columns(policy, n_actions)

    def choose(
        key: jax.Array, rng: np.random.Generator, obs: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        what = "policy: probs(obs)"
        given = number_table(by_label(policy.probs(obs), range(len(columns)), what), what)
        if given.shape != (len(obs), len(columns)):
            raise PoliciesError(
                f"policy: probs(obs) gave shape {given.shape} for {len(obs)} observations; "
                f"expected {(len(obs), len(columns))}."
            )
        probability = np.zeros((len(obs), n_actions))
        probability[:, columns] = given
        totals = probability.sum(axis=1)
        if not (np.all(probability >= 0) and np.all(np.abs(totals - 1) <= TOLERANCE)):
            worst = int(np.argmax(np.abs(totals - 1) + (probability < 0).any(axis=1)))
            raise PoliciesError(
                f"policy, observation {obs[worst]}: expected nonnegative probabilities that sum to "
                f"1, found {probability[worst]}."
            )
        limits = np.cumsum(probability, axis=1)
        # Scaled by the total, so that rounding never picks an action past the last.
        draw = rng.random((len(obs), 1)) * limits[:, -1:]
        action = np.sum(limits <= draw, axis=1)
        return action, probability[np.arange(len(obs)), action]

    return choose


def _play_batch(
    copies: SyncVectorEnv, choose: _Chooser, max_steps: int, key: jax.Array
) -> PlayedEpisodes:
    seeds = seed_sequence(key)
    for_worlds, for_actions = seeds.spawn(2)
    n_copies = copies.num_envs
    # One seed for each copy: consecutive seeds make some kinds of generators alike.
    given = for_worlds.generate_state(n_copies).tolist()
    obs, _ = copies.reset(seed=given)
    rng = np.random.default_rng(for_actions)
    _check_finite(obs, "observation", 0)
    keys = jax.random.split(key, max_steps)
    observations, actions, rewards, ends, cuts, densities, logged = [obs], [], [], [], [], [], []
    alive = np.ones(n_copies, dtype=bool)
    for step in range(max_steps):
        action, density = choose(keys[step], rng, obs)
        obs, reward, terminated, truncated, _ = copies.step(action)
        _check_finite(obs, "observation", step + 1)
        _check_finite(reward, "reward", step)
        logged.append(alive)
        observations.append(obs)
        actions.append(action)
        rewards.append(reward)
        ends.append(terminated)
        cuts.append(truncated)
        densities.append(density)
        alive = alive & ~(terminated | truncated)
        if not alive.any():
            break
    return PlayedEpisodes(
        *(
            np.stack(field, axis=1)
            for field in (observations, actions, rewards, ends, cuts, densities, logged)
        )
    )


def _check_finite(values: np.ndarray, what: str, step: int) -> None:
    if not np.isfinite(values).all():
        raise EnvironmentSpecError(f"env: it gave a {what} that is not finite, at step {step}.")
