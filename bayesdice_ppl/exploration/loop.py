"""The outer loop: choose a policy, play it, append what was seen to the log, and again.

A round is a function of the seed, its number, and the rows before it. So a run that was killed goes
on from its folder, and ends with the rows that it would have had.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, NamedTuple, final

import jax
import numpy as np
import polars as pl
from jaxtyping import Float

from bayesdice_ppl import checks
from bayesdice_ppl.envs.restart import restart_outcomes
from bayesdice_ppl.envs.tabular import find_tabular, reward_matrix, transition_matrix
from bayesdice_ppl.errors import EnvironmentSpecError, SettingsError
from bayesdice_ppl.exploration.explorers import ExplorationTask, Explorer, RoundRows
from bayesdice_ppl.exploration.folder import RoundResult, RunFolder
from bayesdice_ppl.exploration.spaces import as_policy, plan
from bayesdice_ppl.keys import check_key, seed_sequence
from bayesdice_ppl.logs import Logs
from bayesdice_ppl.models import PairPrior
from bayesdice_ppl.progress import stage

_CHOOSE, _PLAY, _RESET = range(3)
"""Streams of random numbers of a round."""


@final
class Exploration(NamedTuple):
    """What a run gives.

    Attributes
    ----------
    logs
        All steps of all rounds.
    rounds
        A row for each round: ``round``, ``reward`` (mean of its steps), ``mean``, ``sd``, ``score``
        (what was believed of its policy), ``value`` (true, exact), ``regret`` (cumulative, in
        reward), ``seconds``. Null where it is not known.
    policies
        The policy of each round, shape (R, S, A).
    best
        True value of the best policy, reward per step, or None where the world has no table.
    """

    logs: Logs
    rounds: pl.DataFrame
    policies: Float[np.ndarray, "R S A"]
    best: float | None


def explore(
    env: Any,
    explorer: Explorer,
    *,
    rounds: int,
    steps: int,
    gamma: float,
    rewards: PairPrior,
    rng_key: jax.Array,
    folder: Path | None = None,
    run: dict[str, Any] | None = None,
) -> Exploration:
    """Explore an environment whose observations and actions are integers.

    Parameters
    ----------
    env
        A Gymnasium environment with discrete spaces. Each round starts with a reset; where an
        episode ends within a round, another one starts.
    explorer
        Such as `bayesdice_ppl.exploration.bayesdice`.
    rounds, steps
        Number of rounds, and of steps in each.
    gamma
        Discount in [0, 1). Values are normalized; after a termination they go on with a new start.
    rewards
        From `bayesdice_ppl.models.pair_prior`: their range, which has to be known.
    rng_key
        A JAX key; the same key gives the same run.
    folder
        Where to keep each round; a run that was interrupted there goes on. None: in memory only.
    run
        What else a run in that folder is known by, such as the environment's name.

    Raises
    ------
    EnvironmentSpecError
        The spaces are not discrete, or a reward is outside its range.
    SettingsError
        A number is out of its range, or `rng_key` is no key.
    OutputError
        The folder holds something else, or cannot be written.
    """
    checks.whole("rounds", rounds)
    checks.whole("steps", steps)
    if checks.discount(gamma) == 1.0:
        raise SettingsError("gamma: expected a discount in [0, 1) to explore, found 1.")
    if rounds * steps < 2:
        raise SettingsError("rounds, steps: expected two steps in all or more, found one.")
    check_key(rng_key)
    task = ExplorationTask(*_sizes(env), float(gamma), rewards)
    truth = _Truth.of(env, gamma)
    entropy = seed_sequence(rng_key).entropy
    known = {"explorer": explorer.name, "steps": steps, **task._asdict(), **(run or {})}
    known |= {"rewards": list(rewards), "key": np.asarray(jax.random.key_data(rng_key)).tolist()}
    kept = RunFolder(folder, known)
    state, done, episode = explorer.init(task), list[RoundResult](), 0
    with stage(f"exploring with {explorer.name}", rounds) as shown:
        for at in range(rounds):
            result = kept.read(at)
            if result is None:
                started = time.perf_counter()
                seeds = [np.random.SeedSequence(entropy, spawn_key=(at, k)) for k in range(3)]
                chosen = explorer.choose(state, np.random.default_rng(seeds[_CHOOSE]))
                seconds = time.perf_counter() - started
                rows = _play(env, chosen.policy, steps, seeds, episode, rewards)
                value = None if truth is None else truth.value(chosen.policy, gamma)
                result = RoundResult(rows, chosen, value, seconds)
                kept.write(at, result)
            state = explorer.learn(state, result.rows)
            episode = int(result.rows.episode[-1]) + 1
            done.append(result)
            shown.advance()
    return _gathered(done, None if truth is None else truth.best, steps, task)


@final
class _Truth(NamedTuple):
    """A world's table, as one that never ends, and the value of its best policy."""

    moves: Float[np.ndarray, "S A S"]
    reward: Float[np.ndarray, "S A"]
    start: Float[np.ndarray, " S"]
    best: float

    @classmethod
    def of(cls, env: Any, gamma: float) -> _Truth | None:
        """The truth of a world that has a table."""
        world = find_tabular(env)
        if world is None:
            return None
        start = world.initial_distribution
        table = restart_outcomes(world.outcomes, start)
        found = cls(transition_matrix(table), reward_matrix(table), start, 0.0)
        actions = plan(found.moves, found.reward, gamma)
        best = found.value(as_policy(actions, found.reward.shape[1]), gamma)
        return found._replace(best=best)

    def value(self, policy: Float[np.ndarray, "S A"], gamma: float) -> float:
        """The exact value of a policy, reward per step."""
        moves = np.einsum("sa,sat->st", policy, self.moves)
        reward = np.sum(policy * self.reward, axis=1)
        value = np.linalg.solve(np.eye(len(reward)) - gamma * moves, reward)
        return float((1.0 - gamma) * self.start @ value)


