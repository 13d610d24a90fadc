"""Other kinds of logs: worlds with known values, as practice has them.

Rewards drift, feedback is late, rows are lost or doubled, one episode is long. Truths are closed
forms of the population, by linear algebra and with no code of the library.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import polars as pl

from benchmarks.promise import Kind, Noise, World, draw, normal


class Chain(NamedTuple):
    """An MDP, who logs it, and three candidates.

    Attributes
    ----------
    move
        Chances of the next state, shape (S, A, S).
    mean
        Means of the rewards, shape (S, A).
    logging
        Logging policies, shape (L, S, A); episodes take turns over them.
    tables
        The candidates.
    """

    move: np.ndarray
    mean: np.ndarray
    logging: np.ndarray
    tables: list[np.ndarray]

    def values(
        self, gamma: float, start: np.ndarray | None = None, ends: float = 0.0
    ) -> np.ndarray:
        """True values of the candidates; `ends` is the chance to stop for ever after a step."""
        n_states = len(self.move)
        start = np.full(n_states, 1.0 / n_states) if start is None else start
        found = []
        for table in self.tables:
            flow = np.einsum("sa,sat->st", table, self.move)
            if gamma < 1.0:
                system = np.eye(n_states) - gamma * (1.0 - ends) * flow.T
                visits = np.linalg.solve(system, (1.0 - gamma) * start)
            else:
                system = np.vstack([np.eye(n_states) - flow.T, np.ones(n_states)])
                visits = np.linalg.lstsq(system, np.eye(n_states + 1)[-1], rcond=None)[0]
            found.append(float(visits @ (table * self.mean).sum(axis=1)))
        return np.array(found)

    def walk(
        self,
        rng: np.random.Generator,
        lengths: np.ndarray,
        noise: Noise = normal,
        start: np.ndarray | None = None,
    ) -> pl.DataFrame:
        """Episodes of the given lengths, in the order of episodes and steps."""
        state = rng.integers(len(self.move), size=len(lengths)) if start is None else start
        parts = []
        for step in range(int(lengths.max())):
            on = np.flatnonzero(lengths > step)
            action = draw(rng, self.logging[on % len(self.logging), state[on]])
            reward = noise(rng, self.mean[state[on], action])
            following = draw(rng, self.move[state[on], action])
            parts.append((on, np.full(len(on), step), state[on], action, reward, following))
            state = state.copy()
            state[on] = following
        names = ("episode_id", "step", "state", "action", "reward", "next_state")
        columns = (np.concatenate(column) for column in zip(*parts, strict=True))
        return pl.DataFrame(dict(zip(names, columns, strict=True))).sort("episode_id", "step")


def chain(rng: np.random.Generator, n_logging: int = 1, n_states: int = 8) -> Chain:
    """A random MDP of 3 actions."""
    move = rng.dirichlet(np.full(n_states, 0.5), size=(n_states, 3))
    logging = rng.dirichlet(np.full(3, 5.0), size=(n_logging, n_states))
    tables = list(rng.dirichlet(np.ones(3), size=(3, n_states)))
    return Chain(move, rng.normal(size=(n_states, 3)), logging, tables)


class Arms(NamedTuple):
    """A contextual bandit of uniform contexts, who logs it, and candidates."""

    mean: np.ndarray
    logging: np.ndarray
    tables: list[np.ndarray]

    def values(self) -> np.ndarray:
        """True values of the candidates."""
        return np.array([(table * self.mean).sum(axis=1).mean() for table in self.tables])

    def rows(self, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """States, actions and mean rewards of independent rows."""
        state = rng.integers(len(self.mean), size=n)
        action = draw(rng, self.logging[state])
        return state, action, self.mean[state, action]


def arms(rng: np.random.Generator, n_states: int = 3, n_actions: int = 3) -> Arms:
    """A random bandit of three candidates."""
    logging = rng.dirichlet(np.full(n_actions, 5.0), size=n_states)
    tables = list(rng.dirichlet(np.ones(n_actions), size=(3, n_states)))
    return Arms(rng.normal(size=(n_states, n_actions)), logging, tables)


def table_of(
    state: np.ndarray, action: np.ndarray, reward: np.ndarray, **more: object
) -> pl.DataFrame:
    """A log without episodes, and with whatever else it has."""
    return pl.DataFrame({"state": state, "action": action, "reward": reward, **more})


def rows_of(
    n: int,
    noise: Callable[[np.random.Generator, np.ndarray], np.ndarray] = normal,
    change: Callable[[np.random.Generator, Arms], Arms] | None = None,
    size: tuple[int, int] = (3, 3),
) -> Callable[[np.random.Generator], World]:
    """A bandit of rows, whose noise may look at their order; `change` makes it a special one."""

    def make(rng: np.random.Generator) -> World:
        world = arms(rng, *size)
        world = world if change is None else change(rng, world)

        def play(rng: np.random.Generator) -> pl.DataFrame:
            state, action, mean = world.rows(rng, n)
            return table_of(state, action, noise(rng, mean))

        return World(play, world.tables, world.values())

    return make


def trend(end: bool) -> Callable[[np.random.Generator], World]:
    """Rewards that go up or down in the course of the log, each pair its own way.

    A value is what a policy earns over the log's period, or, with `end`, from its last row on.
    """

    def make(rng: np.random.Generator) -> World:
        n, world = 2_000, arms(rng)
        slope = rng.normal(size=world.mean.shape)

        def play(rng: np.random.Generator) -> pl.DataFrame:
            state, action, mean = world.rows(rng, n)
            when = np.linspace(-1.0, 1.0, n)
            return table_of(state, action, normal(rng, mean + slope[state, action] * when))

        last = world._replace(mean=world.mean + slope) if end else world
        return World(play, world.tables, last.values())

    return make


def wave(rng: np.random.Generator, mean: np.ndarray) -> np.ndarray:
    """All rewards go up and down together, ten times in a log."""
    phase = 2.0 * np.pi * (10.0 * np.arange(len(mean)) / len(mean) + rng.random())
    return normal(rng, mean + np.sin(phase))


def lag_50(rng: np.random.Generator, mean: np.ndarray) -> np.ndarray:
    """Noise whose correlation falls to 1/e in 50 rows."""
    keep, noise = np.exp(-1.0 / 50.0), rng.normal(size=len(mean))
    noise[1:] *= np.sqrt(1.0 - keep**2)
    for t in range(1, len(mean)):
        noise[t] += keep * noise[t - 1]
    return mean + noise


def turns(rng: np.random.Generator, mean: np.ndarray) -> np.ndarray:
    """Fifty users take turns, each with an effect, and nobody logged which is which."""
    return normal(rng, mean + 0.7 * rng.normal(size=50)[np.arange(len(mean)) % 50])


def uneven(rng: np.random.Generator, mean: np.ndarray) -> np.ndarray:
    """Noise whose sd is 0.1 to 10, the larger the higher the mean."""
    return mean + 10.0 ** np.tanh(mean) * rng.normal(size=len(mean))


def far_from_zero(rng: np.random.Generator, mean: np.ndarray) -> np.ndarray:
    """Rewards of sd 1 around a million."""
    return 1e6 + normal(rng, mean)


def mostly_ends(rng: np.random.Generator, mean: np.ndarray) -> np.ndarray:
    """Rewards in [0, 1] of the given means: 0 or 1, but for one in ten, which lies between."""
    coin = (rng.random(len(mean)) < mean).astype(float)
    inner = rng.beta(10.0 * mean, 10.0 * (1.0 - mean))
    return np.where(rng.random(len(mean)) < 0.1, inner, coin)


def constant(rng: np.random.Generator, mean: np.ndarray) -> np.ndarray:
    """The same reward always."""
    return np.full(len(mean), 0.7)


def late(rng: np.random.Generator, mean: np.ndarray) -> np.ndarray:
    """Conversions that come 200 rows later on average; what has not come yet is still a 0."""
    n = len(mean)
    converted = rng.random(n) < mean
    return (converted & (rng.exponential(200.0, size=n) < n - np.arange(n))).astype(float)


def _rates(rng: np.random.Generator, world: Arms) -> Arms:
    return world._replace(mean=rng.uniform(0.05, 0.95, size=world.mean.shape))


def _all_equal(rng: np.random.Generator, world: Arms) -> Arms:
    return world._replace(mean=np.full(world.mean.shape, 0.7))


def _million(world: World) -> World:
    return world._replace(truth=world.truth + 1e6)


def _copy(rng: np.random.Generator, world: Arms) -> Arms:
    return world._replace(tables=[world.logging, *world.tables[1:]])


def _sharp(rng: np.random.Generator, world: Arms) -> Arms:
    n_states, n_actions = world.mean.shape
    favorite = np.eye(n_actions)[rng.integers(n_actions, size=n_states)]
    return world._replace(logging=0.97 * favorite + 0.03 / n_actions)


def _ties(rng: np.random.Generator, world: Arms) -> Arms:
    """The second candidate is the first; the third is another of the same value."""
    first = world.tables[0]
    # The third acts in each state as the first does in the next, and means are moved to match.
    third = np.roll(first, 1, axis=0)
    gap = (third * world.mean).sum() - (first * world.mean).sum()
    lift = first - third
    mean = world.mean + lift * gap / (lift**2).sum()
    return world._replace(mean=mean, tables=[first, first.copy(), third])


def two_users(rng: np.random.Generator) -> World:
    """Episodes that two of 40 users share, turn by turn; each user's rewards share an effect."""
    world, n, n_steps = chain(rng), 200, 10

    def play(rng: np.random.Generator) -> pl.DataFrame:
        frame = world.walk(rng, np.full(n, n_steps))
        pair = np.array([rng.choice(40, size=2, replace=False) for _ in range(n)])
        user = pair[frame["episode_id"].to_numpy(), frame["step"].to_numpy() % 2]
        shared = pl.Series(rng.normal(size=40)[user])
        return frame.with_columns(pl.col("reward") + shared, user_id=pl.Series(user))

    return World(play, world.tables, world.values(0.9))


