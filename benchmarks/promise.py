"""The promise of a belief: its intervals cover as they say, or it says that they do not.

One row is one kind of log. Truths are closed forms of the population, by linear algebra and with no
code of the library. Every kind has eight worlds, which take turns over the logs; three candidates
each. Everything is the default of `bayesdice_ppl.fit`.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
import polars as pl

import bayesdice_ppl as bd
from bayesdice_ppl.fitting.gauges import GAUGES
from benchmarks.tables import RESULTS, write_table

TRIALS = 600
WORLDS = 8
LEVELS = (0.5, 0.8, 0.9, 0.95)
DRAWS = 400
BAR, ALWAYS = 0.03, 0.98
WARNED, ABSTAINED = 0.1, 0.02
COMMAND = "python -m benchmarks promise"
NOTES = (
    "`cov_50` to `cov_95`: share of central intervals that hold the true value, of the candidates "
    "that are not abstained from; `mace`: mean of |coverage - nominal| over these; `all_90`: the "
    "third with those that are abstained from; `all_mace`: the mean with them. `spread`: sd of "
    "errors over mean sd, over all and in the worst of 8 worlds. `warned`, `abstained`: shares of "
    f"candidates. `kept`: whether the promise is kept: mace at most {BAR}, or {ALWAYS:.0%} warned "
    f"of; for healthy logs mace at most {BAR}, at most {WARNED:.0%} warned of and "
    f"{ABSTAINED:.0%} abstained from.",
    "Log i of a kind is drawn by `default_rng([number of the kind, 1, i])`, its world by "
    "`default_rng([number of the kind, 0, i mod 8])`.",
)

GAUGE_NOTES = (
    "Every number that a belief is judged by (`bayesdice_ppl.fitting.gauges`), and its thresholds; "
    "past the second the belief abstains. `missing`: largest share of candidates that it warns of "
    f"among the kinds of logs whose intervals miss (`all_mace` above {BAR} in promise.md), and "
    "which kind that is. `healthy`: mean share over the healthy kinds. Gauges of vectors, SVI and "
    "NUTS have no part in these logs.",
)

type Noise = Callable[[np.random.Generator, np.ndarray], np.ndarray]
"""Rewards around their means: from a generator and the means of the rows."""


class World(NamedTuple):
    """Where a log comes from, and what its candidates are worth.

    Attributes
    ----------
    play
        From a generator to the table of a log.
    tables
        The candidates' probabilities, one table of shape (S, A) each.
    truth
        Their values.
    """

    play: Callable[[np.random.Generator], pl.DataFrame]
    tables: list[np.ndarray]
    truth: np.ndarray


class Kind(NamedTuple):
    """A kind of log.

    Attributes
    ----------
    name
        What it is.
    gamma
        Discount.
    make
        From a generator to a world.
    healthy
        Whether there is nothing to warn of.
    options
        Of `bayesdice_ppl.fit`.
    """

    name: str
    gamma: float
    make: Callable[[np.random.Generator], World]
    healthy: bool = False
    options: Mapping[str, object] = {}


def normal(rng: np.random.Generator, mean: np.ndarray) -> np.ndarray:
    """Rewards of sd 1."""
    return mean + rng.normal(size=mean.shape)


def fixed(rng: np.random.Generator, mean: np.ndarray) -> np.ndarray:
    """The means themselves."""
    return mean


def lognormal(sigma: float) -> Noise:
    """Rewards with a heavy tail to the right, of the given means."""

    def noise(rng: np.random.Generator, mean: np.ndarray) -> np.ndarray:
        return mean * np.exp(sigma * rng.normal(size=mean.shape) - sigma**2 / 2.0)

    return noise


def coin(rng: np.random.Generator, mean: np.ndarray) -> np.ndarray:
    """1 with the probability of the mean, else 0."""
    return (rng.random(mean.shape) < mean).astype(float)


def bandit(
    n: int,
    n_states: int,
    n_actions: int,
    noise: Noise = normal,
    means: Callable[[np.random.Generator, tuple[int, int]], np.ndarray] | None = None,
) -> Callable[[np.random.Generator], World]:
    """A contextual bandit, logged by a policy of its own; contexts are drawn uniformly."""

    def make(rng: np.random.Generator) -> World:
        shape = (n_states, n_actions)
        mean = rng.normal(size=shape) if means is None else means(rng, shape)
        logging = rng.dirichlet(np.full(n_actions, 5.0), size=n_states)
        tables = [rng.dirichlet(np.ones(n_actions), size=n_states) for _ in range(3)]

        def play(rng: np.random.Generator) -> pl.DataFrame:
            state = rng.integers(n_states, size=n)
            action = draw(rng, logging[state])
            reward = noise(rng, mean[state, action])
            return pl.DataFrame({"state": state, "action": action, "reward": reward})

        return World(play, tables, np.array([(t * mean).sum(axis=1).mean() for t in tables]))

    return make


def users(rng: np.random.Generator) -> World:
    """Twenty rows of each of fifty users, whose rewards share an effect."""
    base = bandit(1_000, 3, 3, fixed)(rng)

    def play(rng: np.random.Generator) -> pl.DataFrame:
        user = np.repeat(np.arange(50), 20)
        noise = rng.normal(size=50)[user] + rng.normal(size=1_000)
        frame = base.play(rng)
        return frame.with_columns(pl.col("reward") + pl.Series(noise), user_id=pl.Series(user))

    return base._replace(play=play)


def thompson_log(rng: np.random.Generator, mean: np.ndarray, n: int) -> pl.DataFrame:
    """Rows of Thompson sampling with normal rewards of sd 1 and a normal prior of sd 1."""
    n_actions = len(mean)
    count, total = np.zeros(n_actions), np.zeros(n_actions)
    action, reward = np.empty(n, dtype=int), np.empty(n)
    for t in range(n):
        drawn = total / (count + 1) + rng.normal(size=n_actions) / np.sqrt(count + 1)
        a = action[t] = drawn.argmax()
        reward[t] = mean[a] + rng.normal()
        count[a] += 1
        total[a] += reward[t]
    return pl.DataFrame({"state": 0, "action": action, "reward": reward})


def thompson(rng: np.random.Generator) -> World:
    """Eight arms, logged by Thompson sampling."""
    n, n_actions = 1_000, 8
    mean = 0.3 * rng.normal(size=n_actions)
    tables = [rng.dirichlet(np.ones(n_actions), size=1) for _ in range(3)]

    def play(rng: np.random.Generator) -> pl.DataFrame:
        return thompson_log(rng, mean, n)

    return World(play, tables, np.array([float(table[0] @ mean) for table in tables]))


def mdp(
    n_episodes: int,
    n_steps: int,
    gamma: float,
    *,
    noise: Noise = normal,
    effect: float = 0.0,
    ends: float = 0.0,
    far: float = 0.0,
    means: Callable[[np.random.Generator, tuple[int, int]], np.ndarray] | None = None,
) -> Callable[[np.random.Generator], World]:
    """An MDP of 10 states and 3 actions.

    Parameters
    ----------
    n_episodes, n_steps
        Size of the log; episodes may end sooner.
    gamma
        Discount; at 1 episodes go on from where the last one stopped.
    noise
        Rewards around their means.
    effect
        Sd of what all rewards of an episode share.
    ends
        Chance that a step terminates, after which the reward is 0 for ever.
    far
        How far candidates are from the logging policy: the share of a step on which each takes
        one action that the logging policy takes seldom.
    means
        Means of the rewards; standard normal if None.
    """
    n_states, n_actions = 10, 3

    def make(rng: np.random.Generator) -> World:
        move = rng.dirichlet(np.full(n_states, 0.5), size=(n_states, n_actions))
        shape = (n_states, n_actions)
        mean = rng.normal(size=shape) if means is None else means(rng, shape)
        logging = rng.dirichlet(np.full(n_actions, 5.0), size=n_states)
        tables = [rng.dirichlet(np.ones(n_actions), size=n_states) for _ in range(3)]
        if far:
            seldom = np.eye(n_actions)[logging.argmin(axis=1)]
            tables = [far * seldom + (1.0 - far) * table for table in tables]
        truth = []
        for table in tables:
            chain = np.einsum("sa,sat->st", table, move)
            reward = (table * mean).sum(axis=1)
            if gamma < 1.0:
                flow = np.eye(n_states) - gamma * (1.0 - ends) * chain.T
                visits = np.linalg.solve(flow, np.full(n_states, (1.0 - gamma) / n_states))
            else:
                system = np.vstack([np.eye(n_states) - chain.T, np.ones(n_states)])
                visits = np.linalg.lstsq(system, np.eye(n_states + 1)[-1], rcond=None)[0]
            truth.append(float(visits @ reward))

        def play(rng: np.random.Generator) -> pl.DataFrame:
            shared = effect * rng.normal(size=n_episodes)
            state = rng.integers(n_states, size=n_episodes)
            alive, parts = np.ones(n_episodes, dtype=bool), []
            for step in range(n_steps):
                action = draw(rng, logging[state])
                reward = noise(rng, mean[state, action]) + shared
                following = draw(rng, move[state, action])
                ended = rng.random(n_episodes) < ends
                places = (np.arange(n_episodes), np.full(n_episodes, step))
                row = (*places, state, action, reward, following, ended)
                parts.append([column[alive] for column in row])
                alive, state = alive & ~ended, following
            names = ("episode_id", "step", "state", "action", "reward", "next_state", "terminated")
            columns = (np.concatenate(column) for column in zip(*parts, strict=True))
            return pl.DataFrame(dict(zip(names, columns, strict=True)))

        return World(play, tables, np.array(truth))

    return make


def draw(rng: np.random.Generator, probabilities: np.ndarray) -> np.ndarray:
    """One place of each row, with the row's probabilities."""
    below = np.cumsum(probabilities, axis=1) < rng.random(len(probabilities))[:, None]
    return below.sum(axis=1).clip(max=probabilities.shape[1] - 1)


