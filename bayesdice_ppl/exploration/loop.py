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
from bayesdice_ppl.exploration.explorers import (
    ExplorationTask,
    Explorer,
    RoundRows,
    TablePolicy,
)
from bayesdice_ppl.exploration.folder import RoundResult, RunFolder
from bayesdice_ppl.exploration.spaces import as_policy, plan
from bayesdice_ppl.keys import check_key, seed_sequence
from bayesdice_ppl.logs import Logs
from bayesdice_ppl.models import PairPrior
from bayesdice_ppl.policies import Policy
from bayesdice_ppl.progress import stage

_CHOOSE, _PLAY, _RESET = range(3)
"""Streams of random numbers of a round."""
_NEARLY_ONE = 1.0 - 1e-7
"""The discount that stands for the average reward where the truth is known."""


@final
class Exploration(NamedTuple):
    """What a run gives.

    Attributes
    ----------
    logs
        All steps of all rounds.
    rounds
        A row for each round: ``round``, ``reward`` (mean of its steps), ``ended`` (terminations in
        it), ``mean``, ``sd``, ``score``
        (what was believed of its policy), ``value`` (true, exact), ``regret`` (cumulative, in
        reward), ``seconds``. Null where it is not known.
    policies
        The policy of each round: probabilities, shape (R, S, A). Through features a tuple of
        policies with ``probs(obs)``.
    best
        True value of the best policy, reward per step, or None where the world has no table.
    """

    logs: Logs
    rounds: pl.DataFrame
    policies: Float[np.ndarray, "R S A"] | tuple[Policy, ...]
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
    on_termination: str = "restart",
    folder: Path | None = None,
    run: dict[str, Any] | None = None,
) -> Exploration:
    """Explore an environment whose actions are integers.

    Parameters
    ----------
    env
        A Gymnasium environment with discrete actions. Observations are integers or, for an explorer
        through features, vectors. Each round starts with a reset; where an episode ends within a
        round, another one starts.
    explorer
        Such as `bayesdice_ppl.exploration.bayesdice`.
    rounds, steps
        Number of rounds, and of steps in each.
    gamma
        Discount in [0, 1]. Values are normalized. 1 is the average reward, for some explorers of
        tables.
    rewards
        From `bayesdice_ppl.models.pair_prior`: their range, which has to be known.
    rng_key
        A JAX key; the same key gives the same run.
    on_termination
        What follows a termination: ``"restart"``, another start, or ``"absorb"``, reward 0 for
        ever. The latter needs gamma < 1 and an explorer through features.
    folder
        Where to keep each round; a run that was interrupted there goes on. None: in memory only.
    run
        What else a run in that folder is known by, such as the environment's name.

    Raises
    ------
    EnvironmentSpecError
        The spaces do not fit the explorer, a reward is outside its range, or an observation is not
        finite.
    SettingsError
        A number is out of its range, `rng_key` is no key, or the explorer does not know gamma 1.
    OutputError
        The folder holds something else, or cannot be written.
    """
    checks.whole("rounds", rounds)
    checks.whole("steps", steps)
    checks.discount(gamma)
    if rounds * steps < 2:
        raise SettingsError("rounds, steps: expected two steps in all or more, found one.")
    check_key(rng_key)
    absorb = _absorbs(on_termination, gamma, explorer)
    entropy = seed_sequence(rng_key).entropy
    seed = int(np.random.SeedSequence(entropy).generate_state(1)[0] >> 1)
    task = ExplorationTask(*_sizes(env, explorer), float(gamma), rewards, absorb, seed)
    state, done, episode = explorer.init(task), list[RoundResult](), 0
    played = list[Any]()
    truth = _Truth.of(env, gamma, absorb=absorb)
    # The key says the seed. What is usual is left out, so that a folder without it goes on.
    unsaid = {"seed"} if absorb else {"seed", "absorb"}
    of_task = {name: said for name, said in task._asdict().items() if name not in unsaid}
    # What was asked for comes first, so that a message names it and not what follows from it.
    known = {**(run or {}), "explorer": explorer.name, "steps": steps, **of_task}
    known |= {"rewards": list(rewards), "key": np.asarray(jax.random.key_data(rng_key)).tolist()}
    kept = RunFolder(folder, known)
    with stage(f"exploring with {explorer.name}", rounds) as shown:
        for at in range(rounds):
            result = kept.read(at)
            if result is None:
                started = time.perf_counter()
                seeds = [np.random.SeedSequence(entropy, spawn_key=(at, k)) for k in range(3)]
                chosen = explorer.choose(state, np.random.default_rng(seeds[_CHOOSE]))
                seconds = time.perf_counter() - started
                policy = explorer.policy(state, chosen.policy)
                rows = _play(env, policy, steps, seeds, episode, rewards)
                value = None if truth is None else truth.value(policy)
                result = RoundResult(rows, chosen, value, seconds)
                kept.write(at, result)
            else:
                policy = explorer.policy(state, result.chosen.policy)
            played.append(policy)
            state = explorer.learn(state, result.rows)
            episode = int(result.rows.episode[-1]) + 1
            done.append(result)
            shown.advance()
    return _gathered(done, played, None if truth is None else truth.best, steps, task)