def _sizes(env: Any) -> tuple[int, int]:
    from gymnasium.spaces import Discrete

    sizes = []
    for name in ("observation_space", "action_space"):
        space = getattr(env, name, None)
        if not isinstance(space, Discrete) or space.start != 0:
            raise EnvironmentSpecError(
                f"{name}: expected Discrete(n) that starts at 0, to explore on tables, found "
                f"{space}. Wrap the environment so that its states are integers."
            )
        sizes.append(int(space.n))
    return sizes[0], sizes[1]


def _play(
    env: Any,
    policy: Float[np.ndarray, "S A"],
    steps: int,
    seeds: list[np.random.SeedSequence],
    episode: int,
    rewards: PairPrior,
) -> RoundRows:
    """Play a policy for a round."""
    uniform = np.random.default_rng(seeds[_PLAY]).random(steps)
    limits = np.cumsum(policy, axis=1)
    state, _ = env.reset(seed=int(seeds[_RESET].generate_state(1)[0] >> 1))
    step, rows = 0, []
    last = policy.shape[1] - 1 - np.argmax(policy[:, ::-1] > 0.0, axis=1)
    for draw in uniform:
        here = int(state)
        # Rounding must not pick an action of probability zero.
        action = min(int(np.searchsorted(limits[here], draw, side="right")), int(last[here]))
        state, reward, terminated, truncated, _ = env.step(action)
        if not rewards.low <= float(reward) <= rewards.high:
            raise EnvironmentSpecError(
                f"reward of state {here}, action {action}: expected one from {rewards.low:g} to "
                f"{rewards.high:g}, found {float(reward):g}. Give a range that holds all rewards."
            )
        reached, at = int(state), (episode, step)
        step += 1
        if terminated or truncated:
            # No seed: the environment's generator goes on.
            state, _ = env.reset()
            episode, step = episode + 1, 0
        successor = int(state) if terminated else reached
        ends = (bool(terminated), bool(truncated) and not terminated)
        chance = policy[here, action]
        rows.append((*at, here, action, float(reward), reached, successor, *ends, chance))
    return RoundRows(*(np.array(column) for column in zip(*rows, strict=True)))


def _gathered(
    done: list[RoundResult], best: float | None, steps: int, task: ExplorationTask
) -> Exploration:
    rows = RoundRows(
        *(np.concatenate(parts) for parts in zip(*(one.rows for one in done), strict=True))
    )
    frame = pl.DataFrame({"episode_id": rows.episode, **rows._asdict()})
    logs = Logs.from_dataframe(
        frame.drop("episode", "successor"), actions=list(range(task.n_actions))
    )
    regret = None
    if best is not None:
        regret = np.cumsum([steps * (best - float(one.value or 0.0)) for one in done])
    table = pl.DataFrame(
        {
            "round": np.arange(1, len(done) + 1),
            "reward": [float(one.rows.reward.mean()) for one in done],
            **{
                name: pl.Series([getattr(one.chosen, name) for one in done], dtype=pl.Float64)
                for name in ("mean", "sd", "score")
            },
            "value": pl.Series([one.value for one in done], dtype=pl.Float64),
            "regret": pl.Series([None] * len(done) if regret is None else regret, dtype=pl.Float64),
            "seconds": [one.seconds for one in done],
        }
    )
    return Exploration(logs, table, np.stack([one.chosen.policy for one in done]), best)
