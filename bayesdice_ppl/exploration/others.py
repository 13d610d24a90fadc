"""Other explorers, in the same loop and with the same prior: what BayesDICE is compared with.

Each is small and in its textbook form. All keep one policy for a round, as BayesDICE does.
"""

from __future__ import annotations

from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float

from bayesdice_ppl import checks
from bayesdice_ppl.exploration.explorers import (
    Chosen,
    Counted,
    ExplorationTask,
    Explorer,
    RoundRows,
    by_counts,
    check_discounted,
)
from bayesdice_ppl.exploration.featured import by_features
from bayesdice_ppl.exploration.planning import with_settings
from bayesdice_ppl.exploration.spaces import as_policy, plan, space_of
from bayesdice_ppl.features import FeatureChoice
from bayesdice_ppl.models import (
    FeatureBeliefs,
    PairBeliefs,
    pair_variance,
    policy_belief,
    prediction_covariance,
)

_CONFIDENCE = 0.05
_CLOSE = 1e-4


@final
class Learned(NamedTuple):
    """The state of Q-learning.

    Attributes
    ----------
    task
        What is known beforehand.
    values, visits
        Action values, and how often each was updated, shape (S, A).
    rounds
        Rounds so far.
    """

    task: ExplorationTask
    values: Float[np.ndarray, "S A"]
    visits: Float[np.ndarray, "S A"]
    rounds: int


def q_learning(*, power: float = 0.5, step_power: float = 0.6) -> Explorer:
    """Epsilon-greedy Q-learning.

    Parameters
    ----------
    power
        Epsilon is k^-power in round k.
    step_power
        The step size is n^-step_power at the nth visit of a pair.

    Raises
    ------
    SettingsError
        A power is not above 0.

    Notes
    -----
    Watkins, Dayan, "Q-learning" (1992). Values start at the lower end of the range, without
    optimism, and ties are broken at random.
    """
    checks.positive("q_learning: power", power)
    checks.positive("q_learning: step_power", step_power)

    def init(task: ExplorationTask) -> Learned:
        check_discounted("q_learning", task)
        assert task.n_states is not None
        low = task.rewards.low / (1.0 - task.gamma)
        zero = np.zeros((task.n_states, task.n_actions))
        return Learned(task, zero + low, zero, 0)

    def learn(state: Learned, rows: RoundRows) -> Learned:
        values, visits = state.values.copy(), state.visits.copy()
        for s, a, r, t in zip(rows.state, rows.action, rows.reward, rows.successor, strict=True):
            visits[s, a] += 1.0
            target = r + state.task.gamma * values[t].max()
            values[s, a] += visits[s, a] ** -step_power * (target - values[s, a])
        return Learned(state.task, values, visits, state.rounds + 1)

    def choose(state: Learned, rng: np.random.Generator) -> Chosen:
        best = state.values >= state.values.max(axis=1, keepdims=True)
        greedy = best / best.sum(axis=1, keepdims=True)
        epsilon = float(state.rounds + 1) ** -power
        return Chosen((1.0 - epsilon) * greedy + epsilon / state.task.n_actions)

    usual = {"power": 0.5, "step_power": 0.6}
    name = with_settings("q_learning", {"power": power, "step_power": step_power}, usual)
    return Explorer(name, init, learn, choose)


def ucbvi(*, scale: float = 1.0) -> Explorer:
    """Value iteration with upper confidence bonuses (UCB-VI).

    Parameters
    ----------
    scale
        Factor of the bonus; 1 is Hoeffding's bound.

    Raises
    ------
    SettingsError
        The scale is negative.

    Notes
    -----
    Azar, Osband, Munos, "Minimax regret bounds for reinforcement learning" (2017), the algorithm
    UCBVI-CH with the discount's horizon H = 1 / (1 - gamma). Its bonus there is 7 H L / sqrt(n),
    L = log(5 S A T / delta), for rewards in 0 to 1. Here it is Hoeffding's bound itself, H sqrt(L /
    (2 n)), L = log(2 S A T / delta), at delta = 0.05. That is some forty times smaller.
    """
    checks.nonnegative("ucbvi: scale", scale)

    def choose(state: Counted, rng: np.random.Generator) -> Chosen:
        return Chosen(as_policy(ucb_values(state, scale).argmax(axis=1), state.task.n_actions))

    name = with_settings("ucbvi", {"scale": scale}, {"scale": 1.0})
    return by_counts(name, choose, averages=False)


