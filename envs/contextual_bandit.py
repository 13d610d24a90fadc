"""ContextualBandit: Bernoulli arms whose probabilities depend on a context that is drawn anew.

Each step shows a context (the state), pays by the arm that is pulled, and draws the next context
from the same distribution whatever the arm: a small model of a recommender's page views.
"""

from collections.abc import Sequence

import numpy as np

from bayesdice_ppl.envs.checks import read_probabilities
from bayesdice_ppl.envs.table_env import TableEnv
from bayesdice_ppl.envs.tabular import Outcomes
from bayesdice_ppl.errors import EnvironmentSpecError

ARMS = ((0.7, 0.4, 0.2), (0.3, 0.6, 0.2), (0.1, 0.3, 0.5), (0.5, 0.45, 0.4))
"""Four contexts of three arms: the best arm differs in three, and matters little in the fourth."""


class ContextualBandit(TableEnv):
    """A Bernoulli bandit with contexts.

    Parameters
    ----------
    arms
        (C, A): probability that each arm pays 1 (it pays 0 otherwise) in each context.
    contexts
        (C,): distribution of the context of a step; None is the uniform one.
    render_mode
        Only None.

    Raises
    ------
    EnvironmentSpecError
        If there is no arm or no context, a probability is outside [0, 1], or `contexts` is no
        distribution over them.
    """

    def __init__(
        self,
        arms: Sequence[Sequence[float]] = ARMS,
        contexts: Sequence[float] | None = None,
        *,
        render_mode: str | None = None,
    ) -> None:
        form = "probabilities, a row for each context and a column for each arm"
        mean = read_probabilities("arms", arms, 2, form)
        n_contexts, n_arms = mean.shape
        uniform = np.full(n_contexts, 1.0 / n_contexts)
        form = f"{n_contexts} probabilities that sum to 1, one for each row of arms"
        drawn = uniform if contexts is None else read_probabilities("contexts", contexts, 1, form)
        if drawn.shape != uniform.shape or not np.isclose(drawn.sum(), 1.0, rtol=0, atol=1e-9):
            raise EnvironmentSpecError(f"contexts: expected {form}, found {contexts!r}.")
        # The reward and the next context are independent: their product, flattened.
        shape = (n_contexts, n_arms, 2, n_contexts)
        paid = np.stack([1.0 - mean, mean], axis=-1)[..., None]
        reward = np.array([0.0, 1.0])[:, None]
        flat = (n_contexts, n_arms, 2 * n_contexts)
        outcomes = Outcomes(
            probability=np.broadcast_to(paid * drawn, shape).reshape(flat),
            next_state=np.broadcast_to(np.arange(n_contexts), shape).reshape(flat),
            reward=np.broadcast_to(reward, shape).reshape(flat),
            terminated=np.zeros(flat, dtype=bool),
        )
        self.arms = mean
        super().__init__(outcomes, drawn, render_mode=render_mode)