def _seldom(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return 0.01 * rng.dirichlet(np.full(4, 2.0), size=shape)[..., 0] * 2.0


def _positive(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return rng.uniform(0.5, 1.5, size=shape)


def _rates(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return rng.uniform(0.2, 0.8, size=shape)


ABSORBS = {"on_termination": "absorb"}
KINDS = (
    Kind("bandit 3 x 3, 20 rows of each user, user effect", 0.0, users),
    Kind("MDP, gamma 0.9, episode effect, n 5,000", 0.9, mdp(125, 40, 0.9, effect=1.0)),
    Kind("bandit 1 x 8, Thompson sampling, n 1,000", 0.0, thompson),
    Kind("bandit 1 x 8, reward 1 in 200, n 5,000", 0.0, bandit(5_000, 1, 8, coin, _seldom)),
    Kind(
        "MDP, gamma 0.9, reward 1 in 200, n 5,000",
        0.9,
        mdp(125, 40, 0.9, noise=coin, means=_seldom),
    ),
    Kind(
        "bandit 1 x 8, lognormal(2), n 1,000", 0.0, bandit(1_000, 1, 8, lognormal(2.0), _positive)
    ),
    Kind("MDP, gamma 0.9, absorbing, n 5,000", 0.9, mdp(420, 40, 0.9, ends=0.08), False, ABSORBS),
    Kind("MDP, gamma 1, far candidates, n 5,000", 1.0, mdp(125, 40, 1.0, far=0.9)),
    Kind("MDP, gamma 0.9, rewards without noise, n 200", 0.9, mdp(10, 20, 0.9, noise=fixed)),
    Kind("bandit 20 x 8, n 200", 0.0, bandit(200, 20, 8), True),
    Kind("bandit 20 x 8, n 5,000", 0.0, bandit(5_000, 20, 8), True),
    Kind("bandit 20 x 8, coins, n 5,000", 0.0, bandit(5_000, 20, 8, coin, _rates), True),
    Kind("MDP, gamma 0.9, n 200", 0.9, mdp(10, 20, 0.9), True),
    Kind("MDP, gamma 0.9, n 5,000", 0.9, mdp(125, 40, 0.9), True),
    Kind("MDP, gamma 0.99, n 5,000", 0.99, mdp(125, 40, 0.99), True),
    Kind("MDP, gamma 1, n 5,000", 1.0, mdp(125, 40, 1.0), True),
)


def measure(number: int, kind: Kind, trials: int) -> tuple[dict[str, object], dict[str, float]]:
    """Fit many logs of one kind, and compare with the truth.

    Returns
    -------
    (dict, dict)
        The row of the table; and the share of candidates that each gauge warns of, by its name.
    """
    gauges: Counter[tuple[str, str]] = Counter()
    worlds = [kind.make(np.random.default_rng([number, 0, i])) for i in range(WORLDS)]
    inside, error, sd, warned, silent = [], [], [], [], []
    for i in range(trials):
        world = worlds[i % WORLDS]
        frame = world.play(np.random.default_rng([number, 1, i]))
        n_actions = world.tables[0].shape[1]
        logs = bd.Logs.from_dataframe(frame, actions=list(range(n_actions)))
        policies = {str(j): bd.TabularPolicy(table) for j, table in enumerate(world.tables)}
        belief = bd.fit(
            logs,
            policies,
            gamma=kind.gamma,
            rng_key=jax.random.key(i),
            draws=DRAWS,
            **kind.options,
        )
        values = belief["posterior/value"].to_numpy()[0]
        off = np.abs((values < world.truth).mean(axis=0) - 0.5)
        inside.append([off < level / 2 for level in LEVELS])
        error.append(values.mean(axis=0) - world.truth)
        sd.append(values.std(axis=0))
        said = json.loads(belief.attrs["support_warnings"])
        warned.append(len({w["policy"] for w in said}) / 3)
        gauges.update({(w["policy"], w["name"]) for w in said})
        named = {w["policy"] for w in said if w["abstain"]}
        silent.append([str(j) in named for j in range(3)])
    kept, covers = ~np.array(silent), np.array(inside).transpose(1, 0, 2)
    share = covers[:, kept].mean(axis=1) if kept.any() else np.full(len(LEVELS), np.nan)
    mace = float(np.mean(np.abs(share - LEVELS)))
    errors, widths = np.array(error), np.array(sd)
    by_world = [
        errors[i::WORLDS].std(axis=0) / widths[i::WORLDS].mean(axis=0) for i in range(WORLDS)
    ]
    abstained, warns = float(1.0 - kept.mean()), float(np.mean(warned))
    # A heavy tail cannot be known from logs without its large rewards: it has to be told always.
    promise = not kept.any() or mace <= BAR or warns >= ALWAYS
    if kind.healthy:
        promise = promise and warns <= WARNED and abstained <= ABSTAINED
    shares: Counter[str] = Counter()
    for (_, name), count in gauges.items():
        shares[name] += count / (3 * trials)
    row = {
        "kind": kind.name,
        "healthy": kind.healthy,
        "logs": trials,
        **{f"cov_{100 * level:.0f}": float(c) for level, c in zip(LEVELS, share, strict=True)},
        "mace": mace,
        "all_90": float(covers[2].mean()),
        "spread": float(np.mean(by_world)),
        "worst": float(np.max(np.mean(by_world, axis=1))),
        "warned": warns,
        "abstained": abstained,
        "all_mace": float(np.mean(np.abs(covers.mean(axis=(1, 2)) - LEVELS))),
        "kept": bool(promise),
    }
    return row, dict(shares)


def main(trials: int = TRIALS, folder: Path = RESULTS) -> None:
    """Measure every kind and write the table."""
    rows, shares = [], []
    for number, kind in enumerate(KINDS):
        row, share = measure(number, kind, trials)
        rows.append(row)
        shares.append(share)
        print(row, share, flush=True)
    command = COMMAND if trials == TRIALS else f"{COMMAND} --trials {trials}"
    print(write_table("promise", rows, command=command, notes=NOTES, folder=folder))
    spoken = gauge_rows(rows, shares)
    print(write_table("gauges", spoken, command=command, notes=GAUGE_NOTES, folder=folder))


def gauge_rows(
    rows: list[dict[str, object]], shares: list[dict[str, float]]
) -> list[dict[str, object]]:
    """How often each gauge speaks where intervals miss, and where they hold."""
    missing = [i for i, row in enumerate(rows) if row["all_mace"] > BAR]  # type: ignore[operator]
    healthy = [i for i, row in enumerate(rows) if row["healthy"]]
    found: list[dict[str, object]] = []
    for gauge in GAUGES:
        where = [shares[i].get(gauge.name, 0.0) for i in missing]
        most = int(np.argmax(where)) if where else 0
        found.append(
            {
                "gauge": gauge.name,
                "number": gauge.meaning,
                "warns": gauge.warns,
                "abstains": gauge.abstains,
                "missing": float(np.max(where)) if where else 0.0,
                "most in": str(rows[missing[most]]["kind"]) if where and max(where) else "",
                "healthy": float(np.mean([shares[i].get(gauge.name, 0.0) for i in healthy])),
            }
        )
    return found
