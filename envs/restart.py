"""Games without end: where an episode would terminate, a new one starts instead.

This wrapper makes an episodic game an infinite-horizon Markov decision process, for which the
paper's discounted and average-reward values are defined. The terminal states are never visited: the
step that would enter one leads to a start state. A game that never terminates can be restarted at
random, with the same probability at each step.
"""

from functools import cached_property
from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from gymnasium.wrappers import TimeLimit
from jaxtyping import Float

from bayesdice_ppl.envs.checks import check_share
from bayesdice_ppl.envs.tabular import (
    Outcomes,
    TabularEnv,
    outcomes_of_rows,
    outcomes_of_toy_text,
    reward_matrix,
    through_transparent,
    transition_matrix,
)
from bayesdice_ppl.errors import EnvironmentSpecError

MOST_OUTCOMES = 20_000_000
"""Most outcomes of a table that starts anew; making so many takes about four gigabytes."""


def restart_outcomes(
    outcomes: Outcomes,
    initial_distribution: Float[np.ndarray, " S"],
    *,
    probability: float = 0.0,
) -> Outcomes:
    """Send every outcome that terminates to the start states, and the others with a probability.

    Parameters
    ----------
    outcomes
        The episodic table, fields (S, A, K).
    initial_distribution
        (S,): where a new episode starts.
    probability
        Probability in [0, 1) that a step which does not terminate leads to a start state too.

    Returns
    -------
    Outcomes
        The table of the infinite world, with the same S states and no termination. A terminating
        outcome keeps its reward and becomes one outcome for each possible start state.

    Raises
    ------
    EnvironmentSpecError
        If the probability is outside [0, 1), or the table would be too large.
    """
    check_share("probability", probability, below_one=True)
    starts = np.flatnonzero(initial_distribution > 0)
    n_states, n_actions, n_outcomes = outcomes.probability.shape
    pair = np.repeat(np.arange(n_states * n_actions), n_outcomes)
    chance, next_state, reward, terminated = (field.ravel() for field in outcomes)
    restarted = chance * np.where(terminated, 1.0, probability)
    # One row for each outcome, and one for each start where the game can start anew.
    again = np.flatnonzero(restarted > 0)
    if again.size * starts.size > MOST_OUTCOMES:
        raise EnvironmentSpecError(
            f"Restart: {again.size:,} outcomes that start anew in one of {starts.size:,} states "
            f"make a table of {again.size * starts.size:,} outcomes, past the {MOST_OUTCOMES:,} "
            "that are allowed. Use fewer states, starts or terminations."
        )
    begun = [np.repeat(field[again], starts.size) for field in (pair, restarted, reward)]
    rows = (
        np.concatenate([pair, begun[0]]),
        np.concatenate(
            [chance - restarted, begun[1] * np.tile(initial_distribution[starts], again.size)]
        ),
        np.concatenate([next_state, np.tile(starts, again.size)]),
        np.concatenate([reward, begun[2]]),
    )
    never = np.zeros(rows[0].size, dtype=bool)
    return outcomes_of_rows(*rows, never, (n_states, n_actions))


class Restart(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Make an episodic environment infinite: a termination leads to a start state.

    `step` never reports termination; it returns the first observation of the new episode, with
    the reward of the step that ended the old one. Truncation passes through. `info["restarted"]`
    says whether it happened, and `info["final_observation"]` then holds the last observation of
    the old one.

    For a tabular world (one with a table of outcomes, or Gymnasium's toy-text games) the wrapper
    is itself a `TabularEnv`, of the infinite world.

    Parameters
    ----------
    env
        Any Gymnasium environment; a time limit around it, from `gymnasium.make`, is taken off.
    probability
        Probability in [0, 1) that a step which does not terminate leads to a start state too,
        which makes a game that never terminates ergodic.

    Raises
    ------
    EnvironmentSpecError
        If the probability is outside [0, 1).

    Notes
    -----
    Yang, Dai, Nachum, Tucker, Schuurmans, "Offline Policy Selection under Uncertainty", appendix
    C.1, whose environments are made infinite-horizon in the same way.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], *, probability: float = 0.0) -> None:
        check_share("probability", probability, below_one=True)
        RecordConstructorArgs.__init__(self, probability=probability)
        # A time limit of the game does not belong to the infinite world.
        while isinstance(env, TimeLimit):
            env = env.env
        gymnasium.Wrapper.__init__(self, env)
        self.probability = probability

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take an action, and start afresh if it ends the game or chance has it.

        Parameters
        ----------
        action
            An action of the wrapped environment.

        Returns
        -------
        tuple
            Next observation, reward, False, truncated, info.
        """
        observation, reward, terminated, truncated, info = self.env.step(action)
        restarted = bool(terminated)
        # No draw where there is no chance, so that a game's own stream of draws stays its own.
        if not restarted and self.probability > 0:
            restarted = bool(self.np_random.random() < self.probability)
        info = {**info, "restarted": restarted}
        if restarted:
            info["final_observation"] = observation
            # No seed: the generator goes on, so that one seed fixes the whole infinite run.
            observation, _ = self.env.reset()
        return observation, float(reward), False, truncated, info

    @cached_property
    def _episodic(self) -> tuple[Outcomes, Float[np.ndarray, " S"]]:
        world = through_transparent(self.env)
        if isinstance(world, TabularEnv):
            return world.outcomes, world.initial_distribution
        # Whether a fickle passenger changes their mind depends on the past: `P` leaves it out.
        table = None if getattr(world, "fickle_passenger", False) else getattr(world, "P", None)
        initial_distribution = getattr(world, "initial_state_distrib", None)
        if table is None or initial_distribution is None:
            raise EnvironmentSpecError(
                f"Restart around {type(world).__name__}: not a tabular world, so it has no table "
                "of outcomes. Expected `outcomes` and `initial_distribution`, or the `P` and "
                "`initial_state_distrib` of Gymnasium's toy-text games."
            )
        return outcomes_of_toy_text(table), np.asarray(initial_distribution, dtype=np.float64)

    @cached_property
    def outcomes(self) -> Outcomes:
        """The outcomes of every state and action in the infinite world, each field (S, A, K).

        Raises
        ------
        EnvironmentSpecError
            If the wrapped environment is not tabular.
        """
        return restart_outcomes(*self._episodic, probability=self.probability)

    @property
    def initial_distribution(self) -> Float[np.ndarray, " S"]:
        """Distribution of the first state, and of the state after each restart, (S,)."""
        return self._episodic[1]

    @cached_property
    def transition_matrix(self) -> Float[np.ndarray, "S A S"]:
        """Probability of going on to each state, (S, A, S); every row sums to 1."""
        return transition_matrix(self.outcomes)

    @cached_property
    def reward_matrix(self) -> Float[np.ndarray, "S A"]:
        """Mean reward of each state and action, (S, A)."""
        return reward_matrix(self.outcomes)
