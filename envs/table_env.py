"""A Gymnasium environment that plays a table of outcomes.

Worlds that are born as tables (bandits, random MDPs) need no code of their own to be played: one
uniform draw picks the first state, one more picks the outcome of each step.
"""

from functools import cached_property
from typing import Any

import gymnasium
import numpy as np
from jaxtyping import Float

from bayesdice_ppl.envs.tabular import (
    Outcomes,
    check_table,
    reward_matrix,
    thresholds,
    transition_matrix,
)
from bayesdice_ppl.errors import EnvironmentSpecError


class TableEnv(gymnasium.Env[Any, Any]):
    """A tabular world played from its table; observations and actions are integers.

    Parameters
    ----------
    outcomes
        The table, fields (S, A, K).
    initial_distribution
        (S,): distribution of the first state.
    render_mode
        Only None: a table has no picture.

    Raises
    ------
    EnvironmentSpecError
        If the table is not a model, or a render mode is asked for.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 (Gymnasium's own convention)

    def __init__(
        self,
        outcomes: Outcomes,
        initial_distribution: Float[np.ndarray, " S"],
        *,
        render_mode: str | None = None,
    ) -> None:
        if render_mode is not None:
            raise EnvironmentSpecError(
                f"render_mode: {type(self).__name__} draws nothing, expected None, "
                f"found {render_mode!r}."
            )
        check_table(outcomes, initial_distribution)
        n_states, n_actions, _ = outcomes.probability.shape
        self.render_mode = None
        self.observation_space = gymnasium.spaces.Discrete(n_states)
        self.action_space = gymnasium.spaces.Discrete(n_actions)
        self._outcomes = outcomes
        self._initial_distribution = initial_distribution
        self._outcome_thresholds = thresholds(outcomes.probability)
        self._start_thresholds = thresholds(initial_distribution)
        self._state = 0

    @property
    def outcomes(self) -> Outcomes:
        """The outcomes of every state and action, each field (S, A, K)."""
        return self._outcomes

    @property
    def initial_distribution(self) -> Float[np.ndarray, " S"]:
        """Distribution of the first state of an episode, (S,)."""
        return self._initial_distribution

    @cached_property
    def transition_matrix(self) -> Float[np.ndarray, "S A S"]:
        """Probability of going on to each state, (S, A, S)."""
        return transition_matrix(self._outcomes)

    @cached_property
    def reward_matrix(self) -> Float[np.ndarray, "S A"]:
        """Mean reward of each state and action, (S, A)."""
        return reward_matrix(self._outcomes)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        """Start an episode.

        Parameters
        ----------
        seed
            Seeds the environment's generator; None goes on with the one there is.
        options
            Unused.

        Returns
        -------
        tuple
            First state and an empty dict.
        """
        super().reset(seed=seed, options=options)
        self._state = self._pick(self._start_thresholds)
        return self._state, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Take an action.

        Parameters
        ----------
        action
            0 to A - 1.

        Returns
        -------
        tuple
            Next state, reward, terminated, truncated (always False) and an empty dict.
        """
        k = self._pick(self._outcome_thresholds[self._state, action])
        at = (self._state, action, k)
        self._state = int(self._outcomes.next_state[at])
        reward, terminated = self._outcomes.reward[at], self._outcomes.terminated[at]
        return self._state, float(reward), bool(terminated), False, {}

    def _pick(self, limits: Float[np.ndarray, " K"]) -> int:
        return int(np.searchsorted(limits, self.np_random.random(), side="right"))
