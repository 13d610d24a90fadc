"""RiverSwim: a chain in which the good end is reached only by swimming against the current.

Drifting left is sure and pays little; swimming right often fails and pays at the far end alone.
Logs of a policy that rarely gets there say little about one that does: the classical test of
whether uncertainty is told honestly.
"""

import numpy as np

from bayesdice_ppl.envs.table_env import TableEnv
from bayesdice_ppl.envs.tabular import Outcomes, compact
from bayesdice_ppl.errors import EnvironmentSpecError

LEFT, RIGHT = 0, 1
# Probabilities of (left, stay, right) when swimming right: at the left bank, between, at the end.
AT_START, BETWEEN, AT_END = (0.0, 0.4, 0.6), (0.05, 0.6, 0.35), (0.4, 0.6, 0.0)
SMALL_REWARD, LARGE_REWARD = 0.005, 1.0


class RiverSwim(TableEnv):
    """A river of `n_states` places; action 0 drifts left, action 1 swims right.

    Parameters
    ----------
    n_states
        Length of the river, at least 2.
    render_mode
        Only None.

    Raises
    ------
    EnvironmentSpecError
        If the river is too short.

    Notes
    -----
    The game is Strehl and Littman's, "An analysis of model-based interval estimation for Markov
    decision processes" (2008), with the probabilities and rewards of Osband, Russo, Van Roy,
    "(More) efficient reinforcement learning via posterior sampling" (2013): 0.005 for drifting at
    the left bank, 1 for swimming at the right end, and a start at the left bank.
    """

    def __init__(self, n_states: int = 6, *, render_mode: str | None = None) -> None:
        if not isinstance(n_states, int | np.integer) or n_states < 2:
            raise EnvironmentSpecError(
                f"n_states: expected a river of at least 2 places, found {n_states!r}."
            )
        here = np.arange(n_states)
        probability = np.zeros((n_states, 2, 3))
        probability[:, LEFT] = (1.0, 0.0, 0.0)
        probability[:, RIGHT] = BETWEEN
        probability[0, RIGHT], probability[-1, RIGHT] = AT_START, AT_END
        next_state = np.clip(here[:, None] + np.array([-1, 0, 1]), 0, n_states - 1)
        shape = probability.shape
        reward = np.zeros(shape)
        reward[0, LEFT], reward[-1, RIGHT] = SMALL_REWARD, LARGE_REWARD
        outcomes = Outcomes(
            probability=probability,
            next_state=np.broadcast_to(next_state[:, None], shape),
            reward=reward,
            terminated=np.zeros(shape, dtype=bool),
        )
        start = np.zeros(n_states)
        start[0] = 1.0
        super().__init__(compact(outcomes), start, render_mode=render_mode)