def clusters(column: str) -> Callable[[np.random.Generator], World]:
    """Three clusters of rows, each with an effect; the column that has them is given this name."""

    def make(rng: np.random.Generator) -> World:
        world = arms(rng)

        def play(rng: np.random.Generator) -> pl.DataFrame:
            state, action, mean = world.rows(rng, 900)
            group = rng.integers(3, size=900)
            reward = normal(rng, mean + rng.normal(size=3)[group])
            return table_of(state, action, reward, **{column: group})

        return World(play, world.tables, world.values())

    return make


def once(rng: np.random.Generator) -> World:
    """Four arms, of which the last is logged once; candidates take it in 5, 30 and 90 %."""
    mean, shares = rng.normal(size=4), (0.05, 0.3, 0.9)
    tables = [np.array([[(1.0 - p) / 3.0] * 3 + [p]]) for p in shares]

    def play(rng: np.random.Generator) -> pl.DataFrame:
        action = rng.integers(3, size=500)
        action[rng.integers(500)] = 3
        return table_of(np.zeros(500, dtype=int), action, normal(rng, mean[action]))

    return World(play, tables, np.array([float(table[0] @ mean) for table in tables]))


def doubled(rng: np.random.Generator) -> World:
    """Every row is in the log twice, one after the other."""
    world = arms(rng)

    def play(rng: np.random.Generator) -> pl.DataFrame:
        state, action, mean = world.rows(rng, 1_000)
        frame = table_of(state, action, normal(rng, mean))
        return frame[np.repeat(np.arange(1_000), 2)]

    return World(play, world.tables, world.values())


