"""Bandit: Bernoulli arms, the smallest world in which everything has a closed form.

There is one state, and each pull leads back to it, so that the normalized value of a policy is its
mean reward at every discount.
"""

from collections.abc import Sequence

import numpy as np

from bayesdice_ppl.envs.checks import read_probabilities
from bayesdice_ppl.envs.table_env import TableEnv
from bayesdice_ppl.envs.tabular import Outcomes


class Bandit(TableEnv):
    """A Bernoulli bandit.

    Parameters
    ----------
    arms
        Probability that each arm pays 1 (it pays 0 otherwise), one entry an arm.
    render_mode
        Only None.

    Raises
    ------
    EnvironmentSpecError
        If there is no arm, or an arm's probability is outside [0, 1].

    Notes
    -----
    Yang, Dai, Nachum, Tucker, Schuurmans, "Offline Policy Selection under Uncertainty", appendix
    C.1: a two-armed bandit with binary rewards.
    """

    def __init__(
        self, arms: Sequence[float] = (0.75, 0.25), *, render_mode: str | None = None
    ) -> None:
        mean = read_probabilities("arms", arms, 1, "a list of probabilities, one for each arm")
        shape = (1, mean.size, 2)
        outcomes = Outcomes(
            probability=np.stack([1.0 - mean, mean], axis=-1)[None],
            next_state=np.zeros(shape, dtype=np.int64),
            reward=np.broadcast_to(np.array([0.0, 1.0]), shape),
            terminated=np.zeros(shape, dtype=bool),
        )
        self.arms = mean
        super().__init__(outcomes, np.ones(1), render_mode=render_mode)