def _absorbs(on_termination: str, gamma: float, explorer: Explorer) -> bool:
    """Whether nothing is paid after a termination."""
    if checks.one_of("on_termination", on_termination, ("restart", "absorb")) == "restart":
        return False
    if gamma == 1.0:
        raise SettingsError(
            "on_termination='absorb': expected a discount in [0, 1), found 1. In the long run "
            "every policy earns nothing then."
        )
    if not explorer.vectors:
        raise SettingsError(
            f"on_termination='absorb': expected an explorer through features, found "
            f"{explorer.name}. Features one_hot(of='state') are a table."
        )
    return True


@final
class _Truth(NamedTuple):
    """A world's table, with what follows terminations, and the value of its best policy."""

    moves: Float[np.ndarray, "S A S"]
    reward: Float[np.ndarray, "S A"]
    start: Float[np.ndarray, " S"]
    gamma: float
    best: float

    @classmethod
    def of(cls, env: Any, gamma: float, *, absorb: bool) -> _Truth | None:
        """The truth of a world that has a table."""
        world = find_tabular(env)
        if world is None:
            return None
        start = world.initial_distribution
        table = world.outcomes if absorb else restart_outcomes(world.outcomes, start)
        # The average reward is the limit, of policies with several recurrent classes too.
        found = cls(
            transition_matrix(table), reward_matrix(table), start, min(gamma, _NEARLY_ONE), 0.0
        )
        actions = plan(found.moves, found.reward, found.gamma)
        best = found.value(TablePolicy(as_policy(actions, found.reward.shape[1])))
        return found._replace(best=best)

    def value(self, policy: Policy) -> float:
        """The exact value of a policy, reward per step."""
        table = policy.probs(np.arange(len(self.reward)))
        moves = np.einsum("sa,sat->st", table, self.moves)
        reward = np.sum(table * self.reward, axis=1)
        value = np.linalg.solve(np.eye(len(reward)) - self.gamma * moves, reward)
        return float((1.0 - self.gamma) * self.start @ value)


def _sizes(env: Any, explorer: Explorer) -> tuple[int | None, int]:
    """Numbers of states (None: vectors) and actions."""
    from gymnasium.spaces import Box, Discrete

    states, actions = (getattr(env, f"{part}_space", None) for part in ("observation", "action"))
    if not isinstance(actions, Discrete) or actions.start != 0:
        raise EnvironmentSpecError(
            f"action_space: expected Discrete(n) that starts at 0, to explore, found {actions}. "
            "Wrap the environment so that its actions are integers."
        )
    if isinstance(states, Discrete) and states.start == 0:
        return int(states.n), int(actions.n)
    if isinstance(states, Box) and len(states.shape) == 1 and states.shape[0] > 0:
        if explorer.vectors:
            return None, int(actions.n)
        raise EnvironmentSpecError(
            f"observation_space: expected Discrete(n) that starts at 0, to explore on tables by "
            f"{explorer.name}, found {states}. Give bayesdice or rlsvi features of the state, such "
            "as fourier(50), or wrap the environment so that its states are integers."
        )
    expected = "Discrete(n) that starts at 0, or a Box of one axis"
    raise EnvironmentSpecError(
        f"observation_space: expected {expected}, to explore, found {states}. Wrap the environment "
        "so that its states are integers or vectors."
    )