def two_sites(rng: np.random.Generator) -> World:
    """Two sites of equal size: each has a logging policy and a level of rewards of its own."""
    world, other = arms(rng), arms(rng)
    level = np.array([-1.0, 1.0])

    def play(rng: np.random.Generator) -> pl.DataFrame:
        n = 2_000
        state, site = rng.integers(3, size=n), rng.integers(2, size=n)
        action = draw(rng, np.stack([world.logging, other.logging])[site, state])
        reward = normal(rng, world.mean[state, action] + level[site])
        return table_of(state, action, reward, site=site)

    return World(play, world.tables, world.values())


def mixed_rows(rng: np.random.Generator) -> World:
    """Each row was logged by one of two policies, by the toss of a coin."""
    world, other = arms(rng, 5, 4), arms(rng, 5, 4)

    def play(rng: np.random.Generator) -> pl.DataFrame:
        state, which = rng.integers(5, size=1_000), rng.integers(2, size=1_000)
        action = draw(rng, np.stack([world.logging, other.logging])[which, state])
        return table_of(state, action, normal(rng, world.mean[state, action]))

    return World(play, world.tables, world.values())


def one_episode(n: int, gamma: float, first: int | None) -> Callable[[np.random.Generator], World]:
    """One long episode; it starts in a state that is always the same, or anywhere."""

    def make(rng: np.random.Generator) -> World:
        world = chain(rng)
        start = None if first is None else np.array([first])

        def play(rng: np.random.Generator) -> pl.DataFrame:
            return world.walk(rng, np.array([n]), start=start)

        where = None if first is None else np.eye(len(world.move))[first]
        return World(play, world.tables, world.values(gamma, where))

    return make


