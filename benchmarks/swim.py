"""A river of many places that is seen as a number: states that are vectors, with a known truth.

It is RiverSwim with strokes of several places that vary a little. What is seen is the place over
the length of the river, so that an explorer has to learn through features. Values are exact, by
the table behind it.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from bayesdice_ppl.envs import Outcomes, TableEnv
from bayesdice_ppl.envs.river_swim import LARGE_REWARD, LEFT, RIGHT, SMALL_REWARD
from bayesdice_ppl.envs.tabular import compact

STROKE, VARIES = 5, ((-1, 0.25), (0, 0.5), (1, 0.25))
SWIMS = ((-1, 0.05), (0, 0.6), (1, 0.35))
"""Probabilities of being carried back, staying, and moving on, as in RiverSwim."""
BANK = 0.1
"""Share of the river at its left that pays a little, and at its right that pays much."""


class LongRiver(TableEnv):
    """Action 0 drifts left by about five places, action 1 swims right and often fails.

    Parameters
    ----------
    n_places
        Length of the river.
    """

    def __init__(self, n_places: int = 31) -> None:
        here = np.arange(n_places)
        n_outcomes = len(VARIES) * len(SWIMS)
        probability = np.zeros((n_places, 2, n_outcomes))
        moved = np.zeros((n_places, 2, n_outcomes), dtype=np.int64)
        for i, (more, chance) in enumerate(VARIES):
            for j, (way, share) in enumerate(SWIMS):
                at = i * len(SWIMS) + j
                probability[:, LEFT, at] = probability[:, RIGHT, at] = chance * share
                moved[:, LEFT, at] = here - STROKE - more
                moved[:, RIGHT, at] = here + way * (STROKE + more)
        reward = np.zeros(probability.shape)
        reward[here < BANK * n_places, LEFT] = SMALL_REWARD
        reward[here >= (1.0 - BANK) * n_places, RIGHT] = LARGE_REWARD
        outcomes = Outcomes(
            probability,
            np.clip(moved, 0, n_places - 1),
            reward,
            np.zeros(probability.shape, dtype=bool),
        )
        super().__init__(compact(outcomes), np.eye(n_places)[0])


class AsNumber(gymnasium.ObservationWrapper[Any, Any, Any]):
    """The place as a number in 0 to 1, shape (1,).

    Parameters
    ----------
    env
        A river.
    """

    def __init__(self, env: TableEnv) -> None:
        super().__init__(env)
        self.n_places = len(env.initial_distribution)
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float64)

    def observation(self, observation: Any) -> Any:
        """The place of a state."""
        return np.array([observation / (self.n_places - 1.0)])

    @property
    def places(self) -> Any:
        """All places, shape (S, 1)."""
        return np.linspace(0.0, 1.0, self.n_places)[:, None]


class AsCells(gymnasium.ObservationWrapper[Any, Any, Any]):
    """The place as one of a few cells of equal length.

    Parameters
    ----------
    env
        A river.
    n_cells
        How many there are.
    """

    def __init__(self, env: TableEnv, n_cells: int) -> None:
        super().__init__(env)
        self.n_places, self.n_cells = len(env.initial_distribution), n_cells
        self.observation_space = gymnasium.spaces.Discrete(n_cells)

    def observation(self, observation: Any) -> Any:
        """The cell of a state."""
        return int(observation) * self.n_cells // self.n_places

    @property
    def places(self) -> Any:
        """The cell of each state, shape (S,)."""
        return np.arange(self.n_places) * self.n_cells // self.n_places
