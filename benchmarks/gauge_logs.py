"""Small logs for the cases of gauges: a bandit, an MDP, and a point on a line that is pushed.

Each is a few lines of NumPy with a seed, so that a case can change the one thing that it is about.
"""

import numpy as np
import polars as pl

import bayesdice_ppl as bd


def bandit(
    n: int = 2000,
    n_states: int = 4,
    n_actions: int = 3,
    *,
    chances: np.ndarray | None = None,
    noise: float = 1.0,
    seed: int = 0,
) -> pl.DataFrame:
    """Independent rows: states alike, actions by a table of probabilities, rewards around means."""
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(n_states, n_actions))
    if chances is None:
        chances = np.full((n_states, n_actions), 1.0 / n_actions)
    state = rng.integers(n_states, size=n)
    action = drawn(rng, chances[state])
    reward = means[state, action] + noise * rng.normal(size=n)
    return pl.DataFrame({"state": state, "action": action, "reward": reward})


def process(
    m: int = 80,
    length: int = 20,
    n_states: int = 6,
    n_actions: int = 3,
    *,
    seed: int = 0,
    never: tuple[int, ...] = (),
) -> pl.DataFrame:
    """Episodes of a random MDP under uniform actions; some actions may be taken in no state > 0."""
    rng = np.random.default_rng(seed)
    where = rng.dirichlet(np.full(n_states, 0.5), size=(n_states, n_actions))
    means = rng.normal(size=(n_states, n_actions))
    chances = np.ones((n_states, n_actions))
    chances[1:, list(never)] = 0.0
    chances /= chances.sum(axis=1, keepdims=True)
    state = np.zeros((m, length + 1), dtype=int)
    state[:, 0] = rng.integers(n_states, size=m)
    action = np.zeros((m, length), dtype=int)
    for t in range(length):
        action[:, t] = drawn(rng, chances[state[:, t]])
        state[:, t + 1] = drawn(rng, where[state[:, t], action[:, t]])
    reward = means[state[:, :-1], action] + rng.normal(size=(m, length))
    return pl.DataFrame(
        {
            "episode_id": np.repeat(np.arange(m), length),
            "step": np.tile(np.arange(length), m),
            "state": state[:, :-1].ravel(),
            "action": action.ravel(),
            "reward": reward.ravel(),
            "next_state": state[:, 1:].ravel(),
        }
    )


def drift(
    m: int = 60,
    length: int = 40,
    *,
    gain: float = -0.3,
    sd: float = 0.4,
    seed: int = 0,
) -> pl.DataFrame:
    """A point on a line that is pushed: x' = 0.9 x + a + noise; the log pushes N(gain x, sd)."""
    rng = np.random.default_rng(seed)
    rows, x = [], 0.5 * rng.normal(size=m)
    for _ in range(length):
        a = gain * x + sd * rng.normal(size=m)
        after = 0.9 * x + a + 0.1 * rng.normal(size=m)
        density = np.exp(-0.5 * ((a - gain * x) / sd) ** 2) / (sd * np.sqrt(2 * np.pi))
        rows.append((x, a, -(x**2) - 0.1 * a**2, after, density))
        x = after
    obs, action, reward, following, density = (
        np.array(part).T.ravel() for part in zip(*rows, strict=True)
    )
    return pl.DataFrame(
        {
            "episode_id": np.repeat(np.arange(m), length),
            "step": np.tile(np.arange(length), m),
            "obs_0": obs,
            "action_0": action,
            "reward": reward,
            "next_obs_0": following,
            "propensity": density,
        }
    )


def pushing(gain: float, sd: float = 0.4) -> bd.GaussianPolicy:
    """A candidate for `drift`."""
    return bd.GaussianPolicy(lambda obs: gain * obs[:, :1], sd)


def table(*rows: list[float], states: int = 4) -> bd.TabularPolicy:
    """The same probabilities in all states, or a row for each."""
    return bd.TabularPolicy(np.array(rows if len(rows) > 1 else rows * states, dtype=float))


def drawn(rng: np.random.Generator, chances: np.ndarray) -> np.ndarray:
    """One draw by each row of probabilities."""
    return (rng.random((len(chances), 1)) > chances.cumsum(axis=1)).sum(axis=1)