def episodes(
    lengths: Callable[[np.random.Generator], np.ndarray],
    gamma: float = 0.9,
    *,
    noise: Noise = normal,
    n_logging: int = 1,
    after: Callable[[np.random.Generator, pl.DataFrame], pl.DataFrame] | None = None,
    change: Callable[[np.random.Generator, Chain], Chain] | None = None,
    ends: float = 0.0,
) -> Callable[[np.random.Generator], World]:
    """Episodes whose lengths are drawn anew in each log, and what happens to their rows after."""

    def make(rng: np.random.Generator) -> World:
        world = chain(rng, n_logging)
        world = world if change is None else change(rng, world)

        def play(rng: np.random.Generator) -> pl.DataFrame:
            frame = world.walk(rng, lengths(rng), noise)
            return frame if after is None else after(rng, frame)

        return World(play, world.tables, world.values(gamma, ends=ends))

    return make


def _same(n: int, n_steps: int) -> Callable[[np.random.Generator], np.ndarray]:
    return lambda rng: np.full(n, n_steps)


def _lengths(rng: np.random.Generator) -> np.ndarray:
    return np.exp(3.0 + 1.2 * rng.normal(size=60)).astype(int).clip(2, 600)


def _without_next(rng: np.random.Generator, frame: pl.DataFrame) -> pl.DataFrame:
    return frame.drop("next_state")


def _lost(rng: np.random.Generator, frame: pl.DataFrame) -> pl.DataFrame:
    """One row in ten is missing, but for the first of each episode."""
    return frame.filter(pl.Series(rng.random(len(frame)) < 0.9) | (pl.col("step") == 0))


def _bridged(rng: np.random.Generator, frame: pl.DataFrame) -> pl.DataFrame:
    """The same, but neither steps nor next states are logged, so that nothing shows the gaps."""
    return _lost(rng, frame).drop("step", "next_state")


def _delayed(rng: np.random.Generator, frame: pl.DataFrame) -> pl.DataFrame:
    """Each reward is written down two steps after the action that earned it."""
    return frame.with_columns(pl.col("reward").shift(2).over("episode_id").fill_null(0.0))


def _ended(rng: np.random.Generator, frame: pl.DataFrame) -> pl.DataFrame:
    """One step in twenty is the last of its episode for ever; the rest is cut by the log's end."""
    ended = pl.Series(rng.random(len(frame)) < 0.05)
    before = pl.col("terminated").cast(int).cum_sum().shift(1, fill_value=0).over("episode_id")
    frame = frame.with_columns(terminated=ended).filter(before == 0)
    return frame.drop("next_state")


def _copy_chain(rng: np.random.Generator, world: Chain) -> Chain:
    return world._replace(tables=[world.logging[0], *world.tables[1:]])


def _sharp_chain(rng: np.random.Generator, world: Chain) -> Chain:
    favorite = np.eye(3)[world.logging.argmax(axis=2)]
    return world._replace(logging=0.95 * favorite + 0.05 / 3.0)


def delay(rng: np.random.Generator) -> World:
    """Rewards come two steps after the action that earned them, in episodes of 40 steps."""
    base = episodes(_same(50, 40), after=_delayed)(rng)
    return base._replace(truth=0.9**2 * base.truth)


def million(make: Callable[[np.random.Generator], World]) -> Callable[[np.random.Generator], World]:
    """The same world, its true values moved by a million."""
    return lambda rng: _million(make(rng))


