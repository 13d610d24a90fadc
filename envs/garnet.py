"""Garnet: random Markov decision processes of a given size, branching and reward sparsity.

One integer seed is one world, so that a test can run over many worlds that nobody picked by hand.
Rewards are Bernoulli, so that rewards are noisy as well as transitions.
"""

import numpy as np
from jaxtyping import Float

from bayesdice_ppl.envs.checks import check_share
from bayesdice_ppl.envs.table_env import TableEnv
from bayesdice_ppl.envs.tabular import Outcomes, compact
from bayesdice_ppl.errors import EnvironmentSpecError


def garnet_outcomes(
    n_states: int,
    n_actions: int,
    branching: int,
    *,
    seed: int,
    reward_sparsity: float = 0.5,
    termination: float | Float[np.ndarray, "S A"] = 0.0,
    irreducible: bool = True,
) -> Outcomes:
    """Draw the table of a random Markov decision process.

    For each state and action: `branching` distinct next states, uniformly without replacement,
    with probabilities uniform on the simplex; a reward probability that is 0 for the share
    `reward_sparsity` of the pairs and uniform on (0, 1) for the others, the reward being 1 with
    that probability, independently of the next state, and 0 otherwise.

    Parameters
    ----------
    n_states, n_actions, branching
        Sizes, all at least 1; `branching` at most `n_states`.
    seed
        Nonnegative integer that identifies the world.
    reward_sparsity
        Share of the state-action pairs that never pay, in [0, 1); at least one pair pays.
    termination
        Probability in [0, 1) that a step ends the episode, one number or (S, A).
    irreducible
        Whether one of the next states of each state is its successor on a random cycle through
        all states, the same for all its actions. Every policy then visits every state, so that
        its average reward is unique; a pure Garnet (False) may fall apart.

    Returns
    -------
    Outcomes
        Fields (S, A, K).

    Raises
    ------
    EnvironmentSpecError
        If an argument is out of its range.

    Notes
    -----
    Archibald, McKinnon, Thomas, "On the generation of Markov decision processes" (1995).
    """
    _check_sizes(n_states, n_actions, branching, seed, reward_sparsity, irreducible)
    ending = np.asarray(termination, dtype=np.float64)
    if ending.shape not in ((), (n_states, n_actions)) or not np.all((ending >= 0) & (ending < 1)):
        raise EnvironmentSpecError(
            "termination: expected probabilities in [0, 1), one number or an array of shape "
            f"({n_states}, {n_actions}), found {termination!r}."
        )
    rng = np.random.default_rng(seed)

    cycle = rng.permutation(n_states)
    priority = rng.random((n_states, n_actions, n_states))
    if irreducible:
        priority[cycle, :, np.roll(cycle, -1)] = -1.0
    next_state = np.argsort(priority, axis=-1)[..., :branching]
    probability = rng.dirichlet(np.ones(branching), size=(n_states, n_actions))

    paying = rng.random((n_states, n_actions))
    n_pairs = paying.size
    n_silent = min(round(reward_sparsity * n_pairs), n_pairs - 1)
    paying.flat[rng.permutation(n_pairs)[:n_silent]] = 0.0

    # The three draws of a step are independent: next state x reward x end, flattened into K.
    reward_probability = np.stack([1.0 - paying, paying], axis=-1)
    ending = np.broadcast_to(ending, paying.shape)
    end_probability = np.stack([1.0 - ending, ending], axis=-1)
    joint = (
        probability[..., :, None, None]
        * reward_probability[..., None, :, None]
        * end_probability[..., None, None, :]
    )
    flat = (n_states, n_actions, -1)
    return compact(
        Outcomes(
            probability=joint.reshape(flat),
            next_state=np.broadcast_to(next_state[..., None, None], joint.shape).reshape(flat),
            reward=np.broadcast_to(np.array([[0.0], [1.0]]), joint.shape).reshape(flat),
            terminated=np.broadcast_to(np.array([False, True]), joint.shape).reshape(flat),
        )
    )


def _check_sizes(
    n_states: int,
    n_actions: int,
    branching: int,
    seed: int,
    reward_sparsity: float,
    irreducible: bool,
) -> None:
    if n_states < 1 or n_actions < 1:
        raise EnvironmentSpecError(
            f"n_states, n_actions: expected at least 1 of each, found {n_states} and {n_actions}."
        )
    if not 1 <= branching <= n_states:
        raise EnvironmentSpecError(
            f"branching: expected 1 to n_states = {n_states} next states, found {branching}."
        )
    if irreducible and branching == 1 and n_states > 1:
        raise EnvironmentSpecError(
            "branching: expected at least 2 when irreducible=True, found 1: all actions would only "
            "follow the cycle. Raise it, or pass irreducible=False."
        )
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise EnvironmentSpecError(f"seed: expected a nonnegative integer, found {seed!r}.")
    check_share("reward_sparsity", reward_sparsity, below_one=True)


class Garnet(TableEnv):
    """A random Markov decision process; episodes start uniformly over the states.

    With `termination` above 0 the world is episodic; wrapped in `Restart` it is infinite again.

    Parameters
    ----------
    n_states, n_actions, branching
        Sizes; see `garnet_outcomes`.
    seed
        Identifies the world. It is not the seed of its play, which `reset` takes.
    reward_sparsity, termination, irreducible
        See `garnet_outcomes`.
    render_mode
        Only None.

    Raises
    ------
    EnvironmentSpecError
        If an argument is out of its range.
    """

    def __init__(
        self,
        n_states: int = 20,
        n_actions: int = 4,
        branching: int = 3,
        *,
        seed: int,
        reward_sparsity: float = 0.5,
        termination: float | Float[np.ndarray, "S A"] = 0.0,
        irreducible: bool = True,
        render_mode: str | None = None,
    ) -> None:
        outcomes = garnet_outcomes(
            n_states,
            n_actions,
            branching,
            seed=seed,
            reward_sparsity=reward_sparsity,
            termination=termination,
            irreducible=irreducible,
        )
        super().__init__(outcomes, np.full(n_states, 1.0 / n_states), render_mode=render_mode)