def ucb_values(state: Counted, scale: float) -> Float[np.ndarray, "S A"]:
    """Upper bounds of the action values, discounted sums of rewards, shape (S, A).

    Parameters
    ----------
    state
        The log.
    scale
        Factor of the bonus.
    """
    task, counts = state.task, state.counts
    visits = counts.visits
    filled = np.maximum(visits, 1.0)
    moves = counts.moves / filled[..., None]
    reward = counts.reward_sum.sum(axis=-1) / filled
    size = (task.rewards.high - task.rewards.low) / (1.0 - task.gamma)
    top = task.rewards.high / (1.0 - task.gamma)
    n_tests = 2.0 * visits.size * max(visits.sum(), 1.0) / _CONFIDENCE
    bonus = scale * size * np.sqrt(0.5 * np.log(n_tests) / filled)
    # Without optimism a pair never logged is worth as little as it can be.
    unknown = top if scale > 0.0 else task.rewards.low / (1.0 - task.gamma)
    values = np.full(visits.shape, top)
    while True:
        worth = np.minimum(reward + bonus + task.gamma * moves @ values.max(axis=1), top)
        worth = np.where(visits > 0.0, worth, unknown)
        if np.abs(worth - values).max() <= _CLOSE * size * (1.0 - task.gamma):
            return worth
        values = worth


def psrl() -> Explorer:
    """Posterior sampling (PSRL): optimal in a model that is drawn from the belief.

    Notes
    -----
    Osband, Russo, Van Roy, "(More) efficient reinforcement learning via posterior sampling" (2013).
    Successors have a Dirichlet posterior and mean rewards a normal one, from the same completed
    log as BayesDICE's.
    """

    def choose(state: Counted, rng: np.random.Generator) -> Chosen:
        moves, reward = draw_model(state.beliefs, rng)
        return Chosen(as_policy(plan(moves, reward, state.task.gamma), state.task.n_actions))

    return by_counts("psrl", choose)


def draw_model(
    beliefs: PairBeliefs, rng: np.random.Generator
) -> tuple[Float[np.ndarray, "S A S"], Float[np.ndarray, "S A"]]:
    """Successors and mean rewards of one model drawn from the belief.

    Parameters
    ----------
    beliefs
        The completed log.
    rng
        Random numbers.
    """
    weights = beliefs.moves * beliefs.total[..., None]
    # A Dirichlet draw is one of independent gammas over their sum.
    gammas = rng.gamma(np.maximum(weights, 1e-12)) * (weights > 0.0)
    total = gammas.sum(axis=-1, keepdims=True)
    moves = np.where(total > 0.0, gammas / np.where(total > 0.0, total, 1.0), beliefs.moves)
    sd = np.sqrt(pair_variance(beliefs, np.zeros(len(moves)), 0.0))
    return moves, beliefs.reward + sd * rng.normal(size=sd.shape)


def rlsvi(*, features: FeatureChoice | None = None) -> Explorer:
    """Randomized value functions (RLSVI): optimal for rewards with noise, in the mean model.

    Parameters
    ----------
    features
        Features of the state, as for `bayesdice_ppl.exploration.bayesdice`. None: tables.

    Notes
    -----
    Osband, Van Roy, Russo, Wen, "Deep exploration via randomized value functions" (2019). The noise
    has the covariance of the mean of r + gamma V(s') of each pair, or of its weights, for V of the
    policy that is best in the mean, from the same completed log as BayesDICE's.
    """

    def choose(state: Counted, rng: np.random.Generator) -> Chosen:
        beliefs, gamma = state.beliefs, state.task.gamma
        policy = as_policy(plan(beliefs.moves, beliefs.reward, gamma), state.task.n_actions)
        sd = np.sqrt(policy_belief(beliefs, policy, gamma).pair_variance)
        drawn = beliefs.reward + sd * rng.normal(size=sd.shape)
        return Chosen(as_policy(plan(beliefs.moves, drawn, gamma), state.task.n_actions))

    def through_features(beliefs: FeatureBeliefs, gamma: float, rng: np.random.Generator) -> Chosen:
        space = space_of(beliefs, gamma)
        greedy = space.optimal(space.reward, None)
        covariance = prediction_covariance(beliefs, space.belief(greedy).state_value, gamma)
        sizes, axes = np.linalg.eigh(covariance)
        draws = np.sqrt(np.maximum(sizes, 0.0)) * rng.normal(size=sizes.shape)
        noise = np.einsum("akl,al->ka", axes, draws)
        return Chosen(space.optimal(space.reward + noise, greedy))

    if features is not None:
        return by_features("rlsvi", features, through_features)
    return by_counts("rlsvi", choose)