ABSORBS = {"on_termination": "absorb"}
KINDS = (
    Kind("trend, value over the log's period, n 2,000", 0.0, trend(False)),
    Kind("trend, value from the log's end on, n 2,000", 0.0, trend(True)),
    Kind("all rewards rise and fall ten times, n 2,000", 0.0, rows_of(2_000, wave)),
    Kind("MDP, gamma 0.9, two of 40 users in each episode, user effect", 0.9, two_users),
    Kind("3 clusters, in a column site, n 900", 0.0, clusters("site")),
    Kind("3 clusters, in a column color, n 900", 0.0, clusters("color")),
    Kind("an action logged once, n 500", 0.0, once),
    Kind("all rewards equal, n 500", 0.0, rows_of(500, constant, _all_equal)),
    Kind(
        "one episode, always from state 0, gamma 0.95, n 2,000", 0.95, one_episode(2_000, 0.95, 0)
    ),
    Kind("one episode, from anywhere, gamma 0.95, n 2,000", 0.95, one_episode(2_000, 0.95, None)),
    Kind("noise correlated over 50 rows, n 4,000", 0.0, rows_of(4_000, lag_50)),
    Kind("50 users take turns, not logged, n 2,000", 0.0, rows_of(2_000, turns)),
    Kind("MDP, gamma 0.9, rewards two steps late, n 2,000", 0.9, delay),
    Kind("conversions that have not come yet are 0, n 2,000", 0.0, rows_of(2_000, late, _rates)),
    Kind("every row twice, 2 x 1,000", 0.0, doubled),
    Kind("two sites with policy and level of their own, n 2,000", 0.0, two_sites),
    Kind(
        "logging policy 97 % sure, bandit 5 x 4, n 2,000",
        0.0,
        rows_of(2_000, normal, _sharp, (5, 4)),
    ),
    Kind(
        "MDP, gamma 0.9, logging policy 95 % sure, n 2,000",
        0.9,
        episodes(_same(50, 40), change=_sharp_chain),
    ),
    Kind(
        "MDP, gamma 0.9, absorbing or cut, no next_state, n about 2,000",
        0.9,
        episodes(_same(120, 40), after=_ended, ends=0.05),
        False,
        ABSORBS,
    ),
    Kind(
        "MDP, gamma 0.9, 1 of 10 rows lost, no step and next_state, n 1,800",
        0.9,
        episodes(_same(50, 40), after=_bridged),
    ),
    Kind("equal candidates, equal values, n 1,000", 0.0, rows_of(1_000, normal, _ties), True),
    Kind("one episode, gamma 1, n 2,000", 1.0, one_episode(2_000, 1.0, None), True),
    Kind(
        "logging policy is a candidate, n 1,000", 0.0, rows_of(1_000, normal, _copy, (5, 4)), True
    ),
    Kind(
        "MDP, gamma 0.9, logging policy is a candidate, n 2,000",
        0.9,
        episodes(_same(50, 40), change=_copy_chain),
        True,
    ),
    Kind(
        "MDP, gamma 0.9, rewards 1e6 + noise, n 2,000",
        0.9,
        million(episodes(_same(50, 40), noise=far_from_zero)),
        True,
    ),
    Kind(
        "rewards in [0, 1], mostly 0 or 1, n 1,000", 0.0, rows_of(1_000, mostly_ends, _rates), True
    ),
    Kind(
        "MDP, gamma 0.9, time limit of 20, no next_state, n 2,000",
        0.9,
        episodes(_same(100, 20), after=_without_next),
        True,
    ),
    Kind(
        "MDP, gamma 0.9, episodes of 2 to 600 steps, n about 2,500", 0.9, episodes(_lengths), True
    ),
    Kind("two logging policies, by rows, n 1,000", 0.0, mixed_rows, True),
    Kind(
        "MDP, gamma 0.9, two logging policies, by episodes, n 2,000",
        0.9,
        episodes(_same(50, 40), n_logging=2),
        True,
    ),
    Kind("noise of sd 0.1 to 10, n 2,000", 0.0, rows_of(2_000, uneven, size=(5, 4)), True),
    Kind(
        "MDP, gamma 0.9, 1 of 10 rows lost, with next_state, n 1,800",
        0.9,
        episodes(_same(50, 40), after=_lost),
        True,
    ),
)