def _observed(found: Any, *, vectors: bool) -> Any:
    """An observation as rows keep it."""
    if not vectors:
        return int(found)
    numbers = np.asarray(found, dtype=np.float64)
    if not np.isfinite(numbers).all():
        raise EnvironmentSpecError(
            f"observation: expected finite numbers, found {numbers.tolist()}. Wrap the environment."
        )
    return numbers


def _play(
    env: Any,
    policy: Policy,
    steps: int,
    seeds: list[np.random.SeedSequence],
    episode: int,
    rewards: PairPrior,
) -> RoundRows:
    """Play a policy for a round."""
    from gymnasium.spaces import Discrete

    vectors = not isinstance(env.observation_space, Discrete)
    uniform = np.random.default_rng(seeds[_PLAY]).random(steps)
    first, _ = env.reset(seed=int(seeds[_RESET].generate_state(1)[0] >> 1))
    state, step, rows = _observed(first, vectors=vectors), 0, []
    for draw in uniform:
        chances = policy.probs(np.array([state]))[0]
        # Rounding must not pick an action of probability zero.
        last = int(np.flatnonzero(chances > 0.0)[-1])
        action = min(int(np.searchsorted(np.cumsum(chances), draw, side="right")), last)
        found, reward, terminated, truncated, _ = env.step(action)
        if not rewards.low <= float(reward) <= rewards.high:
            raise EnvironmentSpecError(
                f"reward of state {np.asarray(state).tolist()}, action {action}: expected one from "
                f"{rewards.low:g} to {rewards.high:g}, found {float(reward):g}. Give a range that "
                "holds all rewards."
            )
        here, at = state, (episode, step)
        state = reached = _observed(found, vectors=vectors)
        step += 1
        if terminated or truncated:
            # No seed: the environment's generator goes on.
            state = _observed(env.reset()[0], vectors=vectors)
            episode, step = episode + 1, 0
        successor = state if terminated else reached
        ends = (bool(terminated), bool(truncated) and not terminated)
        rows.append(
            (*at, here, action, float(reward), reached, successor, *ends, float(chances[action]))
        )
    return RoundRows(*(np.array(column) for column in zip(*rows, strict=True)))


def _gathered(
    done: list[RoundResult],
    played: list[Any],
    best: float | None,
    steps: int,
    task: ExplorationTask,
) -> Exploration:
    rows = RoundRows(
        *(np.concatenate(parts) for parts in zip(*(one.rows for one in done), strict=True))
    )
    frame = pl.DataFrame({"episode_id": rows.episode, **rows._asdict()})
    if task.n_states is None:
        frame = frame.rename({"state": "obs", "next_state": "next_obs"})
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
            "ended": [int(one.rows.terminated.sum()) for one in done],
            **{
                name: pl.Series([getattr(one.chosen, name) for one in done], dtype=pl.Float64)
                for name in ("mean", "sd", "score")
            },
            "value": pl.Series([one.value for one in done], dtype=pl.Float64),
            "regret": pl.Series([None] * len(done) if regret is None else regret, dtype=pl.Float64),
            "seconds": [one.seconds for one in done],
        }
    )
    tables = [one.table for one in played if isinstance(one, TablePolicy)]
    policies = np.stack(tables) if len(tables) == len(played) else tuple(played)
    return Exploration(logs, table, policies, best)
